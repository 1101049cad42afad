"""Runs `medagent …` in a process of its own, with 10 s of CPU, and tells how much memory it took."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

MEMORY = 300_000_000
"""Bytes that a command may take for a file that it refuses."""
_PROGRAM = """
import atexit, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
peak = lambda: re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1] + "000"
atexit.register(lambda: print("memory", peak(), file=sys.stderr))
from medagent.cli.app import main
main()
"""


class Bounded(NamedTuple):
    """What the command left: its exit code, the lines on standard error, and the most memory that it had."""

    code: int
    lines: list[str]
    memory: int


def medagent(*words: object) -> Bounded:
    """Run the command. Its code is negative if it took more CPU."""
    command = [sys.executable, "-c", _PROGRAM, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True)
    *lines, last = ran.stderr.splitlines() or [""]
    return Bounded(ran.returncode, lines, int(last.removeprefix("memory ") or 0) if ran.returncode >= 0 else 0)
