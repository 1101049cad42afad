"""What an agent read of a chart before it acted.

A GET counts if its reply contains a FHIR resource, in JSON or XML, before the first POST (or before the end if there is
none). The words around the resource are ignored, so transcripts of every protocol and of other tools can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, parse_qs, parse_qsl, urlsplit
from xml.etree import ElementTree

from refsol.history import HistoryMessage
from refsol.json_values import as_object, objects


@dataclass(frozen=True, slots=True)
class Read:
    """A GET that was answered with status 200: its URL and the JSON of the reply."""

    url: str
    body: Mapping[str, Any]

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The parameters of the URL."""
        return parse_qs(_split(self.url).query, keep_blank_values=True)

    @property
    def resources(self) -> Iterator[Mapping[str, Any]]:
        """The resources in the reply. For a Bundle, its entries' resources."""
        if self.is_bundle:
            yield from (as_object(entry.get("resource")) for entry in objects(self.body.get("entry")))
        else:
            yield self.body

    @property
    def is_bundle(self) -> bool:
        """Whether the reply is a Bundle, as for every search."""
        return self.body.get("resourceType") == "Bundle"

    @property
    def next_page(self) -> str | None:
        """The URL of the next page; None on the last page."""
        links = (link for link in objects(self.body.get("link")) if link.get("relation") == "next")
        return next((str(link.get("url")) for link in links), None)


DECIDES = {"Observation": "value", "Procedure": "performed", "MedicationRequest": "medication"}
"""The element (such as value[x]) without which a resource of a type says nothing. `_elements` can remove it."""


def pages(reads: Sequence[Read], first: Read) -> tuple[list[Read], bool]:
    """The pages of a search that were read, from the first on, and whether they include the last page."""
    by_address = {_address(read.url): read for read in reads}
    chain = [first]
    while (following := chain[-1].next_page) is not None:
        page = by_address.get(_address(following))
        if page is None or page in chain:
            return chain, False
        chain.append(page)
    return chain, True


def _address(url: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The last path segment of a URL and its parameters, without those for the format of the reply."""
    parts = _split(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    parameters = (pair for pair in pairs if pair[0] not in ("_format", "_pretty"))
    return parts.path.rstrip("/").rpartition("/")[2], tuple(sorted(parameters))


def _split(url: str) -> SplitResult:
    """The parts of a URL; empty parts if the text is not a URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


OfXml = Callable[[str], Any]
"""Reads a resource in XML as JSON. Raises ValueError."""
_LISTS = frozenset({"category", "coding", "entry", "identifier", "link", "name"})
"""The elements used by graders that are lists in JSON."""
_RESOURCES = frozenset({"resource", "contained"})
_BEGINNING = re.compile(r"[{<]")


def reads_before_post(transcript: Sequence[HistoryMessage], of_xml: OfXml | None = None) -> list[Read]:
    """The GETs with a resource in their reply before the first POST, in order. Errors are not resources. `of_xml` reads
    replies in XML; without it, they are read as far as graders need it.
    """
    reads, bodies = [], dict[str, dict[str, Any] | None]()  # a reply that comes again is parsed once
    for message, reply in pairwise(transcript):
        if message.is_post_action:
            break
        url = message.get_url
        # An error may repeat the URL, so an error text that contains the start of a resource is not trusted.
        if url is None or reply.role == "agent" or _BEGINNING.search(url):
            continue
        if reply.content not in bodies:
            bodies[reply.content] = resource_in(reply.content, of_xml)
        body = bodies[reply.content]
        if body is not None and body["resourceType"] != "OperationOutcome":
            reads.append(Read(url, body))
    return reads


def resource_in(text: str, of_xml: OfXml | None = None) -> dict[str, Any] | None:
    """The FHIR resource in a text, whatever words surround it; None if there is none. See `reads_before_post`."""
    beginning = _BEGINNING.search(text)
    if beginning is None:
        return None
    try:
        if beginning[0] == "{":
            value = json.JSONDecoder().raw_decode(text, beginning.start())[0]
        else:
            value = (of_xml or _of_xml)(text[beginning.start() : text.rindex(">") + 1])
    except (ValueError, RecursionError, ElementTree.ParseError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("resourceType"), str) else None


def _of_xml(text: str) -> dict[str, Any] | None:
    """A resource in XML as its JSON format, as far as graders need it. Raises ParseError."""
    if "<!" in text[:200]:  # a document type: FHIR does not use it, and entities could fill the memory
        return None
    return _resource(ElementTree.fromstring(text))


def _resource(element: ElementTree.Element) -> dict[str, Any]:
    return {"resourceType": _name(element), **_fields(element)}


def _fields(element: ElementTree.Element) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for child in element:
        name = _name(child)
        value = _resource(child[0]) if name in _RESOURCES and len(child) else _value(child)
        if name in _LISTS:
            fields.setdefault(name, []).append(value)
        else:
            fields[name] = value
    return fields


def _value(element: ElementTree.Element) -> Any:
    text = element.get("value")
    return _fields(element) if text is None else text


def _name(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]
