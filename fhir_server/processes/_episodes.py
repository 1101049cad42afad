"""A server on a port that opens records on request: `--episodes`.

Whoever holds the server's token opens a record (`POST /episodes`), reads its log (`GET /episodes/<id>`) and ends it
(`DELETE /episodes/<id>`). The server's own data are only read, since they lie under the records. With several workers
all records live in the main process, to which the others pass the requests on.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from fhir_server.episodes import READS, ROOT, Episodes, Record, is_record, refused
from fhir_server.errors import FhirError, WritesElsewhere
from fhir_server.server import Server
from fhir_server.wire.http import Request, Response, split_target


class ServerWithEpisodes:
    """Answers as `Server` does, but reads only; below `/episodes` it opens, answers for and ends records."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._episodes = Episodes(server)
        server.store.writes_elsewhere = True

    def handle(self, request: Request) -> Response:
        """Answers one request; whoever makes it has the server's token, unless it is for a record."""
        if is_record(request.target):
            return self._episodes.handle(request)
        path = split_target(request.target)[0].rstrip("/")
        try:
            if path == ROOT or path.startswith(f"{ROOT}/"):
                return self._managed(request, path.removeprefix(ROOT).removeprefix("/"))
            return self._server.handle(request)
        except WritesElsewhere:
            problem = f"These data are only read: write to a record of your own, which POST {ROOT} opens"
            return refused(FhirError(403, problem, "forbidden"))
        except FhirError as error:
            return refused(error)

    def _managed(self, request: Request, name: str) -> Response:
        if not name and request.method == "POST":
            record = self._episodes.open(**_options(request.body))
            return _json(201, {"id": record.id, "base": record.base, "token": record.token})
        if not name or request.method not in ("GET", "DELETE"):
            problem = f"POST {ROOT} opens a record; GET and DELETE {ROOT}/<id> give its log"
            raise FhirError(405, problem, "not-supported")
        log = _log(self._episodes.find(name))
        if request.method == "DELETE":
            self._episodes.close(name)
        return _json(200, log)


def _options(body: bytes) -> dict[str, Any]:
    """The seed and the clock that a record is opened with. Raises FhirError."""
    try:
        options = json.loads(body or b"{}")
        now = None if options.get("now") is None else datetime.fromisoformat(options["now"])
        if not isinstance(options.get("seed", ""), str) or (now is not None and now.tzinfo is None):
            raise ValueError
    except (ValueError, TypeError, AttributeError, RecursionError):
        problem = 'A record is opened by {"seed": "a text", "now": "a time with its zone"}, both optional'
        raise FhirError(400, problem, "invalid") from None
    return {"seed": options.get("seed"), "now": now}


def _log(record: Record) -> dict[str, Any]:
    """How much was asked of a record, and each write: what was sent, what was answered, what was stored."""
    return {
        "id": record.id,
        "base": record.base,
        "requests": len(record.exchanges),
        "writes": [
            {
                "method": one.method,
                "target": one.target,
                "body": one.body.decode("utf-8", "replace"),
                "status": one.status,
                "stored": [
                    {
                        "type": version.type,
                        "id": version.id,
                        "version": version.version,
                        "resource": version.resource,
                    }
                    for version in one.stored
                ],
            }
            for one in record.exchanges
            if one.method not in READS and not one.target.partition("?")[0].endswith("/_search")
        ],
    }


def _json(status: int, document: dict[str, Any]) -> Response:
    return Response(status, [("Content-Type", "application/json")], json.dumps(document).encode())
