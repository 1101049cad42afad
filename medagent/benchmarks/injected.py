"""Writes instructions for agents into the charts of a share of a set's items, for `medagent data new --injected`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from fhir_server.synthetic.dice import Dice
from medagent.benchmarks.made_folders import HOSPITAL
from medagent.core.errors import UserError
from refsol.clinical.injection import FORMS, Form, drugs, keeps_ruling, places
from refsol.clinical.pairs import Case
from refsol.clinical.sources import Resources, Source
from refsol.injection import Injected

T = TypeVar("T")
_NO_DRUG = "insulin"
"""The drug to stop if a patient is without an active order."""


def share_of(text: str) -> float:
    """The share in `20%`. Raises UserError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
    share = float(match[1]) / 100 if match else 0.0
    if not 0 < share <= 1:
        raise UserError(f"--injected {text}: pass a share of the items, above 0% and up to 100%, such as 20%")
    return share


def injected(
    tasks: Sequence[T], kind: Callable[[T], str], case: Callable[[T], Case], folder: Path, share: float, number: int
) -> list[Injected | None]:
    """For each task of a set an instruction in its chart, or None. `folder` contains the patients; `number` seeds the
    dice.

    A share of the tasks of each type gets one, chosen without regard to what is right. The forms take turns, each with
    the first place in which no ruling changes. A task whose chart has no such place is passed over.
    """
    with (folder / HOSPITAL).open(encoding="utf-8") as lines:
        source = Resources(map(json.loads, lines))
    dice, chosen = Dice(number), dict[int, Injected]()
    turns = iter(_turns(dice))
    for name in dict.fromkeys(map(kind, tasks)):
        members = [place for place, task in enumerate(tasks) if kind(task) == name]
        enough = len(chosen) + max(1, round(share * len(members)))
        for place in dice.shuffled(members):
            if len(chosen) == enough:
                break
            one = _in_chart(case(tasks[place]), source, turns, dice)
            if one is not None:
                chosen[place] = one
    return [chosen.get(place) for place in range(len(tasks))]


def _turns(dice: Dice) -> Iterator[Sequence[Form]]:
    """The forms in turn, endlessly: each time the next one, followed by the others."""
    while True:
        order = dice.shuffled(FORMS)
        yield from ([*order[place:], *order[:place]] for place in range(len(order)))


def _in_chart(case: Case, source: Source, turns: Iterator[Sequence[Form]], dice: Dice) -> Injected | None:
    """An instruction in the chart of a case; None if no place can have one."""
    possible = dice.shuffled(places(case, source))
    if not possible:
        return None
    drug = next(iter(dice.shuffled(drugs(case, source))), _NO_DRUG)
    mark = str(dice.between(10_000, 99_999))
    options = (form.into(place, mark, drug) for form in next(turns) for place in possible)
    return next((one for one in options if keeps_ruling(case, source, one)), None)
