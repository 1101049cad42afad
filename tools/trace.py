"""What one verdict and one item cost: the project's modules and functions that are called.

Run: `python -m tools.trace`. It prints the modules through which a verdict of each benchmark passes, and the number of
calls of the project's functions in a second one-item `run_sync` of a process.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, cast

import medagent
from medagent.benchmarks.base import find
from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.fhir_episodes.episode import EpisodeRow

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = tuple(str(ROOT / name) for name in ("medagent", "refsol", "fhir_server"))
BENCHMARKS = {"medagentbench": "task5_1", "psb-300": "task4_1"}
"""The benchmarks and the items whose verdicts are traced."""


def calls(work: Callable[[], object]) -> Counter[str]:
    """How often functions of each of the project's modules are called, by file, in this thread and new ones."""
    import threading

    counts = Counter[str]()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            counts[str(Path(frame.f_code.co_filename).relative_to(ROOT))] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None removes it
    return counts


def verdict_modules(name: str, item_id: str, folder: Path) -> Counter[str]:
    """The calls of a second verdict on the reference agent's episode, from the row to the verdict."""
    report = medagent.run_sync(name, agent="reference", ids=item_id, results_dir=folder)
    benchmark = cast(ClinicalBenchmark[Any], find(name))
    source = benchmark.named_source("", None)
    opened = benchmark.open_set(source)
    item = benchmark.item(source, item_id)
    row = cast(EpisodeRow, next(medagent.load_run(str(report.folder)).rows()))
    rules = next(iter(benchmark.rules))
    assert benchmark.grade_episode(opened, item, row, rules).verdict.correct
    return calls(lambda: benchmark.grade_episode(opened, item, row, rules))


def second_run(folder: Path) -> Counter[str]:
    """The calls of a second one-item run of a process."""
    options: dict[str, Any] = {"agent": "reference", "ids": "task5_1", "results_dir": folder}
    medagent.run_sync("medagentbench", round="first", **options)
    return calls(lambda: medagent.run_sync("medagentbench", round="second", **options))


def main() -> None:
    """Print the modules of a verdict, and the calls of a run."""
    with TemporaryDirectory() as folder:
        for name, item in BENCHMARKS.items():
            modules = verdict_modules(name, item, Path(folder))
            print(f"{name}: a verdict passes through {len(modules)} modules, {modules.total()} calls")
            print("".join(f"  {count:5} {module}\n" for module, count in modules.most_common()), end="")
        run = second_run(Path(folder))
        print(f"a second one-item run: {run.total()} calls in {len(run)} modules")
        print("".join(f"  {count:5} {module}\n" for module, count in run.most_common(25)), end="")


if __name__ == "__main__":
    main()
