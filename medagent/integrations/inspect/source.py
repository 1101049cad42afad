"""A benchmark as a task of another tool: its items, the unit of each epoch, and the score of one row.

A plan of `medagent run` gives items and units, so prompts, order and settings are a run's. The benchmark's own grader
gives the scores. Nothing here depends on the benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from pydantic import BaseModel, TypeAdapter

from medagent.benchmarks.base import find
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.core.waiting import blocking
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import Run
from medagent.engine.plan import Plan
from medagent.engine.rows import Row
from medagent.engine.scores import Grader, Score, graded, unit_name
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.judging.benchmark import JudgedBenchmark
from medagent.judging.calls import ask
from medagent.judging.judged import Judged
from medagent.judging.rubric import Subject

MODEL = "medagent.integrations.inspect._model:InspectModel"
JUDGE = "medagent.integrations.inspect._model:InspectGrader"
STORED = "medagent"
"""The key of the row in a sample's store."""
_JUDGED = TypeAdapter(Judged)


class Source:
    """One benchmark with its options, which are the options of `medagent run`.

    Raises UserError if they cannot be used.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self.options = {key: value for key, value in options.items() if value is not None}
        """The options as the user wrote them, for a log."""
        self.benchmark: Benchmark[Any, Any] = find(name)
        self._plans: dict[int, Plan] = {}

    def plan(self, trials: int = 1) -> Plan:
        """The plan with this number of trials, and with Inspect's model."""
        if trials not in self._plans:
            fields = self.benchmark.Settings.model_fields
            judge = {"judge": [JUDGE]} if "judge" in fields else {}
            options = {"model": MODEL, **judge, "results_dir": self._aside, **self.options, "trials": trials}
            settings = checked(self.benchmark.Settings, options)
            if getattr(settings, "private", False):
                raise UserError("--writes private: Inspect's logs would have patient data; use medagent run")
            self._plans[trials] = blocking(self.benchmark.plan(settings, lambda _: None))
        return self._plans[trials]

    @cached_property
    def _aside(self) -> Path:
        """A temporary folder for files that a plan writes next to a run. Inspect uses its own cache, so they are
        dropped when the process ends.
        """
        folder = Path(mkdtemp(prefix="medagent-inspect-"))
        finalize(self, rmtree, folder, ignore_errors=True)
        return folder

    @cached_property
    def items(self) -> Sequence[Any]:
        """The items that the options select, in the order of a run."""
        known = {item.id: item for item in self.plan().items}
        names = [unit_name(unit.key, known) for unit in self._units(1)]
        return [known[name.item] for name in names if name is not None]

    def item(self, name: str) -> Any:
        """The item of an id."""
        return self.items[self._places[name]]

    def target(self, item: Any) -> str:
        """The expected answer of an item as text: the item's target, or what the grader expects of an episode without
        actions. Empty if the grader would have to ask a server for it.
        """
        if item.target or not isinstance(self.benchmark, FhirBenchmark):
            return str(item.target)
        score = self.grader.score(item, self.benchmark.row.begin(self.unit(item.id)))
        if isinstance(score, Score):
            return score.expected
        if isinstance(score, Coroutine):
            score.close()
        return ""

    def unit(self, item: str, epoch: int = 1) -> Any:
        """The unit of an item in an epoch: the same as in that trial of a run, with that trial's seed."""
        return self._units(epoch)[self._places[item] + (epoch - 1) * len(self.items)]

    def job(self, model: str) -> Any:
        """The job that runs the units, for one of the evaluated models."""
        job: Any = self.plan().stages[0].job
        identity = getattr(job, "identity", None)
        return job if identity is None else replace(job, identity={**identity, "name": model})

    @cached_property
    def grader(self) -> Grader[Any]:
        """The benchmark's grader."""
        return self.benchmark.grader(self.plan().settings, self.benchmark.rule_sets[0]).__enter__()

    async def score(self, item: str, row: Row, judged: Mapping[str, Any] | None = None) -> Score | None:
        """The score of a row; None if its judges gave no verdict. If `judged` contains their replies, they are not
        asked again.
        """
        benchmark = self.benchmark
        if not isinstance(benchmark, JudgedBenchmark):
            return await graded(self.grader, self.item(item), row)
        verdicts = await self._judged(benchmark, item, row) if judged is None else _JUDGED.validate_python(judged)
        return await graded(self.grader, self.item(item), row, verdicts) if verdicts.complete else None

    async def _judged(self, benchmark: JudgedBenchmark[Any, Any], item: str, row: Row) -> Judged:
        settings: Any = self.plan().settings
        panel = settings.panel(benchmark.rubric, settings)
        answer = benchmark.answer(row)
        return (
            Judged() if answer is None else await ask(benchmark.rubric, panel, Subject(item, self.item(item), answer))
        )

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {item.id: place for place, item in enumerate(self.items)}

    def _units(self, trials: int) -> Sequence[Any]:
        """All units, trial by trial, each trial in the same order."""
        return list(self.plan(trials).stages[0].units())


def options_of_run(benchmark: Benchmark[Any, Any], run: Run) -> dict[str, Any]:
    """The options of a `Source` with a run's data and rules. They do not say who answered: a source uses
    Inspect's model.
    """
    source = benchmark.source(run, {})
    fields = source.model_dump(mode="json", exclude_defaults=True) if isinstance(source, BaseModel) else {}
    known = benchmark.Settings.model_fields.keys() - {"agent", "answers"}
    return {name: value for name, value in fields.items() if name in known}


def stored(name: str, options: Mapping[str, Any], row: Row, judged: Judged | None = None) -> dict[str, Any]:
    """The data of a sample that a log stores, so that the log alone is enough to score it. Cost is omitted, since a log
    contains the usage of its own calls.
    """
    entry = {"benchmark": name, "options": dict(options), "row": row.model_dump(mode="json", exclude={"spent"})}
    return entry if judged is None else {**entry, "judged": _JUDGED.dump_python(judged, mode="json")}


def source_of(name: str, options: Mapping[str, Any]) -> Source:
    """A benchmark with options, cached by both. Raises UserError."""
    return _source(name, json.dumps(options, sort_keys=True, default=str))


@lru_cache(maxsize=16)
def _source(name: str, options: str) -> Source:
    return Source(name, json.loads(options))
