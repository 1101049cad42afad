"""An HTTP client for a compared server: requests as data, and answers without values that vary between runs."""

from __future__ import annotations

import gzip
import http.client
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

JSON = {"Content-Type": "application/fhir+json"}
HELD_HEADERS = ("content-type", "etag", "location", "content-location", "last-modified", "www-authenticate")
"""The headers that are compared; of `last-modified` only whether it is there."""
BLANKS = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r'("(?:lastUpdated|lastModified)": ?)"[^"]*"'), r'\1"<now>"'),
    (re.compile(r'(<(?:lastUpdated|lastModified) value=)"[^"]*"'), r'\1"<now>"'),
    (re.compile(r"deleted at [0-9T:.+Z-]+"), "deleted at <now>"),
    (re.compile(r"Took [\d,]+ms"), "Took <n>ms"),
    (re.compile(r'(source(?:": ?| value=)"[^"#]*)#[A-Za-z0-9]+"'), r'\1#<request>"'),
    # Which spelling of the path HAPI gives depends on which of two parameters it met first.
    (re.compile(r"\.where\(resolve\(\) is [A-Za-z]+\)"), ""),
]


@dataclass(frozen=True, slots=True)
class Case:
    """A request below the base of a server; `rule` names what it is about, `tier` how likely it is in practice."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    rule: str = ""
    tier: str = "likely"

    @classmethod
    def with_json(cls, method: str, url: str, body: Any, **more: Any) -> Case:
        """A request with a JSON body."""
        headers = {**JSON, **more.pop("headers", {})}
        return cls(method, url, headers, body if isinstance(body, str) else json.dumps(body), **more)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, held headers and body of an answer, blanked; `raw` is the body as it came."""

    status: int
    headers: dict[str, str]
    body: str
    raw: str

    @property
    def entries(self) -> list[str]:
        """The `fullUrl`s of a Bundle, in order."""
        try:
            bundle = json.loads(self.body)
        except ValueError:
            return []
        listed = bundle.get("entry", []) if isinstance(bundle, dict) else []
        return [entry.get("fullUrl", "") for entry in listed]


def blanked(text: str, base: str) -> str:
    """A text without what no two runs share."""
    text = text.replace(base, "<base>").replace(urlsplit(base).netloc, "<host>")
    for pattern, replacement in BLANKS:
        text = pattern.sub(replacement, text)
    return text


class Client:
    """A kept-alive connection to a server at `base`."""

    def __init__(self, base: str) -> None:
        self.base = base.rstrip("/")
        self._parts = urlsplit(self.base)
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._parts.hostname or "", self._parts.port, timeout=120)

    def send(self, case: Case) -> Answer:
        """The answer to a request; `<base>` in its body stands for the server's own address."""
        separator = "/" if case.url and not case.url.startswith("?") else ""
        url = self._parts.path + separator + case.url.replace(" ", "%20")
        body = None if case.body is None else case.body.replace("<base>", self.base).encode()
        try:
            return self._send(case.method, url, case.headers, body)
        except (http.client.HTTPException, OSError):
            self._connection.close()
            self._connection = self._connect()
            return self._send(case.method, url, case.headers, body)

    def follow(self, link: str) -> Answer:
        """The answer at an absolute address that the server gave."""
        parts = urlsplit(link)
        return self._send("GET", f"{parts.path}?{parts.query}", {}, None)

    def _send(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        connection = self._connection
        connection.putrequest(method, url, skip_accept_encoding=True)
        for name, value in {"Accept": "*/*", "Accept-Encoding": "identity", **headers}.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        held = {name: blanked(headers[name], self.base) for name in HELD_HEADERS if name in headers}
        if "last-modified" in held:
            held["last-modified"] = "<now>"
        text = content.decode("utf-8", "replace")
        return Answer(answer.status, held, blanked(text, self.base), text)
