"""Runs a plan in a terminal: progress and notes during the run, then the table or JSON, and an exit code."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import typer

REWRITTEN_EVERY_S = 60.0
Rewrite = Callable[[Path], object]
"""Writes a view of a run's folder in its current state."""


def carry_out(
    plan: Any,
    benchmark: Any,
    *,
    as_json: bool,
    quiet: bool,
    full: bool = False,
    rewrite: Rewrite | None = None,
    expect_recorded: bool = False,
) -> None:
    """Run a plan (or an awaitable of one), print the result and exit: 0 if it is complete, 2 if not; 143 and 129 after
    SIGTERM and SIGHUP; 1 if recorded verdicts are expected and differ.

    `rewrite` is called every minute with the run's folder, and at the end.
    """
    from medagent.engine.patient_data import shown_elsewhere
    from medagent.engine.recorded_verdicts import differs
    from medagent.engine.report import document
    from medagent.engine.run import execute
    from medagent.reports.end import print_end
    from medagent.reports.power import noise_before
    from medagent.reports.tables import say
    from medagent.terminal.signals import leave_in_time, run_to_end

    printed = set[str]()

    async def work() -> Any:
        planned = await _planned(plan, benchmark) if inspect.isawaitable(plan) else plan
        printed.update(planned.warnings, () if quiet else planned.notes)
        if not quiet and (noise := noise_before(planned, benchmark)):
            say(noise)
        async with _rewritten(planned.folder, rewrite, say):
            return await execute(planned, benchmark, quiet=quiet, say=say)

    code, before = 1, set(threading.enumerate())
    try:
        report = run_to_end(work())
        if sys.stdout.closed:
            say("standard output was closed during the run")
            sys.stdout = sys.stderr
        if as_json:
            print(document(shown_elsewhere(report, Path(report.folder))))
        else:
            notes = tuple(note for note in report.notes if note not in printed)
            print_end(report.model_copy(update={"notes": notes}), full=full)
        if rewrite is not None:
            rewrite(Path(report.folder))
        code = 0 if report.complete else 2
        if expect_recorded and differs(report):
            code = 1
    except typer.Exit as end:
        code = end.exit_code
    finally:
        leave_in_time(code, before)
    raise typer.Exit(code)


async def _planned(plan: Awaitable[Any], benchmark: Any) -> Any:
    """The plan. Raises UserError, with the place in the code, for an exception of a benchmark that is not installed."""
    from medagent.core.errors import MedagentError, UserError
    from medagent.core.own_code import error_words
    from refsol.errors import RefsolError

    try:
        return await plan
    except (MedagentError, RefsolError):
        raise
    except Exception as error:
        if not benchmark.reference:
            raise
        raise UserError(f"{benchmark.reference}: {error_words(error, type(benchmark))}") from error


@asynccontextmanager
async def _rewritten(folder: Path, rewrite: Rewrite | None, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Call `rewrite` regularly in a thread. Its errors do not end the run."""
    import asyncio

    from medagent.core.errors import MedagentError
    from refsol.errors import RefsolError

    if rewrite is None:
        yield
        return
    over = asyncio.Event()

    async def again() -> None:
        while not over.is_set():
            try:
                await asyncio.wait_for(over.wait(), REWRITTEN_EVERY_S)
            except TimeoutError:
                try:
                    await asyncio.to_thread(rewrite, folder)
                except (MedagentError, RefsolError) as error:
                    say(f"--report: {error}")

    task = asyncio.create_task(again())
    try:
        yield
    finally:
        over.set()
        await task
