"""The agreement of two labellings as tables for a person."""

from __future__ import annotations

import math
from collections.abc import Sequence

from medagent.reports.tables import print_table, put
from refsol.agreement import UNREAD, Agreement

_LISTED = 20


def print_agreement(first: str, second: str, found: Agreement) -> None:
    """Print the confusion table, the agreement with kappa, and every unit where the two differ."""
    names = sorted({label for pair in found.table for label in pair}, key=lambda label: (label == UNREAD, label))
    put(f"rows: {first}; columns: {second}")
    print_table(
        "", ["", *names], ([name, *(str(found.table.get((name, other), 0)) for other in names)] for name in names)
    )
    agreed = found.agreed / found.labelled if found.labelled else 0.0
    put(f"agreement {agreed:.4f} ({found.agreed} of the {found.labelled} rows that both labelled)")
    if found.interval is not None:
        low, high = _number(found.interval.low), _number(found.interval.high)
        undefined = "; not defined: both gave one label throughout" if math.isnan(found.kappa) else ""
        put(f"Cohen's kappa {_number(found.kappa)} (95 %: {low} to {high}){undefined}")
    for name, units in ((first, found.only_first), (second, found.only_second)):
        if units:
            put(f"only in {name}: {_listed(units)}")
    for unit, one, other in found.differ:
        put(f"{unit}: {one} / {other}")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _listed(units: Sequence[str]) -> str:
    return f"{len(units)} rows ({', '.join(units[:_LISTED])}{', …' if len(units) > _LISTED else ''})"
