"""Chooses what `medagent mcp` serves: tasks, or a FHIR server."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import Any

from medagent.core.wire import without_password
from medagent.engine.benchmark import Say
from medagent.engine.patient_data import check_own_code
from medagent.fhir_data.embedded import EmbeddedEhr, imported_file
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import server_choice
from medagent.fhir_episodes.settings import FhirSettings
from medagent.integrations.mcp._fhir import FhirOffer
from medagent.integrations.mcp._offer import Offer
from medagent.integrations.mcp._tasks import LazyRun, TaskOffer

Serve = Callable[[Offer], Awaitable[None]]


async def serving(
    benchmark: FhirBenchmark[Any], settings: FhirSettings, serve: Serve, *, idle: float, say: Say, names_tasks: bool
) -> None:
    """Serve the benchmark's tasks; or, without `names_tasks`, the record or FHIR server of the settings, if they name
    one. Raises UserError.
    """
    writes = settings.writes != "ack"
    if names_tasks or not (settings.fhir or settings.ehr):
        with LazyRun(benchmark, settings, say) as run:
            async with TaskOffer(run, idle) as offer:
                say(f"medagent: finished episodes go into {run.folder}; medagent grade {shlex.quote(str(run.folder))}")
                await serve(offer)
    elif settings.fhir is not None:
        if settings.private:
            check_own_code("an MCP client", settings.send_patient_data)
        choice = server_choice(settings, benchmark.now(settings))
        shown = without_password(settings.fhir)
        async with choice.open(shown) as server:
            await server.check()
            async with server.session("mcp") as record:
                await serve(FhirOffer(record, shown, writes=writes, remote=True))
    elif settings.ehr is not None:  # always true here; narrows the type
        file = imported_file(settings.ehr, say)
        embedded = EmbeddedEhr.open(file.path, settings.api_base, pages=settings.pages)
        try:
            async with embedded.session("mcp") as record:
                await serve(FhirOffer(record, settings.api_base, writes=writes))
        finally:
            embedded.close()
