"""`medagent mcp`: tasks, or a FHIR server, as an MCP server."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.terminal.settings import fields_of, with_options

PLAYED_OPTIONS = (
    "version",
    "dataset",
    "tasks_file",
    "ehr",
    "fhir",
    "max_rounds",
    "writes",
    "round",
    "results_dir",
    "overwrite",
)
"""The settings of a run that mean something where clients say who acts, and what."""


@with_options(fields_of(MedAgentBenchSettings, *PLAYED_OPTIONS, "fhir_header", "ca_file"))
def command(
    given: dict[str, Any],
    http: Annotated[
        int | None, typer.Option("--http", min=0, max=65535, metavar="PORT", help="Streamable HTTP instead of stdio.")
    ] = None,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(envvar="MEDAGENT_SERVE_TOKEN", help="With --http: ask clients for this bearer token.")
    ] = None,
    benchmark: Annotated[str, typer.Option(help="The benchmark: a name, or FILE.py:Name.")] = "medagentbench",
    idle: Annotated[float, typer.Option(min=1, help="Seconds after which a forgotten episode is ended.")] = 1800.0,
) -> None:
    """Serve a benchmark's tasks to an MCP client (MedAgentBench's by default); or, with --fhir URL or --ehr FILE alone,
    that record.

    Tasks: list_tasks, start_task, the FHIR functions, finish. Finished episodes are graded by `medagent grade` on the
    run's folder. A record: fhir_search, fhir_read, fhir_capabilities, and with --writes execute fhir_create; with
    --dataset, --tasks-file or --benchmark beside it, the tasks over that record.

    Example: claude mcp add medagent -- medagent mcp --version v2 --round mine

    Example: medagent mcp --fhir http://localhost:8080/fhir --http 8000
    """
    import asyncio
    import signal
    import sys

    from medagent.core.errors import UserError
    from medagent.core.options import checked
    from medagent.integrations.extras import needs

    with needs("mcp"):
        import medagent.integrations.mcp.server as mcp_server

    from medagent.benchmarks.base import DEFAULT, find

    found: Any = find(benchmark)
    settings = checked(found.Settings, given)
    if host != "127.0.0.1" and http is None:
        raise UserError("--host needs --http PORT")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the run's results are written then, too

    async def serve(offer: Any) -> None:
        if http is None:
            await mcp_server.serve_stdio(offer)
        else:
            await mcp_server.serve_http(offer, host, http, token)

    from medagent.integrations.mcp.run import serving

    names_tasks = benchmark != DEFAULT or "dataset" in given or "tasks_file" in given
    asyncio.run(serving(found, settings, serve, idle=idle, say=_say, names_tasks=names_tasks))


def _say(text: str) -> None:
    import sys

    print(text, file=sys.stderr)
