"""What is sent to the hospital's server: GETs of a list of addresses, and nothing else.

Links of the server are followed only below its base, and each page of a search once. Errors name the type of a
resource, not an id or a search, since these may be a patient's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from fhir_server.wire.json_text import scan
from medagent.core.errors import FhirUnavailableError, UserError
from medagent.fhir_data.http import HttpEhr, ambiguous
from medagent.fhir_data.record import FhirRequest, Reply

_READS = re.compile(r"/(metadata|[A-Z][A-Za-z]+(/_search|/[A-Za-z0-9.-]{1,64}(/_history(/[A-Za-z0-9.-]{1,64})?)?)?)")
_SAFE = "!#$%&'()*+,/:;=?@[]~"
_BLANKS = re.compile(r"\s*")
Members = dict[str, Any]


class NotMergedError(Exception):
    """A request that cannot be answered faithfully over the hospital and the layer; the text is the reason."""


class Hospital:
    """The server of `ehr`; replies name the base `shown` instead of its own."""

    def __init__(self, ehr: HttpEhr, shown: str) -> None:
        self._ehr = ehr
        self._shown = shown.rstrip("/")

    async def check(self) -> None:
        """Raises UserError if the server does not answer, or is not of FHIR R4."""
        version = (await self._ehr.capabilities()).get("fhirVersion")
        if not str(version).startswith("4.0"):
            raise UserError(f"FHIR server {self._ehr.shown_url}: serves FHIR {version}; --writes private needs 4.0")

    async def get(self, target: str) -> Reply:
        """The reply to a GET from the list. Raises NotMergedError for any other, StopRunError if the server refuses the
        token, and FhirUnavailableError for a good reply that is not JSON.
        """
        if _READS.fullmatch(target.partition("?")[0]) is None:
            raise NotMergedError("this address is not passed on to the hospital's server")
        return await self._send(target)

    async def follow(self, link: str) -> Reply:
        """The reply to a GET of a link of the server. Raises FhirUnavailableError for a link outside its base."""
        parts, base = urlsplit(link), urlsplit(self._shown)
        roots = [base.path, urlsplit(self._ehr.url).path]
        root = next((root for root in roots if parts.path == root or parts.path.startswith(f"{root}/")), None)
        path = "" if root is None else parts.path.removeprefix(root)
        if root is None or ambiguous(path) is not None or "/$" in path:
            raise FhirUnavailableError(f"{self._ehr.shown_url}: the link to a next page is outside the base")
        return await self._send(path + (f"?{parts.query}" if parts.query else ""))

    async def _send(self, target: str) -> Reply:
        return await self._ehr.answer(FhirRequest("GET", quote(target, safe=_SAFE)))


def split_bundle(text: str) -> tuple[Members, list[tuple[str, Members]]]:
    """The members of a Bundle without `entry`, and its entries, each as text and as JSON. Raises ValueError."""
    members: Members = {}
    entries: list[tuple[str, Members]] = []
    position = _after(text, 0, "{")
    while text[position : position + 1] != "}":
        key, position = _value(text, position)
        position = _after(text, position, ":")
        if key == "entry":
            entries, position = _elements(text, position)
        else:
            members[key], position = _value(text, position)
        position = _next(text, position)
    return members, entries


def resource_text(entry: str) -> str:
    """The text of the resource in the text of an entry. Raises ValueError."""
    position = _after(entry, 0, "{")
    while True:
        key, position = _value(entry, position)
        position = _after(entry, position, ":")
        end = _value(entry, position)[1]
        if key == "resource":
            return entry[position:end]
        position = _next(entry, end)


def _elements(text: str, position: int) -> tuple[list[tuple[str, Any]], int]:
    """The elements of the list at a position, as text and as JSON, and the position after it."""
    elements = []
    position = _after(text, position, "[")
    while text[position : position + 1] != "]":
        value, end = _value(text, position)
        elements.append((text[position:end], value))
        position = _next(text, end)
    return elements, position + 1


def _value(text: str, position: int) -> tuple[Any, int]:
    try:
        return scan(text, position)
    except StopIteration:
        raise ValueError(position) from None


def _blank(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return position if match is None else match.end()


def _after(text: str, position: int, mark: str) -> int:
    position = _blank(text, position)
    if text[position : position + 1] != mark:
        raise ValueError(position)
    return _blank(text, position + 1)


def _next(text: str, position: int) -> int:
    """The position of the next element, or of the closing bracket."""
    position = _blank(text, position)
    return _blank(text, position + 1) if text[position : position + 1] == "," else position


def link_of(members: Members, relation: str) -> str | None:
    """A link of a Bundle."""
    return next((url for name, url in links(members) if name == relation), None)


def links(members: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The links of a Bundle: relation and address."""
    listed = members.get("link")
    for link in listed if isinstance(listed, list) else []:
        if isinstance(link, dict) and isinstance(link.get("url"), str):
            yield str(link.get("relation")), link["url"]
