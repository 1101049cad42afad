"""Cassettes: scrubbed replies of a real server as JSON lines, which a FHIR double replays.

A request is matched by method, scrubbed path and scrubbed body, so a match does not need names, which a cassette does
not contain. If the same request comes again, it gets the next recorded reply, and after the last one the last again.
Headers of requests and the server's address are not recorded; of a reply, the headers in `HEADERS` are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict

from fhir_server.wire.http import Request, Response
from medagent.core.errors import UserError
from medagent.core.scrub import hide
from medagent.core.writing import write_whole, writing
from medagent.testing._deidentify import Scrubber
from refsol.files import read_jsonl
from refsol.schema import validator

BASE = "{base}"
"""The placeholder for the server's address."""
HEADERS = ("content-type", "etag", "last-modified", "location", "content-location", "retry-after")
TIMEOUT_S = 60.0
FORM = "application/x-www-form-urlencoded"
SHOWN = 20
"""The most recorded requests that a message lists."""


class CassetteError(Exception):
    """An exchange that cannot be recorded, or a request for which the cassette contains no reply."""


class RecordedExchange(BaseModel):
    """A request and its reply, both scrubbed: a line of a cassette. `path` is below the base, with its query."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    path: str
    body: Any = None
    status: int
    headers: dict[str, str] = {}
    answer: Any = None


class Recorder:
    """Sends requests to a server and records the replies in a cassette, which `close` writes."""

    def __init__(self, base: str, file: Path) -> None:
        self._base = base.rstrip("/")
        self._file = file
        self._client = httpx.Client(timeout=TIMEOUT_S)
        self._scrubber = Scrubber()
        self._exchanges: list[RecordedExchange] = []

    def answer(self, request: Request, base: str) -> Response:
        """The server's own reply, with the base that the client uses. Raises CassetteError."""
        called = f"{request.method} {request.target}"
        joint = "" if not request.target or request.target.startswith("?") else "/"
        sent = [
            (name, value) for name, value in request.headers if name.lower() not in ("content-length", "connection")
        ]
        body = request.body.replace(base.encode(), self._base.encode())
        try:
            got = self._client.request(
                request.method, f"{self._base}{joint}{request.target}", headers=sent, content=body
            )
        except httpx.HTTPError as error:
            raise CassetteError(f"{called}: {self._base} cannot be reached: {error or type(error).__name__}") from None
        exchange = RecordedExchange(
            method=request.method,
            path=self._scrubber.url(request.target),
            body=_scrubbed(self._scrubber, _read(body, request.header("content-type"), called), self._base),
            status=got.status_code,
            headers={name: self._header(got.headers[name]) for name in HEADERS if name in got.headers},
            answer=_scrubbed(self._scrubber, _read(got.content, got.headers.get("content-type"), called), self._base),
        )
        self._exchanges.append(exchange)
        headers = [(name, got.headers[name].replace(self._base, base)) for name in HEADERS if name in got.headers]
        return Response(got.status_code, headers, got.content.replace(self._base.encode(), base.encode()))

    def _header(self, value: str) -> str:
        return self._scrubber.url(value.replace(self._base, BASE))

    def close(self) -> None:
        """Write the cassette. Raises UserError if it cannot be written."""
        self._client.close()
        lines = [self._scrubber.without_names(exchange.model_dump()) for exchange in self._exchanges]
        with writing(self._file):
            self._file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._file, "".join(hide(json.dumps(line, ensure_ascii=False)) + "\n" for line in lines))


class Player:
    """Answers from a cassette. `unanswered` are the requests to which it could not reply."""

    def __init__(self, file: Path) -> None:
        """Raises UserError if the file is missing or is not a cassette."""
        self._file = file
        self._left: dict[str, list[RecordedExchange]] = {}
        self.unanswered: list[str] = []
        if not file.exists():
            raise UserError(f"{file}: is not recorded yet; run pytest --fhir-record to record it")
        expected = "a cassette contains one exchange per line; record it again"
        for _, exchange in read_jsonl(file, validator(RecordedExchange), expected=expected, error=UserError):
            self._left.setdefault(_key(exchange.method, exchange.path, exchange.body), []).append(exchange)

    def answer(self, request: Request, base: str) -> Response:
        """The recorded reply for a request. Raises CassetteError if there is none."""
        called = f"{request.method} {request.target}"
        kind = request.header("content-type")
        body = _with_base(_read(request.body, kind, called), base)
        candidates = self._left.get(_key(request.method, request.target, body), [])
        if not candidates:
            self.unanswered.append(called)
            raise CassetteError(self._missing(called))
        exact = [candidate for candidate in candidates if (candidate.path, candidate.body) == (request.target, body)]
        chosen = (exact or candidates)[0]
        if len(candidates) > 1:
            candidates.remove(chosen)
        headers = [(name, value.replace(BASE, base)) for name, value in chosen.headers.items()]
        return Response(chosen.status, headers, _written(chosen.answer).replace(BASE.encode(), base.encode()))

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _missing(self, called: str) -> str:
        known = sorted({f"{exchange.method} {exchange.path}" for group in self._left.values() for exchange in group})
        listed = "".join(f"\n  {line}" for line in known[:SHOWN])
        more = f"\n  and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        return f"{called}: is not in {self._file}, which contains:{listed or ' nothing'}{more}"


def _key(method: str, path: str, body: Any) -> str:
    """The key of requests with the same reply: all parts except for the names in them."""
    blank = Scrubber(blank=True)
    place, _, query = blank.url(path).partition("?")
    scrubbed = body
    if isinstance(body, str):
        scrubbed = blank.query(body)
    elif body is not None:
        scrubbed = blank.document(body)
    return json.dumps([method, place, sorted(query.split("&")), scrubbed], sort_keys=True)


def _read(body: bytes, kind: str | None, called: str) -> Any:
    """A body as JSON, or a form as its text. Raises CassetteError for other formats: no rule scrubs them."""
    if not body:
        return None
    try:
        return body.decode() if (kind or "").partition(";")[0].strip() == FORM else json.loads(body)
    except ValueError:
        raise CassetteError(
            f"{called}: {kind or 'a body without a type'} cannot be scrubbed, and is not recorded; JSON can"
        ) from None


def _scrubbed(scrubber: Scrubber, body: Any, base: str) -> Any:
    if body is None:
        return None
    return scrubber.query(body) if isinstance(body, str) else scrubber.document(_with_base(body, base))


def _with_base(value: Any, base: str) -> Any:
    """A document with `{base}` instead of the server's address."""
    if isinstance(value, dict):
        return {key: _with_base(inner, base) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_base(inner, base) for inner in value]
    return value.replace(base, BASE) if isinstance(value, str) else value


def _written(answer: Any) -> bytes:
    return b"" if answer is None else json.dumps(answer, ensure_ascii=False).encode()
