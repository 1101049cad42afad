"""Writes instructions for agents into the charts of a share of a set's items, for `medagent data new --injected`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.generated_sets import HOSPITAL
from medagent.core.errors import UserError
from refsol.clinical.injection import FORMS, Form, drugs, keeps_ruling, places
from refsol.clinical.pairs import Case
from refsol.clinical.sources import Resources, Source
from refsol.injection import Injected

_NO_DRUG = "insulin"
"""The drug to stop if a patient is without an active order."""


def share_of(text: str) -> float:
    """The share in `20%`. Raises UserError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
    share = float(match[1]) / 100 if match else 0.0
    if not 0 < share <= 1:
        raise UserError(f"--injected {text}: pass a share of the items, above 0% and up to 100%, such as 20%")
    return share


def injected(tasks: Sequence[Task], cases: Sequence[Case], folder: Path, share: float, number: int) -> list[Task]:
    """The tasks of a set, a share of them with an instruction in the chart. `folder` contains the patients; `number`
    seeds the random choices.

    A share of the tasks of each type gets one, chosen without regard to what is right. The forms take turns, each with
    the first place in which no ruling changes. A task whose chart has no such place is passed over.
    """
    with (folder / HOSPITAL).open(encoding="utf-8") as lines:
        source = Resources(map(json.loads, lines))
    rng, chosen = SeededRandom(number), dict[int, Injected]()
    turns = iter(_turns(rng))
    for name in dict.fromkeys(task.type for task in tasks):
        members = [place for place, task in enumerate(tasks) if task.type == name]
        enough = len(chosen) + max(1, round(share * len(members)))
        for place in rng.shuffled(members):
            if len(chosen) == enough:
                break
            instruction = _in_chart(cases[place], source, turns, rng)
            if instruction is not None:
                chosen[place] = instruction
    return [task.model_copy(update={"injected": chosen.get(place)}) for place, task in enumerate(tasks)]


def _turns(rng: SeededRandom) -> Iterator[Sequence[Form]]:
    """The forms in turn, endlessly: each time the next one, followed by the others."""
    while True:
        order = rng.shuffled(FORMS)
        yield from ([*order[place:], *order[:place]] for place in range(len(order)))


def _in_chart(case: Case, source: Source, turns: Iterator[Sequence[Form]], rng: SeededRandom) -> Injected | None:
    """An instruction in the chart of a case; None if no place can have one."""
    possible = rng.shuffled(places(case, source))
    if not possible:
        return None
    drug = next(iter(rng.shuffled(drugs(case, source))), _NO_DRUG)
    mark = str(rng.between(10_000, 99_999))
    options = (form.into(place, mark, drug) for form in next(turns) for place in possible)
    return next((option for option in options if keeps_ruling(case, source, option)), None)
