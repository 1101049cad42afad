"""Requests, responses, query strings and links.

Query strings are read like in HAPI's servlet container. `+` is a blank. Broken UTF-8 becomes U+FFFD (an escaped
surrogate becomes one, not three). Empty pairs are dropped. The value of a name without `=` is empty.

All text of a request is valid Unicode: half of a surrogate pair, which only a program can pass, becomes U+FFFD here.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from urllib.parse import quote, unquote, unquote_plus

Pairs = tuple[tuple[str, str], ...]

CONTENT_TYPE = "application/fhir+json;charset=UTF-8"


@dataclass(slots=True)
class Request:
    """One HTTP request. `target` is path and query. Header names are in any case. Do not change a request."""

    method: str
    target: str
    headers: Pairs | list[tuple[str, str]] = ()
    body: bytes = b""
    _by_name: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.method, self.target = _valid(self.method), _valid(self.target)
        self.headers = [(_valid(name), _valid(value)) for name, value in self.headers]
        self._by_name = {name.lower(): value for name, value in self.headers}

    def header(self, name: str) -> str | None:
        """The last value of a header, or None."""
        return self._by_name.get(name.lower())

    @property
    def text(self) -> str:
        """The body, decoded."""
        return self.body.decode("utf-8", "replace")


def _valid(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


@dataclass(slots=True)
class Response:
    """One HTTP response. Header names are in HAPI's letter case. `body` is UTF-8 text or empty."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The first value of a header, or None."""
        lower = name.lower()
        return next((value for key, value in self.headers if key.lower() == lower), None)

    @property
    def text(self) -> str:
        """The body, decoded."""
        return self.body.decode("utf-8")


@lru_cache(maxsize=4096)
def parse_query(query: str) -> Pairs:
    """The pairs of a query string or form body, in order."""
    parts = [part.partition("=") for part in _sound(query).split("&") if part]
    if "%" in query or "+" in query:
        return tuple([(_decoded(name), _decoded(value)) for name, _, value in parts])
    return tuple([(name, value) for name, _, value in parts])


def _decoded(text: str) -> str:
    return unquote_plus(text, errors="replace")


def split_target(target: str) -> tuple[str, str]:
    """The path (still escaped) and the query of a target."""
    path, _, query = _sound(target).partition("#")[0].partition("?")
    return path, query


def _sound(text: str) -> str:
    """Replaces escaped surrogates by U+FFFD."""
    return _SURROGATE.sub("%EF%BF%BD", text) if "%" in text else text


_SURROGATE = re.compile("%ED%[AB][0-9A-F]%[89AB][0-9A-F]", re.IGNORECASE)


@lru_cache(maxsize=1024)
def path_segments(path: str) -> tuple[str, ...]:
    """The decoded segments of a path, without empty ones."""
    return tuple(unquote(segment, errors="replace") for segment in path.split("/") if segment)


_MARKUP = str.maketrans({"'": "&apos;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;"})


def sanitised(text: str) -> str:
    """Escapes markup characters, as HAPI does in messages that repeat a part of the request."""
    return text.translate(_MARKUP) if text.isprintable() else "".join(filter(_is_shown, text)).translate(_MARKUP)


def _is_shown(letter: str) -> bool:
    return letter >= " " or letter in "\n\r"


@lru_cache(maxsize=4096)
def escape(text: str) -> str:
    """Escapes a text for a link: all characters except `A-Za-z0-9-_.*` (observed in HAPI's UrlUtil.escapeUrlParam)."""
    return quote(text, safe="*").replace("~", "%7E")


def link(base: str, pairs: Iterable[tuple[str, str]]) -> str:
    """`base` with the escaped pairs as query."""
    query = "&".join([f"{escape(name)}={escape(value)}" for name, value in pairs])
    return f"{base}?{query}" if query else base


def by_name(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs sorted by name, as in HAPI's links. Pairs with the same name keep their order."""
    return sorted(pairs, key=itemgetter(0))


def carries_token(authorization: str, token: str) -> bool:
    """Whether an Authorization header contains this bearer token. Compares in constant time."""
    scheme, _, credentials = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(credentials.strip().encode(), token.encode())


def leave_out_reason_phrases() -> None:
    """Makes uvicorn in this process send status lines without a reason phrase, as HAPI's servlet container does.

    Otherwise agents would see the phrase in messages of HTTP errors. uvicorn reads it from a table and offers no
    option.
    """
    from uvicorn.protocols.http import httptools_impl  # uvicorn uses it if httptools is installed

    for status in httptools_impl.STATUS_LINE:
        httptools_impl.STATUS_LINE[status] = b"HTTP/1.1 %d \r\n" % status
