"""`medagent a2a`: an agent that assesses agents over A2A (green), and a model as an agent to assess (purple)."""

from __future__ import annotations

from typing import Any

from medagent.cli._benchmarks import own_options, per_benchmark
from medagent.engine.settings import RunSettings
from medagent.terminal import options
from medagent.terminal.groups import GroupedCommand, group
from medagent.terminal.settings import fields_of, with_options

app = group(
    "Agents that speak A2A: assess one (green), or offer a model as one (purple).\n\n"
    "Example: medagent a2a green --port 9009 --limit 30"
)

GREEN_OPTIONS = ("ehr", "limit", "concurrency", "timeout", "unit_time", "results_dir")


def green(
    benchmark: Any,
    values: dict[str, Any],
    port: options.Port = 9009,
    host: options.Host = "127.0.0.1",
    url: options.OwnUrl = None,
    token: options.AskedToken = None,
    insecure: options.Insecure = False,
) -> None:
    """Assess agents that speak A2A on a benchmark, as the green agent of a tournament.

    A message starts an assessment. It is the purple agent's address, or {"participants": {"agent": "http://…"},
    "config": {"mode": "fhir", "limit": 10}}. In mode text (default), the agent acts turn by turn in the text protocol.
    In mode fhir, it gets a private FHIR base, and its writes there are graded. Each assessment is a run in its own
    folder.

    Example: medagent a2a green --port 9009 --limit 30
    """
    import asyncio

    from medagent.integrations.extras import needs
    from medagent.integrations.web import Port

    with needs("a2a"):
        from medagent.integrations.a2a.run import serve_green
    asyncio.run(serve_green(benchmark, values, Port(host, port, url, token, insecure)))


app.add_typer(
    per_benchmark(
        "medagent a2a green",
        green,
        "Assess agents that speak A2A on a benchmark.",
        lambda benchmark: fields_of(benchmark.Settings, *own_options(benchmark), *GREEN_OPTIONS),
        fhir=True,
    ),
    name="green",
)

PURPLE_OPTIONS = "model base_url api api_key_env temperature max_tokens timeout extra concurrency"


@app.command("purple", cls=GroupedCommand)
@with_options(fields_of(RunSettings, *PURPLE_OPTIONS.split()))
def purple(
    values: dict[str, Any],
    port: options.Port = 9010,
    host: options.Host = "127.0.0.1",
    url: options.OwnUrl = None,
    token: options.AskedToken = None,
    insecure: options.Insecure = False,
) -> None:
    """Offer a model as an agent that speaks A2A, as the purple agent of a tournament.

    Each context is a conversation. The model replies to each message. API keys are read as in `medagent run`.

    Example: medagent a2a purple --model gpt-4o-mini --port 9010
    """
    import asyncio

    from medagent.integrations.extras import needs
    from medagent.integrations.web import Port

    with needs("a2a"):
        from medagent.integrations.a2a.run import serve_purple
    asyncio.run(serve_purple(values, Port(host, port, url, token, insecure)))
