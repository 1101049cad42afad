"""Runs work in a new event loop. Ctrl-C, SIGTERM and SIGHUP end it after units in progress are saved.

A thread reads the signals (`signal.set_wakeup_fd`), because an agent may block the event loop. If the work does not end
soon after a signal, or a second signal comes, the thread ends the process. Nothing is lost: the journal has every
finished row, and the same command continues the run.
"""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
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
from medagent.core.own_files import own_files

T = TypeVar("T")
SAVED_WITHIN_S = 4.0
"""Seconds that units in progress have to end after a signal."""
LEFT_WITHIN_S = 2.0
"""Seconds for which threads started by others may keep a finished process alive."""
CONTINUES = "Finished rows are kept; the same command continues the run."
APART = "With --workers 1, an agent has its own process."


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run the work in a new event loop and return its result. A signal cancels it; then typer.Exit is raised with 128
    plus the signal's number (130, 143, 129). Raises UserError if foreign code broke the event loop.

    A signal that is ignored (`nohup`) or has another handler is not changed.
    """
    loop = _Loop()
    loop.call_soon(loop.tick)
    asyncio.set_event_loop(loop)
    task = loop.create_task(work)
    try:
        with _Signals(loop, task) as signals:
            _drive(loop, task)
        if task.cancelled():
            if signals.first is None:
                raise UserError(f"foreign code cancelled the run. {CONTINUES}")
            print("medagent: interrupted", file=sys.stderr)
            raise typer.Exit(128 + signals.first)
        return task.result()
    finally:
        with suppress(UserError):
            _drive(loop, loop.create_task(_end_others()))
        with suppress(OSError):
            loop.close()
        asyncio.set_event_loop(None)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that can continue after its own files were closed, until rows are saved."""

    def renew(self) -> None:
        """Open new files. Connections are lost."""
        loop: Any = self  # asyncio has no public API for this
        loop._ssock.detach()  # their numbers may belong to other files now
        loop._csock.detach()
        loop._selector = selectors.DefaultSelector()
        loop._make_self_pipe()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore errors of callbacks whose file was closed: the next poll fails, and the run reports it."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno == errno.EBADF):
            super().call_exception_handler(context)

    def tick(self) -> None:
        """Check the files every second: a waiting poll does not notice that they were closed."""
        self.call_later(1.0, self.tick)


def _drive(loop: _Loop, task: asyncio.Task[Any]) -> None:
    """Run a task to its end, even if something in it stops the loop. Raises UserError if the loop is broken."""
    task.add_done_callback(lambda _: loop.stop())
    renewed = False
    while not task.done():
        try:
            loop.run_forever()
        except OSError as error:  # the loop's own files were closed
            if renewed:
                raise UserError(f"foreign code broke the event loop: {error.strerror}. {CONTINUES} {APART}") from None
            renewed = True
            own_files.give_up()
            loop.renew()


async def _end_others() -> None:
    """Cancel the rest of the work. It may ignore this, and its errors are not reported."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=LEFT_WITHIN_S)
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), LEFT_WITHIN_S)


class _Signals:
    """While open, the first signal cancels `task`. `first` is its number."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self._loop, self._task = loop, task
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
        with suppress(OSError):  # foreign code may have closed it
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
