"""Measures the cost of the pytest plugin for a suite that does not use it: CPU ms of its import, best of 9.

python -m benchmarks.plugin
"""

from __future__ import annotations

import subprocess
import sys

CODE = "import time, pytest; a = time.process_time(); import medagent.testing.plugin; print(time.process_time() - a)"
RUNS = 9


def main() -> None:
    command = [sys.executable, "-c", CODE]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(RUNS)]
    print(f"import medagent.testing.plugin: {min(map(float, outputs)) * 1000:.1f} ms of CPU")


if __name__ == "__main__":
    main()
