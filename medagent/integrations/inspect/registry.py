"""The objects that Inspect finds by the entry point `inspect_ai`, whose key must be the import package (`medagent`).

Every installed benchmark is a task of Inspect; its parameters are options of `medagent run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from click import ClickException  # what Inspect's command line shows as one line
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import HeadlineMetric
from inspect_ai.model import GenerateConfig

from medagent.benchmarks.base import find, names
from medagent.core.errors import MedagentError
from medagent.core.options import OptionField, as_setting
from medagent.core.options import options as options_of
from medagent.engine.settings import RunSettings
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.integrations.inspect._records import close_record
from medagent.integrations.inspect._solvers import episode, private_record, single_unit
from medagent.integrations.inspect.scorers import HEADLINE, grounded, medagent_score, overall
from medagent.integrations.inspect.source import Source, source_of
from medagent.reports.tables import say

__all__ = ["episode", "grounded", "medagent_score", "overall", "private_record", "single_unit"]

SHARED = ("ids", "per_type", "strip_thinking")
"""Options of every run that Inspect's tasks accept too."""
LEFT_OUT = ("agent", "model", "answers", "few_shot", "batch", "cache", "replay", "temperature", "max_tokens")
"""Options that choose who answers; Inspect chooses that instead."""


def installed() -> dict[str, Callable[..., Task]]:
    """A task for each installed benchmark. If one cannot be imported, prints a warning."""
    tasks = {}
    for name in names():
        try:
            tasks[name] = benchmark_task(name)
        except MedagentError as error:
            say(f"warning: {name}: {error}")
    return tasks


def benchmark_task(name: str) -> Callable[..., Task]:
    """The task of a benchmark. Raises UserError if it cannot be imported."""
    benchmark = find(name)
    fields = [field for field in options_of(benchmark.Settings) if _is_offered(field)]

    def function(**arguments: Any) -> Task:
        options = {key: value for key, value in arguments.items() if value is not None}
        listed = {field.name: _listed(field, options[field.name]) for field in fields if field.name in options}
        return _task(source_of(name, listed))

    function.__name__ = function.__qualname__ = name.replace("-", "_")
    lines = [f"    {field.name}: {field.help}" for field in fields]
    function.__doc__ = "\n".join([inspect.getdoc(type(benchmark)) or name, "", "Args:", *lines])
    parameters = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any) for field in fields
    ]
    vars(function)["__signature__"] = inspect.Signature(parameters, return_annotation=Task)
    registered: Callable[..., Task] = task(function, name=name)
    return registered


def _is_offered(field: OptionField) -> bool:
    """Whether a run's option is a parameter of a task: it selects the items, or sets what an agent may do."""
    of_benchmark = field.name not in RunSettings.model_fields or field.name in SHARED
    return of_benchmark and field.option.storage in ("setting", "place") and field.name not in LEFT_OUT


def _listed(field: OptionField, value: Any) -> Any:
    """A value in the format that settings accept; Inspect parses `a,b` as a list."""
    default = field.info.get_default(call_default_factory=True)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) if isinstance(default, tuple) else [str(element) for element in value]
    return as_setting(value) if isinstance(value, str) else value


def _task(source: Source) -> Task:
    try:
        plan = source.plan()
    except MedagentError as error:
        raise ClickException(str(error)) from None
    settings: Any = plan.settings
    samples = [
        Sample(
            input=item.question,
            target=source.target(item),
            id=item.id,
            metadata={"group": item.group, "cluster": item.cluster or item.id},
        )
        for item in source.items
    ]
    solver: dict[str, Any] = {"solver": single_unit(source.name, source.options)}
    if isinstance(source.benchmark, FhirBenchmark):
        job: Any = plan.stages[0].job
        if job.acting is not None:
            raise ClickException(
                f"protocol {settings.protocol} works only with `medagent run`, since Inspect runs its own loop"
            )
        setup = private_record(source.name, source.options)
        solver = {"solver": episode(settings.protocol), "setup": setup, "cleanup": close_record}
    return Task(
        dataset=MemoryDataset(samples, name=f"{plan.data.name} {plan.data.version}".strip()),
        version=plan.data.version or 0,
        scorer=medagent_score(),
        config=GenerateConfig(temperature=None if settings.temperature < 0 else settings.temperature),
        headline_metric=HeadlineMetric(metric=HEADLINE),
        metadata={"data": plan.data.model_dump()},
        **solver,
    )


for _name, _found in installed().items():
    globals()[_name.replace("-", "_")] = _found
