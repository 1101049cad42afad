"""Writes Bundles as text. The entries of a page are stored texts, indented and joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fhir_server.clock import instant
from fhir_server.wire.outcome import quoted

SUBSETTED = """{
      "system": "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
      "code": "SUBSETTED",
      "display": "Resource encoded in summary mode"
    }"""
"""A tag in a meta."""


@dataclass(slots=True)
class Bundle:
    """The parts of a Bundle.

    `updated` is in milliseconds since 1970. `links` are pairs of relation and URL. `entries` are the parts of one text,
    from `search_entries`, `in_groups` or `joined`.
    """

    id: str
    type: str
    updated: int | None = None
    total: int | None = None
    links: Sequence[tuple[str, str]] = ()
    entries: Sequence[bytes] = ()
    subsetted: bool = False

    def render(self) -> bytes:
        """The Bundle as UTF-8 text in HAPI's key order and layout."""
        text = f'{{\n  "resourceType": "Bundle",\n  "id": "{self.id}",\n'
        if self.updated is not None:
            tag = f',\n    "tag": [ {SUBSETTED} ]' if self.subsetted else ""
            text += f'  "meta": {{\n    "lastUpdated": "{instant(self.updated)}"{tag}\n  }},\n'
        text += f'  "type": "{self.type}"'
        if self.total is not None:
            text += f',\n  "total": {self.total}'
        if self.links:
            links = [
                f'{{\n    "relation": "{relation}",\n    "url": {quoted(url)}\n  }}' for relation, url in self.links
            ]
            text += f',\n  "link": [ {", ".join(links)} ]'
        if not self.entries:
            return b"%b\n}" % text.encode()
        return b"".join((text.encode(), b',\n  "entry": [ ', *self.entries, b" ]\n}"))


def joined(entries: Iterable[str]) -> list[bytes]:
    """Joins entries for a Bundle."""
    text = ", ".join(entries)
    return [text.encode()] if text else []


def in_groups(groups: Iterable[list[bytes]]) -> list[bytes]:
    """Joins entries of several groups, some of which may be empty."""
    parts: list[bytes] = []
    for group in filter(None, groups):
        parts += (b", ", *group) if parts else group
    return parts


def size_of(entries: Sequence[bytes]) -> int:
    """The size of entries in bytes."""
    return sum(map(len, entries))


def indented(text: str, blanks: str) -> str:
    """Indents a rendered resource. JSON strings do not contain line breaks, so only the layout changes."""
    return text.replace("\n", "\n" + blanks)


@lru_cache(maxsize=64)
def _around(address: str, mode: str) -> tuple[bytes, bytes, bytes]:
    """The text before the first entry of a searchset, between two entries, and after the last."""
    first = b'{\n    "fullUrl": "%b/' % address.encode()
    last = b',\n    "search": {\n      "mode": "%b"\n    }\n  }' % mode.encode()
    return first, b"%b, %b" % (last, first), last


def search_entries(base: str, mode: str, resources: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Entries of a searchset, from the reference and text of each resource.

    All texts stay in UTF-8, since decoding and encoding would take longer than everything else.
    """
    first, between, last = _around(base, mode)
    parts: list[bytes] = []
    for reference, text in resources:
        parts += (between, reference, b'",\n    "resource": ', text.replace(b"\n", b"\n    "))
    if parts:
        parts[0] = first
        parts.append(last)
    return parts


def entry(fields: Iterable[tuple[str, str]]) -> str:
    """An entry of a Bundle, from names and rendered values."""
    listed = ",\n".join(f'    "{name}": {indented(value, "    ")}' for name, value in fields)
    return f"{{\n{listed}\n  }}"


def members(fields: Iterable[tuple[str, str]]) -> str:
    """A JSON object, from names and rendered values."""
    listed = ",\n".join(f'  "{name}": {indented(value, "  ")}' for name, value in fields)
    return f"{{\n{listed}\n}}"
