"""The smallest meaningful difference between two runs, before a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from medagent.core.errors import UserError
from medagent.core.number_formats import counted
from medagent.engine.benchmark import Benchmark
from medagent.engine.pairs import counting, nouns_of
from medagent.engine.plan import JOURNAL, Plan
from medagent.engine.report import Report, dependence
from medagent.engine.scores import unit_name
from medagent.reports.tables import Table, print_table, put
from refsol.intervals import CORRELATION, DISCORDANT, design_effect, detectable, noise

_SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of items on which two runs differ, for the table."""


def noise_line(
    sizes: Sequence[float], discordant: float = DISCORDANT, nouns: str = "items", patients: int | None = None
) -> str:
    """The difference that chance explains, in words. `sizes`: the number of items (or pairs) of each patient. An item
    without a patient counts as one of its own there, but not in `patients` (None: there is no such item).
    """
    n = round(sum(sizes))
    patients = len(sizes) if patients is None else patients
    of_patients = f" of {counted(patients, 'patients')}" if 0 < patients < n else ""
    points = 100 * noise(_independent(sizes), discordant)
    return f"with {counted(n, nouns)}{of_patients} a difference under {points:.1f} points is noise"


def noise_before(plan: Plan, benchmark: Benchmark[Any, Any]) -> str:
    """The same for a planned run; empty if its items have no verdicts, or if it has none."""
    items = {item.id: item for item in plan.items}
    keys = [unit.key for stage in plan.stages if stage.journal == JOURNAL for unit in stage.units()]
    planned = [items[name.item] for key in keys if (name := unit_name(key, items)) is not None]
    if not planned or not benchmark.has_verdicts:
        return ""
    units = {item.pair or item.id: item.patient or item.cluster or item.pair or item.id for item in planned}
    patients = len({item.patient for item in planned} - {""})
    nouns = nouns_of(items[name] for name in dict.fromkeys(item.id for item in planned))
    line = noise_line(_sizes(units.values()), nouns=nouns, patients=patients)
    return f"{line} (medagent power)"


def sizes_of(report: Report) -> list[float]:
    """The number of items of each patient of a run. Raises UserError if it has none."""
    items = {outcome.item: dependence(outcome) for outcome in counting(report.items)}
    if not items:
        raise UserError(f"{report.folder}: contains no items")
    return _sizes(items.values())


def print_power(
    sizes: Sequence[float], discordant: float | None, *, assumed: bool = False, patients: int | None = None
) -> None:
    """Print the differences that two runs over items can show. `sizes` and `patients` are as in `noise_line`; each item
    was `assumed` to have its own patient, or not. Raises UserError for an invalid number or share.
    """
    n = round(sum(sizes))
    if n < 1 or (discordant is not None and not 0 < discordant <= 1):
        raise UserError("the number of items must be at least 1, and --discordant above 0 and at most 1")
    put(f"{noise_line(sizes, discordant or DISCORDANT, patients=patients).capitalize()}.")
    independent = _independent(sizes)
    rows = []
    for share in sorted({*_SHARES, *([discordant] if discordant else [])}):
        least = detectable(independent, share)
        detected = "none" if least >= 1 else f"{100 * least:.1f}"
        rows.append([f"{share:.0%}", f"{100 * noise(independent, share):.1f}", detected])
    columns = ["items on which two runs differ", "noise below, points", "found in 4 of 5 comparisons, points"]
    notes = ["Two runs over the same items, compared item by item at 95%. Trials of an item are not items."]
    if assumed:
        notes.append("It is assumed that each item has a patient of its own (--patients N, or name a run).")
    elif len(sizes) < n:
        notes.append(
            f"The items of one patient are not independent (correlation {CORRELATION:g} is assumed): {n} items count "
            f"as {independent:.0f} of different patients."
        )
    print_table(Table(columns, rows, notes=notes))


def _independent(sizes: Sequence[float]) -> float:
    return sum(sizes) / design_effect(sizes)


def _sizes(patients: Iterable[str]) -> list[float]:
    return [float(size) for size in Counter(patients).values()]
