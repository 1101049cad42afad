"""FHIR bases of single episodes on a loopback port, for clients inside `solve` (`Env.http`).

A request becomes a message of its episode's session; the client gets the server's own reply. The address of a base
has a secret random part.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from medagent.core.errors import SessionEndedError
from medagent.fhir_data.record import EhrSession, Reply
from medagent.fhir_episodes.http_rules import refusal
from medagent.fhir_episodes.session import MAX_BODY, Session

if TYPE_CHECKING:
    from aiohttp import web

_FHIR = "application/fhir+json"


class Watched:
    """An `EhrSession` that remembers its last reply."""

    def __init__(self, record: EhrSession) -> None:
        self._record = record
        self.last: Reply | None = None

    @property
    def fixed(self) -> bool:
        """See `EhrSession.fixed`."""
        return self._record.fixed

    def reset(self) -> None:
        """See `EhrSession.reset`."""
        self._record.reset()

    async def get(self, target: str) -> Reply:
        """See `EhrSession.get`."""
        self.last = await self._record.get(target)
        return self.last

    async def post(self, target: str, body: str) -> Reply:
        """See `EhrSession.post`."""
        self.last = await self._record.post(target, body)
        return self.last

    async def rehearse(self, target: str, body: str) -> Reply | None:
        """See `EhrSession.rehearse`."""
        self.last = await self._record.rehearse(target, body)
        return self.last


class OwnBases:
    """The open bases. Use `serve_bases`."""

    def __init__(self, shown: str) -> None:
        self._shown = shown.rstrip("/")
        self._open: dict[str, tuple[Session, Watched]] = {}
        self.address = ""

    @contextmanager
    def base(self, session: Session, record: Watched) -> Iterator[str]:
        """The address of a session's base, while the block runs."""
        token = token_urlsafe(16)
        self._open[token] = (session, record)
        try:
            yield f"{self.address}/{token}/fhir"
        finally:
            del self._open[token]

    async def answer(self, request: web.Request) -> web.Response:
        """Carry out a request as a message of its session."""
        token, _, path = request.rel_url.raw_path.lstrip("/").partition("/fhir")
        if token not in self._open:
            return _outcome(404, "no such base: the episode has ended, or the address is wrong")
        session, record = self._open[token]
        if problem := refusal(request.method, path):
            return _outcome(405, problem)
        own = f"{self.address}/{token}/fhir"
        body = (await request.text()).replace(own, self._shown)
        query = request.rel_url.raw_query_string.replace(own, self._shown)
        action = f"POST {self._shown}{path}\n{body}"
        if request.method != "POST" or path.rstrip("/").endswith("/_search"):
            pairs = "&".join(filter(None, (query, body)))
            action = f"GET {self._shown}{path.rstrip('/').removesuffix('/_search')}?{pairs}".rstrip("?")
        record.last = None
        try:
            text = await session.act(action)
        except SessionEndedError as error:
            return _outcome(410, str(error))
        reply = record.last or Reply(400, _document(text))
        return _response(reply.status, reply.text.replace(self._shown, own))


@asynccontextmanager
async def serve_bases(shown: str) -> AsyncIterator[OwnBases]:
    """Serve bases on a free loopback port while the block runs; `shown` is the base that graders know."""
    from aiohttp import web

    bases = OwnBases(shown)
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_route("*", "/{path:.*}", bases.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        bases.address = f"http://{host}:{port}"
        yield bases
    finally:
        await runner.cleanup()


def _outcome(status: int, text: str) -> web.Response:
    return _response(status, _document(text))


def _document(text: str) -> str:
    issue = {"severity": "error", "code": "processing", "diagnostics": text}
    return json.dumps({"resourceType": "OperationOutcome", "issue": [issue]})


def _response(status: int, text: str) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=text, content_type=_FHIR)
