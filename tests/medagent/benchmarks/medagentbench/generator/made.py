"""Made data sets for tests: small ones, of which every branch still has somebody."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.generator.write import Wanted, make
from medagent.benchmarks.medagentbench.items import task_dicts
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, load_dataset
from medagent.benchmarks.medagentbench.tasks.manifest import Like, Split
from refsol.medagentbench import Baselines, KeyEhr, grade_item

SMALL = {"patients": 30, "per_type": 6}


def small(folder: Path, like: Like = "shift", seed: str = "one", split: Split | None = None) -> Path:
    """A set of 30 patients and 60 tasks, 20 of them in v1."""
    make(folder, Wanted(like, split, seed, **SMALL))
    return folder


def items(dataset: Dataset) -> list[dict[str, Any]]:
    """Its tasks as a grader reads them."""
    return task_dicts(dataset)


def right(dataset: Dataset, answers: Mapping[str, str]) -> dict[str, int]:
    """How many of each type's tasks an answer gets right that places no order."""
    assert dataset.key is not None
    facts, found = KeyEhr(dataset.key), dict[str, int]()
    for item in items(dataset):
        kind = item["id"].partition("_")[0]
        verdict = grade_item(item, answers[kind], [], facts, constants=dataset.constants)
        assert verdict.correct is not None
        found[kind] = found.get(kind, 0) + verdict.correct
    return found


def constants_right(dataset: Dataset) -> int:
    """What the best constant answers get right."""
    assert dataset.key is not None
    baselines = Baselines(items(dataset), KeyEhr(dataset.key), dataset.constants)
    return sum(right(dataset, {kind: one.answer for kind, one in baselines.constant.items()}).values())


def nothing_right(dataset: Dataset) -> dict[str, int]:
    """What doing nothing gets right, by type."""
    return right(dataset, dict.fromkeys([f"task{n}" for n in range(1, 11)], "[]"))


def both(folder: Path) -> tuple[Dataset, Dataset]:
    """Its versions v1 and v2."""
    return load_dataset(str(folder), "v1"), load_dataset(str(folder), "v2")
