"""Measures offline grading of a results file with 300 items, from its bytes to the report of `medagent.grade`.

Run: `python -m benchmarks.grading`. Prints the best of five for reading and grading the file with an answer key, for
the same with the NDJSON file of the key (read each time), and for a single item. The items are test vectors.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import medagent
from refsol.medagentbench import KeyEhr, NdjsonEhr, build_key, grade_item, write_key
from tests.shared_data import DATA, read_xz

PACKED = DATA / "medagentbench"
ITEMS = 300


def results_of(cases: list[dict[str, Any]], tasks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The first vector of each of the first 300 tasks with vectors, as a results file."""
    first: dict[str, dict[str, Any]] = {}
    for case in cases:
        first.setdefault(case["task_id"], case)
    results = [
        {
            "task_id": task_id,
            "answer": case["answer"],
            "expected_sol": tasks[task_id].get("sol"),
            "eval_MRN": tasks[task_id].get("eval_MRN"),
            "timestamp": "2026-01-01T00:00:00",
            "post_history": case["post_history"],
            "post_count": 0,
        }
        for task_id, case in list(first.items())[::2][:ITEMS]
    ]
    head = {"version": "v2", "round": "r1", "timestamp": "2026-01-01T00:00:00", "total_tasks": len(results)}
    return {**head, "results": results}


def best(work: Callable[[], object]) -> float:
    """Milliseconds of the fastest of five."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def main() -> None:
    tasks = json.loads(read_xz(PACKED / "tasks.json.xz"))
    cases = [json.loads(line) for line in read_xz(PACKED / "cases.jsonl.xz").splitlines()]
    with tempfile.TemporaryDirectory() as name:
        names = ("results.json", "tasks.json", "ehr.ndjson", "key.json")
        results, task_file, facts, key = (Path(name) / file for file in names)
        task_file.write_text(json.dumps(tasks), encoding="utf-8")
        document = results_of(cases, {task["id"]: task for task in tasks})
        results.write_text(json.dumps(document), encoding="utf-8")
        facts.write_text(read_xz(PACKED / "ehr.ndjson.xz"), encoding="utf-8")
        write_key(key, build_key(tasks, NdjsonEhr(facts)))
        by_task = {task["id"]: task for task in tasks}
        ehr = KeyEhr(key)
        figures = {
            "with a key, official": best(lambda: medagent.grade(results, tasks=task_file, key=key)),
            "with a key, three rule sets": best(
                lambda: medagent.grade(results, tasks=task_file, key=key, side_by_side=True)
            ),
            "with the NDJSON file, official": best(lambda: medagent.grade(results, tasks=task_file, ehr=facts)),
        }
        every = best(lambda: [grade_item(by_task[c["task_id"]], c["answer"], c["post_history"], ehr) for c in cases])
    for name, milliseconds in figures.items():
        print(f"{len(document['results'])} items {name}: {milliseconds:.0f} ms")
    print(f"one item: {every / len(cases) * 1000:.0f} µs")


if __name__ == "__main__":
    main()
