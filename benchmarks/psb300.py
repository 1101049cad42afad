"""Measures grading of psb-300: 300 items, 30 of each type, over one chart index.

Run: `python -m benchmarks.psb300`. Prints the CPU time of the fastest of five: of building the index, of 300 verdicts,
and of the baselines. The items are test vectors.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from refsol.psb300 import Resources, baselines, grade_item, task_type
from tests.shared_data import DATA, read_xz

PER_TYPE = 30
CLOCK = datetime(2026, 1, 1, tzinfo=UTC)


def best(work: Callable[[], object]) -> float:
    """Milliseconds of CPU of the fastest of five."""
    times = []
    for _ in range(5):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) * 1000


def grade(rows: list[dict[str, Any]], facts: Resources) -> None:
    for row in rows:
        grade_item(row["task"], row["history"], row["result"], facts, clock=CLOCK)


def floors(tasks: list[dict[str, Any]], facts: Resources) -> None:
    baselines(tasks, facts, clock=CLOCK).behaviours("blind")


def main() -> None:
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in read_xz(DATA / "psb300" / "vectors.jsonl.xz").splitlines():
        row = json.loads(line)
        groups.setdefault(task_type(row["task"]), []).append(row)
    rows = [row for group in groups.values() for row in group[:PER_TYPE]]
    resources = [resource for row in rows for resource in row["ehr"]]
    facts = Resources(resources)
    tasks = [row["task"] for row in rows]
    print(f"index of {len(resources)} resources   {best(lambda: Resources(resources)):7.1f} ms")
    print(f"{len(rows)} verdicts             {best(lambda: grade(rows, facts)):7.1f} ms")
    print(f"baselines of {len(rows)} items   {best(lambda: floors(tasks, facts)):7.1f} ms")


if __name__ == "__main__":
    main()
