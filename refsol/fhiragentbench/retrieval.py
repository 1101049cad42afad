"""Recall and precision of the ids that an agent found."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from refsol.errors import InputError
from refsol.fhiragentbench._questions import Ids
from refsol.python_text import python_value

RuleName = Literal["published", "paper", "a2a"]
RULE_SETS: dict[RuleName, str] = {
    "published": "as the published evaluator: recall is 1 if all true ids were found, otherwise 0",
    "paper": "as the paper defines it: recall is the share of the true ids that were found",
    "a2a": "as the A2A evaluator: recall by share, no normalizing call, no recall for errors",
}
"""The rule sets, each with its difference from the others."""


class ResourcesError(ValueError):
    """A list of found ids contains a list or an object. The published evaluator fails on it."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The retrieval of one row. `matches` are the found ids of the true types; ids of other types do not count.

    `recall` and `precision` are None if they do not count.
    """

    matches: tuple[Any, ...]
    recall: float | None
    precision: float | None


def rule_name(text: str) -> RuleName:
    """Check the name of a rule set. Raises InputError if it is unknown."""
    for name in RULE_SETS:
        if name == text:
            return name
    raise InputError(f"unknown rules {text!r}; known: {', '.join(RULE_SETS)}")


def retrieve(true_ids: Ids, resources: Any, rules: RuleName = "published") -> Retrieval:
    """Compare found ids with the true ones. Raises ResourcesError.

    `resources` is an object with id lists by type, or its text in JSON or Python. Only types of true ids count.
    """
    matches = found_ids(true_ids, resources)
    true = [resource_id for ids in true_ids.values() for resource_id in ids]
    if not true:
        return Retrieval(matches, None if matches else 1.0, 0.0 if matches else 1.0)
    if not matches:
        return Retrieval(matches, 0.0, None)
    hits = share(set(matches), true)
    recall = float(hits == 1) if rules == "published" else hits
    return Retrieval(matches, recall, share(set(true), matches))


def found_ids(true_ids: Ids, resources: Any) -> tuple[Any, ...]:
    """The found ids of the true types, in the order of these types. Raises ResourcesError."""
    by_type = _object(resources)
    matches: list[Any] = []
    for kind in true_ids:
        value = by_type.get(kind)
        if isinstance(value, Iterable):
            matches.extend(value)
    if not all(type(match) is str or isinstance(match, Hashable) for match in matches):
        raise ResourcesError("an id in a list is itself a list or an object")
    return tuple(matches)


def share(pool: set[Any], of: Sequence[Any]) -> float:
    """The share of the ids in `of` that is in the pool. Duplicates are counted."""
    return sum(resource_id in pool for resource_id in of) / len(of)


def _object(resources: Any) -> dict[Any, Any]:
    """The object in a cell. Empty if the cell does not contain one."""
    value = resources
    if isinstance(resources, str):
        try:
            value = json.loads(resources)
        except json.JSONDecodeError:
            try:
                value = python_value(resources)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                return {}
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
