"""Measures what a twin adds to an episode: opening it over a chart with a change, and its first read.

Run: `python -m benchmarks.twins`. Plain and changed episodes take turns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.table import machine, row
from fhir_server import Request, Server
from fhir_server.server import Overlay
from medagent.fhir_data.embedded import bundled_file
from refsol.medagentbench.constants import PUBLISHED

EPISODES, TURNS = 300, 5
READ = Request("GET", "/fhir/Observation?code=K&_count=10")


def main() -> None:
    machine()
    server = Server.open(bundled_file().path)
    readings = [json.loads(line) for line, _ in zip(server.export("Observation"), range(300), strict=False)]
    changes: dict[str, Sequence[Any]] = {
        "no change": (),
        "one reading": readings[:1],
        "eight readings": readings[:8],
        "300 readings by removing them": [f"Observation/{reading['id']}" for reading in readings],
    }
    fastest = {name: min(_milliseconds(server, change) for _ in range(TURNS)) for name, change in changes.items()}
    plain = fastest.pop("no change")
    for name, figure in fastest.items():
        row(f"opening an episode whose twin changes {name}", "≤ 2", figure - plain, f"ms more than {plain:.3f} ms")
    server.close()


def _milliseconds(server: Server, change: Sequence[Any]) -> float:
    start = time.process_time()
    for _ in range(EPISODES):
        overlay: Overlay = server.overlay("twin", PUBLISHED.now, change)
        assert overlay.handle(READ).status == 200
        overlay.close()
    return (time.process_time() - start) / EPISODES * 1000


if __name__ == "__main__":
    main()
