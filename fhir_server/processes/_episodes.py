"""A server on a port that opens episodes on request: `--episodes`. An episode has a private copy of the data.

With the server's token, a client opens an episode (`POST /episodes`), reads its log (`GET /episodes/<id>`) and ends it
(`DELETE /episodes/<id>`). The server's own data is read-only, since all copies share it.
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
