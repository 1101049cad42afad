"""Measures agents that act in code, and the text protocol for comparison: `python -m benchmarks.code`.

The reference agent does all 300 tasks. CPU is counted for the run and all processes that it starts. A sandbox is killed
at its end, so this process adopts and awaits its processes to count their CPU. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EPISODES, CONCURRENCY = 300, 16
_PR_SET_CHILD_SUBREAPER = 36


def spent() -> float:
    """Seconds of CPU of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(folder: Path, *words: str) -> tuple[float, float]:
    """CPU and wall seconds of a run."""
    cpu, clock = spent(), time.monotonic()
    command = [sys.executable, "-m", "medagent", "run", "--agent", "reference", "--quiet", *words]
    limits = ["--concurrency", str(CONCURRENCY), "--results-dir", str(folder)]
    subprocess.run([*command, *limits], check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - clock
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return spent() - cpu, wall


def main() -> None:
    """Measure and print."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ways = {"text": [], **{f"code, {name}": ["--protocol", "code", "--sandbox", name] for name in ("bwrap", "monty")}}
    text = 0.0
    for name, words in ways.items():
        folder = Path(tempfile.mkdtemp())
        cpu, wall = measure(folder, *words)
        shutil.rmtree(folder)
        text = text or cpu
        most = f" (at most {2 * text + 0.2 * EPISODES:.1f})" if words else ""
        print(f"{EPISODES} episodes, {name}: {cpu:.1f} s of CPU{most}, {wall:.1f} s")


if __name__ == "__main__":
    main()
