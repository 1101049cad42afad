"""`medagent green`: the assessing agent of A2A."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options

OPTIONS = ("version", "dataset", "tasks_file", "ehr", "limit", "concurrency", "timeout", "unit_time", "results_dir")


@with_options(fields_of(MedAgentBenchSettings, *OPTIONS))
def command(
    given: dict[str, Any],
    benchmark: Annotated[str, typer.Option(help="The benchmark: a name, or FILE.py:Name.")] = "medagentbench",
    port: options.Port = 9009,
    host: options.Host = "127.0.0.1",
    url: options.OwnUrl = None,
    token: options.AskedToken = None,
) -> None:
    """Assess agents that speak A2A, on MedAgentBench or another benchmark: the green agent of a tournament.

    It is asked by a message: the purple agent's address, or {"participants": {"agent": "http://…"}, "config": {"mode":
    "fhir", "limit": 10}}. Mode text (the default) goes turn by turn with the text protocol; mode fhir gives the agent a
    private FHIR base, and what it writes there is graded. Each assessment is a run with a folder of its own.

    Example: medagent green --port 9009 --limit 30
    """
    import asyncio

    from medagent.integrations.extras import needs

    with needs("a2a"):
        from medagent.integrations.a2a.run import serve_green
    from medagent.benchmarks.base import find

    found: Any = find(benchmark)
    asyncio.run(serve_green(found, given, host, port, url, token))
