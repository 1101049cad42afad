"""The results of MedAgentBench, computed from scores: tables for people, `grade.json` for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from medagent.engine.report import GroundedRate, TableLine, TableSection, places
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


@dataclass(frozen=True, slots=True)
class Rate:
    """The numbers of right, wrong and ungraded items, with the 95% interval of the share of right ones."""

    right: int
    wrong: int
    ungraded: int
    interval: Interval
    grounded: GroundedRate | None = None

    @classmethod
    def of(cls, scores: Sequence[Scored]) -> Rate:
        """The rate of some units. Its interval is for the same types and other patients."""
        outcomes = [score.correct for score in scores]
        counts = (outcomes.count(True), outcomes.count(False), outcomes.count(None))
        return cls(*counts, rate_interval(scores), grounded_rate(scores))

    @classmethod
    def of_baseline(cls, verdicts: Sequence[bool | None]) -> Rate:
        """The rate of a baseline, with Wilson's interval."""
        right, wrong = verdicts.count(True), verdicts.count(False)
        return cls(right, wrong, verdicts.count(None), wilson(right, right + wrong))

    @property
    def graded(self) -> int:
        """The number of right and wrong items."""
        return self.right + self.wrong

    @property
    def share(self) -> float | None:
        """Right of graded, 0 to 1; None if there are none."""
        graded = self.graded
        return self.right / graded if graded else None

    @property
    def share_of_all(self) -> float | None:
        """Right of all, 0 to 1; None if there are none."""
        n = self.graded + self.ungraded
        return self.right / n if n else None

    @property
    def document(self) -> dict[str, Any]:
        """The rate as JSON, with the grounded share if it is known."""
        return {
            "right": self.right,
            "wrong": self.wrong,
            "ungraded": self.ungraded,
            "rate": self.share,
            "rate_of_all": self.share_of_all,
            "interval_95": [self.interval.low, self.interval.high],
            **({} if self.grounded is None else {"grounded": self.grounded.model_dump(mode="json")}),
        }

    def line(self, name: str, *, ungraded: bool = False) -> TableLine:
        """The rate as a line of a table; with `ungraded`, it says how many items are not graded."""
        n, share = self.graded, self.share
        return TableLine(
            name=name,
            n=n,
            value=share,
            interval=(self.interval.low, self.interval.high) if n else None,
            counts={"right": self.right},
            more={"not graded": self.ungraded, "rate of all": self.share_of_all} if ungraded else {},
            grounded=self.grounded,
        )


@dataclass(frozen=True, slots=True)
class Results:
    """The rates of the units of one trial, or of all trials."""

    overall: Rate
    types: Mapping[str, Rate]
    groups: Mapping[str, Rate]
    branches: Mapping[str, Rate]
    baselines: Mapping[str, Rate]
    above_blind: tuple[float, Interval] | None

    @classmethod
    def of(cls, scores: Sequence[Scored]) -> Results:
        """The rates of some units."""
        groups = {name: [score for score in scores if score.item.group in kinds] for name, kinds in GROUPS.items()}
        return cls(
            Rate.of(scores),
            {name: Rate.of(members) for name, members in by_type(scores, TYPES).items()},
            {name: Rate.of(members) for name, members in groups.items()},
            {name: Rate.of(members) for name, members in by_branch(scores).items()},
            {name: Rate.of_baseline(verdicts) for name, verdicts in baseline_verdicts(scores).items()},
            above_blind(scores),
        )

    def document(self, rules: str) -> dict[str, Any]:
        """The rates in the form of `grade.json`."""
        none = Rate.of([])
        return {
            "rules": rules,
            "overall": self.overall.document,
            "by_type": {name: rate.document for name, rate in self.types.items()},
            "groups": {name: rate.document for name, rate in self.groups.items()},
            "branches": {name: self.branches.get(name, none).document for name in BRANCHES},
            "baselines": {name: rate.document for name, rate in self.baselines.items()},
            "above_blind": self.margin_document,
        }

    @property
    def margin_document(self) -> dict[str, Any] | None:
        """The difference from the blind baseline as JSON; None if it is not known."""
        if self.above_blind is None:
            return None
        value, interval = self.above_blind
        return {"difference": value, "interval_95": [interval.low, interval.high]}


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
    results = Results.of(scores)
    items = () if official is None else tuple(score.outcome for score in scores)
    graded = by_item(scores)
    notes = [*([] if official is None else official.notes(items)), *conduct_notes(scores)]
    background = [*above_blind_notes(results.above_blind, results.overall.share), *kind_notes(scores)]
    sections = _sections(results, rules, len(trials))
    if official is not None:
        sections.append(official.section(items))
    several = len(trials) > 1 and bool(graded)
    if several:
        sections += trial_sections(graded, *places(score.outcome for score in scores))
        background += flip_notes(graded)
    published = published_of(dataset)
    return Metrics(
        table=[*sections, *published_sections(published)],
        overall=results.overall.line("overall"),
        notes=notes if scores else ["No episode has ended, so nothing is graded."],
        background=[*background, *published_notes(published)] if scores else [],
        count="of",
        group_names={name: kind.title for name, kind in TYPES.items()},
        baselines={name: rate.share for name, rate in results.baselines.items()},
        details={
            "grades": [
                _trial_document(results if len(trials) == 1 else Results.of(members), members, rules, whole=whole)
                for members in trials.values()
            ],
            **({"all_trials": results.document(rules)} if several else {}),
            "trials": _trials(scores, graded) if several else {},
            "above_blind": results.margin_document,
            **({"official_grader": official.document(items)} if official is not None else {}),
        },
    )


def _by_trial(scores: Sequence[Scored]) -> dict[int, list[Scored]]:
    """The scores of each trial, in the order of the trials. Without any score, the first trial."""
    trials: dict[int, list[Scored]] = {}
    for score in scores:
        trials.setdefault(score.trial, []).append(score)
    return dict(sorted(trials.items())) or {1: []}


def grade_document(scores: Sequence[Scored], rules: str) -> dict[str, Any]:
    """The rates of one trial and its items, in the form of `grade.json`."""
    return _trial_document(Results.of(scores), scores, rules, whole=True)


def _trial_document(results: Results, scores: Sequence[Scored], rules: str, *, whole: bool) -> dict[str, Any]:
    return {**results.document(rules), **({"items": list(_item_documents(scores))} if whole else {})}


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


def _sections(results: Results, rules: str, trials: int) -> list[TableSection]:
    """The rates by task type, group and branch, of the baselines, and overall with the grounded share."""
    ungraded = results.overall.ungraded > 0
    groups = {f"{name} tasks": rate for name, rate in results.groups.items()}
    actions = {BRANCHES[name]: rate for name, rate in results.branches.items() if name != "query"}
    baselines = {BASELINE_WORDS[name]: rate for name, rate in results.baselines.items()}
    overall = results.overall.line("overall", ungraded=ungraded)
    title = trials_title("" if rules == "official" else f"under the rules {rules!r}", trials)

    def section(rates: Mapping[str, Rate], *, title: str = "", detail: bool = False) -> TableSection:
        lines = tuple(rate.line(name, ungraded=ungraded) for name, rate in rates.items())
        return TableSection(title=title, name="MedAgentBench", lines=lines, detail=detail)

    return [
        section(results.types, title=title),
        section(groups, detail=True),
        section(actions),
        section(baselines, detail=True),
        TableSection(name="MedAgentBench", lines=(overall, *grounded_line(overall)), detail=True),
    ]


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
