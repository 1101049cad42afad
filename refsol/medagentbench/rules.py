"""The three rule sets. The task types are in `types.py`; these are the ways in which a reply is compared.

`official` is the published grader: observed behaviour. `fair` judges an order by its meaning, as a pharmacist would
read it, in any format. `state` is `fair` on what the server stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import (
    WIDTHS,
    About,
    Amount,
    At,
    Authored,
    Coded,
    Instant,
    Near,
    Note,
    Over,
    Route,
    RuleSet,
    distance,
)
from refsol.clinical.orders import lookup
from refsol.errors import InputError

RuleName = Literal["official", "fair", "state"]


class TaskChart(Chart):
    """A chart as the published grader reads it: the patient by identifier, and readings in any unit, at any time."""

    identifier, strict, until_now = "identifier", False, False


def _contains(actual: Any, text: str) -> bool:
    return isinstance(actual, str | list | dict) and text in actual


def _coded(meaning: Coded, actual: Any) -> bool:
    first = lookup(actual, "coding[0]")
    return bool(lookup(first, "system") == meaning.value.system and lookup(first, "code") == meaning.value.code)


def _at(meaning: At, actual: Any) -> bool:
    text = meaning.json()
    return bool(actual == text) if meaning.to == "second" else _contains(actual, text[: WIDTHS[meaning.to]])


def _route(meaning: Route, actual: Any) -> bool:
    if meaning.value == "IV":
        return bool(actual == "IV")
    return isinstance(actual, str) and actual.lower().strip() == meaning.value


def _amount(meaning: Amount, actual: Any) -> bool:
    if not meaning.tolerance:
        return bool(actual == meaning.json())
    near = distance(lookup(actual, "value"), meaning.value) <= meaning.tolerance
    return near and bool(lookup(actual, "unit") == meaning.unit)


OFFICIAL = RuleSet(
    "official",
    forms={
        About: lambda meaning, actual: bool(actual == meaning.json()),
        Amount: _amount,
        At: _at,
        Authored: _at,
        Coded: _coded,
        Instant: lambda meaning, actual: bool(actual == meaning.value),
        Near: lambda meaning, actual: distance(actual, meaning.value) < meaning.tolerance,
        Note: lambda meaning, actual: _contains(lookup(actual, "text"), meaning.value),
        Over: lambda meaning, actual: bool(lookup(actual, "rateQuantity") == meaning.json()["rateQuantity"]),
        Route: _route,
    },
    version="1",
    by_meaning=False,
    slack=0.0,
    urls=True,
    in_order=True,
    prose_counts=True,
)
FAIR = RuleSet("fair", slack=0.0, urls=True)
STATE = replace(FAIR, name="state", stored=True)
RULE_SETS: dict[RuleName, RuleSet] = {"official": OFFICIAL, "fair": FAIR, "state": STATE}


def rule_name(text: str) -> RuleName:
    """The rule set's name. Raises InputError for an unknown one."""
    for name in RULE_SETS:
        if name == text:
            return name
    raise InputError(f"unknown rules {text!r}; known: {', '.join(RULE_SETS)}")
