"""The figures of MedAgentBench, computed from scores: tables for people, `grade.json` for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medagent.benchmarks.medagentbench._published import published_of
from medagent.benchmarks.medagentbench.results.official_grades import OfficialGrades
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.figures import percent
from medagent.engine.grounded import grounded_line, grounded_rate
from medagent.engine.intervals import above, by_item, interval_document, interval_notes, shown, these_types
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Check, Figures, Scored
from medagent.fhir_episodes.verdicts import conduct_notes
from medagent.reports.published import published_notes, published_sections
from medagent.reports.trials import flip_notes, trial_section
from refsol.medagentbench import BASELINES, Rate
from refsol.medagentbench.score import ACTION_TYPES, QUERY_TYPES
from refsol.medagentbench.tasks import TASKS
from refsol.stats import Interval
from refsol.trials import Rates, by_type, flipping, rates, reliability

BRANCHES = {"query": "queries", "order": "an order was due", "no order": "doing nothing was right"}
"""A text for each branch: what was right to do."""


def figures(
    scores: Sequence[Scored],
    dataset: Dataset,
    rules: str,
    official: OfficialGrades | None = None,
    *,
    whole: bool = False,
) -> Figures:
    """The figures of all trials. The main table shows the first trial.

    `official` has the verdicts of a copy of the official grader on the same items. With `whole`, the details have the
    checks of every item.
    """
    trials = _by_trial(scores)
    first = trials.get(1, [])
    items = () if official is None else tuple(one.outcome for one in scores)
    graded, groups = by_item(scores), {one.item.id: one.item.group for one in scores}
    notes = [*_above_blind_note(first), *interval_notes(scores)]
    notes += [] if official is None else official.notes(items)
    notes += conduct_notes(scores)
    sections = _sections(first, rules)
    if official is not None:
        sections.append(official.section(items))
    several = len(trials) > 1 and bool(graded)
    if several:
        sections.append(trial_section(graded, groups))
        notes += flip_notes(graded)
    published = published_of(dataset)
    return Figures(
        table=[*sections, *published_sections(published)],
        overall=_line("overall", first, ungraded=False),
        notes=[*notes, *published_notes(published)] if scores else ["No episode has ended, so nothing is graded."],
        count="of",
        details={
            "grades": _grades(trials.values(), rules, whole),
            "trials": _trials(graded, groups) if several else {},
            "intervals": interval_document(scores) if graded else None,
            "above_blind": above_blind(first),
            **({"official_grader": official.document(items)} if official is not None else {}),
        },
    )


def _by_trial(scores: Sequence[Scored]) -> dict[int, list[Scored]]:
    """The scores of each trial, in the order of the trials."""
    trials: dict[int, list[Scored]] = {}
    for one in scores:
        trials.setdefault(one.trial, []).append(one)
    return dict(sorted(trials.items()))


def _grades(trials: Iterable[Sequence[Scored]], rules: str, whole: bool) -> list[dict[str, Any]]:
    """The rates of each trial, and with `whole` its items.

    Trials with equal scores share one document, and equal items of several trials share one entry, to save memory.
    """
    rates: dict[tuple[tuple[str, int], ...], dict[str, Any]] = {}
    items: dict[tuple[str, int], dict[str, Any]] = {}
    documents = []
    for scores in trials:
        keys = tuple((one.item.id, id(one.score)) for one in scores)  # equal scores are one object
        document = rates.get(keys) or rates.setdefault(keys, grade_document(scores, rules))
        if whole:
            for key, one in zip(keys, scores, strict=True):
                if one.score is None or key not in items:
                    items[key] = item_document(one)
            document = {**document, "items": [items[key] for key in keys]}
        documents.append(document)
    return documents


def grade_document(scores: Sequence[Scored], rules: str) -> dict[str, Any]:
    """The rates of one trial, in the form of `grade.json`."""
    return {
        "rules": rules,
        "overall": _rates(scores),
        "by_type": {name: _rates(some) for name, some in _by_type(scores).items()},
        "groups": {name: _rates(some) for name, some in _groups(scores).items()},
        "branches": {name: _rates(some) for name, some in _branches(scores).items()},
        "baselines": {name: _rate(rate) for name, rate in baselines(scores).items()},
        "above_blind": above_blind(scores),
    }


def item_document(one: Scored) -> dict[str, Any]:
    """An item with its checks, in the form of `grade.json`."""
    score = one.score
    return {
        "task_id": one.item.id,
        "correct": one.correct,
        "branch": score.part["branch"] if score else None,
        "reason": score.details.get("verdict", score.reason) if score else one.outcome.reason,
        "grounded": score.grounded if score else None,
        "reading": score.reading if score else "",
        "checks": [_check(check) for check in score.checks] if score else [],
    }


def _check(check: Check) -> dict[str, Any]:
    return {"name": check.name, "passed": check.passed, "expected": check.expected, "actual": check.actual}


def baselines(scores: Sequence[Scored]) -> dict[str, Rate]:
    """The scores of agents that read nothing, on these items."""
    parts = [one.score.part for one in scores if one.score is not None]
    return {name: Rate.of_outcomes([part.get(name) for part in parts]) for name in BASELINES}


def above_blind(scores: Sequence[Scored]) -> dict[str, Any] | None:
    """The rate minus the blind baseline's rate on the same items (-1 to 1), with its 95 % interval."""
    blind = {one.item.id: one.score.part.get("blind") for one in scores if one.score is not None}
    margin = above(scores, blind)
    return None if margin is None else {"difference": margin[0], "interval_95": [margin[1].low, margin[1].high]}


def _above_blind_note(scores: Sequence[Scored]) -> Iterator[str]:
    margin = above_blind(scores)
    if margin is not None:
        points = shown(Interval(*margin["interval_95"]), unit="")
        share = percent(Rate.of(scores).share)
        yield f"Score: {share}; above blind: {100 * margin['difference']:+.1f} points (95 % {points})"


def _by_type(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    types = {kind: [one for one in scores if one.item.group == kind] for kind in TASKS}
    return {kind: some for kind, some in types.items() if some}


def _groups(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    types = {"query": QUERY_TYPES, "action": ACTION_TYPES}
    return {name: [one for one in scores if one.item.group in kinds] for name, kinds in types.items()}


def _branches(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    return {
        name: [one for one in scores if one.score is not None and one.score.part["branch"] == name] for name in BRANCHES
    }


def _sections(scores: Sequence[Scored], rules: str) -> list[TableSection]:
    """The rates by task type, group and branch, of the baselines, and overall with the grounded share."""
    ungraded = Rate.of(scores).ungraded > 0
    parts: Sequence[Mapping[str, Sequence[Scored]]] = (
        _by_type(scores),
        {f"{name} tasks": some for name, some in _groups(scores).items()},
        {BRANCHES[name]: some for name, some in _branches(scores).items()},
    )
    overall = _line("overall", scores, ungraded)
    sections = [
        *([_line(name, some, ungraded) for name, some in part.items()] for part in parts),
        [_rate_line(f"baseline {name}", rate, rate.interval, ungraded) for name, rate in baselines(scores).items()],
        [overall, *grounded_line(overall)],
    ]
    title = "" if rules == "official" else f"under the rules {rules!r}"
    return [
        TableSection(title=title if number == 0 else "", name="MedAgentBench", lines=tuple(lines))
        for number, lines in enumerate(sections)
    ]


def _line(name: str, scores: Sequence[Scored], ungraded: bool) -> TableLine:
    """The rate of some items. Its interval is for the same types and other patients."""
    line = _rate_line(name, Rate.of(scores), these_types(scores), ungraded)
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


def _trials(graded: dict[str, list[bool]], groups: Mapping[str, str]) -> dict[str, Any]:
    types = {kind: _pass_rates(rates(group)) for kind, group in by_type(graded, groups).items()}
    return {
        **_pass_rates(rates(graded)),
        "by_type": types,
        "reliability": reliability(graded),
        "flipping": list(flipping(graded)),
    }


def _pass_rates(rates: Rates) -> dict[str, Any]:
    return {"pass@k": rates.at, "pass^k": rates.hat, "standard_error": rates.error}


def _rates(scores: Sequence[Scored]) -> dict[str, Any]:
    """The rate of some items as JSON, with the grounded share if it is known."""
    grounded, interval = grounded_rate(scores), these_types(scores)
    known = {} if grounded is None else {"grounded": grounded.model_dump(mode="json")}
    return {**_rate(Rate.of(scores)), "interval_95": [interval.low, interval.high], **known}


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        **asdict(rate),
        "rate": rate.share,
        "rate_of_all": rate.share_of_all,
        "interval_95": [rate.interval.low, rate.interval.high],
    }
