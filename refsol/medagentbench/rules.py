"""The three rule sets. The task types are in `types.py`; these are the ways in which a reply is compared.

`official` is the published grader: observed behaviour. `fair` accepts the official form or any form that a clinician or
FHIR would accept. `state` is `fair` on what the server stored.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Literal

from refsol.clinical.case import Case
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import About, Amount, At, Coded, Instant, Near, Note, Over, Route, distance
from refsol.clinical.orders import lookup
from refsol.clinical.rules import RuleSet
from refsol.errors import InputError

RuleName = Literal["official", "fair", "state"]


class TaskChart(Chart):
    """A chart as the published grader reads it: the patient by identifier, and every number that is not infinite."""

    identifier = "identifier"

    def is_number(self, value: Any) -> bool:
        """See `Chart.is_number`."""
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _contains(actual: Any, text: str) -> bool:
    return isinstance(actual, str | list | dict) and text in actual


def _coded(meaning: Coded, actual: Any, _: Case) -> bool:
    first = lookup(actual, "coding[0]")
    return bool(lookup(first, "system") == meaning.code.system and lookup(first, "code") == meaning.code.code)


def _at(meaning: At, actual: Any, _: Case) -> bool:
    text = meaning.time.isoformat()
    shown = {"second": len(text), "minute": len("2023-11-13T10:15"), "hour": len("2023-11-13T10:")}[meaning.to]
    return bool(actual == text) if meaning.to == "second" else _contains(actual, text[:shown])


def _route(meaning: Route, actual: Any, _: Case) -> bool:
    if meaning.text == "IV":
        return bool(actual == "IV")
    return isinstance(actual, str) and actual.lower().strip() == meaning.text


def _amount(meaning: Amount, actual: Any, _: Case) -> bool:
    if not meaning.tolerance:
        return bool(actual == meaning.json())
    near = distance(lookup(actual, "value"), meaning.value) <= meaning.tolerance
    return near and bool(lookup(actual, "unit") == meaning.unit)


OFFICIAL = RuleSet(
    "official",
    forms={
        About: lambda meaning, actual, _: bool(actual == meaning.json()),
        Amount: _amount,
        At: _at,
        Coded: _coded,
        Instant: lambda meaning, actual, _: bool(actual == meaning.text),
        Near: lambda meaning, actual, _: distance(actual, meaning.value) < meaning.tolerance,
        Note: lambda meaning, actual, _: _contains(lookup(actual, "text"), meaning.text),
        Over: lambda meaning, actual, _: bool(lookup(actual, "rateQuantity") == meaning.json()["rateQuantity"]),
        Route: _route,
    },
    lenient=False,
    urls=True,
    in_order=True,
    prose_counts=True,
    units=False,
    until_now=False,
)
FAIR = replace(OFFICIAL, name="fair", lenient=True, in_order=False, prose_counts=False)
STATE = replace(FAIR, name="state", stored=True)
RULE_SETS: dict[RuleName, RuleSet] = {"official": OFFICIAL, "fair": FAIR, "state": STATE}


def rule_name(text: str) -> RuleName:
    """The rule set's name. Raises InputError for an unknown one."""
    for name in RULE_SETS:
        if name == text:
            return name
    raise InputError(f"unknown rules {text!r}; known: {', '.join(RULE_SETS)}")
