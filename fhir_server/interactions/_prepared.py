"""A fast path for transactions of plain updates and creates, as loaders send them.

Their resources are prepared member by member, like in an import (`load.members`), since they have many members in
common (codes, categories, patients). If the Bundle has an unusual form, `read` returns None. If a resource has an
unusual form, or has references that must be replaced, `settle` leaves it to the normal path (`transaction`). Both paths
store and return the same.
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

CACHE_SIZE: Final = 5_000
"""The maximum number of cached members of a server (about 5 MB)."""
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
"""Types with additional checks when they are stored."""


@dataclass(slots=True)
class Draft:
    """A resource of an entry: its text and its members. `settle` sets `ready` and `references`."""

    text: str
    members: Members
    ready: PreparedResource | None = None
    references: Sequence[ReferenceRow] = ()


class TransactionMembers(MemberCache):
    """The member cache of transactions. It checks the types of references, and makes meta as for a new version."""

    def begin(self, context: RequestContext) -> None:
        """Prepares the cache for the next transaction."""
        self.stamp = ImportStamp(context.now, context.request_id)
        self._metas.clear()

    def _stamped(self, meta: Json) -> tuple[int, Json]:
        return self.stamp.updated, stamped(meta, {}, 1, self.stamp.updated, self.stamp.request_id)

    def _prepared(self, kind: str, key: str, cleaned: Json) -> CachedMember:
        check_targets({"resourceType": kind, key: cleaned})
        return super()._prepared(kind, key, cleaned)


def members_of(context: RequestContext) -> TransactionMembers:
    """The server's member cache; a new one if the search parameters have changed."""
    members = context.server.members
    if not isinstance(members, TransactionMembers) or members.registry is not context.registry:
        members = context.server.members = TransactionMembers(context.registry, ImportStamp(0, ""), CACHE_SIZE)
    return members


def read(context: RequestContext) -> list[tuple[Json, Draft | None]] | None:
    """The entries of a transaction of plain updates and creates; None for any other Bundle.

    The resource of an entry with a draft has only type and id. The resource of an entry without one is normalised.
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
    """The members of the object that begins at `at`, and its end. Raises ValueError if it is not an object."""
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
    """The entries of the list that begins at `at`, with each resource as text and as value, and the end of the list."""

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
    if item.keys() not in _ENTRY or type(item["request"]) is not dict or type(item["resource"][1]) is not dict:
        return False
    request, address = item["request"], item.get("fullUrl", "-")
    if request.keys() != {"method", "url"} or type(request["url"]) is not str or type(address) is not str:
        return False
    text = item["resource"][0]
    if text.count("{") + text.count("[") > DEPTH_LIMIT - 4:  # it could be nested too deeply
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
    """A resource, normalised as part of a Bundle; None if it is empty."""
    bundle: Json = normalise({"resourceType": "Bundle", "entry": [{"resource": value}]}, expected_type="Bundle")
    return bundle["entry"][0].get("resource") if "entry" in bundle else None


def whole(draft: Draft) -> Resource:
    """The resource of a draft, parsed and normalised."""
    resource: Resource = _cleaned(parse(draft.text))
    return resource


def settle(
    context: RequestContext, drafts: Sequence[tuple[Draft, str, str, int | None]], known: Mapping[str, str]
) -> None:
    """Sets `ready` of the drafts that can be stored on the fast path.

    `drafts` are drafts with their type, their id in the URL ("" if there is none), and their number if they have one.
    `known` has the new reference of each entry by its `source`.
    """
    if any(name != reference and not is_placeholder(name) for name, reference in known.items()):
        return  # references to other names must be replaced
    there = context.store.existing([(kind, named) for _, kind, named, _ in drafts if named])
    cache = members_of(context)
    for draft, kind, named, row_id in drafts:
        if kind != draft.members.kind or (named and ((kind, named) in there or not _is_new_id(named))):
            continue
        text, parts = draft.text, draft.members
        if '"urn:' in text:
            text = _PLACEHOLDER.sub(lambda match: f'"{known.get(match[1], match[1])}"', text)
            if "\\" in text:  # a reference may have escapes
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
    """Whether a client may create a resource with this id."""
    return VALID_ID.fullmatch(name) is not None and not name.isdigit()


def store_ready(context: RequestContext, draft: Draft, row_id: int | None) -> Written:
    """Stores the new resource of a ready draft. The caller must check its references."""
    store, ready = context.store, draft.ready
    assert ready is not None
    number = store.next_row_id() if row_id is None else row_id
    row = Version(number, ready.kind, ready.id, 1, context.now, ready.text)
    store.insert_prepared(row, ready.rows)
    return Written(row, "created", None, draft.references)
