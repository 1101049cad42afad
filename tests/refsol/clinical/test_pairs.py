"""Plausible changes of charts: no test twice at one time."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.pairs import Hospital, is_doubled
from refsol.clinical.sources import Resources
from tests.refsol.clinical.wards import BASE, NOW

EARLY, LATE = "2023-01-01T08:00:00+00:00", "2023-01-02T08:00:00+00:00"


def measured(name: str, time: str, code: str, **more: Any) -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": name,
        "subject": {"reference": "Patient/P1"},
        "effectiveDateTime": time,
        "code": {"coding": [{"code": code}]},
        **more,
    }


CHART = [measured("1", EARLY, "K"), measured("2", EARLY, "NA"), measured("3", LATE, "K")]


@pytest.mark.parametrize(
    ("change", "doubled"),
    [
        ([measured("2", EARLY, "K")], True),
        ([measured("2", EARLY, "MG")], False),
        ([measured("2", EARLY, "K"), "Observation/1"], False),
        ([measured("3", EARLY, "K")], True),
        ([measured("3", LATE, "K", valueQuantity={"value": 1})], False),
        ([measured("1", LATE, "X"), measured("2", LATE, "X")], True),
        ([measured("4", LATE, "K")], True),
        ([measured("4", "2023-01-03", "K")], False),
        (["Observation/1"], False),
    ],
)
def test_a_change_that_doubles_a_test_is_known(change: list[Any], doubled: bool) -> None:
    chart = Chart(Resources(CHART), "P1", NOW, CLINICAL, base=BASE)
    assert is_doubled(change, chart, Hospital(CHART)) is doubled
