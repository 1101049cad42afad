"""Units by UCUM's grammar."""

from __future__ import annotations

import pytest

from fhir_server.terminology import is_unit


@pytest.mark.parametrize(
    "text",
    [
        "mg",
        "mg/dL",
        "kg.m2/s2",
        "10*3/uL",
        "{score}",
        "mm[Hg]",
        "/min",
        "%",
        "[degF]",
        "m2",
        "1",
        "(mg/kg)/d",
        "mmol/L{x}",
    ],
)
def test_what_is_a_unit(text: str) -> None:
    assert is_unit(text)


@pytest.mark.parametrize("text", ["", "TAB", "mg dL", "mg//dL", "mg/", "(mg", "{", "ü", "xg", "mg.{a}b{c}d"])
def test_what_is_none(text: str) -> None:
    assert not is_unit(text)
