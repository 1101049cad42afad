"""Entries of a transaction whose resources are prepared member by member, as those of an import are.

Loaders send plain updates and creates. Their resources are alike: members that came before (codes, categories,
patients) are neither cleaned nor indexed nor written out again. If anything about the Bundle is unusual, `read` gives
nothing; if a resource is unusual, or its references lead elsewhere, `settle` leaves it to the way that all others go
(`transaction`). Both ways store and answer the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fhir_server.interactions._inline import is_placeholder
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.integrity import leads_somewhere
from fhir_server.interactions.put import Written, stamped
from fhir_server.load.members import CachedMember, ImportStamp, MemberCache, Members, PreparedResource
from fhir_server.resources.normalise import Resource, normalise
from fhir_server.resources.primitives import VALID_ID
from fhir_server.resources.references import check_targets
from fhir_server.search.index_rows import ReferenceRow
from fhir_server.store import Version
from fhir_server.wire.json_text import is_risky, parse, scan
from fhir_server.wire.json_values import DEPTH_LIMIT, Json

KEPT: Final = 5_000
"""The size of a server's cache in members (about 5 MB)."""
_FIRST = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"(\w+)"[ \t\r\n]*:[ \t\r\n]*')
_NEXT = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"(\w+)"[ \t\r\n]*:[ \t\r\n]*')
_CLOSE = re.compile(r"[ \t\r\n]*\}")
_LIST, _COMMA, _LIST_END = (re.compile(rf"[ \t\r\n]*{mark}") for mark in (r"\[", ",", r"\]"))
_ENTRY: Final = ({"resource", "request"}, {"fullUrl", "resource", "request"})
_PLACEHOLDER = re.compile(r'"(urn:[^"]*)"')
_ODD_REFERENCE = re.compile(r'"reference"[ \t\r\n]*:[ \t\r\n]*"(?:urn:|[^"]*(?:://|\?|/_history/|\\))')
_SPECIAL: Final = frozenset(
    ("Binary", "Bundle", "CodeSystem", "ConceptMap", "SearchParameter", "Subscription", "ValueSet")
)
"""Types that are checked in other ways when they are stored."""


@dataclass(slots=True)
class Draft:
    """A resource of an entry that is not stored yet: its text, its members, and what is to be stored, once that is
    known.
    """

    text: str
    members: Members
    ready: PreparedResource | None = None
    references: Sequence[ReferenceRow] = ()


class TransactionMembers(MemberCache):
    """Members as transactions store them: references to wrong types are refused, and meta is the server's own."""

    def begin(self, context: RequestContext) -> None:
        """Another transaction begins."""
        self.stamp = ImportStamp(context.now, context.request_id)
        self._metas.clear()

    def _stamped(self, meta: Json) -> tuple[int, Json]:
        return self.stamp.updated, stamped(meta, {}, 1, self.stamp.updated, self.stamp.request_id)

    def _prepared(self, kind: str, key: str, cleaned: Json) -> CachedMember:
        check_targets({"resourceType": kind, key: cleaned})
        return super()._prepared(kind, key, cleaned)


def members_of(context: RequestContext) -> TransactionMembers:
    """The members that transactions brought before, as long as the search parameters are the same."""
    members = context.server.members
    if not isinstance(members, TransactionMembers) or members.registry is not context.registry:
        members = context.server.members = TransactionMembers(context.registry, ImportStamp(0, ""), KEPT)
    return members


def read(context: RequestContext) -> list[tuple[Json, Draft | None]] | None:
    """The entries of a transaction of plain updates and creates; None where the Bundle is another one.

    An entry with a draft has the type and the id of its resource only; one without is as `normalise` leaves it.
    """
    try:
        text = context.request.body.decode("utf-8")
        if is_risky(text):
            return None
        bundle, end = _fields(text, 0, lambda key, at: _entries(text, at) if key == "entry" else scan(text, at))
    except (ValueError, StopIteration, RecursionError, AttributeError):
        return None
    listed = bundle.pop("entry", None)
    if bundle != {"resourceType": "Bundle", "type": "transaction"} or text[end:].strip(" \t\r\n"):
        return None
    if listed is None or not all(map(_is_plain, listed)):
        return None
    known = members_of(context)
    known.begin(context)
    return [_drafted(known, item) for item in listed]


def _fields(text: str, at: int, value: Callable[[str, int], tuple[Any, int]]) -> tuple[dict[str, Any], int]:
    """The members of the object that begins at a place, and where it ends. Raises ValueError where it is none."""
    fields: dict[str, Any] = {}
    match = _FIRST.match(text, at)
    while match is not None:
        if match[1] in fields:
            raise ValueError(match[1])
        fields[match[1]], at = value(match[1], match.end())
        match = _NEXT.match(text, at)
    end = _CLOSE.match(text, at)
    if end is None:
        raise ValueError(at)
    return fields, end.end()


def _entries(text: str, at: int) -> tuple[list[dict[str, Any]], int]:
    """The entries of the list that begins at a place, each resource as text and as value; and where it ends."""

    def value(key: str, begin: int) -> tuple[Any, int]:
        parsed, end = scan(text, begin)
        return ((text[begin:end], parsed) if key == "resource" else parsed), end

    listed = []
    mark = _LIST.match(text, at)
    while mark is not None:
        item, at = _fields(text, mark.end(), value)
        listed.append(item)
        mark = _COMMA.match(text, at)
    end = _LIST_END.match(text, at)
    if end is None:
        raise ValueError(at)
    return listed, end.end()


def _is_plain(item: dict[str, Any]) -> bool:
    """Whether an entry creates or updates a resource and says no more."""
    if item.keys() not in _ENTRY or type(item["request"]) is not dict or type(item["resource"][1]) is not dict:
        return False
    request, address = item["request"], item.get("fullUrl", "-")
    if request.keys() != {"method", "url"} or type(request["url"]) is not str or type(address) is not str:
        return False
    text = item["resource"][0]
    if text.count("{") + text.count("[") > DEPTH_LIMIT - 4:  # it may be nested too deeply
        return False
    return request["method"] in ("PUT", "POST") and request["url"].strip() != "" and address.strip() != ""


def _drafted(known: TransactionMembers, item: dict[str, Any]) -> tuple[Json, Draft | None]:
    text, value = item["resource"]
    parts = None
    if value.get("resourceType") not in _SPECIAL and '"contained"' not in text:
        parts = known.taken_apart(text)
    if parts is None or (parts.id and not VALID_ID.fullmatch(parts.id)):
        return item | {"resource": _cleaned(value)}, None
    named = {"id": parts.id} if parts.id else {}
    return item | {"resource": {"resourceType": parts.kind, **named}}, Draft(text, parts)


def _cleaned(value: Json) -> Json:
    """A resource as it is cleaned within a Bundle; None where nothing is left of it."""
    bundle: Json = normalise({"resourceType": "Bundle", "entry": [{"resource": value}]}, expected_type="Bundle")
    return bundle["entry"][0].get("resource") if "entry" in bundle else None


def whole(draft: Draft) -> Resource:
    """The resource of a draft, as all others are read."""
    resource: Resource = _cleaned(parse(draft.text))
    return resource


def settle(
    context: RequestContext, drafts: Sequence[tuple[Draft, str, str, int | None]], known: Mapping[str, str]
) -> None:
    """Makes those drafts ready that can be stored as they are; each comes with its type, the id that the address gives
    it, and its number if it has one. `known` is what entries will be called.
    """
    if any(name != reference and not is_placeholder(name) for name, reference in known.items()):
        return  # references by other names are to be replaced
    there = context.store.those_there([(kind, named) for _, kind, named, _ in drafts if named])
    cache = members_of(context)
    for draft, kind, named, row_id in drafts:
        if kind != draft.members.kind or (named and ((kind, named) in there or not _is_new_id(named))):
            continue
        text, parts = draft.text, draft.members
        if '"urn:' in text:
            text = _PLACEHOLDER.sub(lambda match: f'"{known.get(match[1], match[1])}"', text)
            if "\\" in text:  # an address may be escaped
                continue
            replaced = cache.taken_apart(text) if text != draft.text else parts
            if replaced is None:
                continue
            parts = replaced
        if _ODD_REFERENCE.search(text):
            continue
        ready = cache.put_together(parts, named or str(row_id))
        if "{ }" in ready.text:
            continue
        references = sorted({row for _, one in parts.members for row in one.references})
        if context.server.reference_check or all(leads_somewhere(context, row.reference) for row in references):
            draft.ready, draft.references = ready, references


def _is_new_id(name: str) -> bool:
    """Whether a client may give this id to what is not there."""
    return VALID_ID.fullmatch(name) is not None and not name.isdigit()


def store_ready(context: RequestContext, draft: Draft, row_id: int | None) -> Written:
    """Stores the new resource of a draft that is ready; its references are to be checked by the caller."""
    store, ready = context.store, draft.ready
    assert ready is not None
    number = store.next_row_id() if row_id is None else row_id
    row = Version(number, ready.kind, ready.id, 1, context.now, ready.text)
    store.insert_prepared(row, ready.rows)
    return Written(row, "created", None, draft.references)
