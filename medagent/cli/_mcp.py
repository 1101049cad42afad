"""`medagent mcp`: an MCP server for tasks, or for a FHIR server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.cli._benchmarks import own_options, per_benchmark
from medagent.core.errors import UserError


def mcp(
    benchmark: Any,
    values: dict[str, Any],
    http: Annotated[
        int | None,
        typer.Option("--http", min=0, max=65535, metavar="PORT", help="Streamable HTTP instead of stdio."),
    ] = None,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="MEDAGENT_SERVE_TOKEN", help="With --http: require this bearer token from clients."),
    ] = None,
    idle: Annotated[float, typer.Option(min=1, help="End an episode after this many idle seconds.")] = 1800.0,
    results_dir: Annotated[
        Path | None,
        typer.Option(help="The folder of runs  [default: results in your data folder]"),
    ] = None,
) -> None:
    """Offer a benchmark's tasks to an MCP client; with --fhir URL or --ehr FILE, offer that FHIR data instead.

    The tools for tasks are list_tasks, start_task, the FHIR functions and finish. To grade the finished episodes, pass
    the run's folder to `medagent grade`. The tools for FHIR data are fhir_search, fhir_read, fhir_capabilities and,
    with --writes execute, fhir_create. With --fhir or --ehr and an option that selects tasks (--dataset), the tasks use
    that data.

    Example: claude mcp add medagent -- medagent mcp --version v2 --round mine

    Example: medagent mcp --fhir http://localhost:8080/fhir --http 8000
    """
    import asyncio
    import signal
    import sys

    from medagent.core.options import checked
    from medagent.core.paths import data_dir
    from medagent.integrations.extras import needs
    from medagent.reports.tables import say

    if host != "127.0.0.1" and http is None:
        raise UserError("--host needs --http PORT")
    with needs("mcp"):
        import medagent.integrations.mcp.server as mcp_server
    from medagent.integrations.mcp.run import serving
    from medagent.integrations.web import Port

    # clients may start servers in any folder, even /
    settings = checked(benchmark.Settings, {**values, "results_dir": results_dir or data_dir() / "results"})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # unwinds the stack, so the run's results are written

    async def serve(offer: Any) -> None:
        if http is None:
            await mcp_server.serve_stdio(offer)
        else:
            await mcp_server.serve_http(offer, Port(host, http, token=token))

    names_tasks = any(name in values for name in own_options(benchmark))
    asyncio.run(serving(benchmark, settings, serve, idle=idle, say=say, names_tasks=names_tasks))


def _fields(benchmark: Any) -> list[Any]:
    from medagent.fhir_episodes.played import played_options

    return [option for option in played_options(benchmark.Settings) if option.name != "results_dir"]  # another default


app = per_benchmark(
    "medagent mcp",
    mcp,
    "Offer tasks, or a FHIR server, to any MCP client.",
    _fields,
    fhir=True,
)
