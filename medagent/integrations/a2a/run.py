"""`medagent green` and `medagent purple`: the agents on a port."""

from __future__ import annotations

from typing import Any

from medagent.agents.choice import NO_MODEL, ModelChoice, keyed
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.engine.settings import RunSettings
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.http_episodes import HttpEpisodes, http_options
from medagent.integrations.a2a.app import create_app
from medagent.integrations.a2a.assess import Assessor
from medagent.integrations.a2a.green import Green
from medagent.integrations.a2a.purple import Purple
from medagent.integrations.web import address_of, listen, serve, with_token


async def serve_green(
    benchmark: FhirBenchmark[Any], given: dict[str, Any], host: str, port: int, url: str | None, token: str | None
) -> None:
    """Assess until a signal comes; `given` are options of `medagent run`. Raises UserError."""
    checked(benchmark.Settings, given)
    with listen(host, port, token) as listener:
        address = (url or address_of(host, listener)).rstrip("/")
        data = {name: value for name, value in given.items() if name in http_options(benchmark)}
        with HttpEpisodes(benchmark, address, data) as episodes:
            words = (
                f"Assesses an agent on {benchmark.name}: send its address, or a request as JSON (participants, config)."
            )
            app = create_app(Green(Assessor(benchmark, given, episodes)), address, "medagent-green", words)
            await serve(with_records(with_token(app, token), episodes), listener, address)


async def serve_purple(given: dict[str, Any], host: str, port: int, url: str | None, token: str | None) -> None:
    """Answer by a model until a signal comes; `given` are options of `medagent run`. Raises UserError."""
    settings = checked(RunSettings, given)
    if settings.chat is None:
        raise UserError(f"{NO_MODEL.partition('. ')[0]}: --model NAME")
    with listen(host, port, token) as listener:
        address = (url or address_of(host, listener)).rstrip("/")
        model = ModelChoice.of(keyed([settings.chat])[0]).open(settings.concurrency)
        try:
            words = f"The model {model.name}, which continues each context as a conversation."
            app = create_app(Purple(model), address, "medagent-purple", words)
            await serve(with_token(app, token), listener, address)
        finally:
            await model.aclose()


def with_records(app: Any, episodes: HttpEpisodes) -> Any:
    """An application with the private FHIR bases below `/episodes`, which have tokens of their own."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        below = scope["type"] == "http" and scope["path"].startswith("/episodes/")
        await (episodes.app if below else app)(scope, receive, send)

    return wrapped
