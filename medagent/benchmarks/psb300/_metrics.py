"""The results of psb-300, computed from scores. Each rate is shown with the rates of agents that read nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from medagent.benchmarks.clinical.items import Facts
from medagent.benchmarks.clinical.metrics import by_branch, by_type, part_of
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.psb300._charts import NOT_APPLIED
from medagent.benchmarks.psb300.settings import Unfinished
from medagent.benchmarks.psb300.tasks import is_published
from medagent.engine.intervals import rate_interval
from medagent.engine.report import TableLine, TableSection, by_trial, places
from medagent.engine.scores import Metrics, Scored, grounded_line, grounded_rate
from medagent.fhir_episodes.verdicts import conduct_notes, kind_notes
from medagent.reports.published import published_notes, published_sections, published_sources
from medagent.reports.trials import flip_notes, trial_sections, trials_title
from refsol.psb300 import BASELINES, TYPES, RuleName

BRANCHES = {"query": "a query", "order": "something is due", "no order": "nothing is due"}
_PUBLISHED = Path(__file__).with_name("published.toml")


@dataclass(frozen=True, slots=True)
class Grading:
    """How episodes are graded: the rule set, the clock of task1, and how an episode without FINISH counts."""

    rules: RuleName
    clock: datetime
    unfinished: Unfinished = "empty"


def psb_metrics(scores: Sequence[Scored], tasks: TaskSet, by: Grading, charts: Facts | None) -> Metrics:
    """The results of all trials. `charts` is None without scores."""
    items = tuple(score.outcome for score in scores)
    graded, trials = by_trial(items), len({score.trial for score in scores})
    several = trials > 1 and bool(graded)
    overall = _line("overall", scores)
    published = published_sources(_PUBLISHED) if is_published(tasks) else ()
    is_cut = charts is None or charts.details.applied
    notes, background = ["No episode has ended, so nothing is graded."], list[str]()
    if charts is not None:
        flips = flip_notes(graded) if several else []
        notes = [*charts.notes, *conduct_notes(scores)]
        background = [*_floor_notes(overall), *kind_notes(scores), *flips, *published_notes(published)]
    return Metrics(
        table=[
            *_sections(scores, by, trials),
            *(trial_sections(graded, *places(items)) if several else []),
            *published_sections(published),
        ],
        overall=overall,
        notes=notes,
        background=background,
        count="of",
        group_names={name: kind.title for name, kind in TYPES.items()},
        baselines={name: _share([part_of(score).get(name) for score in scores]) for name in BASELINES},
        details={
            "graded_by": [
                f"clock {by.clock.isoformat()}",
                *(["an episode without FINISH is wrong"] if by.unfinished == "wrong" else []),
                *([] if is_cut else [NOT_APPLIED]),
            ],
            "clock": by.clock.isoformat(),
            "unfinished": by.unfinished,
            "floors": {name: overall.more.get(name) for name in BASELINES},
            "cut_off": "applied" if is_cut else "not applied",
        },
    )


def _sections(scores: Sequence[Scored], by: Grading, trials: int) -> Iterator[TableSection]:
    """The rates by type and by branch, overall and grounded; and task1 by both clocks if a verdict differs."""
    types = [_line(kind, members) for kind, members in by_type(scores, TYPES).items()]
    branches = {branch: _line(BRANCHES[branch], members) for branch, members in by_branch(scores).items()}
    queries = [branches.pop("query")] if "query" in branches else []
    title = trials_title("" if by.rules == "official" else f"under the rules {by.rules!r}", trials)
    overall = _line("overall", scores)
    yield TableSection(title=title, name="psb-300", lines=tuple(types))
    yield TableSection(name="psb-300", lines=tuple(queries), detail=True)
    yield TableSection(name="psb-300", lines=tuple(branches.values()))
    yield TableSection(name="psb-300", lines=(overall, *grounded_line(overall)), detail=True)
    if clocks := _clocks(scores, by.clock):
        yield TableSection(title="task1 depends on the time of grading", name="clock", lines=tuple(clocks), detail=True)


def _line(name: str, scores: Sequence[Scored]) -> TableLine:
    """One rate, with the rates of the items with and without something due, and the floors."""
    right = [score.correct for score in scores if score.correct is not None]
    branches = by_branch(scores)
    due = {branch: [score.correct for score in branches.get(branch, ())] for branch in BRANCHES}
    ungraded = sum(score.correct is None for score in scores)
    interval = rate_interval(scores)
    more: dict[str, int | float | None] = {
        "due": _share(due["order"]),
        "none due": _share(due["no order"]),
        **{name: _share([part_of(score).get(name) for score in scores]) for name in BASELINES},
        **({"not graded": ungraded} if ungraded else {}),
    }
    return TableLine(
        name=name,
        n=len(right),
        value=_share(right),
        interval=(interval.low, interval.high) if right else None,
        counts={"right": right.count(True)},
        more=more,
        grounded=grounded_rate(scores),
    )


def _clocks(scores: Sequence[Scored], clock: datetime) -> list[TableLine]:
    """Task1 by both clocks. Empty if no verdict differs."""
    pairs = [(score.correct, part_of(score)["by scenario"]) for score in scores if "by scenario" in part_of(score)]
    if all(by_clock == by_scenario for by_clock, by_scenario in pairs):
        return []
    names = (clock.isoformat(timespec="minutes"), "the scenario's now")
    return [_plain(name, [pair[place] for pair in pairs]) for place, name in enumerate(names)]


def _plain(name: str, outcomes: Sequence[bool | None]) -> TableLine:
    right = [outcome for outcome in outcomes if outcome is not None]
    return TableLine(name=name, n=len(right), value=_share(right), counts={"right": right.count(True)})


def _floor_notes(overall: TableLine) -> Iterator[str]:
    """A note if the score is not above the score of an agent that does nothing."""
    nop = overall.more.get("nop")
    if overall.value is not None and nop is not None and overall.value <= nop:
        yield "Not above doing nothing: an agent that does nothing scores as much on these items."


def _share(outcomes: Sequence[bool | None]) -> float | None:
    known = [outcome for outcome in outcomes if outcome is not None]
    return sum(known) / len(known) if known else None
