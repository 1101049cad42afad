"""Several runs over the same items: paired differences with their tests, for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from medagent.core.errors import UserError
from medagent.engine.figures import natural
from medagent.engine.report import ItemOutcome, Report
from medagent.engine.scores import Paired
from medagent.reports.compare import Comparison, ScoreComparison, compare_outcomes
from refsol.stats import holm

Official = Mapping[tuple[int, int], Paired]
"""The official scores of pairs of runs, by their places, if these are not means of items."""


def comparison(runs: Sequence[tuple[str, Report]], official: Official) -> dict[str, Any]:
    """Every pair of runs overall, and each run against the first by group, as data for the page.

    If the official score is not a mean of items, its difference is used, and there are no groups. p values
    of several pairs are adjusted by Holm's method. Raises UserError if two runs share no graded item.
    """
    pairs = []
    for (first, one), (second, other) in combinations(enumerate(report for _, report in runs), 2):
        compared, scores = compare_outcomes(one.items, other.items), official.get((first, second))
        if scores is not None and isinstance(compared, ScoreComparison):
            compared, groups = compared.by(scores), []
        else:
            groups = _groups(one.items, other.items)
        pairs.append({"first": first, "second": second, **_figures(compared), "groups": groups})
    adjusted = holm([pair["p"] for pair in pairs if pair["p"] is not None])
    for pair, p in zip([pair for pair in pairs if pair["p"] is not None], adjusted, strict=True):
        pair["holm"] = p if len(adjusted) > 1 else None
    return {"pairs": pairs}


def _figures(compared: Any) -> dict[str, Any]:
    is_paired = isinstance(compared, Comparison)
    return {
        "n": compared.tasks if is_paired else compared.items,
        "difference": compared.difference,
        "low": compared.interval.low,
        "high": compared.interval.high,
        "gained": len(compared.gained if is_paired else compared.higher),
        "lost": len(compared.lost if is_paired else compared.lower),
        "p": compared.p if is_paired else None,
        "holm": None,
    }


def _groups(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> list[dict[str, Any]]:
    """The differences by group; groups that cannot be paired are omitted."""
    groups = sorted({one.group for one in first if one.group}, key=natural)
    lines = []
    for group in groups if len(groups) > 1 else ():
        try:
            compared = compare_outcomes(*([one for one in items if one.group == group] for items in (first, second)))
        except UserError:
            continue
        lines.append({"name": group, **_figures(compared)})
    return lines
