"""How the published runner's HTTP library (`requests` over `urllib3`) reads a URL, and the texts of its errors.

Agents see these texts, so scores depend on them. They are written as observed, without code of the library, which this
project does not use. This module does not resolve names and sends no requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import SplitResult, quote, unquote, urlsplit

from medagent.core.errors import MedagentError

PORTS = {"http": 80, "https": 443}
# RFC 3986, appendix B.
_URI = re.compile(r"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?://([^\\/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_BEGINS_AS_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+-]*:|/")
_HOST_PORT = re.compile(r"((?:[^\[\]%:/?#]|%[0-9a-fA-F]{2})*|\[[^\]]*\])(?::0*?(|0|[1-9][0-9]{0,4}))?$")
_ESCAPE = re.compile("%[0-9a-fA-F]{2}")
_NO_HOST = re.compile(r"[\x00-,./:-@\[-`{-\x7f]")
_UNRESERVED = re.compile("[A-Za-z0-9._~-]")
_USER = "!$&'()*+,;=:"
_PATH = _USER + "@/"
_QUERY = _PATH + "?"
_WHOLE = "!#$%&'()*+,/:;=?@[]~"
# The published runner shows an object's address in memory here.
_CONNECTION = "<urllib3.connection.{kind}Connection object at 0x7f0000000000>"


class ActionError(MedagentError):
    """An action that is not carried out; the text is the reply to the agent."""


@dataclass(frozen=True, slots=True)
class PreparedUrl:
    """A URL as `requests` sends it and repeats it in messages: escaped, with scheme and host in lower case."""

    text: str
    parts: SplitResult

    @property
    def target(self) -> str:
        """The path and query of the request."""
        return (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")

    def http_error(self, status: int, reason: str) -> str:
        """The error text for a status of 400 or more."""
        return f"{status} {'Server' if status >= 500 else 'Client'} Error: {reason} for url: {self.text}"

    def refused_connection(self) -> str:
        """The error text if no server listens at the URL's host and port."""
        kind = self.parts.scheme.upper()
        problem = (
            f"{_CONNECTION.format(kind=kind)}: Failed to establish a new connection: [Errno 111] Connection refused"
        )
        return self._given_up(f"NewConnectionError('{problem}')")

    def not_tls(self) -> str:
        """The error text for `https` to a port with plain HTTP."""
        return self._given_up("SSLError(SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)'))")

    def _given_up(self, cause: str) -> str:
        scheme = self.parts.scheme
        pool = f"{scheme.upper()}ConnectionPool(host={self.parts.hostname!r}, port={self.parts.port or PORTS[scheme]})"
        return f"{pool}: Max retries exceeded with url: {self.target} (Caused by {cause})"


def prepare(url: str) -> PreparedUrl:
    """The URL as `requests` sends it. Raises ActionError, with the library's text, if it is not a URL."""
    url = url.lstrip()
    if ":" in url and not url.lower().startswith("http"):
        _split(url)
        raise _no_adapter(url)
    try:
        scheme, authority, path, query, fragment = _parsed(url)
    except ValueError:
        raise ActionError(f"Failed to parse: {url}") from None
    if not scheme:
        raise ActionError(f"Invalid URL {url!r}: No scheme supplied. Perhaps you meant https://{url}?")
    host = authority.rpartition("@")[2]
    if not host or host.startswith(":"):
        raise ActionError(f"Invalid URL {url!r}: No host supplied")
    if host.startswith(("*", ".")):
        raise ActionError("URL has an invalid label.")
    path = path if path.startswith("/") else "/" + path
    whole = f"{scheme}://{authority}{path}" + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")
    text = quote(_ESCAPE.sub(_plain_where_unreserved, whole), safe=_WHOLE)
    parts = _split(text)
    if scheme not in PORTS:
        raise _no_adapter(text)
    return PreparedUrl(text, parts)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ActionError(str(error)) from None


def _no_adapter(url: str) -> ActionError:
    return ActionError(f"No connection adapters were found for {url!r}")


def _parsed(url: str) -> tuple[str, str, str, str, str]:
    """Scheme, authority, path, query and fragment, each escaped. Raises ValueError for an impossible host or port."""
    match = _URI.fullmatch(url if _BEGINS_AS_URI.match(url) else "//" + url)
    if match is None:
        raise ValueError(url)
    scheme, authority, path, query, fragment = (part or "" for part in match.groups())
    path = _without_dots(path)
    return (
        scheme.lower(),
        _authority(authority),
        _escaped(path, _PATH),
        _escaped(query, _QUERY),
        _escaped(fragment, _QUERY),
    )


def _authority(text: str) -> str:
    user, at, place = text.rpartition("@")
    match = _HOST_PORT.match(place)
    if match is None:
        raise ValueError(text)
    host, port = match[1], match[2] or ""
    if port and int(port) > 65535:
        raise ValueError(port)
    if host.startswith("["):
        IPv6Address(host[1:-1])
    elif not host.isascii():
        host = ".".join(map(_label, host.split(".")))
    return (_escaped(user, _USER) + at if user else "") + host.lower() + (f":{int(port)}" if port else "")


def _label(label: str) -> str:
    """A label of a host's name, encoded for the wire; its ASCII characters must be letters, digits or hyphens."""
    if not label.isascii() and _NO_HOST.search(label):
        raise ValueError(label)
    return label if label.isascii() else label.encode("idna").decode("ascii")


def _without_dots(path: str) -> str:
    """The path with resolved `.` and `..`; empty segments stay."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            segments = segments[:-1]
        elif segment != ".":
            segments.append(segment)
    if path.startswith("/") and (not segments or segments[0]):
        segments.insert(0, "")
    if path.endswith(("/.", "/..")):
        segments.append("")
    return "/".join(segments)


def _escaped(text: str, safe: str) -> str:
    """The text with all characters except `safe` escaped. If one `%` does not begin an escape, each `%` is escaped."""
    upper, escapes = _ESCAPE.subn(lambda match: match[0].upper(), text)
    if text.count("%") == escapes:
        safe += "%"
    return quote(upper, safe=safe)


def _plain_where_unreserved(match: re.Match[str]) -> str:
    plain = unquote(match[0], errors="replace")
    return plain if _UNRESERVED.fullmatch(plain) else match[0]
