"""The smallest meaningful difference between two runs, before a run."""

from __future__ import annotations

from typing import Any

from medagent.core.errors import UserError
from medagent.core.figures import counted
from medagent.engine.benchmark import Benchmark
from medagent.engine.plan import JOURNAL, Plan
from medagent.reports.tables import Table, print_table, put
from refsol.intervals import DISCORDANT, detectable, noise

_SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of items on which two runs differ, for the table."""


def noise_line(n: int, discordant: float = DISCORDANT, nouns: str = "items") -> str:
    """The difference over `n` items (or pairs of twins) that chance explains, in words."""
    return f"with {counted(n, nouns)} a difference under {100 * noise(n, discordant):.1f} points is noise"


def noise_before(plan: Plan, benchmark: Benchmark[Any, Any]) -> str:
    """The same for a planned run; empty if its items have no verdicts, or if it has none."""
    units = sum(len(stage.units()) for stage in plan.stages if stage.journal == JOURNAL)
    twins = any(item.pair for item in plan.items)
    count = units // plan.settings.trials // (2 if twins else 1)
    line = noise_line(count, nouns="pairs" if twins else "items") if count else ""
    return f"{line} (medagent power)" if benchmark.has_verdicts and line else ""


def print_power(n: int, discordant: float | None) -> None:
    """Print the differences that two runs over `n` items can show. Raises UserError for an invalid number or share."""
    if n < 1 or (discordant is not None and not 0 < discordant <= 1):
        raise UserError("the number of items must be at least 1, and --discordant above 0 and at most 1")
    put(f"{noise_line(n, discordant or DISCORDANT).capitalize()}.")
    rows = []
    for share in sorted({*_SHARES, *([discordant] if discordant else [])}):
        least = detectable(n, share)
        detected = "none" if least >= 1 else f"{100 * least:.1f}"
        rows.append([f"{share:.0%}", f"{100 * noise(n, share):.1f}", detected])
    columns = ["items on which two runs differ", "noise below, points", "found in 4 of 5 comparisons, points"]
    note = "Two runs over the same items, compared item by item at 95%. Trials of an item are not items."
    print_table(Table(columns, rows, notes=[note]))
