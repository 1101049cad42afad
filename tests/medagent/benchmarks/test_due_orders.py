"""No order that a bundled task asks for is active in the chart already, so it would not be a duplicate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.psb300.benchmark import Psb300
from tests.shared_data import hospital_lines

ORDERS = ("MedicationRequest", "ServiceRequest")


@pytest.fixture(scope="module")
def active() -> Mapping[str, list[dict[str, Any]]]:
    """The active orders of each patient."""
    orders: dict[str, list[dict[str, Any]]] = {}
    for line in hospital_lines():
        if '"status":"active"' in line and any(f'"resourceType":"{kind}"' in line for kind in ORDERS):
            order = json.loads(line)
            orders.setdefault(order["subject"]["reference"], []).append(order)
    return orders


def words(order: Mapping[str, Any]) -> set[str]:
    """The codes of an order, and the first words of its texts and displays, in lower case."""
    concept = order.get("medicationCodeableConcept") or order.get("code") or {}
    codings = concept.get("coding", [])
    texts = [concept.get("text", ""), *(coding.get("display", "") for coding in codings)]
    names = {" ".join(text.lower().split()[:2]) for text in texts if text}
    return names | {coding["code"] for coding in codings if "code" in coding}


def due_orders(benchmark: ClinicalBenchmark) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The orders that are due in the bundled set of a benchmark, each with its task and patient."""
    opened = benchmark.open_set(benchmark.Settings())
    for task in opened.tasks.tasks:
        chart = benchmark.chart_of(opened, task, benchmark.rule_sets[0])
        for due in benchmark.task_type(opened.tasks, task).ruled(chart).due:
            order = due.json(chart)
            if order["status"] != "stopped":  # such an order stops an active one
                yield task.id, f"Patient/{task.patient}", order


@pytest.mark.parametrize("benchmark", [MedAgentBench(), Psb300()], ids=["medagentbench", "psb-300"])
def test_no_due_order_duplicates_an_active_one(
    benchmark: ClinicalBenchmark, active: Mapping[str, list[dict[str, Any]]]
) -> None:
    orders = list(due_orders(benchmark))
    assert len(orders) > 60
    doubles = [
        (task, words(due) & words(order))
        for task, patient, due in orders
        for order in active.get(patient, [])
        if words(due) & words(order)
    ]
    assert doubles == []
