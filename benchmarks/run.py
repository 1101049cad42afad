"""Measures the wall time of `medagent --help` and of the 300 tasks by the reference agent, as whole processes.

Run: `python -m benchmarks.run`. Prints the best of three; the hospital is built before.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

RUN = ("run", "--version", "v2", "--round", "r2", "--agent", "reference", "--overwrite", "--results-dir")


def best_of_three(*words: str) -> float:
    """Seconds of `medagent` with these words."""
    seconds = []
    for _ in range(3):
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "medagent", *words], check=True, capture_output=True)
        seconds.append(time.monotonic() - start)
    return min(seconds)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"medagent --help: {best_of_three('--help'):.2f} s")
        subprocess.run([sys.executable, "-m", "medagent", "ehr", "build"], check=True, capture_output=True)
        print(f"300 tasks, reference agent: {best_of_three(*RUN, folder):.2f} s")


if __name__ == "__main__":
    main()
