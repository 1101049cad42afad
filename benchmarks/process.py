"""Measures a command as a whole process, with its children: CPU, wall time, peak memory."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

_MEASURE = """
import json, resource, subprocess, sys, time
begun = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, time.monotonic() - begun, used.ru_maxrss * 1024 / 1e6]))
"""
"""In a small process of its own: a child's peak begins with the memory of whoever started it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU (user and system), seconds of wall time, and the largest resident set in MB."""

    cpu: float
    seconds: float
    peak: float


def cost(*command: str) -> Cost:
    """Run a command and say what it cost. Raises CalledProcessError where it fails."""
    done = subprocess.run([sys.executable, "-c", _MEASURE, *command], check=True, stdout=subprocess.PIPE, text=True)
    return Cost(*json.loads(done.stdout))


def medagent(*words: str) -> Cost:
    """What `medagent` costs with these words."""
    return cost(sys.executable, "-m", "medagent", *words)
