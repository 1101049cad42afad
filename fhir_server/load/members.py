"""What the import makes of a resource, member by member, so that members seen before are not worked out again.

A hospital's resources are alike: the same codes, categories, patients and units stand in thousands of them. How a
member is cleaned, printed and indexed depends on the resource's type and on nothing else in it, but for what `_quick`
leaves to `_whole`; so the result is kept under the member's JSON text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.interactions.put import labels
from fhir_server.marks import instant
from fhir_server.resources.normalise import fields, normalise
from fhir_server.resources.primitives import VALID_ID
from fhir_server.search.dates import span
from fhir_server.search.index_rows import IndexRows
from fhir_server.search.indexer import add_member, add_truths, index, truths
from fhir_server.search.parameter_numbers import Params
from fhir_server.store.rows import table_rows
from fhir_server.store.schema import COLUMNS
from fhir_server.wire.jsontext import DEPTH_LIMIT, Json, assemble, member, parse, render, scan

KEPT: Final = 20_000
"""So many members are kept (some 20 MB), then all are forgotten: the frequent ones are soon there again."""
SHORT: Final = 16
"""Texts up to this length, codes that is, are kept as well as objects and lists."""
LONGEST: Final = 1000
"""Members whose JSON is longer, attachments for instance, are not kept."""
_START: Final = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"resourceType"[ \t\r\n]*:[ \t\r\n]*"([A-Za-z]+)"')
_NEXT: Final = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"([A-Za-z]\w*)"[ \t\r\n]*:[ \t\r\n]*')
_END: Final = re.compile(r"[ \t\r\n]*\}[ \t\r\n]*\Z")
_PID: Final = {table: columns.index("pid") for table, columns in COLUMNS.items()}


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a resource gets that says neither when it was written nor by which request."""

    updated: int
    request_id: str


class Rows(NamedTuple):
    """Rows of one index table, each as what stands before and what stands behind the resource's number."""

    table: str
    parts: list[tuple[tuple[Any, ...], tuple[Any, ...]]]


class Piece(NamedTuple):
    """A member of a resource as it is stored: its value, its line of the text, its index rows."""

    value: Json
    line: str
    rows: list[Rows]


NOTHING: Final = Piece(None, "", [])
"""The piece of a member of which nothing is left."""


class Prepared(NamedTuple):
    """A resource ready to be stored as version 1; `updated` in milliseconds since 1970."""

    kind: str
    id: str
    updated: int
    text: str
    rows: list[Rows]


class Pieces:
    """Prepares the resources of one import."""

    def __init__(self, params: Params, stamp: Stamp) -> None:
        self.params = params
        self.stamp = stamp
        self._members: dict[str, dict[str, Piece]] = defaultdict(dict)
        self._metas: dict[tuple[str, str], tuple[int, Piece]] = {}
        self._kept = 0

    def prepare(self, text: str) -> Prepared:
        """The resource that the JSON text holds.

        Raises:
            FhirError: 400: the text is no R4 resource, in HAPI's words, or it has no id that FHIR allows.
            OverflowError: `meta.lastUpdated` lies outside the years 1 to 9999.
        """
        return self._quick(text) or self._whole(text)

    def _whole(self, text: str) -> Prepared:
        resource = normalise(parse(text), expected_type=None)
        kind, resource_id = resource["resourceType"], resource.get("id")
        if not resource_id:
            raise FhirError(400, f"a {kind} without an id")
        if not VALID_ID.fullmatch(resource_id):
            raise FhirError(400, f"a {kind} with an id that FHIR does not allow: {resource_id}")
        updated, meta = self._stamped(resource.get("meta") or {})
        resource = {"resourceType": kind, "id": resource_id, "meta": meta} | resource | {"meta": meta}
        return Prepared(kind, resource_id, updated, render(resource), self._rows(kind, index(resource)))

    def _quick(self, text: str) -> Prepared | None:
        """The resource whose text is as most are; None where anything about it is unusual, bad texts included."""
        start = _START.match(text)
        if start is None or "\\u" in text or text.count("{") + text.count("[") > DEPTH_LIMIT:
            return None
        kind, end = start[1], start.end()
        if kind == "CodeSystem" or not definitions.is_resource_type(kind):
            return None
        known, seen = fields(kind), self._members[kind]
        found: dict[int, tuple[str, Piece]] = {}
        resource_id, meta_text, meta = None, "", None
        try:
            while entry := _NEXT.match(text, end):
                key, begin = entry[1], entry.start(1)
                value, end = scan(text, entry.end())
                field = known.get(key)
                if field is None:
                    if key == "resourceType":
                        return None
                    continue
                if field.place in found:  # given twice, or a second type of a choice
                    return None
                if key == "id":
                    resource_id = value
                elif key == "meta":
                    meta_text, meta = text[begin:end], field.clean(value)
                else:
                    raw = text[begin:end]  # with the key
                    piece = seen.get(raw) or self._member(kind, key, field.clean(value), raw)
                    found[field.place] = key, piece
        except (ValueError, StopIteration, RecursionError, FhirError):
            return None
        if type(resource_id) is not str or not VALID_ID.fullmatch(resource_id) or not _END.match(text, end):
            return None
        updated, first = self._meta(kind, meta_text, meta or {})
        return self._joined(kind, resource_id, updated, first, [found[place] for place in sorted(found)])

    def _joined(
        self, kind: str, resource_id: str, updated: int, meta: Piece, members: list[tuple[str, Piece]]
    ) -> Prepared:
        lines = [f'"resourceType": "{kind}"', f'"id": "{resource_id}"', meta.line]
        rows = meta.rows.copy()
        for _, piece in members:
            if piece.line:
                lines.append(piece.line)
                rows += piece.rows
        if truths(kind):
            found = IndexRows()
            add_truths(found, kind, {key: piece.value for key, piece in members})
            rows += self._rows(kind, found)
        return Prepared(kind, resource_id, updated, assemble(lines), rows)

    def _member(self, kind: str, key: str, cleaned: Json, raw: str) -> Piece:
        """The piece of a member not seen before, kept unless it is a time or a text, which are seldom seen again."""
        piece = NOTHING if cleaned is None else self._piece(kind, key, cleaned)
        if len(raw) <= LONGEST and (type(cleaned) is not str or len(cleaned) <= SHORT):
            self._make_room()
            self._members[kind][raw] = piece
        return piece

    def _meta(self, kind: str, text: str, given: Json) -> tuple[int, Piece]:
        """When a resource with this meta was last updated, and the stamped meta's piece."""
        seen = self._metas.get((kind, text))
        if seen is None:
            self._make_room()
            updated, meta = self._stamped(given)
            seen = self._metas[kind, text] = updated, self._piece(kind, "meta", meta)
        return seen

    def _make_room(self) -> None:
        self._kept += 1
        if self._kept > KEPT:
            self._kept = 0
            self._metas.clear()
            for seen in self._members.values():
                seen.clear()

    def _piece(self, kind: str, key: str, cleaned: Json) -> Piece:
        found = IndexRows()
        add_member(found, kind, key, cleaned)
        return Piece(cleaned, member(key, cleaned), self._rows(kind, found))

    def _rows(self, kind: str, found: IndexRows) -> list[Rows]:
        return [
            Rows(table, [(row[: _PID[table]], row[_PID[table] + 1 :]) for row in rows])
            for table, rows in table_rows(kind, found, self.params, pid=0).items()
            if rows
        ]

    def _stamped(self, given: Json) -> tuple[int, Json]:
        """The meta with version, time and source, in R4's order, and the time in milliseconds."""
        updated = span(given["lastUpdated"]).low if "lastUpdated" in given else self.stamp.updated
        meta = {key: value for key, value in given.items() if key in ("id", "extension")}
        source = given.get("source", f"#{self.stamp.request_id}")
        meta |= {"versionId": "1", "lastUpdated": instant(updated), "source": source}
        return updated, meta | labels(given, {})
