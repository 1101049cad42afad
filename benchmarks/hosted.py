"""Measures another author's benchmark: importing and running 2,701 cases of quality measures, and as many
MedAgentBench items, both with an agent that answers at once; and loading a chart of 30 resources into its overlay.

Run: `python -m benchmarks.hosted` (needs ../shared/ecqm, whose cases are repeated under other names).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import machine, row
from fhir_server import Server

ROOT = Path(__file__).parents[1]
CHECKOUT, PACKAGE = ROOT.parent / "shared" / "ecqm", ROOT / "hosted" / "ecqm"
CASES, TRIALS = 2701, 9
AGENT = (
    "import medagent\n\nclass AtOnce(medagent.Agent):\n    def play(self, task, prompt):\n        yield 'FINISH([])'\n"
)
TESTS = Path("input/tests/measure")
NOW = datetime(2027, 1, 1, tzinfo=UTC)


def write_checkout(target: Path) -> None:
    """A checkout with as many cases as the whole repository has: copies of the cases under other names."""
    shutil.copytree(CHECKOUT, target, ignore=shutil.ignore_patterns("tests"))
    cases = sorted((CHECKOUT / TESTS).glob("*/*"))
    for number, case in enumerate(islice(cycle(cases), CASES)):
        shutil.copytree(case, target / TESTS / case.parent.name / f"{case.name}-{number}")


def install(site: Path) -> None:
    """The entry point of the package, as pip writes it."""
    folder = site / "medagent_ecqm-0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: medagent-ecqm\nVersion: 0\n", "utf-8")
    (folder / "entry_points.txt").write_text("[medagent.benchmarks]\necqm = medagent_ecqm.benchmark:Ecqm\n", "utf-8")


def measured(folder: Path, *words: object) -> float:
    """Seconds of CPU of `medagent WORDS`."""
    paths = os.pathsep.join(map(str, (folder / "site", PACKAGE, ROOT)))
    environment = {**os.environ, "MEDAGENT_HOME": str(folder / "home"), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "medagent", *map(str, words)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def chart_of(size: int) -> str:
    """A chart of `size` resources of the cases, as NDJSON."""
    resources = [json.loads(file.read_bytes()) for file in sorted((CHECKOUT / TESTS).rglob("*.json"))]
    distinct = {
        (record["resourceType"], record["id"]): record
        for record in resources
        if record["resourceType"] != "MeasureReport"
    }
    return "\n".join(json.dumps(record) for record in islice(distinct.values(), size))


def loading(chart: str, loads: int = 51) -> tuple[float, float]:
    """Milliseconds of CPU to open an overlay with this chart: the first time, and the median of later times."""
    with Server.open(None) as server:
        times = []
        for _ in range(loads):
            start = time.process_time()
            server.overlay("benchmark", NOW, (), chart).close()
            times.append(1000 * (time.process_time() - start))
    return times[0], sorted(times[1:])[loads // 2]


def main() -> None:
    machine()
    first, later = loading(chart_of(30))
    row("a chart of 30 resources, loaded for the first time", "", first, "ms of CPU")
    row("a chart of 30 resources, loaded again", "≤ 2", later, "ms of CPU")
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_checkout(folder / "checkout")
        install(folder / "site")
        (folder / "agent.py").write_text(AGENT, "utf-8")
        at_once = ("--agent", "agent.py:AtOnce", "--quiet")
        measured(folder, "run", *at_once, "--limit", 1)  # builds the hospital
        theirs = measured(folder, "run", *at_once, "--trials", TRIALS, "--round", "all")
        imported = measured(folder, "data", "import", "checkout")
        ran = measured(folder, "run", "ecqm", *at_once)
    row(f"run {300 * TRIALS:,} MedAgentBench items", "", theirs, "s of CPU")
    row(f"import {CASES:,} cases", "", imported, "s of CPU")
    row(f"run {CASES:,} cases", "", ran, "s of CPU")
    row("import and run the cases, compared with MedAgentBench", "≤ 1.5", (imported + ran) / theirs, "times")


if __name__ == "__main__":
    main()
