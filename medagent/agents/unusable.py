"""Answers without content to grade: empty, cut off, or only thinking. They are graded as they are, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from medagent.agents.base import Move
from medagent.models.wording import strip_thinking

Kind = Literal["empty", "cut", "only_thought"]
WORDS = {"empty": "empty", "cut": "cut off by their token limit", "only_thought": "only thinking"}
MOST = 0.05
"""The share of such answers up to which a run counts as complete."""
_NAMED = 3


def kind_of(move: Move) -> Kind | None:
    """Why an answer is unusable; None for a usable one."""
    if move.finish_reason == "length":
        return "cut"
    text = strip_thinking(move.text).strip()
    if not text:
        return "only_thought" if move.text.strip() or (move.reasoning or "").strip() else "empty"
    return "only_thought" if text.startswith("<think>") and "</think>" not in text else None


@dataclass(frozen=True, slots=True)
class Unusable:
    """Lines with the numbers of unusable answers, and the reason why the run is not complete, if so."""

    notes: tuple[str, ...] = ()
    fault: str = ""


def count_unusable(statuses: Iterable[tuple[str, str]], allowed: float = MOST) -> Unusable:
    """Count the unusable answers by the status of each unit. More than the share `allowed` is a fault.

    A unit with any other status is not counted as an answer.
    """
    total = 0
    units: dict[str, list[str]] = {}
    for unit, status in statuses:
        total += status == "completed" or status in WORDS
        if status in WORDS:
            units.setdefault(status, []).append(unit)
    counts = Counter({kind: len(members) for kind, members in units.items()})
    notes = tuple(
        f"{count} of {total} answers are {WORDS[kind]}: {', '.join(units[kind][:_NAMED])}"
        + (", …" if count > _NAMED else "")
        for kind, count in counts.most_common()
    )
    share = counts.total() / total if total else 0.0
    if share <= allowed:
        return Unusable(notes)
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.most_common())
    return Unusable(
        notes,
        f"{share:.1%} of the answers are unusable ({kinds}), more than the {allowed:.1%} of --allow-empty:"
        " the score does not measure the model; repeat them with --retry cut, --retry empty or --retry only_thought",
    )
