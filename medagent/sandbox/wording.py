"""The replies to an agent about its programs, in short English lines."""

from __future__ import annotations

from collections.abc import Sequence

from medagent.sandbox.base import Failure, LimitName, Limits, Ran

_SHOWN_NAMES = 20
FORGED = "it sent something other than a request; write only with print()"
"""The reason for an interpreter that sent something other than a request or the end of its program."""


def stop_reason(limit: LimitName, limits: Limits) -> str:
    """The reason for an interpreter that reached a limit."""
    return {
        "seconds": f"the program ran for more than {limits.seconds:g} seconds",
        "memory": f"the program used more than {limits.memory} MB of memory",
        "output": f"the program printed more than {limits.output:,} characters",
        "requests": f"the limit of {limits.requests:,} requests was reached; no further request is carried out",
        "processes": "the program left a thread running; there is one process, and threads end with their program",
    }[limit]


def crash_reason(status: int | None) -> str:
    """The reason for an interpreter whose process exited; after a signal, `status` is 128 + the signal."""
    if status is not None and status > 128:
        return f"the program crashed the interpreter (signal {status - 128}); endless recursion can do that"
    return "the program ended the interpreter" + (f" (exit status {status})" if status is not None else "")


def program_text(ran: Ran, limits: Limits) -> str:
    """The reply to a program: output, number of cut characters, traceback, and a line for a limit or a lost
    interpreter.
    """
    parts = [ran.output.rstrip("\n")] if ran.output.strip() else []
    if ran.cut:
        parts.append(f"[{ran.cut:,} more characters of output were cut; the limit is {limits.output:,}]")
    if ran.failure is not None:
        parts.append(traceback_text(ran.failure))
    if ran.ended:
        parts.append(f"Stopped: {ran.ended}. {_lost(ran.names)}")
    elif ran.limit == "requests" and ran.failure is None:
        parts.append(f"[{stop_reason('requests', limits)}]")
    return "\n".join(parts) or "The program ended and printed nothing; print(...) shows a value."


def traceback_text(failure: Failure) -> str:
    """A traceback with the agent's lines only."""
    lines = ["Traceback:"] if failure.frames else []
    for frame in failure.frames:
        function = "" if frame.function == "<module>" else f" in {frame.function}"
        source = f": {frame.source}" if frame.source else ""
        lines.append(f"  program {frame.program}, line {frame.line}{function}{source}")
    return "\n".join([*lines, failure.what])


def _lost(names: Sequence[str]) -> str:
    if not names:
        return "The next program starts in a fresh interpreter."
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return (
        f"The next program starts in a fresh interpreter; these variables are gone: "
        f"{', '.join(names[:_SHOWN_NAMES])}{more}."
    )
