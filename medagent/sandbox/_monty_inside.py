"""The process between the pipe and a monty worker, one per interpreter. It does not run agents' code itself.

A worker that panics can also crash the process that uses it, and a value may be far larger as a Python object.
Therefore both are kept out of the run's own process. The frames are the same as in `inside`.
"""

from __future__ import annotations

import json
import os
import re
import symtable
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pydantic_monty as monty

from medagent.sandbox._inside import FRAMES, NAMES, Output, Pipe, as_json, restrict

_ADDRESSES = 4_000_000_000
"""Bytes of address space that the threads and the libraries reserve; values need twice their size in addition."""
_FEED = re.compile(r"<python-input-(\d+)>")


def _assigned_in(code: str) -> list[str]:
    """The names that a program assigns, without imported ones; none if it is not Python."""
    try:
        table = symtable.symtable(code, "program", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [s.get_name() for s in table.get_symbols() if s.is_assigned() and not s.is_imported()]


class Kernel:
    """Runs one episode's programs in a session of a worker."""

    def __init__(self, pipe: Pipe, session: monty.MontySession, output: Output, surface: dict[str, Any]) -> None:
        self._pipe = pipe
        self._session = session
        self._output = output
        self._answer: str = surface["answer"]
        self._lookup = {name: self._function(name) for name in surface["calls"]}
        self._program = 0
        self._replaced: set[str] = set()
        """The names that the last program assigned."""
        self._feeds: list[int] = []
        self._sources: dict[int, list[str]] = {}
        self._names: dict[str, None] = {}
        self._given = {*surface["calls"], *surface["variables"]}
        self._tools = [name for name in (*surface["calls"], *_assigned_in(surface["prelude"])) if name[0] != "_"]
        saved = "".join(f"_tool_{name} = {name}\n" for name in self._tools)
        self._feed(surface["prelude"] + saved, surface["variables"])

    def run(self, number: int, code: str) -> dict[str, Any]:
        """Run a program; returns the frame with its result."""
        if replaced := [name for name in self._tools if name in self._replaced]:
            self._feed("".join(f"{name} = _tool_{name}\n" for name in replaced))
        self._replaced = set(_assigned_in(code))
        self._program, self._sources[number] = number, code.splitlines()
        self._output.clear()
        done: dict[str, Any] = {"program": number, "failure": None, "limit": None, "answer": None}
        try:
            value = self._feed(code)
            if value is not None:
                self._output.write(f"{value!r}\n")
            self._names |= dict.fromkeys(self._assigned(code))
            if self._answer in self._names:
                done["answer"] = as_json(self._feed(self._answer))
        except monty.MontyError as error:
            done["limit"] = _limit(error)
            done["failure"] = None if done["limit"] else self._failure(error)
            self._names |= dict.fromkeys(self._assigned(code))
        except RecursionError:
            done["failure"] = {"frames": [], "what": "RecursionError: the value is nested too deeply to be shown"}
        done.update(output=self._output.text(), cut=self._output.cut, names=list(self._names)[:NAMES])
        return done

    def _feed(self, code: str, inputs: dict[str, Any] | None = None) -> Any:
        self._feeds.append(self._program)
        return self._session.feed_run(code, inputs=inputs, external_lookup=self._lookup, print_callback=self._print)

    def _print(self, _: str, text: str) -> None:
        self._output.write(text)

    def _function(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._pipe.call(self._program, name, args, kwargs)

    def _assigned(self, code: str) -> list[str]:
        return [name for name in _assigned_in(code) if name[0] != "_" and name not in self._given]

    def _failure(self, error: monty.MontyError) -> dict[str, Any]:
        frames = [frame for frame in map(self._frame, getattr(error, "traceback", list)()) if frame is not None]
        if len(frames) > 2 * FRAMES:
            del frames[FRAMES:-FRAMES]
        display = getattr(error, "display", None)
        what = display("type-msg") if display is not None else str(error)
        return {"frames": frames, "what": what[:2000]}

    def _frame(self, frame: monty.Frame) -> list[Any] | None:
        """A frame in the format of `inside`; None if it is not in the agent's code."""
        feed = _FEED.fullmatch(frame.filename)
        number = self._feeds[int(feed[1])] if feed is not None and int(feed[1]) < len(self._feeds) else 0
        if not number:
            return None
        lines = self._sources[number]
        source = lines[frame.line - 1].strip()[:200] if 0 < frame.line <= len(lines) else ""
        return [number, frame.line, frame.function_name or "<module>", source]


def _limit(error: monty.MontyError) -> str | None:
    if isinstance(error, monty.MontyRuntimeError):
        text = error.display("type-msg")
        if text.startswith("MemoryError: memory limit"):
            return "memory"
        if text.startswith("TimeoutError: feed time limit"):
            return "seconds"
    return None


def main() -> None:
    """Serve the pipe until it ends."""
    options = json.loads(sys.argv[1])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # discards the messages of a worker that panics
    pipe, output = Pipe(options["frame"]), Output(options["output"])
    restrict({"memory": 2 * options["memory"] + _ADDRESSES, "files": 0, "processes": None})
    limits: monty.ResourceLimits = {
        "max_memory": options["memory"],
        "max_feed_duration_secs": options["seconds"],
        "max_suspensions": options["suspensions"],
    }
    with monty.Monty(min_processes=1, max_processes=1) as pool:
        surface = pipe.receive()
        policy: monty.OSPolicy = {
            "datetime": datetime.fromisoformat(surface["now"]),
            "sleep": "zero",
            "random_start": {"seed": 0},
        }
        with pool.checkout(limits=limits, os_policy=policy) as session:
            kernel = Kernel(pipe, session, output, surface)
            pipe.send({"ready": True})
            while True:
                frame = pipe.receive()
                try:
                    pipe.send(kernel.run(frame["program"], frame["code"]))
                except (monty.MontyCrashedError, MemoryError):
                    os._exit(1)


if __name__ == "__main__":
    main()
