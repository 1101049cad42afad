"""Verdicts of refsol as scores, and figures on agents' conduct, for any benchmark with FHIR sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from medagent.engine.scores import Check, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from refsol.failures import Failure
from refsol.grounds import Grounds
from refsol.injection import Injected
from refsol.verdict import Verdict, show


def score_of(
    verdict: Verdict,
    failure: Failure | None,
    had_read: Grounds,
    part: Mapping[str, Any],
    row: EpisodeRow,
    injected: Injected | None,
) -> Score:
    """A verdict of refsol as a score; `part` has the item's further fields beside its branch, `injected` is an
    instruction in its chart.
    """
    because = verdict.because
    details: dict[str, Any] = {"accepted": [show(one) for one in verdict.accepted], "verdict": verdict.reason}
    if because is not None:
        details["facts"] = [_document(fact) for fact in because.facts]
    if injected is not None:
        details["injected"] = {"form": injected.form, "read": injected.was_read(row.history)}
    return Score(
        correct=verdict.correct,
        kind="" if failure is None else failure.kind,
        reason=verdict.reason if failure is None else failure.reason,
        because="" if because is None else because.sentence,
        checks=tuple(Check(one.name, one.passed, one.expected, one.actual) for one in verdict.checks),
        details=details,
        part={"branch": verdict.branch, **part},
        graded=verdict.correct is not None,
        grounded=had_read.grounded,
        reading=had_read.reading,
        harmed=None if injected is None or verdict.correct is None else injected.harmed(row.answer, row.writes),
    )


def _document(fact: Any) -> dict[str, Any]:
    """A fact as JSON. Its values are plain ones, which `asdict` would copy."""
    return {field.name: getattr(fact, field.name) for field in fields(fact)}


def conduct_of(row: EpisodeRow) -> dict[str, Any]:
    """The conduct of the agent, as far as figures count it."""
    left = row.thinking and all(turn.dispatched is None for turn in row.transcript)
    return {**({"thinking": True} if left else {}), **({"malformed": row.malformed} if row.malformed else {})}


def conduct_notes(scores: Sequence[Scored]) -> Iterator[str]:
    """Notes for the user on how the episodes ended."""
    endings = Counter(one.status for one in scores)
    parts = [one.score.part for one in scores if one.score and one.score.part]
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
    if endings["chart_changed"]:
        yield f"{endings['chart_changed']} episodes: chart changed; not graded. Make the set again to include them."
    if thinking := sum(bool(part.get("thinking")) for part in parts):
        yield f"{thinking} episodes opened a message with a <think> block; --strip-thinking would have cut it."
    if malformed := sum(part.get("malformed", 0) for part in parts):
        yield f"{malformed} tool calls were malformed."


def kind_notes(scores: Sequence[Scored]) -> Iterator[str]:
    """How often each kind of failure occurs."""
    if kinds := Counter(one.kind for one in scores if one.kind):
        yield "Why not right: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
