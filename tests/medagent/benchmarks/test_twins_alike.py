"""A classifier over the charts and places of the bundled twins cannot tell which of the two was changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.clinical.twins import open_hospital
from medagent.benchmarks.medagentbench.tasks.dataset import constants_of, load_dataset
from medagent.benchmarks.psb300 import tasks as psb
from medagent.fhir_data.embedded import bundled_file
from refsol.clinical.pairs import Case, Hospital
from refsol.clinical.searches import ref
from refsol.clinical.twins import changed, time_of
from refsol.medagentbench import twins as medagentbench
from refsol.psb300 import twins as psb_300
from tests.command import medagent

MOST = 0.55
COUNT = 4
"""The column with the number of resources that the rule came across."""


class Half(NamedTuple):
    """One of two twins, and its task as a case."""

    id: str
    task: Task
    case: Case


def of_medagentbench(folder: Path) -> list[Half]:
    assert medagent("data", "twins", "--out", folder).code == 0
    dataset = load_dataset(str(folder), "v2")
    constants = constants_of(dataset)
    return [Half(task.id, task, medagentbench.case_of(task.published, constants)) for task in dataset.tasks]


def of_psb_300(folder: Path) -> list[Half]:
    assert medagent("data", "twins", "psb-300", "--out", folder).code == 0
    tasks = psb.load_tasks(str(folder), None)
    clock, constants = psb.grading_clock(tasks) or tasks.clock, psb.constants_of(tasks)
    return [Half(task.id, task, psb_300.case_of(task.published, clock, constants)) for task in tasks.tasks]


@pytest.mark.long
@pytest.mark.parametrize("halves_of", [of_medagentbench, of_psb_300])
def test_no_classifier_tells_the_changed_twin(halves_of: Callable[[Path], list[Half]], tmp_path: Path) -> None:
    halves = halves_of(tmp_path / "twins")
    tasks = [half.task for half in halves]
    hospital = open_hospital(bundled_file().path)
    before = [[earlier.twin for earlier in tasks[:n]].count(task.twin) for n, task in enumerate(tasks)]
    rows = [
        [
            float(before[n]),
            float(n),
            float(half.id.partition("_")[2]),
            *features(half, hospital),
        ]
        for n, half in enumerate(halves)
    ]
    labels = [bool(task.change) for task in tasks]
    names = sorted({task.twin for task in tasks})
    fold = [names.index(task.twin) % 2 for task in tasks]
    scores = [0.0] * len(rows)
    scaled = standardised(rows)
    for held_out in (0, 1):
        train = [n for n in range(len(rows)) if fold[n] != held_out]
        weights = fitted([scaled[n] for n in train], [labels[n] for n in train])
        for n in set(range(len(rows))) - set(train):
            scores[n] = sum(map(float.__mul__, weights, scaled[n]))
    assert len(rows) > 400
    assert abs(auc(scores, labels) - 0.5) <= MOST - 0.5
    for column in zip(*scaled, strict=True):
        assert abs(auc(column, labels) - 0.5) <= MOST - 0.5
    if halves_of is of_psb_300:
        areas = areas_of_more([row[COUNT] for row in rows], tasks)
        assert all(0.4 <= area <= 0.6 for area in areas.values()), areas
    alone: dict[str, tuple[list[float], list[bool]]] = {}
    for half, label in zip(halves, labels, strict=True):
        scores, of_changed = alone.setdefault(half.id.partition("_")[0], ([], []))
        new_scores = stand_alone(half, hospital)
        scores += new_scores
        of_changed += [label] * len(new_scores)
    for kind, (scores, of_changed) in alone.items():
        if scores:
            limit = MOST - 0.5 if len(scores) >= 100 else chance(of_changed)
            assert abs(auc(scores, of_changed) - 0.5) <= limit, kind


def areas_of_more(counts: Sequence[float], tasks: Sequence[Task]) -> dict[str, float]:
    """By type, the share of pairs whose changed chart has the greater number; equal numbers count half."""
    pairs: dict[str, dict[bool, float]] = {}
    for task, count in zip(tasks, counts, strict=True):
        pairs.setdefault(task.twin, {})[bool(task.change)] = count
    more: dict[str, list[float]] = {}
    for name, both in pairs.items():
        share = (both[True] > both[False]) + (both[True] == both[False]) / 2
        more.setdefault(name.partition("_")[0], []).append(share)
    return {kind: sum(shares) / len(shares) for kind, shares in more.items()}


def chance(labels: Sequence[bool]) -> float:
    """By how much an area of so few readings differs from a half by chance: two standard errors (Mann and Whitney)."""
    changed_ones = sum(labels)
    return 2 * math.sqrt((len(labels) + 1) / (12 * changed_ones * (len(labels) - changed_ones)))


def features(half: Half, hospital: Hospital) -> list[float]:
    chart = half.case.charts(changed(hospital.source, half.task.change))[0]
    half.case.kind.ruled(chart)
    used = [resource for searched in chart.searched for resource in searched.used]
    touched = list(chart.touched.values())
    common = [float(len(used)), float(len(touched)), float(not used), *_interpretations(touched)]
    if not used or (time := time_of(used[0])) is None:
        return [*common, *[math.nan] * 8]
    first_used, time = used[0], time.replace(tzinfo=time.tzinfo or UTC)
    stay = hospital.by_ref[first_used["encounter"]["reference"]]["period"] if "encounter" in first_used else {}
    start, end = (datetime.fromisoformat(stay[name]) if name in stay else chart.now for name in ("start", "end"))
    kind = [
        ref(resource)
        for resource in hospital.of[chart.patient]
        if resource["resourceType"] == first_used["resourceType"]
    ]
    issued = next((first_used[name] for name in ("issued", "recordedDate") if name in first_used), None)
    return [
        *common,
        float(first_used["valueQuantity"]["value"]) if "valueQuantity" in first_used else math.nan,
        math.log1p((chart.now - time).total_seconds()),
        float(time.minute),
        float(time.hour),
        (datetime.fromisoformat(first_used["meta"]["lastUpdated"]) - time).total_seconds(),
        (datetime.fromisoformat(issued) - time).total_seconds() if issued else math.nan,
        float(start <= time <= end),
        (kind.index(ref(first_used)) if ref(first_used) in kind else -1) / max(1, len(kind)),
    ]


def stand_alone(half: Half, hospital: Hospital) -> list[float]:
    """For each reading that the rule came across, whether the patient has no other reading of its time."""
    chart = half.case.charts(changed(hospital.source, half.task.change))[0]
    half.case.kind.ruled(chart)
    readings = {
        ref(resource): resource for resource in hospital.of[chart.patient] if resource["resourceType"] == "Observation"
    }
    readings |= {ref(resource): resource for resource in half.task.change or () if not isinstance(resource, str)}
    times = Counter(reading.get("effectiveDateTime") for reading in readings.values())
    dated = (resource for resource in chart.touched.values() if "effectiveDateTime" in resource)
    return [float(times[resource["effectiveDateTime"]] == 1) for resource in dated]


def _interpretations(resources: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    flags = [
        resource["interpretation"][0]["coding"][0]["code"] for resource in resources if "interpretation" in resource
    ]
    yield from (float(flags.count(flag)) for flag in ("L", "N", "H"))


def standardised(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Columns with mean 0 and deviation 1. What a chart lacks counts as the mean; another column says that it does."""
    columns = []
    for column in zip(*rows, strict=True):
        known = [value for value in column if not math.isnan(value)]
        mean = sum(known) / len(known)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in known) / len(known)) or 1.0
        columns.append([0.0 if math.isnan(value) else (value - mean) / deviation for value in column])
    return [list(row) for row in zip(*columns, strict=True)]


def fitted(rows: Sequence[Sequence[float]], labels: Sequence[bool]) -> list[float]:
    """The weights of a logistic regression."""
    weights = [0.0] * len(rows[0])
    for _ in range(200):
        steps = [0.0] * len(weights)
        for row, label in zip(rows, labels, strict=True):
            error = label - 1 / (1 + math.exp(-sum(map(float.__mul__, weights, row))))
            steps = [step + error * value for step, value in zip(steps, row, strict=True)]
        weights = [
            weight + 0.5 * (step / len(rows) - 0.01 * weight) for weight, step in zip(weights, steps, strict=True)
        ]
    return weights


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    ones = [score for score, label in zip(scores, labels, strict=True) if label]
    zeros = [score for score, label in zip(scores, labels, strict=True) if not label]
    wins = sum((positive > zero) + (positive == zero) / 2 for positive in ones for zero in zeros)
    return wins / len(ones) / len(zeros)
