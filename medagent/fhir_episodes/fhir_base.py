"""The FHIR base shown to the agent: which URLs are below it, and their paths on the server."""

from __future__ import annotations

from socket import inet_aton
from urllib.parse import SplitResult, quote, unquote, urlsplit

from medagent.fhir_episodes.requests_words import PORTS, ActionError

API_BASE = "http://localhost:8080/fhir/"
"""The default base, as in the published setup of MedAgentBench."""

# The characters that the `requests` library does not escape in a URL, so that URLs are the published runner's.
_URL_SAFE = "!#$%&'()*+,/:;=?@[]~"


class FhirBase:
    """The FHIR base shown to the agent. Other names of its address, such as 127.0.0.1, are the same server."""

    def __init__(self, shown: str) -> None:
        self.shown = shown if shown.endswith("/") else shown + "/"
        self._parts = urlsplit(self.shown)
        self._root = _segments(self._parts.path)

    def target(self, url: str) -> str:
        """The path below the base with its query, escaped for the wire: `/Patient?name=Mary%20Ann`.

        Raises ActionError for a URL outside the base, which is never fetched.
        """
        try:
            parts = urlsplit(url)
            target = self.below(parts)
        except ValueError as error:
            raise ActionError(f"{url} is not a URL: {error}") from None
        if target is None:
            raise ActionError(f"{url} is not under the FHIR base {self.shown}; nothing else is reachable")
        return escaped(target)

    def below(self, parts: SplitResult) -> str | None:
        """The path below the base with its query as written, or None for a URL outside it.

        A URL is inside if its scheme, host and port are the base's, and if its path, with resolved dots, is the base's
        or below it.
        """
        segments = _segments(parts.path)
        if parts.scheme != self._parts.scheme or not self.same_server(parts):
            return None
        if segments[: len(self._root)] != self._root:
            return None
        below = "".join("/" + segment for segment in segments[len(self._root) :])
        if below and parts.path.endswith("/"):
            below += "/"
        return below + (f"?{parts.query}" if parts.query else "")

    def same_server(self, parts: SplitResult) -> bool:
        """Whether a URL's host and port are the base's, also under another name such as 127.0.0.1."""
        return _server(parts) == _server(self._parts)

    def renamed(self, text: str, parts: SplitResult) -> str:
        """A body with the base as the request named it. HAPI does the same: its links repeat the Host header."""
        requested, shown = _named(parts), _named(self._parts)
        return text if requested == shown else text.replace(f"{shown}{self._path}", f"{requested}{self._path}")

    @property
    def _path(self) -> str:
        return self._parts.path.rstrip("/")


def escaped(url: str) -> str:
    """A URL or a part of one, escaped for the wire."""
    return quote(url, safe=_URL_SAFE)


def _server(parts: SplitResult) -> tuple[str | None, int | None]:
    host = parts.hostname
    return "localhost" if host and _is_this_machine(host) else host, parts.port or PORTS.get(parts.scheme)


def _is_this_machine(host: str) -> bool:
    """Whether a host is an IPv4 address, in any spelling, of this machine; does not look names up."""
    try:
        return inet_aton(host) in _THIS_MACHINE
    except OSError:
        return False


_THIS_MACHINE = frozenset(map(inet_aton, ("127.0.0.1", "0.0.0.0")))


def _named(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _segments(path: str) -> list[str]:
    """The path's segments as written, with `.` and `..` (also escaped) resolved as in RFC 3986, 5.2.4."""
    resolved: list[str] = []
    for segment in path.split("/"):
        plain = unquote(segment)
        if plain == "..":
            resolved = resolved[:-1]
        elif plain not in {"", "."}:
            resolved.append(segment)
    return resolved


READS = ("GET", "HEAD", "OPTIONS")


def is_type(path: str) -> bool:
    """Whether a path below the base is a type's: `/Observation`."""
    names = [name for name in path.split("/") if name]
    return len(names) == 1 and not names[0].startswith(("$", "_"))


def refusal(method: str, path: str, *, all_writes: bool = False) -> str | None:
    """Why an episode refuses a request; None if it accepts it. Without `all_writes`, it only creates."""
    names = [name for name in path.split("/") if name]
    if method in READS or (method == "POST" and (is_type(path) or names[1:] == ["_search"])):
        return None
    if all_writes and (method in ("PUT", "PATCH", "DELETE") or (method == "POST" and not names)):
        return None
    accepted = "GET, POST to a type (create) and POST to a type's _search"
    if all_writes:
        accepted += ", PUT, PATCH, DELETE, and POST of a Bundle to the base"
    return f"{method} /{'/'.join(names)}: an episode accepts {accepted}"
