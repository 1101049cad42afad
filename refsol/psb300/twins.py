"""The tasks of psb-300 as cases for twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.pairs import Case, plausible
from refsol.clinical.sources import Source
from refsol.psb300.grade import RuleConstants, chart_of, type_of
from refsol.psb300.rules import RULE_SETS


def case_of(task: Mapping[str, Any], clock: datetime, constants: RuleConstants) -> Case:
    """A task as a case, under both rule sets."""

    def charts(source: Source) -> Sequence[Chart]:
        return [chart_of(task, source, rule_set, clock, constants) for rule_set in RULE_SETS.values()]

    return Case(type_of(task), charts, plausible)
