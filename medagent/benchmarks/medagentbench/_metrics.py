"""The results of MedAgentBench, computed from scores: tables for people, `grade.json` for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medagent.benchmarks.clinical.metrics import (
    BASELINE_WORDS,
    BRANCHES,
    above_blind,
    above_blind_notes,
    baseline_verdicts,
    by_branch,
    by_type,
)
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.medagentbench.results.official_grader import OfficialGrades
from medagent.benchmarks.medagentbench.tasks.dataset import official_version
from medagent.engine.intervals import by_item, rate_interval
from medagent.engine.report import TableLine, TableSection, places
from medagent.engine.scores import Metrics, Scored, grounded_line, grounded_rate
from medagent.fhir_episodes.verdicts import conduct_notes, kind_notes
from medagent.reports.published import PublishedSource, published_notes, published_sections, published_sources
from medagent.reports.trials import flip_notes, trial_sections, trials_title
from refsol.medagentbench import TYPES
from refsol.stats import Interval, wilson
from refsol.trials import Rates, flipping, rates, reliability
from refsol.trials import by_type as outcomes_by_type

GROUPS = {
    "query": ("task1", "task2", "task4", "task6", "task7"),
    "action": ("task3", "task5", "task8", "task9", "task10"),
}
_PUBLISHED = Path(__file__).with_name("published.toml")


class Rate(NamedTuple):
    """The numbers of right, wrong and ungraded items."""

    right: int
    wrong: int
    ungraded: int

    @classmethod
    def of(cls, outcomes: Iterable[bool | None]) -> Rate:
        """Count the right (True), wrong and ungraded (None) ones."""
        known = list(outcomes)
        return cls(known.count(True), known.count(False), known.count(None))

    @property
    def graded(self) -> int:
        """The number of right and wrong items."""
        return self.right + self.wrong

    @property
    def share(self) -> float | None:
        """Right of graded, 0 to 1; None if there are none."""
        return self.right / self.graded if self.graded else None

    @property
    def share_of_all(self) -> float | None:
        """Right of all, 0 to 1; None if there are none."""
        return self.right / (self.graded + self.ungraded) if self.graded + self.ungraded else None

    @property
    def interval(self) -> Interval:
        """Wilson's 95% interval of `share`."""
        return wilson(self.right, self.graded)


def _rate_of(scores: Sequence[Scored]) -> Rate:
    return Rate.of(score.correct for score in scores)


def published_of(dataset: TaskSet) -> Sequence[PublishedSource]:
    """The published scores for a data set. Empty unless it is the official one."""
    return [
        published_source
        for published_source in published_sources(_PUBLISHED)
        if published_source.version == official_version(dataset)
    ]


def mab_metrics(
    scores: Sequence[Scored],
    dataset: TaskSet,
    rules: str,
    official: OfficialGrades | None = None,
    *,
    whole: bool = False,
) -> Metrics:
    """The results of all trials.

    `official` contains the verdicts of a copy of the official grader on the same items. With `whole`, the details have
    the checks of every item.
    """
    trials = _by_trial(scores)
    items = () if official is None else tuple(score.outcome for score in scores)
    graded = by_item(scores)
    notes = [*([] if official is None else official.notes(items)), *conduct_notes(scores)]
    background = [*above_blind_notes(scores, _rate_of(scores).share), *kind_notes(scores)]
    sections = _sections(scores, rules, len(trials))
    if official is not None:
        sections.append(official.section(items))
    several = len(trials) > 1 and bool(graded)
    if several:
        sections += trial_sections(graded, *places(score.outcome for score in scores))
        background += flip_notes(graded)
    published = published_of(dataset)
    return Metrics(
        table=[*sections, *published_sections(published)],
        overall=_line("overall", scores, ungraded=False),
        notes=notes if scores else ["No episode has ended, so nothing is graded."],
        background=[*background, *published_notes(published)] if scores else [],
        count="of",
        group_names={name: kind.title for name, kind in TYPES.items()},
        baselines={name: rate.share for name, rate in _baselines(scores).items()},
        details={
            "grades": [grade_document(trial_scores, rules, whole=whole) for trial_scores in trials.values()],
            **({"all_trials": grade_document(scores, rules, whole=False)} if several else {}),
            "trials": _trials(scores, graded) if several else {},
            "above_blind": _margin_document(above_blind(scores)),
            **({"official_grader": official.document(items)} if official is not None else {}),
        },
    )


def _by_trial(scores: Sequence[Scored]) -> dict[int, list[Scored]]:
    """The scores of each trial, in the order of the trials. Without any score, the first trial."""
    trials: dict[int, list[Scored]] = {}
    for score in scores:
        trials.setdefault(score.trial, []).append(score)
    return dict(sorted(trials.items())) or {1: []}


def grade_document(scores: Sequence[Scored], rules: str, *, whole: bool = True) -> dict[str, Any]:
    """The rates of one trial, and with `whole` its items, in the form of `grade.json`."""
    branches = by_branch(scores)
    return {
        "rules": rules,
        "overall": _rates(scores),
        "by_type": {name: _rates(group) for name, group in by_type(scores, TYPES).items()},
        "groups": {name: _rates(members) for name, members in _groups(scores).items()},
        "branches": {name: _rates(branches.get(name, ())) for name in BRANCHES},
        "baselines": {name: _rate(rate, rate.interval) for name, rate in _baselines(scores).items()},
        "above_blind": _margin_document(above_blind(scores)),
        **({"items": list(_item_documents(scores))} if whole else {}),
    }


def _item_documents(scores: Sequence[Scored]) -> Iterator[dict[str, Any]]:
    """The items with their checks; with their trials, if there are several."""
    several = len({score.trial for score in scores}) > 1
    for scored in scores:
        yield {**_item_document(scored), **({"trial": scored.trial} if several else {})}


def _item_document(scored: Scored) -> dict[str, Any]:
    """An item with its checks, in the form of `grade.json`."""
    score = scored.score
    return {
        "task_id": scored.item.id,
        "correct": scored.correct,
        "branch": score.part["branch"] if score else None,
        "reason": score.details.get("verdict", score.reason) if score else scored.outcome.reason,
        "grounded": score.grounded if score else None,
        "reading": score.reading if score else "",
        **({} if score is None or score.harmed is None else {"harmed": score.harmed}),
        "checks": [
            {"name": check.name, "passed": check.passed, "expected": check.expected, "actual": check.actual}
            for check in (score.checks if score else ())
        ],
    }


def _baselines(scores: Sequence[Scored]) -> dict[str, Rate]:
    return {name: Rate.of(verdicts) for name, verdicts in baseline_verdicts(scores).items()}


def _margin_document(margin: tuple[float, Interval] | None) -> dict[str, Any] | None:
    return None if margin is None else {"difference": margin[0], "interval_95": [margin[1].low, margin[1].high]}


def _groups(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    return {name: [score for score in scores if score.item.group in kinds] for name, kinds in GROUPS.items()}


def _sections(scores: Sequence[Scored], rules: str, trials: int) -> list[TableSection]:
    """The rates by task type, group and branch, of the baselines, and overall with the grounded share."""
    ungraded = _rate_of(scores).ungraded > 0
    groups = {f"{name} tasks": members for name, members in _groups(scores).items()}
    actions = {BRANCHES[name]: members for name, members in by_branch(scores).items() if name != "query"}
    overall = _line("overall", scores, ungraded)
    title = trials_title("" if rules == "official" else f"under the rules {rules!r}", trials)

    def section(lines: Iterable[TableLine], *, title: str = "", detail: bool = False) -> TableSection:
        return TableSection(title=title, name="MedAgentBench", lines=tuple(lines), detail=detail)

    return [
        section((_line(name, members, ungraded) for name, members in by_type(scores, TYPES).items()), title=title),
        section((_line(name, members, ungraded) for name, members in groups.items()), detail=True),
        section(_line(words, members, ungraded) for words, members in actions.items()),
        section(
            (
                _rate_line(BASELINE_WORDS[name], rate, rate.interval, ungraded)
                for name, rate in _baselines(scores).items()
            ),
            detail=True,
        ),
        section([overall, *grounded_line(overall)], detail=True),
    ]


def _line(name: str, scores: Sequence[Scored], ungraded: bool) -> TableLine:
    """The rate of some items. Its interval is for the same types and other patients."""
    line = _rate_line(name, _rate_of(scores), rate_interval(scores), ungraded)
    return line.model_copy(update={"grounded": grounded_rate(scores)})


def _rate_line(name: str, rate: Rate, interval: Interval, ungraded: bool) -> TableLine:
    return TableLine(
        name=name,
        n=rate.graded,
        value=rate.share,
        interval=(interval.low, interval.high) if rate.graded else None,
        counts={"right": rate.right},
        more={"not graded": rate.ungraded, "rate of all": rate.share_of_all} if ungraded else {},
    )


def _trials(scores: Sequence[Scored], graded: Mapping[str, Sequence[bool]]) -> dict[str, Any]:
    groups = {score.item.id: score.item.group for score in scores}
    patients = {score.item.id: score.item.patient or score.cluster or score.item.id for score in scores}
    types = {
        kind: _pass_rates(rates(group, groups, patients)) for kind, group in outcomes_by_type(graded, groups).items()
    }
    return {
        **_pass_rates(rates(graded, groups, patients)),
        "by_type": types,
        "reliability": reliability(graded),
        "flipping": list(flipping(graded)),
    }


def _pass_rates(rates: Rates) -> dict[str, Any]:
    return {
        "pass@k": rates.at,
        "pass@k_interval_95": [[interval.low, interval.high] for interval in rates.at_intervals],
        "pass^k": rates.hat,
        "pass^k_interval_95": [[interval.low, interval.high] for interval in rates.hat_intervals],
        "standard_error": rates.error,
    }


def _rates(scores: Sequence[Scored]) -> dict[str, Any]:
    """The rate of some items as JSON, with the grounded share if it is known."""
    grounded = grounded_rate(scores)
    known = {} if grounded is None else {"grounded": grounded.model_dump(mode="json")}
    return {**_rate(_rate_of(scores), rate_interval(scores)), **known}


def _rate(rate: Rate, interval: Interval) -> dict[str, Any]:
    return {
        **rate._asdict(),
        "rate": rate.share,
        "rate_of_all": rate.share_of_all,
        "interval_95": [interval.low, interval.high],
    }
