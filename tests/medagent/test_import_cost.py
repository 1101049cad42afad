"""Importing medagent loads no heavy package: `--help` and completion answer at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.shared_data import ROOT


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import medagent", {"pydantic", "httpx", "rich", "typer", "openai", "aiohttp", "asyncio"}),
        ("import medagent.cli.app", {"pydantic", "httpx", "openai", "aiohttp", "fhir_server", "distributed"}),
        ("from medagent import Benchmark, Agent, RunSettings", {"httpx", "openai", "aiohttp", "fhir_server", "typer"}),
        ("import medagent.testing.plugin", {"pydantic", "httpx", "openai", "aiohttp", "fhir_server", "typer"}),
        ("from medagent.benchmarks.medagentbench.benchmark import MedAgentBench", {"openai", "aiohttp", "distributed"}),
    ],
)
def test_import_costs_nothing(statement: str, absent: set[str]) -> None:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert {name.partition(".")[0] for name in done.stdout.split()} & absent == set()
