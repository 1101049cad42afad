"""Several runs over the same items: paired differences with their tests, a board, items that flip."""

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
"""The official scores of pairs of runs, by their positions, if these scores are not means of items."""


def comparison(runs: Sequence[tuple[str, Report]], official: Official) -> dict[str, Any]:
    """Every pair of runs overall, and each run against the first by group, as data for the page.

    If the official score is not a mean of items, the difference is that of the official scores, without groups. p
    values of several pairs are adjusted by Holm's method. Raises UserError if two runs share no graded item.
    """
    pairs = []
    for (first, one), (second, other) in combinations(enumerate(report for _, report in runs), 2):
        paired, scores = compare_outcomes(one.items, other.items), official.get((first, second))
        if scores is not None and isinstance(paired, ScoreComparison):
            paired, groups = paired.by(scores), []
        else:
            groups = _groups(one.items, other.items)
        pairs.append({"first": first, "second": second, **_figures(paired), "groups": groups})
    adjusted = holm([pair["p"] for pair in pairs if pair["p"] is not None])
    for pair, p in zip([pair for pair in pairs if pair["p"] is not None], adjusted, strict=True):
        pair["holm"] = p if len(adjusted) > 1 else None
    return {"pairs": pairs}


def _figures(paired: Any) -> dict[str, Any]:
    is_paired = isinstance(paired, Comparison)
    return {
        "n": paired.tasks if is_paired else paired.items,
        "difference": paired.difference,
        "low": paired.interval.low,
        "high": paired.interval.high,
        "gained": len(paired.gained if is_paired else paired.higher),
        "lost": len(paired.lost if is_paired else paired.lower),
        "p": paired.p if is_paired else None,
        "holm": None,
    }


def _groups(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> list[dict[str, Any]]:
    """The differences by group, without groups that cannot be paired."""
    groups = sorted({one.group for one in first if one.group}, key=natural)
    lines = []
    for group in groups if len(groups) > 1 else ():
        try:
            paired = compare_outcomes(*([one for one in items if one.group == group] for items in (first, second)))
        except UserError:
            continue
        lines.append({"name": group, **_figures(paired)})
    return lines
