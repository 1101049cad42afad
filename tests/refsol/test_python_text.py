"""Python texts are read in threads, also while garbage collection runs Python code."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from refsol.python_text import python_expression, python_module, python_value

LITERAL = str([{"a": [number, None, ["b", str(number)]]} for number in range(2_000)])


@contextmanager
def called_at_collections(thread: threading.Thread) -> Iterator[None]:
    """Starts `thread` when garbage is collected in this thread, and gives it time to run."""
    here = threading.get_ident()

    def start(phase: str, _: dict[str, int]) -> None:
        if phase == "start" and threading.get_ident() == here and thread.ident is None:
            thread.start()
            thread.join(0.2)

    thresholds = gc.get_threshold()
    gc.callbacks.append(start)
    gc.set_threshold(500, 5, 5)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(start)


def test_two_threads_read_literals_while_garbage_is_collected() -> None:
    """CPython 3.11.7 raises SystemError in one of them if both build a syntax tree."""
    read = []

    def deeper(calls: int) -> None:
        if calls:
            deeper(calls - 1)
        else:
            read.append(python_value(LITERAL))

    second = threading.Thread(target=deeper, args=(100,))
    with called_at_collections(second):
        value = python_value(LITERAL)
    assert second.ident is not None
    second.join()
    assert [value] == read
    assert value[1_999] == {"a": [1_999, None, ["b", "1999"]]}


@pytest.mark.parametrize("text", ["f()", "__import__('os')", "[x]", "1 +", "\0", "(" * 300])
def test_a_literal_runs_nothing(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError, MemoryError, RecursionError)):
        python_value(text)


def test_trees() -> None:
    assert len(python_module("a = 1\nb = 2").body) == 2
    assert python_expression("1 + 2").lineno == 1
    with pytest.raises(SyntaxError):
        python_expression("a = 1")
