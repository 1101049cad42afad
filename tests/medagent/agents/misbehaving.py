"""An agent that misbehaves in its own way in each of the tasks below, and answers `[]` in all others."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

import medagent


class _NoTextError(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")


class _Text(str):
    def strip(self, *_: Any) -> NoReturn:
        raise ValueError("gotcha")


def raising(error: BaseException) -> Callable[[], None]:
    def bad() -> None:
        raise error

    return bad


def blocks() -> None:
    threading.Event().wait()


def leaves_a_thread() -> None:
    threading.Thread(target=blocks).start()


def plain(bad: Callable[[], object]) -> Iterator[str]:
    bad()
    yield "FINISH([])"


def yielding(value: Any) -> Iterator[str]:
    yield value


def never_closes() -> Iterator[str]:
    try:
        yield "FINISH([])"
    finally:
        while True:
            yield "FINISH([])"


async def awaited(bad: Callable[[], object]) -> AsyncIterator[str]:
    bad()
    yield "FINISH([])"


async def swallows() -> AsyncIterator[str]:
    while True:
        with suppress(BaseException):
            await asyncio.sleep(0.05)
    yield ""


async def in_a_group() -> AsyncIterator[str]:
    async def failing() -> None:
        raise medagent.ModelError("500: down")

    async with asyncio.TaskGroup() as group:
        group.create_task(failing())
    yield "FINISH([])"


def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()


CASES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "task2_1": (lambda: plain(raising(SystemExit(0))), "agent_error", "SystemExit: 0"),
    "task2_2": (lambda: awaited(raising(SystemExit(7))), "agent_error", "SystemExit: 7"),
    "task2_3": (lambda: awaited(raising(KeyboardInterrupt())), "agent_error", "KeyboardInterrupt: "),
    "task2_4": (lambda: awaited(raising(asyncio.CancelledError())), "agent_error", "CancelledError: "),
    "task2_5": (lambda: awaited(raising(GeneratorExit())), "agent_error", "GeneratorExit: "),
    "task2_6": (lambda: plain(raising(StopIteration())), "agent_error", "generator raised StopIteration"),
    "task2_7": (lambda: plain(raising(_NoTextError())), "agent_error", "its text is not available: RuntimeError"),
    "task2_8": (lambda: plain(raising(ValueError("\x1b]0;\ud800" + "x" * 10**6))), "agent_error", "ValueError: ␛]0;"),
    "task2_9": (lambda: awaited(raising(BaseExceptionGroup("g", [KeyboardInterrupt()]))), "agent_error", "g (1 sub-"),
    "task2_10": (lambda: yielding(7), "agent_error", "yielded int, expected str"),
    "task2_11": (lambda: yielding(None), "agent_error", "yielded NoneType, expected str"),
    "task2_12": (lambda: yielding("x" * 5_000_000), "agent_error", "yielded 5,000,000 characters"),
    "task2_13": (lambda: yielding(_Text("FINISH([])")), "completed", ""),
    "task2_14": (lambda: plain(blocks), "time_limit", "not done in 6 s; --per-item time"),
    "task2_15": (swallows, "time_limit", "not done in 6 s; --per-item time"),
    "task2_16": (lambda: plain(leaves_a_thread), "completed", ""),
    "task2_17": (lambda: plain(os.fork), "completed", ""),
    "task2_18": (lambda: awaited(os.fork), "completed", ""),
    "task2_19": (lambda: awaited(stop_the_loop), "completed", ""),
    "task2_20": (never_closes, "completed", ""),
    "task2_21": (in_a_group, "model_error", "500: down"),
    "task2_22": (lambda: yielding(b"FINISH([])"), "agent_error", "yielded bytes, expected str"),
}


class Misbehaving(medagent.Agent):
    """Each task of `CASES` begins what is behind its id."""

    def play(self, task: Any, prompt: str) -> Any:
        case = CASES.get(task.id)
        return case[0]() if case else plain(time.time)


class BlocksTheLoop(medagent.Agent):
    """Answers `task2_1`, and in any other task holds up the event loop, which no agent may."""

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        if task.id != "task2_1":
            blocks()
        yield "FINISH([])"


class Blocks(medagent.Agent):
    """Never comes back, except in `task2_1`."""

    def play(self, task: Any, prompt: str) -> Iterator[str]:
        if task.id != "task2_1":
            blocks()
        yield "FINISH([])"


class KillsItsProcess(medagent.Agent):
    """Ends the process in `task2_2`, as the system does when memory runs out; waits a little in all others."""

    def play(self, task: Any, prompt: str) -> Iterator[str]:
        if task.id == "task2_2":
            os._exit(0)
        time.sleep(0.2)
        yield "FINISH([])"


class ClosesFiles(medagent.Agent):
    """Closes in `task2_2` all files that the process has, as programs that become daemons do."""

    def play(self, task: Any, prompt: str) -> Iterator[str]:
        if task.id == "task2_2":
            os.closerange(3, 4_096)
        yield "FINISH([])"
