"""A request and a response as plain data; reading query strings and writing links.

Query strings are read as HAPI's servlet container reads them: `+` is a blank, broken UTF-8 becomes U+FFFD (an escaped
surrogate one, not three), empty pairs are dropped, a name without `=` has the empty value.
"""

from __future__ import annotations

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
    """One HTTP request: `target` is the path below the host with its query, header names in any case. Not to be changed
    once it is made.
    """

    method: str
    target: str
    headers: Pairs | list[tuple[str, str]] = ()
    body: bytes = b""
    _by_name: dict[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    def header(self, name: str) -> str | None:
        """The last value of a header, or None."""
        if self._by_name is None:
            self._by_name = _by_name(tuple(self.headers))
        return self._by_name.get(name.lower())


@lru_cache(maxsize=64)
def _by_name(headers: Pairs) -> dict[str, str]:
    """Headers by their names in small letters; a client sends the same ones with each request."""
    return {name.lower(): value for name, value in headers}


@dataclass(slots=True)
class Response:
    """One HTTP response; header names are written as HAPI writes them, `body` is UTF-8 text or empty."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The first value of a header, or None."""
        lower = name.lower()
        return next((value for key, value in self.headers if key.lower() == lower), None)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8")


@lru_cache(maxsize=4096)
def parse_query(query: str) -> Pairs:
    """The pairs of a query string or of a form body, in their order."""
    parts = [part.partition("=") for part in _sound(query).split("&") if part]
    if "%" in query or "+" in query:
        return tuple([(_decoded(name), _decoded(value)) for name, _, value in parts])
    return tuple([(name, value) for name, _, value in parts])


def _decoded(text: str) -> str:
    return unquote_plus(text, errors="replace")


def split_target(target: str) -> tuple[str, str]:
    """A target as its path (still escaped) and its query."""
    path, _, query = _sound(target).partition("#")[0].partition("?")
    return path, query


def _sound(text: str) -> str:
    """The text with U+FFFD for lone surrogates: escaped ones, and those that only a caller in process can send."""
    if "%" in text:
        text = _SURROGATE.sub("%EF%BF%BD", text)
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


_SURROGATE = re.compile("%ED%[AB][0-9A-F]%[89AB][0-9A-F]", re.IGNORECASE)


@lru_cache(maxsize=1024)
def path_segments(path: str) -> tuple[str, ...]:
    """The decoded segments of a path, empty ones dropped."""
    return tuple(unquote(segment, errors="replace") for segment in path.split("/") if segment)


_MARKUP = str.maketrans({"'": "&apos;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;"})


def sanitised(text: str) -> str:
    """Escapes what could be markup, as HAPI does where a message repeats a part of the request."""
    return text.translate(_MARKUP) if text.isprintable() else "".join(filter(_is_shown, text)).translate(_MARKUP)


def _is_shown(letter: str) -> bool:
    return letter >= " " or letter in "\n\r"


@lru_cache(maxsize=4096)
def escape(text: str) -> str:
    """Escapes for a link: all but `A-Za-z0-9-_.*` (HAPI's UrlUtil.escapeUrlParam, observed)."""
    return quote(text.encode("utf-8", "replace"), safe="*").replace("~", "%7E")


def link(base: str, pairs: Iterable[tuple[str, str]]) -> str:
    """`base` with the pairs as query, escaped."""
    query = "&".join([f"{escape(name)}={escape(value)}" for name, value in pairs])
    return f"{base}?{query}" if query else base


def by_name(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs sorted by name, as HAPI repeats them; those of one name stay in their order."""
    return sorted(pairs, key=itemgetter(0))


def carries_token(authorization: str, token: str) -> bool:
    """Whether an Authorization header carries a bearer token, compared in constant time."""
    import hmac  # late: it loads OpenSSL, which a server without a token has no use for

    scheme, _, credentials = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(credentials.strip().encode(), token.encode())


def leave_out_reason_phrases() -> None:
    """Let uvicorn, in this process, send status lines without a reason phrase, as HAPI's servlet container does.

    Agents read the phrase in the words of an HTTP error. uvicorn takes it from a table and has no option for it.
    """
    from uvicorn.protocols.http import httptools_impl  # what uvicorn takes where httptools is installed, as it is here

    for status in httptools_impl.STATUS_LINE:
        httptools_impl.STATUS_LINE[status] = b"HTTP/1.1 %d \r\n" % status
