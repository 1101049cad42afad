"""A classifier over the charts and places of the bundled twins cannot tell which of the two was changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.medagentbench.tasks.dataset import Task, load_dataset
from medagent.benchmarks.twins import open_hospital
from medagent.fhir_data.embedded import bundled_file
from refsol.clinical.chart import ref
from refsol.clinical.pairs import Hospital
from refsol.clinical.twins import changed
from refsol.medagentbench.twins import case_of
from tests.command import medagent

MOST = 0.55


@pytest.mark.long
def test_no_classifier_tells_the_changed_twin(tmp_path: Path) -> None:
    assert medagent("data", "twins", "--out", tmp_path / "twins").code == 0
    dataset = load_dataset(str(tmp_path / "twins"), "v2")
    hospital = open_hospital(bundled_file().path)
    places = {ref(one): place for place, ones in enumerate(hospital.of.values()) for one in ones}
    before = [[one.twin for one in dataset.tasks[:n]].count(task.twin) for n, task in enumerate(dataset.tasks)]
    rows = [
        [
            float(before[n]),
            float(n),
            float(task.id.partition("_")[2]),
            *features(task, hospital, dataset.constants, places),
        ]
        for n, task in enumerate(dataset.tasks)
    ]
    labels = [bool(task.change) for task in dataset.tasks]
    names = sorted({task.twin for task in dataset.tasks})
    fold = [names.index(task.twin) % 2 for task in dataset.tasks]
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


def features(task: Task, hospital: Hospital, constants: Any, places: Mapping[str, int]) -> list[float]:
    case = case_of(task.alone.model_dump(), constants)
    chart = case.charts(changed(hospital.source, task.change))[0]
    case.kind.ruled(chart)
    used = [one for look in chart.looked for one in look.used]
    touched = list(chart.touched.values())
    common = [float(len(used)), float(len(touched)), float(not used), *_interpretations(touched)]
    if not used or "effectiveDateTime" not in used[0]:
        return [*common, *[0.0] * 8]
    one = used[0]
    time = datetime.fromisoformat(one["effectiveDateTime"])
    stay = hospital.by_ref[one["encounter"]["reference"]]["period"]
    end = datetime.fromisoformat(stay["end"]) if "end" in stay else chart.now
    kind = [ref(other) for other in hospital.of[chart.patient] if other["resourceType"] == "Observation"]
    return [
        *common,
        float(one["valueQuantity"]["value"]),
        math.log1p((chart.now - time).total_seconds()),
        float(time.minute),
        float(time.hour),
        (datetime.fromisoformat(one["meta"]["lastUpdated"]) - time).total_seconds(),
        (datetime.fromisoformat(one["issued"]) - time).total_seconds(),
        float(datetime.fromisoformat(stay["start"]) <= time <= end),
        (kind.index(ref(one)) if ref(one) in kind else -1) / max(1, len(kind)),
    ]


def _interpretations(resources: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    flags = [one["interpretation"][0]["coding"][0]["code"] for one in resources if "interpretation" in one]
    yield from (float(flags.count(flag)) for flag in ("L", "N", "H"))


def standardised(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    columns = []
    for column in zip(*rows, strict=True):
        mean = sum(column) / len(column)
        deviation = math.sqrt(sum((one - mean) ** 2 for one in column) / len(column)) or 1.0
        columns.append([(one - mean) / deviation for one in column])
    return [list(row) for row in zip(*columns, strict=True)]


def fitted(rows: Sequence[Sequence[float]], labels: Sequence[bool]) -> list[float]:
    """The weights of a logistic regression."""
    weights = [0.0] * len(rows[0])
    for _ in range(200):
        steps = [0.0] * len(weights)
        for row, label in zip(rows, labels, strict=True):
            error = label - 1 / (1 + math.exp(-sum(map(float.__mul__, weights, row))))
            steps = [step + error * one for step, one in zip(steps, row, strict=True)]
        weights = [one + 0.5 * (step / len(rows) - 0.01 * one) for one, step in zip(weights, steps, strict=True)]
    return weights


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    ones = [score for score, label in zip(scores, labels, strict=True) if label]
    zeros = [score for score, label in zip(scores, labels, strict=True) if not label]
    wins = sum((one > zero) + (one == zero) / 2 for one in ones for zero in zeros)
    return wins / len(ones) / len(zeros)
