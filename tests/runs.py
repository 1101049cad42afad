"""Runs a benchmark as `medagent run NAME` does, from settings, in this process; what it prints can be captured."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import typer
from pydantic import BaseModel

from medagent.benchmarks.base import Benchmark
from medagent.engine.settings import RunSettings
from medagent.models.settings import ModelSettings
from medagent.reports.runs import carry_out

S = TypeVar("S", bound=type[BaseModel])


def run(benchmark: Benchmark, settings: RunSettings, *, quiet: bool = True, as_json: bool = False) -> int:
    """Run it and give the exit code. Raises what the command line would print in one line."""
    from medagent.reports.tables import say

    return end(benchmark, benchmark.plan(settings, say), quiet=quiet, as_json=as_json)


def end(benchmark: Benchmark, plan: Any, *, quiet: bool = True, as_json: bool = False) -> int:
    """Carry a plan out, print all tables, and give the exit code."""
    try:
        carry_out(plan, benchmark, as_json=as_json, quiet=quiet, full=True)
    except typer.Exit as exit_:
        return exit_.exit_code
    raise AssertionError("a run ends with an exit code")


@cache  # a class takes pydantic 20 ms
def impatient(kind: S, retries: int = 0, longest: int = 16_000_000) -> S:
    """The settings with models that are asked again only so often, and whose replies are so long at most."""

    class Impatient(kind):
        @property
        def chat(self) -> ModelSettings | None:
            chat = super().chat
            return chat and chat.model_copy(update={"max_retries": retries, "max_reply_bytes": longest})

        def judges(self, run: RunSettings) -> list[ModelSettings]:
            return [judge.model_copy(update={"max_retries": retries}) for judge in super().judges(run)]

    return Impatient
