"""The figures of MedAgentBench, from scores alone: for a person a report's table, for a program `grade.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medagent.benchmarks.medagentbench.published import published_notes, published_sections
from medagent.benchmarks.medagentbench.results.official_grades import OfficialGrades
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.figures import percent
from medagent.engine.report import TableLine, TableSection, by_trial
from medagent.engine.scores import Figures, Scored
from medagent.reports.trials import flip_notes, trial_section
from refsol.medagentbench import Rate
from refsol.medagentbench.score import ACTION_TYPES, QUERY_TYPES
from refsol.medagentbench.tasks import TASKS
from refsol.trials import Rates, by_type, clustered, flipping, rates, reliability

BRANCHES = {"query": "queries", "order": "an order was due", "no order": "doing nothing was right"}
"""What was right to do, in words."""
BASELINES = ("nop", "constant")


def figures(
    scores: Sequence[Scored],
    dataset: Dataset,
    rules: str,
    official: OfficialGrades | None = None,
    *,
    whole: bool = False,
) -> Figures:
    """The figures of all trials; the table is of the first one. `official` holds what a copy of the official grader
    says of the same items. With `whole`, the details have the checks of every item.
    """
    first = [one for one in scores if one.trial == 1]
    items = tuple(one.outcome for one in scores)
    graded = by_trial(items)
    groups = {item.item: item.group for item in items}
    notes = [] if official is None else official.notes(items)
    interval = clustered(graded, groups) if graded and len(set(groups.values())) > 1 else None
    if interval is not None and interval.low < interval.high:  # one that has no width says nothing
        notes.append(f"95 % by bootstrap over task types: {percent(interval.low)} to {percent(interval.high)}")
    notes += _conduct(scores)
    if kinds := Counter(item.kind for item in items if item.kind):
        notes.append("Why not right: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    sections = _sections(first, rules)
    if official is not None:
        sections.append(official.section(items))
    trials = sorted({one.trial for one in scores})
    several = len(trials) > 1 and bool(graded)
    if several:
        sections.append(trial_section(graded, groups))
        notes += flip_notes(graded)
    return Figures(
        table=[*sections, *published_sections(dataset)],
        overall=_line("overall", Rate.of(first), ungraded=False),
        notes=[*notes, *published_notes(dataset)] if scores else ["No episode has ended, so nothing is graded."],
        count="of",
        details={
            "grades": [_grade([one for one in scores if one.trial == trial], rules, whole) for trial in trials],
            "trials": _trials(graded, groups) if several else {},
            "cluster_bootstrap": None if not graded else _bounds(graded, groups),
            **({"official_grader": official.document(items)} if official is not None else {}),
        },
    )


def _grade(scores: Sequence[Scored], rules: str, whole: bool) -> dict[str, Any]:
    document = grade_document(scores, rules)
    return {**document, "items": list(item_documents(scores))} if whole else document


def grade_document(scores: Sequence[Scored], rules: str) -> dict[str, Any]:
    """The rates of one trial, as `grade.json` has them."""
    return {
        "rules": rules,
        "overall": _rate(Rate.of(scores)),
        "by_type": {name: _rate(rate) for name, rate in _by_type(scores).items()},
        "groups": {name: _rate(rate) for name, rate in _groups(scores).items()},
        "branches": {name: _rate(rate) for name, rate in _branches(scores).items()},
        "baselines": {name: _rate(rate) for name, rate in baselines(scores).items()},
    }


def item_documents(scores: Iterable[Scored]) -> Iterator[dict[str, Any]]:
    """Every item of one trial with its checks, as `grade.json` has them."""
    for one in scores:
        score = one.score
        yield {
            "task_id": one.item.id,
            "correct": one.correct,
            "branch": score.part["branch"] if score else None,
            "reason": score.details.get("verdict", score.reason) if score else one.outcome.reason,
            "checks": [asdict(check) for check in score.checks] if score else [],
        }


def baselines(scores: Sequence[Scored]) -> dict[str, Rate]:
    """What agents score on these items that send nothing."""
    parts = [one.score.part for one in scores if one.score is not None]
    return {name: _count([part.get(name) for part in parts]) for name in BASELINES}


def _by_type(scores: Sequence[Scored]) -> dict[str, Rate]:
    rates = {kind: Rate.of(one for one in scores if one.item.group == kind) for kind in TASKS}
    return {kind: rate for kind, rate in rates.items() if rate.total}


def _groups(scores: Sequence[Scored]) -> dict[str, Rate]:
    types = {"query": QUERY_TYPES, "action": ACTION_TYPES}
    return {name: Rate.of(one for one in scores if one.item.group in kinds) for name, kinds in types.items()}


def _branches(scores: Sequence[Scored]) -> dict[str, Rate]:
    return {
        name: Rate.of(one for one in scores if one.score is not None and one.score.part["branch"] == name)
        for name in BRANCHES
    }


def _sections(scores: Sequence[Scored], rules: str) -> list[TableSection]:
    """Rates by task type, group and branch, the baselines, overall."""
    overall = Rate.of(scores)
    ungraded = overall.ungraded > 0
    parts: Sequence[Mapping[str, Rate]] = (
        _by_type(scores),
        {f"{name} tasks": rate for name, rate in _groups(scores).items()},
        {BRANCHES[name]: rate for name, rate in _branches(scores).items()},
        {f"baseline {name}": rate for name, rate in baselines(scores).items()},
        {"overall": overall},
    )
    title = "" if rules == "official" else f"under the rules {rules!r}"
    return [
        TableSection(
            title=title if number == 0 else "",
            name="MedAgentBench",
            lines=tuple(_line(name, rate, ungraded) for name, rate in part.items()),
        )
        for number, part in enumerate(parts)
    ]


def _line(name: str, rate: Rate, ungraded: bool) -> TableLine:
    return TableLine(
        name=name,
        n=rate.graded,
        value=rate.share,
        interval=(rate.interval.low, rate.interval.high) if rate.graded else None,
        counts={"right": rate.right},
        more={"not graded": rate.ungraded, "rate of all": rate.share_of_all} if ungraded else {},
    )


def _conduct(scores: Sequence[Scored]) -> Iterator[str]:
    """What a person should know of how the episodes went."""
    endings = Counter(one.status for one in scores)
    parts = [one.score.part for one in scores if one.score is not None]
    if endings["agent_error"]:
        yield (
            f"{endings['agent_error']} episodes ended because the agent raised an error: counted as failed; "
            "--retry agent_error does them again."
        )
    if endings["cut"]:
        yield f"{endings['cut']} replies were cut at the token limit (--max-tokens, or the endpoint's own)."
    if endings["empty"]:
        yield f"{endings['empty']} replies were empty."
    if endings["refused"]:
        yield f"{endings['refused']} episodes were refused by the provider's content filter: not graded."
    if thinking := sum(bool(part.get("thinking")) for part in parts):
        yield f"{thinking} episodes opened a message with a <think> block; --strip-thinking would have cut it."
    if malformed := sum(part.get("malformed", 0) for part in parts):
        yield f"{malformed} tool calls were malformed."


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


def _bounds(graded: dict[str, list[bool]], groups: Mapping[str, str]) -> list[float]:
    interval = clustered(graded, groups)
    return [interval.low, interval.high]


def _count(outcomes: Sequence[bool | None]) -> Rate:
    return Rate(outcomes.count(True), outcomes.count(False), outcomes.count(None))


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        **asdict(rate),
        "rate": rate.share,
        "rate_of_all": rate.share_of_all,
        "interval_95": [rate.interval.low, rate.interval.high],
    }
