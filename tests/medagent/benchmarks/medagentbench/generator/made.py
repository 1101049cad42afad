"""Made data sets for tests: small ones, of which every branch still has somebody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.medagentbench.generator.write import Like, MabGenerator
from medagent.benchmarks.medagentbench.tasks.dataset import constants_of, load_dataset
from medagent.engine.data_sets import SetOptions, Split
from refsol.clinical.recorded import RecordedSource
from refsol.medagentbench import baselines, grade_item

SMALL = {"patients": 30, "per_type": 6}


def small(folder: Path, like: Like = "shift", seed: str = "one", split: Split | None = None) -> Path:
    """A set of 30 patients and 60 tasks, 20 of them in v1."""
    MabGenerator().make(folder, SetOptions(like, split, seed, **SMALL))
    return folder


def items(dataset: TaskSet) -> list[dict[str, Any]]:
    """Its tasks as a grader reads them."""
    return [task.published for task in dataset.tasks]


def right(dataset: TaskSet, answers: Mapping[str, str]) -> dict[str, int]:
    """How many of each type's tasks an answer gets right that places no order."""
    assert dataset.reads is not None
    facts, found = RecordedSource.of_file(dataset.reads), dict[str, int]()
    for item in items(dataset):
        kind = item["id"].partition("_")[0]
        verdict = grade_item(item, answers[kind], [], facts, constants=constants_of(dataset))
        assert verdict.correct is not None
        found[kind] = found.get(kind, 0) + verdict.correct
    return found


def constants_right(dataset: TaskSet) -> int:
    """What the best constant answers get right."""
    assert dataset.reads is not None
    floors = baselines(items(dataset), RecordedSource.of_file(dataset.reads), constants_of(dataset))
    return sum(
        right(dataset, {kind: behaviour.answer for kind, behaviour in floors.behaviours("constant").items()}).values()
    )


def nothing_right(dataset: TaskSet) -> dict[str, int]:
    """What doing nothing gets right, by type."""
    return right(dataset, dict.fromkeys([f"task{n}" for n in range(1, 11)], "[]"))


def both(folder: Path) -> tuple[TaskSet, TaskSet]:
    """Its versions v1 and v2."""
    return load_dataset(str(folder), "v1"), load_dataset(str(folder), "v2")


MOST = {**dict.fromkeys(("task1", "task2", "task4", "task6", "task7", "task9"), 0.2), "task5": 0.3, "task10": 0.55}
"""The share of each type in which the best behaviour without reading may be right."""


def blind(dataset: TaskSet) -> dict[str, tuple[int, int]]:
    """By type: in how many tasks the most frequent right behaviour (answer or order) is right, and of how many."""
    assert dataset.reads is not None
    facts, found = RecordedSource.of_file(dataset.reads), dict[str, Counter[Hashable]]()
    for item in items(dataset):
        kind = item["id"].partition("_")[0]
        if kind not in MOST:
            continue
        verdict = grade_item(item, None, [], facts, constants=constants_of(dataset))
        assert verdict.because is not None
        value, ordered = verdict.because.facts[0].value, verdict.branch == "order"
        behaviour: Hashable = str(item["sol"]) if kind == "task1" else str(verdict.accepted[:1])
        if kind == "task5":
            behaviour = _grams(dataset, float(str(value))) if ordered else None
        elif kind in ("task9", "task10"):
            behaviour = (value if kind == "task9" else "order") if ordered else None
        found.setdefault(kind, Counter())[behaviour] += 1
    return {kind: (counts.most_common(1)[0][1], counts.total()) for kind, counts in found.items() if kind in MOST}


def _grams(dataset: TaskSet, level: float) -> int:
    doses = constants_of(dataset).magnesium_doses
    return next((grams for below, grams in doses if level < below), doses[-1][1])


def blind_total(dataset: TaskSet) -> tuple[int, int]:
    """How many tasks that need a reading an agent gets right that reads nothing, and of how many."""
    counts = blind(dataset).values()
    return sum(right for right, _ in counts), sum(count for _, count in counts)


def too_frequent(dataset: TaskSet) -> dict[str, tuple[int, int]]:
    """The types in which one behaviour is right more often than `MOST` allows."""
    return {kind: (right, count) for kind, (right, count) in blind(dataset).items() if right > MOST[kind] * count}
