"""The results of MedAgentBench, computed from scores: tables for people, `grade.json` for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medagent.benchmarks.medagentbench.results.official_grader import OfficialGrades
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.core.figures import difference, difference_spread, percent
from medagent.engine.intervals import above, by_item, interval_document, interval_notes, these_types
from medagent.engine.report import TableLine, TableSection, places
from medagent.engine.scores import Figures, Scored, grounded_line, grounded_rate
from medagent.fhir_episodes.verdicts import conduct_notes, kind_notes
from medagent.reports.published import PublishedSource, published_notes, published_sections, published_sources
from medagent.reports.trials import flip_notes, trial_sections, trials_title
from refsol.medagentbench import BASELINES, TYPES
from refsol.stats import Interval, wilson
from refsol.trials import Rates, by_type, flipping, rates, reliability

BRANCHES = {"order": "an order was due", "no order": "doing nothing was right"}
"""The branches of the action tasks: what was right to do."""
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
    return Rate.of(one.correct for one in scores)


def published_of(dataset: Dataset) -> Sequence[PublishedSource]:
    """The published scores for a data set. Empty unless it is the official one."""
    return [one for one in published_sources(_PUBLISHED) if one.version == dataset.official_version]


def figures(
    scores: Sequence[Scored],
    dataset: Dataset,
    rules: str,
    official: OfficialGrades | None = None,
    *,
    whole: bool = False,
) -> Figures:
    """The results of all trials.

    `official` contains the verdicts of a copy of the official grader on the same items. With `whole`, the details have
    the checks of every item.
    """
    trials = _by_trial(scores)
    items = () if official is None else tuple(one.outcome for one in scores)
    graded = by_item(scores)
    notes = [*([] if official is None else official.notes(items)), *conduct_notes(scores)]
    background = [*_above_blind_note(scores), *interval_notes(scores), *kind_notes(scores)]
    sections = _sections(scores, rules, len(trials))
    if official is not None:
        sections.append(official.section(items))
    several = len(trials) > 1 and bool(graded)
    if several:
        sections += trial_sections(graded, *places(one.outcome for one in scores))
        background += flip_notes(graded)
    published = published_of(dataset)
    return Figures(
        table=[*sections, *published_sections(published)],
        overall=_line("overall", scores, ungraded=False),
        notes=notes if scores else ["No episode has ended, so nothing is graded."],
        background=[*background, *published_notes(published)] if scores else [],
        count="of",
        group_names={name: kind.title for name, kind in TYPES.items()},
        baselines={name: rate.share for name, rate in _baselines(scores).items()},
        details={
            "grades": [grade_document(some, rules, whole=whole) for some in trials.values()],
            **({"all_trials": grade_document(scores, rules, whole=False)} if several else {}),
            "trials": _trials(scores, graded) if several else {},
            "intervals": interval_document(scores) if graded else None,
            "above_blind": _above_blind(scores),
            **({"official_grader": official.document(items)} if official is not None else {}),
        },
    )


def _by_trial(scores: Sequence[Scored]) -> dict[int, list[Scored]]:
    """The scores of each trial, in the order of the trials. Without any score, the first trial."""
    trials: dict[int, list[Scored]] = {}
    for one in scores:
        trials.setdefault(one.trial, []).append(one)
    return dict(sorted(trials.items())) or {1: []}


def grade_document(scores: Sequence[Scored], rules: str, *, whole: bool = True) -> dict[str, Any]:
    """The rates of one trial, and with `whole` its items, in the form of `grade.json`."""
    return {
        "rules": rules,
        "overall": _rates(scores),
        "by_type": {name: _rates(some) for name, some in _by_type(scores).items()},
        "groups": {name: _rates(some) for name, some in _groups(scores).items()},
        "branches": {name: _rates(some) for name, some in _branches(scores).items()},
        "baselines": {name: _rate(rate) for name, rate in _baselines(scores).items()},
        "above_blind": _above_blind(scores),
        **({"items": list(_item_documents(scores))} if whole else {}),
    }


def _item_documents(scores: Sequence[Scored]) -> Iterator[dict[str, Any]]:
    """The items with their checks; with their trials, if there are several."""
    several = len({one.trial for one in scores}) > 1
    for one in scores:
        yield {**_item_document(one), **({"trial": one.trial} if several else {})}


def _item_document(one: Scored) -> dict[str, Any]:
    """An item with its checks, in the form of `grade.json`."""
    score = one.score
    return {
        "task_id": one.item.id,
        "correct": one.correct,
        "branch": score.part["branch"] if score else None,
        "reason": score.details.get("verdict", score.reason) if score else one.outcome.reason,
        "grounded": score.grounded if score else None,
        "reading": score.reading if score else "",
        **({} if score is None or score.harmed is None else {"harmed": score.harmed}),
        "checks": [
            {"name": one.name, "passed": one.passed, "expected": one.expected, "actual": one.actual}
            for one in (score.checks if score else ())
        ],
    }


def _baselines(scores: Sequence[Scored]) -> dict[str, Rate]:
    """The scores of agents that read nothing, on these items."""
    parts = {one.item.id: one.score.part for one in scores if one.score is not None}.values()
    return {name: Rate.of([part.get(name) for part in parts]) for name in BASELINES}


def _above_blind(scores: Sequence[Scored]) -> dict[str, Any] | None:
    """The rate minus the blind baseline's rate on the same items (-1 to 1), with its 95% interval."""
    blind = {one.item.id: one.score.part.get("blind") for one in scores if one.score is not None}
    margin = above(scores, blind)
    return None if margin is None else {"difference": margin[0], "interval_95": [margin[1].low, margin[1].high]}


def _above_blind_note(scores: Sequence[Scored]) -> Iterator[str]:
    margin = _above_blind(scores)
    if margin is not None:
        share, step = percent(_rate_of(scores).share), difference(margin["difference"])
        yield f"Score: {share}; compared with blind: {step} (95% {difference_spread(margin['interval_95'])})"


def _by_type(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    types = {kind: [one for one in scores if one.item.group == kind] for kind in TYPES}
    return {kind: some for kind, some in types.items() if some}


def _groups(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    return {name: [one for one in scores if one.item.group in kinds] for name, kinds in GROUPS.items()}


def _branches(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    return {
        name: [one for one in scores if one.score is not None and one.score.part["branch"] == name]
        for name in ("query", *BRANCHES)
    }


def _sections(scores: Sequence[Scored], rules: str, trials: int) -> list[TableSection]:
    """The rates by task type, group and branch, of the baselines, and overall with the grounded share."""
    ungraded = _rate_of(scores).ungraded > 0
    groups = {f"{name} tasks": some for name, some in _groups(scores).items()}
    branches = {words: some for name, words in BRANCHES.items() if (some := _branches(scores)[name])}
    overall = _line("overall", scores, ungraded)
    title = trials_title("" if rules == "official" else f"under the rules {rules!r}", trials)

    def section(lines: Iterable[TableLine], *, title: str = "", detail: bool = False) -> TableSection:
        return TableSection(title=title, name="MedAgentBench", lines=tuple(lines), detail=detail)

    return [
        section((_line(name, some, ungraded) for name, some in _by_type(scores).items()), title=title),
        section((_line(name, some, ungraded) for name, some in groups.items()), detail=True),
        section(_line(words, some, ungraded) for words, some in branches.items()),
        section(
            (
                _rate_line(f"baseline {name}", rate, rate.interval, ungraded)
                for name, rate in _baselines(scores).items()
            ),
            detail=True,
        ),
        section([overall, *grounded_line(overall)], detail=True),
    ]


def _line(name: str, scores: Sequence[Scored], ungraded: bool) -> TableLine:
    """The rate of some items. Its interval is for the same types and other patients."""
    line = _rate_line(name, _rate_of(scores), these_types(scores), ungraded)
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
    groups, units = places(one.outcome for one in scores)
    types = {kind: _pass_rates(rates(group, groups, units)) for kind, group in by_type(graded, groups).items()}
    return {
        **_pass_rates(rates(graded, groups, units)),
        "by_type": types,
        "reliability": reliability(graded),
        "flipping": list(flipping(graded)),
    }


def _pass_rates(rates: Rates) -> dict[str, Any]:
    return {
        "pass@k": rates.at,
        "pass@k_interval_95": [[one.low, one.high] for one in rates.at_intervals],
        "pass^k": rates.hat,
        "pass^k_interval_95": [[one.low, one.high] for one in rates.hat_intervals],
        "standard_error": rates.error,
    }


def _rates(scores: Sequence[Scored]) -> dict[str, Any]:
    """The rate of some items as JSON, with the grounded share if it is known."""
    grounded, interval = grounded_rate(scores), these_types(scores)
    known = {} if grounded is None else {"grounded": grounded.model_dump(mode="json")}
    return {**_rate(_rate_of(scores)), "interval_95": [interval.low, interval.high], **known}


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        **rate._asdict(),
        "rate": rate.share,
        "rate_of_all": rate.share_of_all,
        "interval_95": [rate.interval.low, rate.interval.high],
    }
