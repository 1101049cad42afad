"""Values of a results file that keep the schema but cannot be right: another server's address, another set's patient,
a number that JSON does not have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from typing import Any

from medagent.benchmarks.medagentbench.tasks.dataset import present_datasets
from refsol.medagentbench.recorded import ResultItem

_SHOWN = 60
"""Characters of a value that are shown."""


def foreign_base(item: ResultItem, base: str) -> Iterator[tuple[str, str]]:
    """The place and URL of each POST to another server than the tasks'. None of its orders counts."""
    for number, message in enumerate(item.post_history):
        first = message.content.strip().partition("\n")[0]
        url = first.removeprefix("POST").strip()
        is_address = first.startswith("POST") and url.startswith(("http://", "https://"))
        if message.role == "agent" and is_address and not url.startswith(base):
            yield f".post_history[{number}]", url[:_SHOWN]


def numbers_outside_json(item: ResultItem) -> Iterator[tuple[str, str]]:
    """The place and text of `NaN`, `Infinity` and `-Infinity` in an answer, in a POST, or as a value of the file."""
    if isinstance(item.answer, str) and (name := _outside(item.answer)):
        yield ".answer", name
    for number, message in enumerate(item.post_history):
        if message.role == "agent" and (name := _outside(message.content.partition("\n")[2])):
            yield f".post_history[{number}]", name
    for field in ("answer", "expected_sol", "eval_MRN"):
        if name := _in_value(getattr(item, field)):
            yield f".{field}", name


def _outside(text: str) -> str:
    """The first constant in a text that JSON does not have; empty if there is none, or if the text is not JSON."""
    constants: list[str] = []
    try:
        json.loads(text, parse_constant=constants.append)
    except (ValueError, RecursionError):
        return ""
    return constants[0] if constants else ""


def _in_value(value: Any) -> str:
    """The first such number in a parsed value; empty if there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    parts = value.values() if isinstance(value, dict) else value
    return next(filter(None, map(_in_value, parts)), "") if isinstance(value, dict | list) else ""


def patients_of(items: Collection[ResultItem], tasks: Collection[str | None] | None) -> Collection[str]:
    """The patients that the items may name: those of the named `tasks`, otherwise those of the set on this machine with
    most of the items' patients. Empty if no set has most of them.
    """
    if tasks is not None:
        return {patient for patient in tasks if patient}
    named = [item.eval_MRN for item in items if isinstance(item.eval_MRN, str)]
    sets = [{task.patient for task in dataset.tasks if task.patient} for dataset in present_datasets()]
    best = max(sets, key=lambda patients: sum(patient in patients for patient in named))
    return best if 2 * sum(patient in best for patient in named) > len(named) else ()
