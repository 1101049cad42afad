"""The FHIR double: a server in process over a private overlay, for the code under test and for the test itself.

The code under test reaches it through an adapter (`transport`, `respx`, `requests_adapter`, `url`) under any base URL;
its requests are recorded and affected by faults. The test's own `get`, `post`, `search` … are neither: they prepare
and inspect the data.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from fhir_server.definitions import resource_types
from fhir_server.errors import FhirError
from fhir_server.server import DEFAULT_BASE, Overlay
from fhir_server.wire.http import Request, Response
from fhir_server.wire.outcome import error_outcome
from medagent.core.closing import Closing
from medagent.core.errors import UserError
from medagent.testing._faults import Answer, Fault, Faults, spoiled

if TYPE_CHECKING:
    import httpx
    from requests.adapters import BaseAdapter

    from medagent.testing._aiohttp_adapter import DoubleConnector
    from medagent.testing._authorization import Authorization
    from medagent.testing._cassette import Player, Recorder
    from medagent.testing._httpx2_adapter import DoubleTransport2
    from medagent.testing._httpx_adapter import DoubleTransport

Writes = Literal["ack", "execute"]
_JSON = ("Content-Type", "application/fhir+json")
_LIKE_A_TYPE = re.compile(r"(?:[A-Z][a-z]+)+")
_CHANGED = {"system": "urn:medagent:testing", "code": "changed-elsewhere"}
NOT_R4B = frozenset({"Evidence", "EvidenceVariable"})
"""Types whose elements differ between R4B and R4. Types that R4B lacks do not need an entry."""


class FhirStatusError(Exception):
    """A request of the test itself failed, with this `status` and `outcome` (the OperationOutcome)."""

    def __init__(self, request: str, status: int, outcome: Any) -> None:
        issues = outcome.get("issue", []) if isinstance(outcome, dict) else []
        details = "; ".join(str(issue.get("diagnostics", "")) for issue in issues)
        super().__init__(f"{request}: {status} {details}".rstrip())
        self.status = status
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request of the code under test: `path` is below the base, with its query; `status` is None without a reply."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    status: int | None

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    def fits(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Whether its method, path (the query in any order) and headers match."""
        expected, requested = urlsplit(self.path), urlsplit(path.removeprefix("/"))
        mine = {name.lower(): value for name, value in self.headers.items()}
        return (
            (self.method, expected.path) == (method, requested.path)
            and sorted(parse_qsl(expected.query, keep_blank_values=True))
            == sorted(parse_qsl(requested.query, keep_blank_values=True))
            and all(mine.get(name.replace("_", "-").lower()) == value for name, value in headers.items())
        )

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Requests:
    """The requests to a double. A double is one."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ReceivedRequest] = []

    def assert_requested(self, method: str, path: str, *, times: int | None = None, **headers: str) -> ReceivedRequest:
        """Assert that the code under test made this request; returns the last matching one.

        `path` is below the base, with its query in any order; `headers` are by name with `_` for `-`, such as
        `if_match='W/"1"'`. Raises AssertionError with all requests; with `times`, even if the number differs.
        """
        __tracebackhide__ = True
        matches = [request for request in self.requests if request.fits(method, path, headers)]
        if (len(matches) if times is None else len(matches) == times) and matches:
            return matches[-1]
        listed = "\n".join(f"  {request}" for request in self.requests) or "  nothing"
        expected = "at least once" if times is None else f"{times} times"
        raise AssertionError(
            f"{method} {path}: requested {len(matches)} times, expected {expected}; requests:\n{listed}"
        )

    def assert_not_requested(self, method: str, path: str) -> None:
        """Assert that the code under test did not make this request. Raises AssertionError."""
        __tracebackhide__ = True
        if any(request.fits(method, path, {}) for request in self.requests):
            raise AssertionError(f"{method} {path} was requested")


class FhirDouble(Faults, Requests, Closing):
    """A FHIR server for one test. Use `FhirData.double`, or the fixture `fhir`. A context manager.

    `cassette` is the default file of `record`, `live` the default of whether it uses the server; the fixture sets both.
    """

    cassette: Path | None = None
    live: bool = False

    def __init__(self, overlay: Callable[[], Overlay], writes: Writes) -> None:
        super().__init__()
        self._tape: Recorder | Player | None = None
        self._authorization: Authorization | None = None
        self._open = overlay
        self._overlay = overlay()
        self._writes = writes
        self._lock = threading.RLock()
        self._changes = 0
        self._stack = ExitStack()
        self._url = ""

    # Requests of the test itself.

    def get(self, path: str, *, as_model: bool = False) -> Any:
        """The resource (or Bundle) at a path such as "Patient/1", as a dict, or as its R4B model of fhir.resources.

        Raises FhirStatusError, as all these methods do; ValueError for a model of a type that R4B has changed.
        """
        resource = self._own("GET", path)
        return _model(resource) if as_model else resource

    def post(self, resource: Any, path: str | None = None) -> Any:
        """Create a resource (dict or model), carry out a Bundle, or call an operation at `path`; returns the answer."""
        body = _document(resource)
        kind = body["resourceType"]
        if path is None:
            path = "" if kind == "Bundle" else kind
        return self._own("POST", path, body)

    def put(self, resource: Any) -> Any:
        """Write a resource under its own id."""
        body = _document(resource)
        return self._own("PUT", f"{body['resourceType']}/{body['id']}", body)

    def patch(self, path: str, operations: list[dict[str, Any]]) -> Any:
        """Change a resource by JSON Patch."""
        return self._own("PATCH", path, operations, "application/json-patch+json")

    def delete(self, path: str) -> Any:
        """Delete a resource; returns the OperationOutcome."""
        return self._own("DELETE", path)

    def search(self, resource_type: str, *, as_model: bool = False, **params: Any) -> list[Any]:
        """The matching and included resources of all pages. A list repeats a parameter; pass one with a modifier as
        `**{"name:exact": "Smith"}`.
        """
        query = urlencode({name: _text(value) for name, value in params.items()}, doseq=True)
        resources, path = [], f"{resource_type}?{query}"
        while path:
            bundle = self._own("GET", path)
            resources += [entry["resource"] for entry in bundle.get("entry", [])]
            following = [link["url"] for link in bundle.get("link", []) if link["relation"] == "next"]
            path = f"?{urlsplit(following[0]).query}" if following else ""
        return [_model(resource) for resource in resources] if as_model else resources

    def created(self, resource_type: str | None = None) -> list[dict[str, Any]]:
        """The resources created since the start of the test, in order, as first stored; of one type if it is named."""
        with self._lock:
            rows = self._overlay.created()
        return [
            {"resourceType": kind, "id": name, **json.loads(text)}
            for kind, name, text in rows
            if resource_type in (None, kind)
        ]

    def freeze(self, now: datetime) -> None:
        """Set the clock to `now` (with a time zone) for the next request; each later one is a millisecond later."""
        with self._lock:
            self._overlay.set_clock(now)

    def expire_pages(self) -> None:
        """Drop the searches so far: requests for their further pages get 410, as from HAPI."""
        self._check_private("expire_pages")
        with self._lock:
            self._overlay.expire_pages()

    def stale(self, on: str | None = None, *, times: int | None = 1) -> None:
        """Let another client change a resource just before it is written: a write with If-Match or a version fails as
        in HAPI (409 or 412), a write without one overwrites the change.
        """
        self._check_private("stale")
        self._faults.append(Fault("stale", on, None, times))

    def require_token(self, *tokens: str) -> None:
        """Require one of these bearer tokens from now on; requests without one get 401 with WWW-Authenticate. Only
        `metadata` does not need a token.
        """
        from medagent.testing._authorization import Authorization

        self._authorization = Authorization(set(tokens))

    def require_smart(
        self, client_id: str, client_secret: str = "", *, scope: str = "system/*.rs", expires_in: int = 300
    ) -> None:
        """Require a token of the double's own token endpoint from now on (SMART backend services). The endpoint is in
        `.well-known/smart-configuration` below the base; it accepts this client.
        """
        from medagent.testing._authorization import Authorization

        self._authorization = Authorization(set(), client_id, client_secret, scope, expires_in)

    def expire_tokens(self) -> None:
        """Make all tokens so far invalid: the next request with one is refused (`invalid_token`)."""
        if self._authorization is None:
            raise UserError("expire_tokens: no token is required; call require_token or require_smart first")
        self._authorization.expire()

    def record(self, base: str, cassette: str | Path | None = None, *, live: bool | None = None) -> None:
        """Answer the code under test with replies of the server at `base` from now on.

        With `live` (in the fixture: `pytest --fhir-record`), requests go to that server, with the code's own headers,
        and its scrubbed replies are written to the file `cassette` when the double is closed. Without, the replies come
        from the cassette. Raises UserError if the cassette is missing; a request without a recorded reply raises a
        CassetteError.
        """
        from medagent.testing._cassette import Player, Recorder

        file = Path(cassette) if cassette is not None else self.cassette
        if file is None:
            raise UserError("record: name the file for the replies (cassette=…)")
        if self._writes == "ack":
            raise UserError("record: a recorded server stores writes itself; leave out writes='ack'")
        is_live = self.live if live is None else live
        tape = Recorder(base, file) if is_live else Player(file)
        if self._tape is not None:
            self._tape.close()
        self._tape = tape

    @property
    def unanswered(self) -> list[str]:
        """The requests since `record` that are not in the cassette; if there are any, the fixture fails the test."""
        return list(getattr(self._tape, "unanswered", []))

    # Adapters for the code under test.

    def transport(self) -> DoubleTransport:
        """A transport for `httpx.Client` and `httpx.AsyncClient`."""
        from medagent.testing._httpx_adapter import DoubleTransport

        return DoubleTransport(self.answer)

    def transport2(self) -> DoubleTransport2:
        """A transport for `httpx2.Client` and `httpx2.AsyncClient`, which openai, anthropic and mcp use."""
        from medagent.testing._httpx2_adapter import DoubleTransport2

        return DoubleTransport2(self.answer)

    def aiohttp_connector(self) -> DoubleConnector:
        """A connector for aiohttp: `aiohttp.ClientSession(connector=fhir.aiohttp_connector())`."""
        from medagent.testing._aiohttp_adapter import DoubleConnector

        return DoubleConnector(self.answer, self._stack)

    def respx(self, request: httpx.Request) -> httpx.Response:
        """A side effect for a respx route: `respx_mock.route(host="…").mock(side_effect=fhir.respx)`."""
        response: httpx.Response = self.transport().handle_request(request)
        return response

    def requests_adapter(self) -> BaseAdapter:
        """An adapter for requests: `session.mount("https://ehr.example.org", fhir.requests_adapter())`."""
        from medagent.testing._requests_adapter import DoubleAdapter

        return DoubleAdapter(self.answer)

    @property
    def url(self) -> str:
        """The FHIR base on a loopback port, `http://127.0.0.1:PORT/fhir`; opened at the first use."""
        if not self._url:
            from medagent.testing._loopback import serving

            self._url = self._stack.enter_context(serving(self.answer)) + "/fhir"
        return self._url

    def answer(self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
        """The reply for an adapter, with its fault if there is one. Records the request.

        The base is the part of `url` before the first segment that is a type, `metadata`, `_history` or an operation;
        the whole path if none of them occurs.
        """
        base, path = _split(url)
        sent = [(name, value) for name, value in headers if name.lower() not in ("host", "accept-encoding")]
        with self._lock:
            if self._authorization and (refusal := self._authorization.answer(method, url, sent, body)) is not None:
                self.requests.append(ReceivedRequest(method, path, dict(sent), body, refusal.status))
                return refusal
            fault = self._take(method, path.partition("?")[0])
            if fault and fault.kind == "status":
                answer = _failed(fault)
            else:
                if fault and fault.kind == "stale":
                    self._change(path.partition("?")[0])
                response = self._carry_out(Request(method, path, sent, body), base)
                answer = spoiled(Answer(response.status, response.headers, response.body), fault)
            status = None if answer.lost else answer.status
            self.requests.append(ReceivedRequest(method, path, dict(sent), body, status))
        return answer

    def close(self) -> None:
        """Close the open port, write the recorded cassette, and drop all writes."""
        self._stack.close()
        self._overlay.close()
        if self._tape is not None:
            self._tape.close()

    def _carry_out(self, request: Request, base: str) -> Response:
        """The reply of the overlay or cassette. An acknowledged write goes into a second overlay, which is dropped."""
        if self._tape is not None:
            return self._tape.answer(request, base)
        reads = request.method in ("GET", "HEAD", "OPTIONS") or "_search" in request.target or "$" in request.target
        if reads or self._writes == "execute":
            return _handled(self._overlay, request, base)
        with self._open() as copy:
            return _handled(copy, request, base)

    def _check_private(self, name: str) -> None:
        if self._tape is not None:
            raise UserError(f"{name} applies to the double's own data, which `record` does not use")

    def _own(self, method: str, path: str, body: Any = None, kind: str = _JSON[1]) -> Any:
        sent = b"" if body is None else json.dumps(body).encode()
        target = path.removeprefix("/")
        with self._lock:
            response = _handled(self._overlay, Request(method, target, [("Content-Type", kind)], sent), DEFAULT_BASE)
        document = json.loads(response.body) if response.body else None
        if response.status >= 400:
            raise FhirStatusError(f"{method} {target}", response.status, document)
        return document

    def _change(self, path: str) -> None:
        """Store a new version of the resource at a path, if there is one, as if by another client."""
        self._changes += 1
        try:
            resource = self._own("GET", path)
            tags = resource.setdefault("meta", {}).setdefault("tag", [])
            tags[:] = [tag for tag in tags if tag.get("system") != _CHANGED["system"]]
            tags.append({**_CHANGED, "version": str(self._changes)})
            self._own("PUT", path, resource)
        except FhirStatusError:
            return  # there is no resource to change; the reply to the request says so


def _handled(overlay: Overlay, request: Request, base: str) -> Response:
    """The reply of an overlay to a request whose target is below the client's base."""
    overlay.base = base
    joint = "" if not request.target or request.target.startswith("?") else "/"
    target = f"{urlsplit(base).path}{joint}{request.target}"
    return overlay.handle(Request(request.method, target, request.headers, request.body))


def _split(url: str) -> tuple[str, str]:
    """A URL as the FHIR base and the path below it, with its query."""
    parts = urlsplit(url)
    segments = parts.path.split("/")
    begins = [n for n, name in enumerate(segments) if _begins_below(name)]
    misspelt = [n for n, name in enumerate(segments) if _LIKE_A_TYPE.fullmatch(name)]
    first = (begins or misspelt or [len(segments)])[0]
    base = "/".join(segments[:first]).rstrip("/")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{base}", "/".join(segments[first:]) + query


def _begins_below(segment: str) -> bool:
    return (
        segment in ("metadata", "_history", ".well-known", "auth")
        or segment.startswith("$")
        or segment in resource_types()
    )


def _failed(fault: Fault) -> Answer:
    outcome = error_outcome(FhirError(fault.status, f"injected: {fault.status}", "transient"))
    headers = [("Content-Type", "application/fhir+json;charset=UTF-8")]
    if fault.retry_after is not None:
        headers.append(("Retry-After", str(fault.retry_after)))
    return Answer(fault.status, headers, outcome.encode())


def _document(resource: Any) -> dict[str, Any]:
    document: dict[str, Any] = resource if isinstance(resource, dict) else json.loads(resource.model_dump_json())
    return document


def _text(value: Any) -> Any:
    return [str(element) for element in value] if isinstance(value, (list, tuple)) else str(value)


def _model(resource: dict[str, Any]) -> Any:
    from fhir.resources.R4B import get_fhir_model_class

    kind = resource["resourceType"]
    if kind in NOT_R4B:
        raise ValueError(f"{kind}: R4B, which fhir.resources uses, differs from R4 in this type; take it as a dict")
    try:
        model = get_fhir_model_class(kind)
    except (KeyError, LookupError):
        raise ValueError(f"{kind}: R4B, which fhir.resources uses, lacks this type; take it as a dict") from None
    return model.model_validate(resource)
