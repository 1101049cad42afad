"""Runs work in a new event loop. Ctrl-C, SIGTERM and SIGHUP end it after units in progress are saved.

A thread reads the signals (`signal.set_wakeup_fd`), because an agent may block the event loop. If the work does not end
soon after a signal, or a second signal comes, the thread ends the process. Nothing is lost: the journal contains every
finished row, and you can run the command again to continue.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

import typer

from medagent.core.errors import UserError
from medagent.core.waiting import LEFT_WITHIN_S, close_generators, end_others

T = TypeVar("T")
SAVED_WITHIN_S = 4.0
"""Seconds that units in progress have to end after a signal."""
CONTINUES = "Finished rows are kept. Repeat the command to continue the run."


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run the work in a new event loop and return its result. A signal cancels it; then typer.Exit is raised with 128
    plus the signal's number (130, 143, 129).

    A signal that is ignored (`nohup`) or handled elsewhere is not changed.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    _poll_often(loop)
    task = loop.create_task(work)
    try:
        with _Signals(loop, task) as signals:
            _drive(loop, task)
        if task.cancelled():
            if signals.first is None:
                raise UserError(f"an agent, a model class or a grader cancelled the run. {CONTINUES}")
            print("medagent: interrupted", file=sys.stderr)
            raise typer.Exit(128 + signals.first)
        return task.result()
    finally:
        _drive(loop, loop.create_task(end_others()))
        _drive(loop, loop.create_task(close_generators()))
        loop.close()
        asyncio.set_event_loop(None)


def _poll_often(loop: asyncio.AbstractEventLoop) -> None:
    """Poll every second, because a poll that waits does not notice that the loop's files were closed."""
    loop.call_later(1.0, _poll_often, loop)


def _drive(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Run a task to its end, even if something in it stops the loop. Ends the process if its files were closed."""
    task.add_done_callback(lambda _: loop.stop())
    try:
        while not task.done():
            loop.run_forever()
    except OSError as error:
        print(
            f"medagent: an agent closed files of this process (os.close, os.closerange): {error.strerror}. {CONTINUES} "
            "With --workers 1, the agent runs in its own process, and the episode ends as agent_error.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


class _Signals:
    """While open, the first signal cancels `task`. `first` is its number."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self._loop = loop
        self._task = task
        self._before: dict[int, Any] = {}
        self.first: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # only a process's main thread receives signals
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._waker = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, lambda *_: None)
        self._thread = threading.Thread(target=self._listen, name="medagent-signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._waker)
        self._write.close()  # this ends the thread
        self._thread.join(LEFT_WITHIN_S)
        self._read.close()

    def _listen(self) -> None:
        self.first = self._next(None)
        if self.first is None:
            return
        self._loop.call_soon_threadsafe(self._task.cancel)
        until = time.monotonic() + SAVED_WITHIN_S
        try:
            if self._next(until) is None:
                return
            words = "interrupted twice"
        except TimeoutError:
            words = f"interrupted; units in progress did not end within {SAVED_WITHIN_S:g} s and were not saved"
        print(f"medagent: {words}. {CONTINUES}", file=sys.stderr, flush=True)
        os._exit(128 + self.first)

    def _next(self, until: float | None) -> int | None:
        """The next signal; None at the end. Raises TimeoutError."""
        while True:
            self._read.settimeout(None if until is None else max(0.001, until - time.monotonic()))
            received = self._read.recv(1)
            if not received:
                return None
            if received[0] in self._before:
                return received[0]


def leave_in_time(code: int, before: set[threading.Thread]) -> None:
    """Let this process end with `code` even if threads that are newer than `before` do not end. Python waits for
    non-daemon threads, and for all of a `ThreadPoolExecutor`.
    """

    def watch() -> None:
        threading.main_thread().join()
        time.sleep(LEFT_WITHIN_S)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    if set(threading.enumerate()) - before:
        threading.Thread(target=watch, name="medagent-end", daemon=True).start()
