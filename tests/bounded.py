"""Runs `medagent …` in a process of its own, with 10 s of CPU, and tells how much memory it took.

The process is forked from one that has imported medagent, so its memory includes the imports.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path
from typing import NamedTuple

from tests.starts import Start, Started, carry_out

MEMORY = 300_000_000
"""Bytes that a command may take for a file that it refuses."""
_CPU_S = 10


class Bounded(NamedTuple):
    """What the command left: its exit code, the lines on standard error, and the most memory that it had."""

    code: int
    lines: list[str]
    memory: int


def medagent(*words: object) -> Bounded:
    """Run the command. Its code is negative if it took more CPU."""
    ran = Started([*map(str, words)], Path.cwd(), os.environ, _limited).ended()
    *lines, last = ran.err.splitlines() or [""]
    return Bounded(ran.code, lines, int(last.removeprefix("memory ") or 0) if ran.code >= 0 else 0)


def _limited(start: Start) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    try:
        carry_out(start)
    finally:
        print("memory", _most_memory(), file=sys.stderr)


def _most_memory() -> int:
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return int(peak[1]) * 1000
