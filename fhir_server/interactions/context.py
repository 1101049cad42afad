"""The context of a request: its parts, the format of its response, and the server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from fhir_server.clock import Clock, http_date
from fhir_server.definitions import is_resource_type
from fhir_server.errors import FhirError
from fhir_server.ids import IdSource
from fhir_server.interactions.exports import Exports
from fhir_server.search.paging import AS_HAPI, Paging, Searches
from fhir_server.search.parameters import ParameterRegistry, resource_types
from fhir_server.store import Store, Version
from fhir_server.terminology import HL7
from fhir_server.wire.bundle import Bundle
from fhir_server.wire.http import Pairs, Request, Response, by_name, link, parse_query, path_segments, split_target
from fhir_server.wire.json_text import compact, decode
from fhir_server.wire.json_values import Json
from fhir_server.wire.xml import to_xml

XML_TYPES, JSON_TYPES = (
    dict.fromkeys((form, f"application/{form}", f"text/{form}", f"application/fhir+{form}"), f"application/fhir+{form}")
    | {f"application/{form}+fhir": f"application/{form}+fhir"}
    for form in ("xml", "json")
)
OFFERED = XML_TYPES | JSON_TYPES
"""The names of the two formats in requests, and HAPI's `Content-Type` for each. Types of earlier FHIR are repeated."""
NOT_OFFERED = frozenset(
    "html html/xml html/json html/turtle text/html ttl rdf text/turtle application/x-turtle application/fhir+turtle".split()  # noqa: SIM905, E501  # words: as a list they are harder to read
)
"""Formats that HAPI supports and this server does not."""
MAX_BODY = 50 * 1024 * 1024
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")


@dataclass(slots=True)
class ServerContext:
    """The server's part of each request: its store, its searches and its settings."""

    store: Store
    ids: IdSource
    clock: Clock
    base: str
    """The URL of the server, without a slash at the end."""
    reference_check: bool = True
    hooks: frozenset[str] = frozenset()
    """The hosts that may receive notifications of Subscriptions."""
    exports: Exports | None = None
    """The bulk exports; None if the server does not offer them."""
    searches: Searches = field(default_factory=Searches)
    paging: Paging = AS_HAPI


@dataclass(slots=True)
class RequestContext:
    """A request with its parts, and the server. `now` is in milliseconds since 1970."""

    server: ServerContext
    request: Request
    segments: tuple[str, ...]
    pairs: Pairs
    request_id: str
    now: int
    base: str
    """The URL of the server, with the host of the request."""
    path: str = ""
    """The path below the base, not decoded."""
    unused: Pairs = ()
    """Parameters of a read in a Bundle that do not affect its response, except for the self link."""
    in_transaction: bool = False
    announced: set[str] = field(default_factory=set)
    """References that are known to resolve: to resources of the current Bundle, and to existing ones."""
    deleted: list[Version] = field(default_factory=list)
    """The resources that the current transaction deleted. References to them are checked at its end."""
    _layout: Layout | None = None

    @property
    def store(self) -> Store:
        """The store to read and write."""
        return self.server.store

    @property
    def registry(self) -> ParameterRegistry:
        """The search parameters in force."""
        return self.server.store.registry

    @property
    def address(self) -> str:
        """The URL of the request without its query."""
        return self.base + self.path

    @property
    def self_link(self) -> str:
        """The URL of the request, with its parameters sorted by name."""
        return link(self.address, by_name([*self.pairs, *self.unused]))

    @property
    def layout(self) -> Layout:
        """The format of the response."""
        if self._layout is None:
            formats = tuple([value for name, value in self.pairs if name == "_format"])
            pretty = next((value == "true" for name, value in self.pairs if name == "_pretty"), True)
            sent = (self.request.header("content-type") or "") if self.request.body else ""
            self._layout = layout_of(formats, self.request.header("accept") or "", sent, pretty=pretty)
        return self._layout

    def add_form(self) -> None:
        """Adds the parameters in the body (a form) to those in the URL."""
        self.pairs += parse_query(self.request.text)
        self._layout = None

    def value(self, name: str) -> str | None:
        """The last value of a parameter, or None."""
        for key, value in reversed(self.pairs):
            if key == name:
                return value
        return None

    def respond(self, status: int, text: str | bytes, headers: Sequence[tuple[str, str]] = ()) -> Response:
        """A response in the requested format, from JSON text (a str, or UTF-8)."""
        layout = self.layout
        all_headers = [("X-Request-ID", self.request_id), *headers, ("Content-Type", layout.content_type)]
        if not layout.usual:
            text = self.laid_out(text.decode() if isinstance(text, bytes) else text)
        return Response(status, all_headers, text if isinstance(text, bytes) else text.encode())

    def laid_out(self, text: str) -> str:
        """Converts JSON text to the requested format."""
        if self.layout.in_xml:
            return to_xml(decode(text), pretty=self.layout.pretty)
        return text if self.layout.pretty else compact(text)

    def bundle(self, bundle: Bundle, *, addressed: bool = True) -> Response:
        """A response with a Bundle, and with its address if it is `addressed`."""
        headers = [("Content-Location", f"{self.base}/Bundle/{bundle.id}")] if addressed else []
        return self.respond(200, bundle.render(), [*headers, ("Last-Modified", http_date(self.now // 1000))])


class Layout(NamedTuple):
    """The format of a response.

    `pretty`: it is indented, unless `_pretty` is something other than `true`. `usual`: it is indented JSON. `refused`:
    the requested format, if the server does not support it and the request allows no other.
    """

    content_type: str
    in_xml: bool
    pretty: bool
    usual: bool
    refused: str | None


@lru_cache(maxsize=256)
def layout_of(formats: tuple[str, ...], accept: str, sent: str, *, pretty: bool) -> Layout:
    """The layout for the values of `_format`, the header `Accept`, the `Content-Type` of a body (`sent`) and `_pretty`.

    Cached, since clients repeat these.
    """
    kind = negotiated(formats, accept, sent)
    in_xml = "xml" in kind
    refused = refused_format(formats, accept)
    return Layout(f"{kind};charset=UTF-8", in_xml, pretty, pretty and not in_xml, refused)


def negotiated(formats: tuple[str, ...], accept: str, sent: str) -> str:
    """The media type of a response: the first known `_format`, otherwise the best in `Accept`, otherwise `sent`.

    If several types in `Accept` have the highest weight, JSON is preferred.
    """
    named = next((OFFERED[kind] for kind in map(_without_parameters, formats) if kind in OFFERED), None)
    if named is None and not ("html" in accept and "*" in accept):  # a browser's preferences are ignored
        named = _preferred(accept)
    return named or OFFERED.get(_without_parameters(sent), "application/fhir+json")


def _preferred(accept: str) -> str | None:
    """The supported media type with the highest weight in `Accept`, or None."""
    best, weight = None, -1.0
    for part in accept.split(","):
        kind, *parameters = (item.strip() for item in part.split(";"))
        text = next((item[2:] for item in parameters if item.startswith("q=")), "1")
        quality = float(text) if text.replace(".", "", 1).isdecimal() else 1.0
        if kind in OFFERED and (quality > weight or (quality == weight and kind in JSON_TYPES)):
            best, weight = OFFERED[kind], quality
    return best


def refused_format(formats: tuple[str, ...], accept: str) -> str | None:
    """The requested format, if this server does not support it and the request allows no other; otherwise None."""
    for kind in map(_without_parameters, formats):
        if kind in OFFERED:
            return None
        if kind in NOT_OFFERED:
            return kind
    known = [kind for kind in map(_without_parameters, accept.split(",")) if kind in NOT_OFFERED]
    return known[0] if known and "*" not in accept and _preferred(accept) is None else None


def _without_parameters(kind: str) -> str:
    """A media type without its parameters. A blank in `_format` was a plus."""
    return kind.partition(";")[0].strip().replace(" ", "+")


def open_request(server: ServerContext, request: Request, path: str) -> RequestContext | None:
    """The context of a request; None if it is not below `path`, the path of the server's URL."""
    target, query = split_target(request.target)
    if target != path and not target.startswith(f"{path}/"):
        return None
    sent_id = request.header("x-request-id")
    valid = sent_id and len(sent_id) <= 200 and sent_id.isascii() and sent_id.replace("-", "").isalnum()
    return RequestContext(
        server,
        request,
        path_segments(target[len(path) :]),
        _with_plus(query, parse_query(query)),
        sent_id if sent_id and valid else server.ids.request_id(),
        server.clock.now(),
        named_base(server.base, request.header("host")),
        target[len(path) :],
    )


def _with_plus(query: str, pairs: Pairs) -> Pairs:
    """The pairs, in which an unescaped plus in `_format` remains a plus."""
    if "_format=" not in query or "+" not in query:
        return pairs
    return tuple([(name, value.replace(" ", "+") if name == "_format" else value) for name, value in pairs])


@lru_cache(maxsize=64)
def named_base(base: str, host: str | None) -> str:
    """The base with the host of the request (RFC 9112, 3.2), as in HAPI's links. Without a valid host, the base."""
    if host is None or not _HOST.fullmatch(host):
        return base
    parts = urlsplit(base)
    return f"{parts.scheme}://{host}{parts.path}"


def check_type(kind: str) -> None:
    """Raises HAPI-0302 if `kind` is not a resource type of R4."""
    if not is_resource_type(kind):
        raise FhirError(404, _unknown_type(kind))


@lru_cache(maxsize=256)
def _unknown_type(kind: str) -> str:
    known = ", ".join(resource_types())
    return f"HAPI-0302: Unknown resource type '{kind}' - Server knows how to handle: [{known}]"


class StoredLibrary:
    """The code systems and value sets of a store. If the store does not have one, HL7's is used."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server

    def code_system(self, url: str) -> Json | None:
        """The CodeSystem with this URL, or None."""
        return self.find("CodeSystem", url) or HL7.code_system(url)

    def value_set(self, url: str) -> Json | None:
        """The ValueSet with this URL, or None."""
        return self.find("ValueSet", url) or HL7.value_set(url)

    def find(self, kind: str, url: str) -> Json | None:
        """The last stored resource of a type with this URL, or None. The URL may also be `Type/id`."""
        store = self._server.store
        if url.startswith(f"{kind}/"):
            row = store.find(kind, url.removeprefix(f"{kind}/"))
            return row.resource or None if row is not None else None
        rows = store.with_url(kind, url)
        return rows[-1].resource if rows else None
