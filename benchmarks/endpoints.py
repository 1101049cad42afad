"""Measures how many requests an endpoint gets at once: a slow server of one slot, and a fast one.

Run: `python -m benchmarks.endpoints`. The slow server needs 0.3 s a reply, and the client gives up after one second.
The fast one replies at once; a client that finds its concurrency is compared with one that begins at the limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.table import machine, row
from medagent.models.endpoint import ChatEndpoint
from medagent.models.limiter import START
from tests.loopback import ModelServer
from tests.medagent.models.asking import QUESTION, settings, with_model
from tests.medagent.models.test_slow_server import OneSlot

SLOW_CALLS, SECONDS, TIMEOUT_S = 10, 0.3, 1
FAST_CALLS, AT_ONCE, ROUNDS = 690, 16, 5


def main() -> None:
    machine()
    _slow()
    _fast()


def _slow() -> None:
    began = time.perf_counter()
    with OneSlot(SECONDS).serve() as server:
        with_model(settings(server.url, timeout_s=TIMEOUT_S), _calls(SLOW_CALLS), concurrency=AT_ONCE, start=START)
    name = f"one slot of {SECONDS} s, {SLOW_CALLS} calls"
    row(f"{name}, answered", f"= {SLOW_CALLS}", server.answered, "calls")
    row(f"{name}, clients that went away", "≤ 2", server.gone, "calls")
    row(f"{name}, waiting after the second of them", "≤ 1", max(server.waiting, default=0), "calls")
    row(f"{name} ÷ its own work", "", (time.perf_counter() - began) / (SLOW_CALLS * SECONDS), "times")


def _fast() -> None:
    ratios = []
    with ModelServer(reply=lambda request: "FINISH([])") as server:
        for _ in range(ROUNDS):
            fixed, adaptive = _seconds(server.url, AT_ONCE), _seconds(server.url, START)
            ratios.append(adaptive / fixed)
    name = f"{FAST_CALLS} calls at {AT_ONCE} at once: found ÷ given concurrency"
    row(name, "≤ 1.05", median(ratios), "times")


def _seconds(url: str, start: int) -> float:
    began = time.perf_counter()
    with_model(settings(url), _calls(FAST_CALLS), concurrency=AT_ONCE, start=start)
    return time.perf_counter() - began


def _calls(count: int) -> Callable[[ChatEndpoint], Any]:
    async def use(model: ChatEndpoint) -> None:
        await asyncio.gather(*(model.complete(QUESTION, session=str(number)) for number in range(count)))

    return use


if __name__ == "__main__":
    main()
