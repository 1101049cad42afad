"""Measures offline grading of a results file with 300 items, from its bytes to the report of `medagent.grade`.

Run: `python -m benchmarks.grading`. Prints the best of five for reading and grading the file with an answer key, for
the same with the NDJSON file of the key (read each time), and for a single item. The items are test vectors.

`python -m benchmarks.grading grounds` prints what it costs to decide whether agents could know their answers (CPU time
in one process): against the reference agent's episodes, and for an agent that sends eight `$everything` first, against
these GETs.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import medagent
from medagent.agents.base import AgentContext
from medagent.benchmarks.medagentbench.agents.reference import solver
from medagent.benchmarks.medagentbench.agents.stated import stated_mrn
from medagent.fhir_episodes.own_agents import Solver
from medagent.fhir_episodes.rule_agent import RuleAgent
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.recorded import RecordedSource, recorded, result_lines
from refsol.medagentbench import PUBLISHED, NdjsonEhr, grade_item
from refsol.medagentbench.twins import case_of
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


class EightTimes(RuleAgent):
    """Reads the whole chart eight times, and then acts as the reference agent."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context, solver(context.base))
        self._base = context.base.rstrip("/")

    def solver(self, task: FhirTask) -> Solver:
        for count in range(8):
            yield f"GET {self._base}/Patient/{stated_mrn(task.instruction)}/$everything?_count={4000 + count}"
        return (yield from super().solver(task))


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def grounds_costs(folder: Path, agent: str) -> tuple[float, float]:
    """The CPU seconds of an episode, and of deciding whether its agent could know its answer."""
    words = {"types": ("task4", "task5", "task6", "task7", "task9", "task10"), "limit": 60, "max_rounds": 20}
    options: dict[str, Any] = {"agent": agent, "round": "r1", "results_dir": folder, "concurrency": 1, **words}
    run = cpu_seconds(lambda: medagent.run_sync("medagentbench", **options))
    (path,) = (path.parent for path in folder.glob("*/run.json"))
    (path / "scores.jsonl").unlink()
    whole = cpu_seconds(lambda: medagent.grade(path))
    without = cpu_seconds(lambda: medagent.grade(path, no_grounds=True))
    shutil.rmtree(path)
    return (run - whole) / 60, (whole - without) / 60


def grounds() -> None:
    with tempfile.TemporaryDirectory() as name:
        grounds_costs(Path(name), "reference")  # opens the hospital
        episode, cost = grounds_costs(Path(name), "reference")
        long_episode, long_cost = grounds_costs(Path(name), f"{Path(__file__)}:EightTimes")
    print(f"the reference agent: {episode * 1000:.1f} ms an episode, {cost * 1000:.1f} ms its grounds")
    print(f"its grounds are {cost / episode:.2f} times its episode")
    gets, added = long_episode - episode, long_cost - cost
    print(f"eight $everything: {gets * 1000:.1f} ms their GETs, {added * 1000:.1f} ms in the grounds")
    print(f"their grounds are {added / gets:.2f} times their GETs")


def main() -> None:
    tasks = json.loads(read_xz(PACKED / "tasks.json.xz"))
    cases = [json.loads(line) for line in read_xz(PACKED / "cases.jsonl.xz").splitlines()]
    with tempfile.TemporaryDirectory() as name:
        names = ("results.json", "tasks.json", "ehr.ndjson", "reads.jsonl")
        results, task_file, facts, key = (Path(name) / file for file in names)
        task_file.write_text(json.dumps(tasks), encoding="utf-8")
        document = results_of(cases, {task["id"]: task for task in tasks})
        results.write_text(json.dumps(document), encoding="utf-8")
        facts.write_text(read_xz(PACKED / "ehr.ndjson.xz"), encoding="utf-8")
        read_cases = [(case_of(task, PUBLISHED), ()) for task in tasks if task.get("eval_MRN")]
        results_read = recorded(read_cases, NdjsonEhr(facts), complete=False, whole=False)
        key.write_text("".join(result_lines(results_read)), encoding="utf-8")
        by_task = {task["id"]: task for task in tasks}
        ehr = RecordedSource.of_file(key)
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
    grounds() if sys.argv[1:] == ["grounds"] else main()
