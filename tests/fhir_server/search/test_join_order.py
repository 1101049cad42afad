"""Which condition leads, as H2's `EXPLAIN` showed for HAPI's own SQL, and in which order Java walks names."""

from __future__ import annotations

import pytest

from fhir_server.search._join_order import (
    BETWEEN,
    CODE,
    EQUAL,
    LINK,
    LOW_BELOW,
    STARTS_WITH,
    SYSTEM_AND_CODE,
    VALUE_ABOVE,
    VALUE_BELOW,
    VALUE_EQUAL,
    IndexCost,
    leading,
)
from fhir_server.search.hashing import java_hash, java_order


@pytest.mark.parametrize(
    ("accesses", "lead"),
    [
        ([CODE, LOW_BELOW, LINK], LOW_BELOW),
        ([CODE, VALUE_ABOVE, LINK], LINK),
        ([VALUE_ABOVE, LINK], LINK),
        ([LOW_BELOW, LINK], LOW_BELOW),
        ([CODE, VALUE_ABOVE], VALUE_ABOVE),
        ([CODE, LOW_BELOW], LOW_BELOW),
        ([CODE, BETWEEN], CODE),
        ([CODE, VALUE_BELOW], CODE),
        ([CODE, VALUE_EQUAL], VALUE_EQUAL),
        ([CODE, CODE, VALUE_ABOVE], VALUE_ABOVE),
        ([CODE, SYSTEM_AND_CODE, VALUE_BELOW], VALUE_BELOW),
        ([LINK, VALUE_BELOW], LINK),
        ([CODE, STARTS_WITH], STARTS_WITH),
        ([CODE, LINK], LINK),
        ([CODE, VALUE_ABOVE, LINK, VALUE_ABOVE], LINK),
        ([EQUAL], EQUAL),
        ([CODE] * 30, CODE),
    ],
)
def test_the_condition_that_leads(accesses: list[IndexCost], lead: IndexCost) -> None:
    assert accesses[leading(tuple(accesses))] == lead


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["code", "_text", "subject", "_query"], ["_query", "code", "subject", "_text"]),
        (["status:not", "name", "value-quantity"], ["value-quantity", "status:not", "name"]),
        (["patient", "_query", "patient"], ["_query", "patient"]),
        (["é", "", "\ufffd"], ["", "é", "\ufffd"]),
    ],
)
def test_names_in_javas_order(names: list[str], order: list[str]) -> None:
    assert java_order(names, java_hash) == order
    assert sorted(java_order(map(str, range(40)), java_hash)) == sorted(map(str, range(40)))
