"""Sandboxes for tests: those that work here, and what an episode's programs leave in one of them."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from medagent.sandbox.base import CallError, Limits, Surface
from medagent.sandbox.choose import Sandbox, sandboxes, self_test
from medagent.sandbox.interpreters import Interpreters
from medagent.sandbox.programs import Programs

NAMES = ("bwrap", "monty", "docker")
NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
IMAGE = os.environ.get("MEDAGENT_TEST_IMAGE")
"""A local image of docker's, by its digest, for tests of a live docker."""
LIMITS = Limits(seconds=3.0, memory=256, output=2_000, requests=5)
SURFACE = Surface(
    ("get", "finish"),
    NOW,
    prelude="def twice(url):\n    return [get(url), get(url)]\n",
    variables={"rows": [{"a": 1}]},
    uncounted=("finish",),
    answer="answer",
)


@cache
def problem(name: str) -> str | None:
    """Why a sandbox does not work here."""
    with ThreadPoolExecutor(1) as thread:  # a test may ask from within its own event loop
        return thread.submit(lambda: asyncio.run(self_test(named(name)))).result()


def named(name: str) -> Sandbox:
    return next(sandbox for sandbox in sandboxes(image=IMAGE) if sandbox.name == name)


def working(name: str) -> Sandbox:
    """A sandbox; the test is skipped where it does not work."""
    if why := problem(name):
        pytest.skip(f"sandbox {name}: {why}")
    return named(name)


async def serve(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if args == ["bad"]:
        raise CallError("HTTP status 404. Not known")
    return {"name": name, "args": list(args), **kwargs}


@asynccontextmanager
async def opened(name: str, limits: Limits = LIMITS) -> AsyncIterator[Interpreters]:
    async with working(name).open(limits, 0) as interpreters:
        yield interpreters


@asynccontextmanager
async def episode(name: str, limits: Limits = LIMITS, surface: Surface = SURFACE) -> AsyncIterator[Programs]:
    async with opened(name, limits) as interpreters, Programs(interpreters, surface, limits, serve) as programs:
        yield programs


def texts(name: str, *codes: str, limits: Limits = LIMITS, surface: Surface = SURFACE) -> list[str]:
    """What an agent is told of programs that one episode runs."""

    async def run() -> list[str]:
        async with episode(name, limits, surface) as programs:
            return [programs.text(await programs.run(code)) for code in codes]

    return asyncio.run(run())


def marked(limits: Limits = LIMITS) -> Limits:
    """The same limits with an output by which the processes of a test are told from all others."""
    return Limits(limits.seconds, limits.memory, random.randint(20_000, 900_000), limits.requests)


def left(limits: Limits) -> list[str]:
    """The processes of this machine that were started with these limits."""
    mark = f'"output": {limits.output},'.encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found
