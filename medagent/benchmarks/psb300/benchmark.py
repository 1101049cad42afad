"""psb-300 as a benchmark with FHIR sessions: task sets, tools, agents and rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from medagent.benchmarks.clinical import ClinicalBenchmark, Solver
from medagent.benchmarks.psb300._charts import (
    CHARTS,
    ask_of,
    dicts,
    digest_of,
    judged_by_cut_off,
    missing_patients,
    open_charts,
    patients_file,
    save_charts,
    saved_facts,
)
from medagent.benchmarks.psb300._figures import Grading
from medagent.benchmarks.psb300._grader import ChartGrader
from medagent.benchmarks.psb300._items import ChartItem, item_of, task_set_of
from medagent.benchmarks.psb300._packed import packed_task, unpacked_task
from medagent.benchmarks.psb300._results import write_results
from medagent.benchmarks.psb300.agents.reference import solver
from medagent.benchmarks.psb300.settings import (
    AGENTS,
    Psb300Grading,
    Psb300Settings,
)
from medagent.benchmarks.psb300.tasks import BUNDLED, FORMER, TaskSet, load_tasks
from medagent.core.errors import UserError
from medagent.core.options import Setting, stated
from medagent.core.writing import write_whole
from medagent.engine.benchmark import Say
from medagent.engine.folder import Run, read_run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef
from medagent.engine.scores import Grader, Scored
from medagent.fhir_data.asking import Ask
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.task import FhirItem
from medagent.reports.tables import named
from refsol.errors import FactsError
from refsol.psb300 import RULE_SETS, Baselines, StoredFacts, baselines, rule_name

_TOOLS = Path(__file__).parent / "prompts" / "tools.json"
_NAMED = 5


class Psb300(ClinicalBenchmark[Psb300Settings]):
    """An LLM agent reads a patient's chart over FHIR, decides whether something is due, and orders it if so."""

    name = "psb-300"
    example = "medagent run psb-300 --agent reference"
    Settings = Psb300Settings
    Grading = Psb300Grading
    rule_sets = tuple(RULE_SETS)
    agents = AGENTS

    def items(self, source: Psb300Settings) -> Sequence[ChartItem]:
        tasks = task_set_of(source)
        return [item_of(task, tasks.constants.default_now) for task in tasks.tasks]

    def data(self, source: Psb300Settings) -> DataRef:
        return task_set_of(source).ref

    def now(self, source: Psb300Settings) -> datetime:
        return task_set_of(source).constants.default_now

    def patients(self, source: Psb300Settings, say: Say) -> EhrFile:
        return patients_file(task_set_of(source), source.ehr, say)

    def protocol(self, source: Psb300Settings, kind: str) -> Protocol:
        """See `FhirBenchmark.protocol`: psb-300's tools, or the text prompt with the data set's function list."""
        if kind == "tools":
            return load_protocol(kind, tools=_TOOLS).model_copy(update={"finish": "value"})
        return load_protocol(kind, functions=task_set_of(source).beside("functions.json"))

    def import_data(self, path: Path) -> str | None:
        """See `Benchmark.import_data`. `path` is the published task file, or a checkout that contains it."""
        from medagent.benchmarks.psb300._imported import import_from

        return import_from(path)

    def grader(self, source: Psb300Settings, rules: str) -> Grader[EpisodeRow]:
        tasks = task_set_of(source)
        grading = Grading(rule_name(rules), _clock(source, tasks), source.unfinished)
        return ChartGrader(tasks, lambda: open_charts(source, tasks), lambda: digest_of(source, tasks), grading)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> Psb300Grading:
        """See `Benchmark.source`. A FHIR server must be named by an option: no address is read from a run's folder."""
        saved = run.path / CHARTS
        own = not {"fhir", "ehr"} & overrides.keys()
        facts = {"fhir": None, **({"ehr": None} if not own or saved.is_file() else {})}
        source: Psb300Grading = super().source(run, {**facts, **overrides})
        if own and saved.is_file():
            return source.model_copy(update={"charts": saved})
        former = load_tasks(FORMER, source.split)
        if own and source.dataset == BUNDLED and run.settings.get("tasks-digest") == former.digest:
            return source.model_copy(update={"dataset": FORMER, "charts": former.folder / f"{CHARTS}.gz"})
        return source

    def pack(self, source: Psb300Settings, item: Any) -> Mapping[str, bytes]:
        tasks = task_set_of(source)
        grading = Grading("official", _clock(source, tasks), source.unfinished)
        return packed_task(item, open_charts(source, tasks), grading)

    def unpack(self, folder: Path) -> tuple[FhirItem, Grader[EpisodeRow]]:
        return unpacked_task(folder)

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """See `Benchmark.write`: one results file per trial."""
        return write_results(run, scores)

    def folder_name(self, settings: Psb300Settings) -> str:
        """See `FhirBenchmark.folder_name`. Each split gets its own folder."""
        return f"{self.name}-{settings.split}" if settings.split else self.name

    def canary(self, source: Psb300Settings) -> str:
        made = task_set_of(source).manifest.made
        return made.canary if made else ""

    def decides(self, settings: Psb300Settings) -> dict[str, Setting]:
        tasks = task_set_of(settings)
        made = tasks.manifest.made
        return {"tasks-digest": tasks.digest, **({"seed-digest": made.seed_sha256} if made else {})}

    def solver(self, settings: Psb300Settings) -> Solver:
        return partial(solver, settings.clock or task_set_of(settings).clock)

    def baselines(self, settings: Psb300Settings) -> Baselines:
        tasks = task_set_of(settings)
        charts, clock = open_charts(settings, tasks), settings.clock or tasks.clock or datetime.now(UTC)
        return baselines(dicts(tasks), charts.facts, clock=clock, constants=charts.constants)

    async def plan(self, settings: Psb300Settings, say: Say) -> Plan:
        """See `FhirBenchmark.plan`. A run on a FHIR server saves the charts before its first episode."""
        plan = await super().plan(settings, say)
        tasks = task_set_of(settings)
        clock = settings.clock or _recorded_clock(plan.folder, settings) or _clock(settings, tasks)
        try:
            examined = await asyncio.to_thread(_examined, settings, tasks, plan)
        except FactsError as error:
            raise UserError(str(error)) from None
        charts = plan.folder / CHARTS if settings.fhir else None
        source = Psb300Grading(**{**stated(settings), "clock": clock, "charts": charts})
        note = "; ".join(filter(None, (plan.data.note, examined.note)))
        return replace(
            plan,
            source=source,
            data=plan.data.model_copy(update={"note": note}),
            decides={**plan.decides, "clock": clock.isoformat()},
            warnings=[*plan.warnings, *examined.warnings],
            prepare=examined.save,
        )


@dataclass(frozen=True, slots=True)
class _Examined:
    """The result of looking at a run's charts before its first episode. `save` writes them to the run's folder."""

    warnings: Sequence[str] = ()
    note: str = ""
    save: Callable[[], None] = lambda: None


def _examined(settings: Psb300Settings, tasks: TaskSet, plan: Plan) -> _Examined:
    """Check the charts before the first episode. Raises UserError, FactsError."""
    if settings.fhir is None and settings.ehr is None:
        return _Examined()
    server = ask_of(settings, tasks)
    warnings = [*_missing(settings, server, plan)]
    file = plan.folder / CHARTS
    if settings.fhir is None:
        charts, save = open_charts(settings, tasks), _nothing
    elif file.is_file() and not settings.overwrite:
        charts, save = judged_by_cut_off(saved_facts(file), tasks), _nothing
    else:
        document = save_charts(tasks, server)
        charts = judged_by_cut_off(StoredFacts(document), tasks)
        save = partial(write_whole, file, json.dumps(document, ensure_ascii=False) + "\n")
    if charts.empty and not settings.ids:
        raise UserError(f"{settings.fhir or settings.ehr}: {charts.notes[0]} To run anyway, name items with --ids")
    return _Examined([*warnings, *charts.notes], "" if charts.cut_off_applied else charts.notes[0], save)


def _nothing() -> None:
    """Save nothing."""


def _missing(settings: Psb300Settings, server: tuple[str, Ask], plan: Plan) -> Iterator[str]:
    """A warning if patients of the run's items are not on the server. Raises UserError unless --ids lists the items."""
    chosen = {unit.task.id for unit in plan.stages[0].units()}
    mrns = [item.stored.eval_MRN for item in plan.items if isinstance(item, ChartItem) and item.id in chosen]
    if missing := missing_patients(server, mrns):
        text = f"{len(missing)} of {len(set(mrns))} patients are not on the server: {named(missing, _NAMED)}"
        if not settings.ids:
            raise UserError(f"{settings.fhir or settings.ehr}: {text}; to run anyway, name items with --ids")
        yield text


def _clock(source: Psb300Settings, tasks: TaskSet) -> datetime:
    """The time of grading for task1."""
    return source.clock or tasks.clock or datetime.now(UTC).replace(microsecond=0)


def _recorded_clock(folder: Path, settings: Psb300Settings) -> datetime | None:
    """The clock that `run.json` records, if the run is continued."""
    if settings.overwrite or not (folder / "run.json").is_file():
        return None
    recorded = read_run(folder)["settings"].get("clock")
    return datetime.fromisoformat(recorded) if recorded else None
