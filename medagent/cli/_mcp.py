"""`medagent mcp`: tasks, or a FHIR server, as an MCP server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.cli._benchmarks import own_options, per_benchmark
from medagent.core.errors import UserError
from medagent.terminal.settings import fields_of, with_options

HELP = """Serve a benchmark's tasks to an MCP client; or, with --fhir URL or --ehr FILE, that record.

Tasks: list_tasks, start_task, the FHIR functions, finish. Finished episodes are graded by `medagent grade` on the
run's folder. A record: fhir_search, fhir_read, fhir_capabilities, and with --writes execute fhir_create; with
an option that names tasks beside it (--dataset), the tasks over that record.

Example: claude mcp add medagent -- medagent mcp --version v2 --round mine

Example: medagent mcp --fhir http://localhost:8080/fhir --http 8000
"""

PLAYED_OPTIONS = (
    "ehr",
    "fhir",
    "max_rounds",
    "writes",
    "round",
    "overwrite",
    "fhir_header",
    "ca_file",
)
"""The settings of a run that mean something where clients say who acts, and what."""


def mcp_function(benchmark: Any) -> Callable[..., None]:
    """The function behind `medagent mcp NAME`."""
    names = own_options(benchmark)

    def mcp(
        values: dict[str, Any],
        http: Annotated[
            int | None,
            typer.Option("--http", min=0, max=65535, metavar="PORT", help="Streamable HTTP instead of stdio."),
        ] = None,
        host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
        token: Annotated[
            str | None,
            typer.Option(envvar="MEDAGENT_SERVE_TOKEN", help="With --http: ask clients for this bearer token."),
        ] = None,
        idle: Annotated[float, typer.Option(min=1, help="Seconds after which a forgotten episode is ended.")] = 1800.0,
        results_dir: Annotated[
            Path | None,
            typer.Option(help="Where runs land  [default: results below your data folder, wherever the client is]"),
        ] = None,
    ) -> None:
        from medagent.core.paths import data_dir

        if host != "127.0.0.1" and http is None:
            raise UserError("--host needs --http PORT")
        values["results_dir"] = results_dir or data_dir() / "results"  # a client starts its servers anywhere, as in /
        serve_mcp(benchmark, values, _Port(http, host, token), idle, names_tasks=any(name in values for name in names))

    function = with_options(fields_of(benchmark.Settings, *names, *PLAYED_OPTIONS))(mcp)
    function.__doc__ = HELP
    return function


@dataclass(frozen=True, slots=True)
class _Port:
    """Where clients are served: on a port, or over standard input and output."""

    http: int | None
    host: str
    token: str | None


def serve_mcp(benchmark: Any, values: dict[str, Any], port: _Port, idle: float, *, names_tasks: bool) -> None:
    """Serve until the client goes or a signal comes. Raises UserError."""
    import asyncio
    import signal
    import sys

    from medagent.core.options import checked
    from medagent.integrations.extras import needs

    with needs("mcp"):
        import medagent.integrations.mcp.server as mcp_server
    from medagent.integrations.mcp.run import serving

    settings = checked(benchmark.Settings, values)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the run's results are written then, too

    async def serve(offer: Any) -> None:
        if port.http is None:
            await mcp_server.serve_stdio(offer)
        else:
            await mcp_server.serve_http(offer, port.host, port.http, port.token)

    asyncio.run(serving(benchmark, settings, serve, idle=idle, say=_say, names_tasks=names_tasks))


def _say(text: str) -> None:
    import sys

    print(text, file=sys.stderr)


app = per_benchmark("medagent mcp", mcp_function, "Tasks, or a FHIR server, for any MCP client.", fhir=True)
