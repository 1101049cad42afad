"""The agreement of two labellings as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from medagent.reports.tables import Table, print_table, put
from refsol.agreement import UNREAD, Agreement

_LISTED = 20


def print_agreement(first: str, second: str, agreement: Agreement) -> None:
    """Print the confusion table, the agreement with kappa, and every unit on which the two differ."""
    names = sorted({label for pair in agreement.table for label in pair}, key=lambda label: (label == UNREAD, label))
    put(f"rows: {first}; columns: {second}")
    print_table(
        Table(["", *names], [[name, *(agreement.table.get((name, column), 0) for column in names)] for name in names])
    )
    agreed = agreement.agreed / agreement.labelled if agreement.labelled else 0.0
    put(f"agreement {agreed:.4f} ({agreement.agreed} of the {agreement.labelled} rows that both labelled)")
    if agreement.interval is not None:
        low, high = _number(agreement.interval.low), _number(agreement.interval.high)
        undefined = "; not defined: both gave one label throughout" if math.isnan(agreement.kappa) else ""
        put(f"Cohen's kappa {_number(agreement.kappa)} (95% {low} to {high}){undefined}")
    for name, units in ((first, agreement.only_first), (second, agreement.only_second)):
        if units:
            put(f"only in {name}: {_listed(units)}")
    for unit, first_label, second_label in agreement.differ:
        put(f"{unit}: {first_label} / {second_label}")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _listed(units: Sequence[str]) -> str:
    return f"{len(units)} rows ({', '.join(units[:_LISTED])}{', …' if len(units) > _LISTED else ''})"
