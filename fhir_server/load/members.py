"""Prepares resources for storing, member by member, with a cache of earlier members.

A member is a key of the resource with its value. Thousands of a hospital's resources share the same codes, categories,
patients and units. The text and the index rows of a member depend only on the member and the type of the resource. So
they are cached under the member's JSON text. Resources for which this is not true are prepared as a whole (`_whole`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from fhir_server import definitions
from fhir_server.clock import instant
from fhir_server.errors import FhirError
from fhir_server.resources.normalise import ElementField, fields, labels, normalise
from fhir_server.resources.primitives import VALID_ID
from fhir_server.search import pairs
from fhir_server.search.indexer import (
    TableRows,
    add_existence,
    add_members,
    existence_parameters,
    index,
    table_rows,
)
from fhir_server.search.kinds.date import span
from fhir_server.search.kinds.kind import IndexRows
from fhir_server.search.parameters import ParameterRegistry
from fhir_server.wire.json_text import assemble, member, parse, render, scan
from fhir_server.wire.json_values import DEPTH_LIMIT, Json

CACHE_SIZE: Final = 20_000
"""The maximum number of cached members (about 20 MB). A full cache is emptied; frequent members soon return."""
LONGEST: Final = 1000
"""Members with more characters of JSON, such as attachments, are not cached."""
_START: Final = re.compile(
    r'[ \t\r\n]*\{[ \t\r\n]*"resourceType"[ \t\r\n]*:[ \t\r\n]*"([A-Za-z]+)"'
    r'(?:[ \t\r\n]*,[ \t\r\n]*"id"[ \t\r\n]*:[ \t\r\n]*"([A-Za-z0-9.-]{1,64})")?'
)
"""The type, and the id if it is the next member."""
_TYPE: Final = re.compile(r'"resourceType"[ \t\r\n]*:[ \t\r\n]*"([A-Za-z]+)"')
_NEXT: Final = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"([A-Za-z]\w*)"[ \t\r\n]*:[ \t\r\n]*')
_END: Final = re.compile(r"[ \t\r\n]*\}[ \t\r\n]*\Z")


@dataclass(frozen=True, slots=True)
class ImportStamp:
    """The time and the request id for resources without them."""

    updated: int
    request_id: str


class Rows(NamedTuple):
    """Rows of one index table: a flat list of values, with any number as `row_id`, and the number of rows."""

    table: str
    values: tuple[Any, ...]
    number: int


class CachedMember(NamedTuple):
    """A member as stored: its value, its lines in the resource's text, its index rows."""

    value: Json
    line: str
    rows: list[Rows]
    targets: Sequence[str] = ()
    values: Sequence[str] = ()
    """`targets` are patients, `values` are codes. A resource with both gets further index rows (`search.pairs`)."""


class TypeMembers(NamedTuple):
    """The fields of one resource type, and its earlier members by their JSON text from the key on."""

    fields: Mapping[str, ElementField]
    seen: dict[str, CachedMember]


NOTHING: Final = CachedMember(None, "", [])
"""A member without content."""


class Members(NamedTuple):
    """The parts of a resource: type, id ("" if there is none), meta as text and as value, and the other members.

    The members include their keys and are in R4's order.
    """

    kind: str
    id: str
    meta_text: str
    meta: Json
    members: list[tuple[str, CachedMember]]


class PreparedResource(NamedTuple):
    """A resource to store as version 1. `updated` is in milliseconds since 1970."""

    kind: str
    id: str
    updated: int
    text: str
    rows: list[Rows]


class MemberCache:
    """Prepares the resources of an import."""

    def __init__(self, registry: ParameterRegistry, stamp: ImportStamp) -> None:
        self.registry = registry
        self.stamp = stamp
        self._types: dict[str, TypeMembers | None] = {}
        """By type; None for types whose resources are prepared as a whole."""
        self._metas: dict[tuple[str, str], tuple[int, CachedMember]] = {}
        self._cached = 0

    def prepare(self, text: str) -> PreparedResource:
        """Prepares the resource in a JSON text.

        Raises:
            FhirError: 400. The text is not an R4 resource (with HAPI's message), or its id is missing or invalid.
            OverflowError: `meta.lastUpdated` is outside the years 1 to 9999.
        """
        parts = self._taken_apart(text)
        if parts is None or not VALID_ID.fullmatch(parts.id):
            return self._whole(text)
        return self._put_together(parts)

    def _whole(self, text: str) -> PreparedResource:
        # The first time, HAPI keeps elements that have become empty. It stores them as they are after the second time.
        resource = normalise(normalise(parse(text), expected_type=None), expected_type=None)
        kind, resource_id = resource["resourceType"], resource.get("id")
        if not resource_id:
            raise FhirError(400, f"the {kind} needs an id to be imported")
        if not VALID_ID.fullmatch(resource_id):
            raise FhirError(400, f"the id of the {kind} is not allowed in FHIR: {resource_id}")
        updated, meta = self._stamped(resource.get("meta") or {})
        resource = {"resourceType": kind, "id": resource_id, "meta": meta} | resource | {"meta": meta}
        return PreparedResource(
            kind, resource_id, updated, render(resource), self._rows(kind, index(resource, self.registry))
        )

    def _taken_apart(self, text: str) -> Members | None:
        """The parts of the resource in a text. None if the text is invalid or in an unusual format."""
        if "\\u" in text or text.count("{") + text.count("[") > DEPTH_LIMIT or (beginning := _beginning(text)) is None:
            return None
        kind, resource_id, text, end, is_typed = beginning
        if kind not in self._types:
            self._types[kind] = self._new_type(kind)
        known = self._types[kind]
        if known is None:
            return None
        members: dict[int, tuple[str, CachedMember]] = {}
        meta_text, meta = "", None
        try:
            while (entry := _NEXT.match(text, end)) is not None:
                key, begin = entry[1], entry.start(1)
                value, end = scan(text, entry.end())
                field = known.fields.get(key)
                if field is None:
                    if key == "resourceType":
                        if is_typed:
                            return None
                        is_typed = True
                    continue
                if field.place in members:  # a duplicate key, or a second type of a choice element
                    return None
                if key == "id":
                    resource_id = value
                elif key == "meta":
                    meta_text, meta = text[begin:end], field.clean(value)
                else:
                    raw = text[begin:end]  # with the key
                    member = known.seen.get(raw)
                    if member is None:
                        member = self._member(known.seen, kind, key, field.clean(value), raw)
                    members[field.place] = key, member
        except (ValueError, StopIteration, RecursionError, FhirError):
            return None
        if not is_typed or type(resource_id) is not str or not _END.match(text, end):
            return None
        return Members(kind, resource_id, meta_text, meta or {}, [members[place] for place in sorted(members)])

    def _new_type(self, kind: str) -> TypeMembers | None:
        if kind == "CodeSystem" or not definitions.is_resource_type(kind) or self.registry.custom_of(kind):
            return None
        return TypeMembers(fields(kind), {})

    def _put_together(self, parts: Members) -> PreparedResource:
        kind, members = parts.kind, parts.members
        updated, meta = self._meta(kind, parts.meta_text, parts.meta)
        lines = [f'"resourceType": "{kind}"', f'"id": "{parts.id}"', meta.line]
        rows = meta.rows.copy()
        patients: Sequence[str] = ()
        codes: Sequence[str] = ()
        for _, (_, line, of_member, targets, values) in members:
            if line:
                lines.append(line)
                rows += of_member
                patients, codes = targets or patients, values or codes
        if patients and codes and (both := pairs.numbers(self.registry, kind)):
            keys = pairs.keys(both, patients, codes)
            rows.append(Rows(pairs.TABLE, tuple([value for key in keys for value in (*key, 0)]), len(keys)))
        if existence_parameters(kind):
            existence = IndexRows()
            add_existence(existence, kind, {key: member.value for key, member in members})
            rows += self._rows(kind, existence)
        return PreparedResource(kind, parts.id, updated, assemble(lines), rows)

    def _member(self, seen: dict[str, CachedMember], kind: str, key: str, cleaned: Json, raw: str) -> CachedMember:
        """Prepares and caches a new member."""
        prepared = NOTHING if cleaned is None else self._prepared(kind, key, cleaned)
        if "{ }" in prepared.line:
            raise ValueError("an element without content")
        if len(raw) <= LONGEST:
            self._make_room()
            seen[raw] = prepared
        return prepared

    def _meta(self, kind: str, text: str, value: Json) -> tuple[int, CachedMember]:
        """The time of last update of a resource with this meta, and the member of the completed meta."""
        seen = self._metas.get((kind, text))
        if seen is None:
            self._make_room()
            updated, meta = self._stamped(value)
            seen = self._metas[kind, text] = updated, self._prepared(kind, "meta", meta)
        return seen

    def _make_room(self) -> None:
        self._cached += 1
        if self._cached > CACHE_SIZE:
            self._cached = 0
            self._metas.clear()
            for known in self._types.values():
                if known is not None:
                    known.seen.clear()

    def _prepared(self, kind: str, key: str, cleaned: Json) -> CachedMember:
        rows = IndexRows()
        add_members(rows, kind, {key: cleaned})
        tables = table_rows(kind, rows, self.registry, row_id=0) if rows else {}
        line, parts = member(key, cleaned), _parts(tables)
        links, tokens = tables.get("links", ()), tables.get("tokens", ())
        sides: tuple[Sequence[str], Sequence[str]] = (), ()
        if (links or tokens) and (both := pairs.numbers(self.registry, kind)):
            sides = pairs.sides(both, links, tokens)
        return CachedMember(cleaned, line, parts, *sides)

    def _rows(self, kind: str, rows: IndexRows) -> list[Rows]:
        return _parts(table_rows(kind, rows, self.registry, row_id=0))

    def _stamped(self, meta: Json) -> tuple[int, Json]:
        """The time in milliseconds, and the meta with version, time and source, in R4's order."""
        updated = span(meta["lastUpdated"]).low if "lastUpdated" in meta else self.stamp.updated
        stamped = {key: value for key, value in meta.items() if key in ("id", "extension")}
        source = meta.get("source", f"#{self.stamp.request_id}")
        stamped |= {"versionId": "1", "lastUpdated": instant(updated), "source": source}
        return updated, stamped | labels(meta, {})


def _parts(tables: TableRows) -> list[Rows]:
    return [Rows(table, tuple(chain.from_iterable(rows)), len(rows)) for table, rows in tables.items() if rows]


def _beginning(text: str) -> tuple[str, str, str, int, bool] | None:
    """The type of a resource, its id if it comes next, its text, the position after these, whether the type is first.

    None if the text does not begin in a usual format. If the type is not the first member, the opening brace of the
    returned text is replaced by a comma.
    """
    if (start := _START.match(text)) is not None:
        return start[1], start[2] or "", text, start.end(), True
    types, end = _TYPE.findall(text), text.find("{")
    if len(types) != 1 or text[:end].strip(" \t\r\n"):
        return None
    return types[0], "", f"{text[:end]},{text[end + 1 :]}", end, False
