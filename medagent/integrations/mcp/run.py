"""What `medagent mcp` offers, by its options: tasks, or a FHIR server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from medagent.benchmarks.medagentbench.played import PlayedRun
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.engine.run import Say
from medagent.fhir_data.embedded import EmbeddedEhr, imported_file
from medagent.fhir_data.http import HttpEhr
from medagent.integrations.mcp.fhir import FhirOffer
from medagent.integrations.mcp.offer import Offer
from medagent.integrations.mcp.tasks import TaskOffer

Serve = Callable[[Offer], Awaitable[None]]


async def serving(settings: MedAgentBenchSettings, serve: Serve, *, idle: float, say: Say) -> None:
    """Open what is offered and serve it. Raises UserError."""
    writes = settings.writes == "execute"
    if settings.dataset != "synthetic" or settings.tasks_file or not (settings.fhir or settings.ehr):
        run = await PlayedRun.open(settings, "mcp", "medagent mcp", say)
        with run:
            async with TaskOffer(run, run.episode_options, idle) as offer:
                say(f"medagent: finished episodes go into {run.path}; medagent grade {run.path}")
                await serve(offer)
    elif settings.fhir is not None:
        async with HttpEhr(
            settings.fhir, settings.fhir, headers=settings.fhir_headers, ca_file=settings.ca_file
        ) as server:
            await server.check()
            async with server.session("mcp") as record:
                await serve(FhirOffer(record, server.shown_url, writes=writes))
    elif settings.ehr is not None:  # `else` would do, if the type checker knew
        file = imported_file(settings.ehr, say)
        embedded = EmbeddedEhr.open(file.path, settings.api_base)
        try:
            async with embedded.session("mcp") as record:
                await serve(FhirOffer(record, settings.api_base, writes=writes))
        finally:
            embedded.close()
