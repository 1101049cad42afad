"""Episodes over HTTP: private copies of a server's data, each at its own path, `http://host/episodes/<id>/fhir/…`.

They are for agents that use HTTP themselves. Each copy is an overlay; the id in its path cannot be guessed; every
request must carry the copy's own token; requests, replies and stored resources are logged. A copy that receives no
request for `IDLE_S` is dropped. The server's own data are the base of all copies and must not change meanwhile.

A `ServerWithEpisodes` (`--episodes`) opens them on request: with the server's token, a client opens an episode (`POST
/episodes`), reads its log (`GET /episodes/<id>`) and ends it (`DELETE /episodes/<id>`).
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from fhir_server.bounds import Bounds, Meter, OverBoundsError
from fhir_server.errors import FhirError, WritesElsewhere
from fhir_server.load.amend import Amendment
from fhir_server.server import Overlay, Server
from fhir_server.wire.http import Request, Response, carries_token, split_target
from fhir_server.wire.outcome import refused

ROOT = "/episodes"
IDLE_S = 1800.0
"""Seconds without a request after which a copy is dropped."""
MOST = 1000
"""The most copies that may be open at the same time: each one with writes needs a connection to the file."""
LOGGED = 64_000_000
"""The most bytes of requests and replies in the log of one copy; further requests are refused."""
_RECORD = re.compile(rf"{ROOT}/([\w-]+)/fhir(?=[/?#]|$)")
READS = ("GET", "HEAD", "OPTIONS")
CONDITIONS = ("If-Match", "If-None-Exist")
Replaced = list[tuple[str, str, str | None, str | None]]
"""Type and id of each resource that an episode wrote, with its text before and after (None: there is none)."""

Refuse = Callable[[str, str], str | None]
"""Takes a method and a path below the base; returns why the request is refused, or None."""
Rewrite = Callable[[str], str]
"""Takes the path and query of a read as sent; returns the path and query that are answered instead."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version that a request stored; `text` is the resource as stored, None for a deletion."""

    type: str
    id: str
    version: int
    text: str | None

    @property
    def resource(self) -> dict[str, Any] | None:
        """The resource as clients read it, None for a deletion."""
        if self.text is None:
            return None
        return {"resourceType": self.type, "id": self.id, **json.loads(self.text)}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply. `target` is the path below the base with its query, as the client sent it; `sent` is
    the target that was answered instead. `conditions` are its headers If-Match and If-None-Exist.
    """

    method: str
    target: str
    body: bytes
    status: int
    answer: bytes
    stored: tuple[StoredVersion, ...] = ()
    sent: str = ""
    conditions: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Record:
    """An open copy. `exchanges` is its log, in order, and remains after the copy is closed."""

    id: str
    base: str
    token: str = field(repr=False)
    overlay: Overlay = field(repr=False)
    refuse: Refuse
    used: float
    """The time of its last request, by the monotonic clock."""
    rewrite: Rewrite = str
    exchanges: list[Exchange] = field(default_factory=list)
    logged: int = 0
    replaced: Replaced = field(default_factory=list)
    """What the copy had changed when it was closed."""

    def handle(self, request: Request) -> Response:
        """Answers one request and logs it. Raises FhirError if the request is refused."""
        target = request.target.removeprefix(urlsplit(self.base).path)
        if self.logged > LOGGED:
            raise FhirError(429, f"This episode has used its {LOGGED / 1e6:g} MB of requests and replies", "too-costly")
        problem = self.refuse(request.method, split_target(target)[0])
        if problem is not None:
            raise FhirError(405, problem, "not-supported")
        before = self.overlay.last
        sent = self.rewrite(target) if request.method in READS else target
        if sent != target:
            request = replace(request, target=f"{urlsplit(self.base).path}{sent}")
        try:
            response = self.overlay.handle(request, Meter(Bounds()))
        except OverBoundsError as error:
            raise FhirError(413, str(error), "too-costly") from None
        stored = (
            () if request.method in READS else tuple(StoredVersion(*row) for row in self.overlay.written(before + 1))
        )
        conditions = tuple((name, value) for name in CONDITIONS if (value := request.header(name)) is not None)
        exchange = Exchange(
            request.method, target, request.body, response.status, response.body, stored, sent, conditions
        )
        self.exchanges.append(exchange)
        self.logged += len(target) + len(request.body) + len(response.body)
        return response


class Episodes:
    """The open copies of one server's data. Answers requests below their paths only; safe for several threads.

    `idle` is in seconds. Do not write to the server's own data while copies are open.
    """

    def __init__(self, server: Server, idle: float = IDLE_S) -> None:
        parts = urlsplit(server.context.base)
        self._address = f"{parts.scheme}://{parts.netloc}"
        self._server = server
        self._idle = idle
        self._records: dict[str, Record] = {}
        self._lock = threading.Lock()

    def open(
        self,
        *,
        seed: str | None = None,
        now: datetime | None = None,
        refuse: Refuse = lambda *_: None,
        rewrite: Rewrite = str,
        amendment: Amendment = (),
        chart: str = "",
    ) -> Record:
        """Opens a copy. `seed` determines the ids that the server creates, `now` is the start of its clock; `rewrite`
        changes the target of reads, `amendment` and `chart` the data (see `Server.overlay`).

        Raises FhirError, 503, if too many copies are open.
        """
        with self._lock:
            self._drop_idle()
            if len(self._records) >= MOST:
                raise FhirError(503, f"{MOST} episodes are open, which is the limit; close one first", "throttled")
            name = secrets.token_urlsafe(18)
            overlay = self._server.overlay(seed or name, now or datetime.now(UTC), amendment, chart)
            overlay.base = f"{self._address}{ROOT}/{name}/fhir"
            token = secrets.token_urlsafe(24)
            record = Record(name, overlay.base, token, overlay, refuse, time.monotonic(), rewrite)
            self._records[name] = record
        return record

    def close(self, name: str) -> None:
        """Drops a copy with its writes. Does nothing if it was already dropped."""
        with self._lock:
            self._close(name)

    def close_all(self) -> None:
        """Drops every copy. Call it before you close the server."""
        with self._lock:
            for name in list(self._records):
                self._close(name)

    def handle(self, request: Request) -> Response:
        """Answers one request."""
        try:
            with self._lock:
                self._drop_idle()
                return self._handle(request)
        except FhirError as error:
            return refused(error)

    def _handle(self, request: Request) -> Response:

        match = _RECORD.match(split_target(request.target)[0])
        if match is None:
            raise FhirError(404, f"This server serves only episodes, at {ROOT}/<id>/fhir", "not-found")
        record = self._found(match[1])
        sent = request.header("authorization") or ""
        if not carries_token(sent, record.token):
            raise FhirError(401, "This episode requires its own token: Authorization: Bearer …", "login")
        record.used = time.monotonic()
        return record.handle(request)

    def replaced(self, record: Record) -> Replaced:
        """See `Overlay.replaced`; for a closed copy, its last state."""
        with self._lock:
            return record.overlay.replaced() if record.id in self._records else record.replaced

    def find(self, name: str) -> Record:
        """The open copy with this id. Raises FhirError, 404."""
        with self._lock:
            self._drop_idle()
            return self._found(name)

    def _found(self, name: str) -> Record:
        if name not in self._records:
            raise FhirError(
                404, "This episode does not exist; it ended, or received no request for too long", "not-found"
            )
        return self._records[name]

    def _close(self, name: str) -> None:
        record = self._records.pop(name, None)
        if record is not None:
            record.replaced = record.overlay.replaced()
            record.overlay.close()

    def _drop_idle(self) -> None:
        before = time.monotonic() - self._idle
        for name in [record.id for record in self._records.values() if record.used < before]:
            self._close(name)


def is_record(target: str) -> bool:
    """Whether a target is below an episode, which needs its own token."""
    return _RECORD.match(target) is not None


class ServerWithEpisodes:
    """Answers reads like `Server`, refuses writes, and manages episodes below `/episodes`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._episodes = Episodes(server)
        server.store.writes_elsewhere = True

    def handle(self, request: Request) -> Response:
        """Answers one request. The server's token was checked already, except for requests to an episode."""
        if is_record(request.target):
            return self._episodes.handle(request)
        path = split_target(request.target)[0].rstrip("/")
        try:
            if path == ROOT or path.startswith(f"{ROOT}/"):
                return self._managed(request, path.removeprefix(ROOT).removeprefix("/"))
            return self._server.handle(request)
        except WritesElsewhere:
            problem = f"The server's own data is read-only: POST {ROOT} opens an episode with its own copy"
            return refused(FhirError(403, problem, "forbidden"))
        except FhirError as error:
            return refused(error)

    def _managed(self, request: Request, name: str) -> Response:
        if not name and request.method == "POST":
            record = self._episodes.open(**_options(request.body))
            return _json(201, {"id": record.id, "base": record.base, "token": record.token})
        if not name or request.method not in ("GET", "DELETE"):
            problem = f"Use POST {ROOT} to open an episode, and GET or DELETE {ROOT}/<id> to read its log"
            raise FhirError(405, problem, "not-supported")
        log = _log(self._episodes.find(name))
        if request.method == "DELETE":
            self._episodes.close(name)
        return _json(200, log)


def _options(body: bytes) -> dict[str, Any]:
    """The seed and the time for a new episode. Raises FhirError, 400."""
    try:
        options = json.loads(body or b"{}")
        now = None if options.get("now") is None else datetime.fromisoformat(options["now"])
        if not isinstance(options.get("seed", ""), str) or (now is not None and now.tzinfo is None):
            raise ValueError
    except (ValueError, TypeError, AttributeError, RecursionError):
        problem = 'The body must be {"seed": "a text", "now": "a time with a time zone"}; both are optional'
        raise FhirError(400, problem, "invalid") from None
    return {"seed": options.get("seed"), "now": now}


def _log(record: Record) -> dict[str, Any]:
    """The log of an episode: the number of requests, and each write with request, status and stored versions."""
    return {
        "id": record.id,
        "base": record.base,
        "requests": len(record.exchanges),
        "writes": [
            {
                "method": exchange.method,
                "target": exchange.target,
                "body": exchange.body.decode("utf-8", "replace"),
                "status": exchange.status,
                "stored": [
                    {
                        "type": version.type,
                        "id": version.id,
                        "version": version.version,
                        "resource": version.resource,
                    }
                    for version in exchange.stored
                ],
            }
            for exchange in record.exchanges
            if exchange.method not in READS and not exchange.target.partition("?")[0].endswith("/_search")
        ],
    }


def _json(status: int, document: dict[str, Any]) -> Response:
    return Response(status, [("Content-Type", "application/json")], json.dumps(document).encode())
