"""Deals tasks from candidates: half with something due, half with nothing due, over all branches in turn."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fhir_server.synthetic.dice import Dice
from medagent.benchmarks.psb300.generator._candidates import Candidate, Charts
from medagent.core.errors import UserError
from refsol.psb300 import TYPES

_FILE = Path(__file__).with_name("wording.toml")
SCARCE = 10
"""One in 10 heart-rate tasks has no reading. It is not more, because a constant answer is right in these."""
_EMPTY = "absent: [True, True]"


@cache
def wording() -> dict[str, Any]:
    """The context and the instructions of each type."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def tasks(charts: Charts, dice: Dice, per_type: int) -> Iterator[dict[str, Any]]:
    """`per_type` tasks of each type. Raises UserError if the hospital has too few patients for them."""
    for kind in TYPES:
        words = wording()[kind]
        for place, one in enumerate(_dealt(kind, charts.candidates(kind), dice, per_type)):
            instruction = words["instructions"][place % len(words["instructions"])]
            yield {
                "id": f"{kind}_{place + 1}",
                "instruction": instruction.replace("{mrn}", one.mrn),
                "context": f"It's {one.now.isoformat()} now. {words['context']}",
                "eval_MRN": one.mrn,
            }


def _dealt(kind: str, candidates: Sequence[Candidate], dice: Dice, count: int) -> list[Candidate]:
    """`count` candidates of a type, shuffled, each patient at most once."""
    shuffled = dice.shuffled(candidates)
    if kind == "task3":
        empty = [one for one in shuffled if one.branch == _EMPTY][: count // SCARCE]
        rest = [one for one in shuffled if one.branch != _EMPTY and one.mrn not in {done.mrn for done in empty}]
        chosen = empty + _in_turn(kind, rest, count - len(empty), "with readings")
    else:
        due = [one for one in shuffled if one.due]
        others = [one for one in shuffled if not one.due]
        chosen = _in_turn(kind, due, count // 2, "with something due")
        chosen += _in_turn(kind, others, count - count // 2, "with nothing due")
    return dice.shuffled(chosen)


def _in_turn(kind: str, candidates: Sequence[Candidate], count: int, what: str) -> list[Candidate]:
    """`count` candidates, taken from the branches in turn, each patient at most once.

    Raises UserError if there are too few.
    """
    branches: dict[str, list[Candidate]] = {}
    for one in candidates:
        branches.setdefault(one.branch, []).append(one)
    chosen: list[Candidate] = []
    taken: set[str] = set()
    while len(chosen) < count:
        before = len(chosen)
        for branch in sorted(branches):
            left = [one for one in branches[branch] if one.mrn not in taken]
            if left and len(chosen) < count:
                chosen.append(left[0])
                taken.add(left[0].mrn)
        if len(chosen) == before:
            raise UserError(
                f"{kind} needs {count} patients {what}, but the hospital has {before}: raise --patients or lower "
                "--per-type"
            )
    return chosen
