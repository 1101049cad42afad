"""The four benchmarks as Inspect's tasks; their parameters are options of `medagent run`."""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError  # what Inspect shows as one line; it has no public name
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import HeadlineMetric
from inspect_ai.model import GenerateConfig
from inspect_ai.solver import Solver

from medagent.core.errors import MedagentError
from medagent.integrations.inspect.adapters import Adapter, adapter
from medagent.integrations.inspect.records import close_record
from medagent.integrations.inspect.scorers import SCORERS
from medagent.integrations.inspect.solvers import episode, private_record, single_unit


@task
def medagentbench(
    version: str = "v2",
    dataset: str = "synthetic",
    types: str | list[str] = (),  # type: ignore[assignment]  # Inspect reads `-T types=task1,task5` as a list
    protocol: str = "text",
    writes: str = "ack",
    max_rounds: int = 8,
    ehr: str | None = None,
    fhir: str | None = None,
) -> Task:
    """MedAgentBench: an agent acts on a hospital's FHIR server.

    Args:
        version: v1 (100 tasks) or v2 (300 tasks).
        dataset: synthetic; official; or a folder of `medagent data new`.
        types: Only these task types, e.g. task1,task5.
        protocol: text (as published) or tools (tool calling).
        writes: What happens to a POST: ack (as published) or execute.
        max_rounds: Messages an agent has.
        ehr: FHIR data (NDJSON) instead of the data set's.
        fhir: A FHIR server's base URL instead of the embedded one.
    """
    options = {
        "version": version,
        "dataset": dataset,
        "types": listed(types),
        "protocol": protocol,
        "writes": writes,
        "max_rounds": max_rounds,
        "ehr": ehr,
        "fhir": fhir,
    }
    source = adapter("medagentbench", options)
    setup = private_record("medagentbench", source.given)
    return _task(source, episode(protocol), setup=setup, cleanup=close_record)


@task
def promptcblue(data: str | None = None, gold: str | None = None, strip_thinking: bool = False) -> Task:
    """PromptCBLUE: Chinese medical tasks, a call a line.

    Args:
        data: The test file (JSON lines); by default two lines a task that come along.
        gold: Structured right answers.
        strip_thinking: Cut a leading <think> block before an answer is read.
    """
    source = adapter("promptcblue", {"data": data, "gold": gold, "strip_thinking": strip_thinking})
    return _task(source, single_unit("promptcblue", source.given))


@task
def simpleqa(data: str | None = None, variant: str = "husimpleqa", lang: str | list[str] = ()) -> Task:  # type: ignore[assignment]  # as `types` above
    """SimpleQA: short facts, judged by the model of the role `grader` (--model-role grader=NAME).

    Args:
        data: The questions; by default the forty Hungarian ones that come along.
        variant: The format of data.
        lang: Languages of the instruction, e.g. en,hu (default: all of the prompt).
    """
    source = adapter("simpleqa", {"data": data, "variant": variant, "lang": listed(lang)})
    return _task(source, single_unit("simpleqa", source.given))


@task
def imapscore(data: str | None = None, graph: str | None = None) -> Task:
    """imapScore: the facts that a model extracts of rated answers, scored against the doctor's.

    Args:
        data: The items (JSON lines in the released form); by default the dozen that come along.
        graph: A graph of medical entities that links terms.
    """
    source = adapter("imapscore", {"data": data, "graph": graph})
    return _task(source, single_unit("imapscore", source.given))


def listed(value: str | list[str] | tuple[str, ...]) -> list[str]:
    """A list as `-T` gives it: one word stays a word."""
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else list(value)


def _task(source: Adapter, solver: Solver, **more: Any) -> Task:
    score, headline = SCORERS[source.name]
    try:
        plan = source.plan()
    except MedagentError as error:
        raise PrerequisiteError(str(error)) from None
    settings = plan.settings
    samples = [
        Sample(
            input=item.question,
            target=item.target,
            id=item.id,
            metadata={"group": item.group, "cluster": source.cluster(item.id, item.group)},
        )
        for item in source.items
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"{plan.data.name} {plan.data.version}".strip()),
        solver=solver,
        scorer=score(),
        config=GenerateConfig(temperature=None if settings.temperature < 0 else settings.temperature),
        headline_metric=HeadlineMetric(metric=headline),
        metadata={"data": plan.data.model_dump()},
        **more,
    )
