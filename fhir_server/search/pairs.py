"""An index of patient and code, for the most frequent search of clients: `patient=P&code=C`.

Without it, each resource of the patient would be looked up in the index of codes, or the other way round. A row means
that a resource's `patient` refers to `target` and that its `code` is `value`. If clients replace one of the two
parameters, there are no rows of the type here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from fhir_server.search.condition import Condition
from fhir_server.search.parameters import ParameterRegistry, parameters

TABLE: Final = "pairs"
COLUMNS: Final = ("param", "target", "value", "row_id")
"""`param` is the number of the type's `code`."""
PATIENT, CODE = "patient", "code"
_LINK: Final = "param = ? AND target = ?"
_CODE: Final = "param = ? AND value = ?"
_CODE_OF_SYSTEM: Final = "param = ? AND value = ? AND system = ?"


@lru_cache(maxsize=1024)
def numbers(registry: ParameterRegistry, resource_type: str) -> tuple[int, int] | None:
    """The numbers of a type's `patient` and `code`; None if the type does not have rows here."""
    custom = registry.custom_of(resource_type)
    if not _is_paired(resource_type) or PATIENT in custom or CODE in custom:
        return None
    return registry.number(resource_type, PATIENT), registry.number(resource_type, CODE)


def _is_paired(resource_type: str) -> bool:
    known = parameters(resource_type)
    return [known[name].kind if name in known else "" for name in (PATIENT, CODE)] == ["reference", "token"]


def sides(
    both: tuple[int, int], links: Iterable[Sequence[Any]], tokens: Iterable[Sequence[Any]]
) -> tuple[list[str], list[str]]:
    """The targets of `patient` in rows of `links`, and the values of `code` in rows of `tokens`."""
    patient, code = both
    return [row[1] for row in links if row[0] == patient], list({row[1]: None for row in tokens if row[0] == code})


def keys(both: tuple[int, int], targets: Sequence[str], values: Sequence[str]) -> list[tuple[int, str, str]]:
    """The rows of a resource without `row_id`."""
    return [(both[1], target, value) for target in targets for value in values]


def joined(patient: str, code: str) -> str:
    """SQL for the rows of a type. `patient` and `code` are SQL expressions for the numbers of the two parameters.

    The codes are collected first, so that SQLite makes an index of them by resource for this statement. It would not do
    so with an ORDER BY, and then takes 1,000 times as long.
    """
    return (
        f"WITH codes AS MATERIALIZED (SELECT row_id, value FROM tokens WHERE param = {code}) SELECT {code}, target,"
        f" value, links.row_id FROM links CROSS JOIN codes ON codes.row_id = links.row_id WHERE links.param = {patient}"
    )


def merged(registry: ParameterRegistry, resource_type: str, conditions: Sequence[Condition]) -> list[Condition]:
    """The conditions. If one is on a patient and one on a code, a single condition first in the list replaces both."""
    both = numbers(registry, resource_type)
    if both is None:
        return list(conditions)
    positive = [condition for condition in conditions if not condition.negated]
    link = next(
        (condition for condition in positive if condition.where == _LINK and condition.args[0] == both[0]), None
    )
    codes = (
        condition
        for condition in positive
        if condition.where in (_CODE, _CODE_OF_SYSTEM) and condition.args[0] == both[1]
    )
    token = next(codes, None)
    if link is None or token is None:
        return list(conditions)
    args = (both[1], link.args[1], token.args[1])
    pair = Condition(TABLE, "param = ? AND target = ? AND value = ?", args, weight=0, clustered=True)
    replaced = (link, token) if token.where == _CODE else (link,)
    return [pair, *(condition for condition in conditions if condition not in replaced)]
