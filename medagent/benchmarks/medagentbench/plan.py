"""Works a run out before the first model call: the tasks, the agent, the EHR, and the facts to grade by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from medagent.agents.choice import NO_MODEL, AgentChoice
from medagent.benchmarks.medagentbench.agents.replay import recorded_messages
from medagent.benchmarks.medagentbench.code_session import CodeRules
from medagent.benchmarks.medagentbench.episode import EhrChoice, EpisodeJob, EpisodeRow, EpisodeUnit, OwnAgent
from medagent.benchmarks.medagentbench.facts import embedded_facts, http_facts
from medagent.benchmarks.medagentbench.prompts.protocol import Protocol, load_protocol
from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.results.write import result_item
from medagent.benchmarks.medagentbench.session import SessionRules
from medagent.benchmarks.medagentbench.settings import AGENTS, MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, load_dataset, load_tasks_file, select
from medagent.core.errors import UserError
from medagent.engine.files import file_digest
from medagent.engine.plan import Plan, Stage
from medagent.engine.rows import Row
from medagent.sandbox.choose import choose
from refsol.medagentbench import Facts, KeyEhr, constant_answers, grade_item


@dataclass(frozen=True, slots=True)
class GradingContext:
    """What verdicts rest on: the tasks, the facts, and the FHIR base that agents were shown."""

    dataset: Dataset
    facts: Facts
    api_base: str


async def make_plan(settings: MedAgentBenchSettings, say: Callable[[str], None]) -> Plan:
    """Work it out; `say` is told of work that takes a while. Raises UserError for whatever cannot be used."""
    who = _who(settings)
    dataset = _dataset(settings)
    tasks = select(dataset, settings.types, settings.ids, settings.limit, settings.per_type)
    units = [
        EpisodeUnit(task, trial, settings.seed(trial)) for trial in range(1, settings.trials + 1) for task in tasks
    ]
    if isinstance(who, AgentChoice) and who.model is not None:
        await who.model.check(settings.concurrency)
    code = await _code(settings, dataset)
    messages = recorded_messages(settings.replay) if settings.replay else {}
    ehr = await _ehr(settings, dataset, say)
    facts = _facts(settings, dataset, ehr)
    if isinstance(who, OwnAgent):
        items = grading.items(dataset)
        answers = constant_answers(items, facts, dataset.constants) if who.kind == "constant" else {}
        who = OwnAgent(who.kind, answers, messages)
    rules = SessionRules(
        settings.api_base,
        settings.max_rounds,
        settings.writes,
        settings.strip_thinking,
        settings.loop_in_effect or "published",
    )
    job = EpisodeJob(who, ehr, _protocol(settings, dataset), rules, settings.concurrency, code=code)
    return Plan(
        settings=settings,
        folder=settings.run_folder(dataset.version, who.label),
        data=dataset.ref,
        stages=(
            Stage(job, lambda: units, grade=_first_look(dataset, facts, settings.api_base), group=_types(dataset)),
        ),
        decides={
            **settings.decides(),
            **(code.decides() if code else {}),
            "tasks-digest": dataset.digest,
            **({"seed-digest": dataset.manifest.seed_sha256} if dataset.manifest else {}),
            "ehr-digest": ehr.digest,
            "prompts-digest": job.protocol.digest,
            "prompt-digest": file_digest(settings.prompt) if settings.prompt else None,
            "system-digest": file_digest(settings.system) if settings.system else None,
            "replay-digest": file_digest(settings.replay) if settings.replay else None,
            **(who.digests() if isinstance(who, AgentChoice) else {}),
        },
        context=GradingContext(dataset, facts, settings.api_base),
    )


def _who(settings: MedAgentBenchSettings) -> AgentChoice | OwnAgent:
    """The agent in effect. Raises UserError, with the ways on, where nothing says who acts."""
    if settings.agent in AGENTS and settings.agent != "text":
        return OwnAgent(settings.agent)
    if settings.agent == "text":
        if settings.model is None:
            raise UserError(NO_MODEL + "reference")
        settings = settings.model_copy(update={"agent": None})
    return AgentChoice.of(settings, AGENTS)


def _dataset(settings: MedAgentBenchSettings) -> Dataset:
    if settings.tasks_file:
        return load_tasks_file(settings.tasks_file)
    return load_dataset(settings.dataset, settings.version)


def _protocol(settings: MedAgentBenchSettings, dataset: Dataset) -> Protocol:
    """The data set's own protocol file and function list where it has them; the project's words elsewhere."""
    file = dataset.beside("protocol.toml") if settings.protocol == "text" else None
    name = "code_tool" if settings.code_tool else settings.protocol
    protocol = load_protocol(name, file=file, functions=dataset.beside("functions.json"))
    return protocol.worded(prompt=settings.prompt, system=settings.system)


async def _code(settings: MedAgentBenchSettings, dataset: Dataset) -> CodeRules | None:
    """The sandbox for programs, where an agent acts in code. Raises UserError where none works."""
    if settings.protocol != "code":
        return None
    sandbox = await choose(
        settings.sandbox, settings.code_limits, packages=settings.code_packages, image=settings.sandbox_image
    )
    return CodeRules(sandbox, dataset.constants.now, settings.code_tool)


async def _ehr(settings: MedAgentBenchSettings, dataset: Dataset, say: Callable[[str], None]) -> EhrChoice:
    if settings.fhir:
        choice = EhrChoice(url=settings.fhir, headers=tuple(settings.fhir_headers.items()), ca_file=settings.ca_file)
        from medagent.fhir_data.http import HttpEhr

        async with HttpEhr(choice.url, choice.url, headers=dict(choice.headers), ca_file=choice.ca_file) as ehr:
            await ehr.check()
        return choice
    from medagent.benchmarks.medagentbench.inventory import patients_file

    file = patients_file(dataset, settings.ehr, say)
    return EhrChoice(file=file.path, digest=file.digest, now=dataset.constants.now)


def _facts(settings: MedAgentBenchSettings, dataset: Dataset, ehr: EhrChoice) -> Facts:
    """The data set's key, where it has one and its own patients are used; else the EHR that the agent reads."""
    if dataset.key is not None and settings.ehr is None:
        return grading.facts(dataset, fhir=None, ehr=None, key=dataset.key)
    if ehr.file is not None:
        return embedded_facts(ehr.file)
    return http_facts(ehr.url, dict(ehr.headers), ehr.ca_file)


def _first_look(dataset: Dataset, facts: Facts, base: str) -> Any:
    """Whether an episode is right, as soon as it ends; the grades are made from the results file."""
    tasks = {task.id: task for task in dataset.tasks}

    def right(row: EpisodeRow) -> bool | None:
        task = tasks[row.task_id]
        item = result_item(row, task)
        return grade_item(
            task.model_dump(), item["answer"], item["post_history"], facts, base=base, constants=dataset.constants
        ).correct

    async def grade(row: EpisodeRow) -> bool | None:
        if isinstance(facts, KeyEhr):  # in memory: nothing is waited for
            return right(row)
        return await asyncio.to_thread(right, row)

    return grade


def _types(dataset: Dataset) -> Callable[[Row], str]:
    """A row's task type."""
    types = {task.id: task.type for task in dataset.tasks}
    return lambda row: types[row.unit.rpartition("#")[0]]
