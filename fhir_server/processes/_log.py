"""The log of a server: one line per message on stderr, written by a separate thread.

If the reader of stderr stops reading, lines wait in a queue. If the queue is full, lines are dropped. So requests never
wait for the log.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from queue import Full, Queue

WAITING = 1000
"""The maximum number of waiting lines. Further lines are dropped."""
END_S = 1.0
"""The maximum number of seconds for writing the last lines when the process ends."""


class _Writer:
    def __init__(self) -> None:
        self._lines: Queue[str] = Queue(WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, line: str) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="fhir-server-log", daemon=True)
                self._thread.start()
        with suppress(Full):
            self._lines.put_nowait(line)

    def _work(self) -> None:
        while True:
            line = self._lines.get()
            with suppress(OSError, ValueError):  # stderr is closed
                print(line, file=sys.stderr, flush=True)
            self._lines.task_done()

    def flush(self) -> None:
        """Waits up to `END_S` for the lines to be written."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, END_S)


_WRITER = _Writer()
flush = _WRITER.flush


def say(text: str) -> None:
    """Queues one line for the log. Never blocks."""
    _WRITER.add(f"fhir_server: {' '.join(text.split())}")


class _OneLine(logging.Handler):
    """Formats a log record as one line: message, type and text of the error, and the place that raised it."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
            text = f"{text.splitlines()[0]}: {type(error).__name__}: {error}{place}"
        say(text)


def one_line_each() -> None:
    """Sends the log records of uvicorn and asyncio to `say`, one line each."""
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [_OneLine()]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
