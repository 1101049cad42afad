"""Works a configuration out, before the first model call: the tasks, the agent, the EHR, and the facts to grade by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from medagent.agents.replay import recorded_messages
from medagent.ehr.facts import embedded_facts, http_facts
from medagent.errors import UserError
from medagent.medagentbench.config import RunConfig, fhir_token
from medagent.medagentbench.episode import AgentChoice, EhrChoice, EpisodeJob, EpisodeUnit
from medagent.models.settings import ModelSettings
from medagent.prompts.protocol import Protocol, load_protocol
from medagent.results import grading
from medagent.run.engine import Executor
from medagent.run.folder import Setting
from medagent.run.local import LocalExecutor
from medagent.session import Rules
from medagent.tasks.dataset import Dataset, load_dataset, load_tasks_file, select
from refsol.medagentbench import Facts, constant_answers


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run, over which EHR, graded by which facts."""

    config: RunConfig
    dataset: Dataset
    units: tuple[EpisodeUnit, ...]
    job: EpisodeJob
    facts: Facts
    ehr_digest: str | None

    @property
    def settings(self) -> dict[str, Setting]:
        """What decides the episodes."""
        return self.config.settings(self.dataset, self.job.protocol, self.ehr_digest)

    @property
    def items(self) -> list[dict[str, Any]]:
        """The data set's tasks as refsol takes them."""
        return grading.items(self.dataset)


def make_plan(config: RunConfig, report: Callable[[str], None]) -> Plan:
    """Work it out; `report` is told of work that takes a while. Raises UserError for whatever cannot be used."""
    agent = config.acting
    dataset = load_tasks_file(config.tasks_file) if config.tasks_file else load_dataset(config.dataset, config.version)
    tasks = select(dataset, config.types, config.ids, config.limit)
    units = tuple(EpisodeUnit(task, trial) for trial in range(1, config.trials + 1) for task in tasks)
    if config.chat is not None:
        asyncio.run(_check_model(config.chat, config.concurrency))
    messages = recorded_messages(config.replay) if agent == "replay" and config.replay else None
    ehr = _ehr(config, report)
    facts = _facts(config, dataset, ehr)
    rules = Rules(config.api_base, config.max_rounds, config.writes, config.strip_thinking)
    choice = _agent(config, agent, dataset, facts, messages)
    job = EpisodeJob(choice, ehr, _protocol(config, dataset), rules, config.concurrency)
    return Plan(config, dataset, units, job, facts, ehr.digest)


async def _check_model(settings: ModelSettings, concurrency: int) -> None:
    """Open the model once: a missing key or script is found before anything is made. Raises UserError."""
    from medagent.models import open_model

    await open_model(settings, concurrency=concurrency).aclose()


def executor(config: RunConfig) -> Executor:
    """Where the units run: this process, or a cluster where one is asked for."""
    if config.cluster or config.workers:
        from medagent.run.cluster import ClusterExecutor

        return ClusterExecutor(config.cluster, config.workers, config.concurrency)
    return LocalExecutor(config.concurrency)


def _protocol(config: RunConfig, dataset: Dataset) -> Protocol:
    """The data set's own protocol file and function list where it has them; the project's words elsewhere."""
    file = dataset.beside("protocol.toml") if config.protocol == "text" else None
    return load_protocol(config.protocol, file=file, functions=dataset.beside("functions.json"))


def _ehr(config: RunConfig, report: Callable[[str], None]) -> EhrChoice:
    if config.fhir:
        token = fhir_token()
        headers = config.fhir_headers + ((("Authorization", f"Bearer {token}"),) if token else ())
        choice = EhrChoice(url=config.fhir, headers=headers, ca_file=config.ca_file)
        asyncio.run(_check(choice))
        return choice
    if config.ehr is None and not config.tasks_file and config.dataset != "synthetic":
        raise UserError(
            f"data set {config.dataset!r} is about patients of its own: name their FHIR server with --fhir, "
            "or their data (NDJSON) with --ehr"
        )
    from medagent.ehr.embedded import bundled_file, imported_file

    file = imported_file(config.ehr, report) if config.ehr else bundled_file(report)
    return EhrChoice(file=file.path, digest=file.digest)


async def _check(choice: EhrChoice) -> None:
    from medagent.ehr.http import HttpEhr

    async with HttpEhr(choice.url, choice.url, headers=dict(choice.headers), ca_file=choice.ca_file) as ehr:
        await ehr.check()


def _facts(config: RunConfig, dataset: Dataset, ehr: EhrChoice) -> Facts:
    """The data set's key, where it has one and its own patients are used; else the EHR that the agent reads."""
    if dataset.key is not None and config.ehr is None:
        return grading.facts(dataset, fhir=None, ehr=None, key=dataset.key)
    if ehr.file is not None:
        return embedded_facts(ehr.file)
    return http_facts(ehr.url, dict(ehr.headers), ehr.ca_file)


def _agent(
    config: RunConfig, kind: str, dataset: Dataset, facts: Facts, messages: dict[str, list[str]] | None
) -> AgentChoice:
    answers = constant_answers(grading.items(dataset), facts) if kind == "constant" else None
    return AgentChoice(kind, config.chat, answers, messages)
