"""`medagent a2a green` and `medagent a2a purple`: the agents on a port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from medagent.agents.choice import NO_MODEL, ModelChoice, keyed
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.engine.settings import RunSettings
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.http_episodes import HttpEpisodes, http_options
from medagent.integrations._web import address_of, listen, serve, with_token
from medagent.integrations.a2a._app import create_app
from medagent.integrations.a2a._assess import Assessor
from medagent.integrations.a2a._green import Green
from medagent.integrations.a2a._purple import Purple


@dataclass(frozen=True, slots=True)
class Port:
    """Where an agent is served, and to whom. `url` is the address on its card (None: the socket's address)."""

    host: str
    number: int
    url: str | None = None
    token: str | None = None
    insecure: bool = False

    @contextmanager
    def opened(self) -> Iterator[tuple[socket.socket, str]]:
        """The socket, and the agent's address. Raises UserError."""
        with listen(self.host, self.number, self.token, insecure=self.insecure) as listener:
            yield listener, (self.url or address_of(self.host, listener)).rstrip("/")

    def guarded(self, app: Any) -> Any:
        """The application, closed to clients without access."""
        return with_token(app, self.token, insecure=self.insecure)


async def serve_green(benchmark: FhirBenchmark[Any], options: dict[str, Any], port: Port) -> None:
    """Serve the green agent until a signal comes; `options` are those of `medagent run`. Raises UserError."""
    checked(benchmark.Settings, options)
    with port.opened() as (listener, address):
        data = {name: value for name, value in options.items() if name in http_options(benchmark)}
        with HttpEpisodes(benchmark, address, data) as episodes:
            words = (
                f"Assesses an agent on {benchmark.name}: send its address, or a request as JSON (participants, config)."
            )
            app = create_app(
                Green(Assessor(benchmark, options, episodes)), address, "medagent-green", words, "application/json"
            )
            await serve(with_records(port.guarded(app), episodes), listener, address)


async def serve_purple(options: dict[str, Any], port: Port) -> None:
    """Serve the purple agent until a signal comes; `options` are those of `medagent run`. Raises UserError."""
    settings = checked(RunSettings, options)
    if settings.chat is None:
        raise UserError(f"{NO_MODEL.partition('. ')[0]}: --model NAME")
    with port.opened() as (listener, address):
        model = ModelChoice.of(keyed([settings.chat])[0]).open(settings.concurrency)
        try:
            words = f"The model {model.name}, with one conversation per context."
            app = create_app(Purple(model), address, "medagent-purple", words)
            await serve(port.guarded(app), listener, address)
        finally:
            await model.aclose()


def with_records(app: Any, episodes: HttpEpisodes) -> Any:
    """The application, with the private FHIR bases below `/episodes`, each with its own token."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        below = scope["type"] == "http" and scope["path"].startswith("/episodes/")
        await (episodes.app if below else app)(scope, receive, send)

    return wrapped
