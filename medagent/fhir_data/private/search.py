"""Searches of the hospital, merged with the written resources.

The hospital decides about its resources, our engine about the written ones, with the parameters that the hospital says
it used (its `self` link). Whether the old version of a written resource matched is the same search with `_id`. A search
that no write can have changed is passed on page by page.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, urlencode

from fhir_server.definitions import is_resource_type
from fhir_server.search.parameters import parameters
from fhir_server.wire.json_text import render
from medagent.core.errors import FhirUnavailableError
from medagent.fhir_data.private.hospital import (
    Hospital,
    Members,
    NotMergedError,
    link_of,
    links,
    resource_text,
    split_bundle,
)
from medagent.fhir_data.private.layer import Key, Layer
from medagent.fhir_data.private.writes import references
from medagent.fhir_data.record import Reply, diagnostics

MOST_MATCHES = 10_000
"""The most matches of one merged search."""
MOST_PAGES = 1_000
"""The most pages of one search that is passed on."""
_IDS_AT_ONCE = 50
"""The number of ids in one question about old versions, so that no address is too long."""
_COMPARED = 10
"""The number of matches with which a written one is compared at once."""
_RESULT = ("_count", "_include", "_offset", "_revinclude", "_total", "_format", "_pretty")
_SHOWS = ("_summary", "_elements")
_BY_TERMS = ("in", "not-in", "above", "below")
"""Modifiers for which a value set, a code system or a hierarchy of resources decides."""
Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """An entry of a searchset as text, with its resource's key; `match` is False for included resources."""

    key: Key
    text: str
    match: bool = True


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of a search; `more` is the offset of the next one, None on the last."""

    head: Members
    entries: Sequence[SearchEntry]
    total: int | None
    more: int | None

    def text(self, next_url: str | None) -> str:
        """The Bundle, with a link to its next page."""
        head = {key: value for key, value in self.head.items() if key not in ("link", "total")}
        if self.total is not None:
            head["total"] = self.total
        shown = [{"relation": "self", "url": url} for name, url in links(self.head) if name == "self"]
        head["link"] = shown + ([] if next_url is None else [{"relation": "next", "url": next_url}])
        if not head["link"]:
            del head["link"]
        text = render(head)
        if not self.entries:
            return text
        return f'{text[:-2]},\n  "entry": [ {", ".join(entry.text for entry in self.entries)} ]\n}}'


class SearchPages(Protocol):
    """The pages of one search."""

    async def page(self, offset: int) -> SearchPage:
        """The page that begins at an offset, which an earlier page has named."""


async def open_search(hospital: Hospital, live: Live, path: str, query: str, copy: Copy) -> SearchPages | Reply:
    """The pages of a search, or the hospital's reply if it refuses the search. Raises NotMergedError.

    `path` is `Observation` or `Observation/_search`, which search alike.
    `live` returns the layer of the episode, None before its first write. `copy` lets the layer have the hospital's
    current version of a resource.
    """
    kind = path.partition("/")[0]
    reply = await hospital.get(f"/{path}?{query}" if query else f"/{path}")
    if not reply.ok:
        return reply
    count_of(parse_qsl(query))
    head, entries = bundle_of(reply)
    shown = link_of(head, "self")
    pairs = parse_qsl((shown or "?" + query).partition("?")[2], keep_blank_values=True)
    layer = live()
    passed_on = PassedOn(hospital, live, kind, pairs, (head, entries))
    if layer is None or not layer.written:
        return passed_on
    _check_deciders(kind, pairs, {written_kind for written_kind, _ in layer.written})
    if not layer.of(kind):
        return passed_on
    before = await _old_matches(hospital, layer, kind, query)
    after = _new_matches(layer, kind, pairs)
    if not before and not after:
        return passed_on
    names = {_base(name) for name, _ in pairs}
    if names & {"_include", "_revinclude"}:
        _check_includes(layer, pairs, before, [entry.key for entry in after])
        return passed_on
    if "_offset" in names:
        raise NotMergedError("_offset in a search whose matches this episode changed")
    return Merged(hospital, layer, kind, pairs, (head, entries), before, after, copy)


Copy = Callable[[Key], Awaitable[bool]]
Live = Callable[[], Layer | None]


def bundle_of(reply: Reply) -> tuple[Members, list[SearchEntry]]:
    """The members and entries of a searchset. Raises FhirUnavailableError if the reply is none."""
    try:
        members, entries = split_bundle(reply.text)
        if members.get("resourceType") != "Bundle":
            raise ValueError
        return members, [_entry(text, value) for text, value in entries]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise FhirUnavailableError("the FHIR server does not answer a search with a Bundle") from None


def _entry(text: str, value: Members) -> SearchEntry:
    resource = value.get("resource", {})
    match = value.get("search", {}).get("mode", "match") == "match"
    return SearchEntry((str(resource.get("resourceType")), str(resource.get("id"))), text, match)


def _base(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]


def criteria_of(query: str) -> str:
    """A query without the parameters that only shape its result."""
    return urlencode([pair for pair in parse_qsl(query, keep_blank_values=True) if _is_criterion(pair[0])])


def _is_criterion(name: str) -> bool:
    return _base(name) not in (*_RESULT, *_SHOWS, "_sort")


def count_of(pairs: Pairs) -> int | None:
    """The number of matches on a page, if it is stated. Raises NotMergedError for a negative number."""
    value = next((value for name, value in pairs if name == "_count"), "")
    if not re.fullmatch(r"[0-9]{0,10}", value):
        raise NotMergedError("a _count that is not a natural number")
    return int(value) if value else None


def _sorted_by(pairs: Pairs) -> list[str]:
    """The parameters by which a search sorts, as they are called in a criterion."""
    values = [value for name, value in pairs if _base(name) == "_sort"]
    keys = [key.removeprefix("-") for value in values for key in value.split(",") if key]
    return [_as_criterion(key) for key in keys]


def _as_criterion(key: str) -> str:
    """HAPI's `Type:parameter.chain` of a sort as the `parameter:Type.chain` of a criterion."""
    head, dot, chain = key.partition(".")
    target, typed, parameter = head.partition(":")
    return f"{parameter}:{target}{dot}{chain}" if typed and dot else parameter or key


def _check_deciders(kind: str, pairs: Pairs, types: set[str]) -> None:
    """Raises NotMergedError for a parameter that a written resource, of one of these types, may decide for others."""
    names = [name for name, _ in pairs]
    for name, value in pairs:
        if name == "_sort" and names.count("_sort") == 1:
            keys = [(key, _deciders(kind, key, types)) for key in _sorted_by(pairs)]
            through = set[str]().union(
                *(deciders for _, deciders in keys), *({kind} for key, _ in keys if _is_link(kind, key))
            )
        elif _base(name) == "_sort":
            through = {kind}
        elif _base(name) in ("_include", "_revinclude"):
            source, _, parameter = value.partition(":")
            reverse = {kind, source} if "_include" in names else {kind}  # what it adds includes others
            through = reverse if name.startswith("_revinclude") else set()
            if ":" in name or (through and "*" in (source, parameter)):
                through = types
        elif name in (*_RESULT, *_SHOWS):
            continue
        else:
            through = _deciders(kind, name, types)
        if both := sorted(types & (through and {kind, *through})):
            shown = f"{name}={value}" if _base(name) == "_sort" else name
            raise NotMergedError(f"{shown} goes through {', '.join(both)}, which this episode wrote")


def _deciders(kind: str, name: str, types: set[str]) -> set[str]:
    """The types of the resources that decide a criterion of a type, besides the one that it is about: `types` if they
    are unknown, none if it decides alone.
    """
    if name.startswith("_has:"):
        _, source, *rest = name.split(":", 3)
        return {source} | _deciders(source, rest[1], types) if len(rest) == 2 else types
    first, dot, rest_of_chain = name.partition(".")
    base, _, modifier = first.partition(":")
    parameter = parameters(kind).get(base) if is_resource_type(kind) else None
    targets = set(parameter.targets) if parameter else set()
    if dot:
        targets = {modifier} if modifier else targets
        return targets.union(*(_deciders(target, rest_of_chain, types) for target in targets)) or types
    if base == "_list":
        return {"List"}
    if (base.startswith("_") and parameter is None) or (base == "_id" and modifier):  # HAPI's `_id:not` finds all types
        return types
    if modifier in _BY_TERMS and (parameter is None or parameter.kind in ("token", "reference")):
        return {"CodeSystem", "ValueSet", *targets}
    return set()


def _is_link(kind: str, name: str) -> bool:
    """Whether a parameter is a reference. HAPI sorts by the numbers of the targets, which the engine does not know."""
    parameter = parameters(kind).get(name) if is_resource_type(kind) else None
    return parameter is not None and parameter.kind == "reference"


def _unmoved(layer: Layer, pairs: Pairs, before: Sequence[Key]) -> set[Key]:
    """The former matches that also stay where they were among equal ones, if they match. A search of a whole type, or
    of all except some (`:not`), may put them last.
    """
    if not any(_is_criterion(name) and ":" not in name for name, _ in pairs):
        return set()
    return {key for key in before if layer.keeps(key, _sorted_by(pairs))}


def _check_includes(layer: Layer, pairs: Pairs, before: Sequence[Key], after: Sequence[Key]) -> None:
    """Raises NotMergedError if the written matches do not include the same resources as before, in the same order."""
    changed = {change.name.replace(" ", "/"): change for change in layer.changes()}
    for kind, name in {*before, *after}:
        change = changed.get(f"{kind}/{name}")
        same = change is None or set(references(change.before)) == set(references(change.after))
        if ((kind, name) in before) != ((kind, name) in after) or not same:
            raise NotMergedError("_include with a match that this episode wrote")
    if _sorted_by(pairs) and set(before) != _unmoved(layer, pairs, before):
        raise NotMergedError("_include and _sort with a match that this episode wrote")


async def _old_matches(hospital: Hospital, layer: Layer, kind: str, query: str) -> list[Key]:
    """The written resources whose version at the hospital matches."""
    ids = [name for name in layer.of(kind) if not layer.created((kind, name))]
    criteria = criteria_of(query)
    matches: list[Key] = []
    for start in range(0, len(ids), _IDS_AT_ONCE):
        part = ids[start : start + _IDS_AT_ONCE]
        of_part = {"_id": ",".join(part), "_elements": "id", "_count": str(len(part))}
        reply = await hospital.get(f"/{kind}?{criteria}{'&' if criteria else ''}{urlencode(of_part)}")
        if not reply.ok:
            raise NotMergedError(f"the server does not say which old versions match: {diagnostics(reply)}")
        head, entries = bundle_of(reply)
        if link_of(head, "next") is not None:
            raise NotMergedError("the server does not say on one page which old versions match")
        matches += [entry.key for entry in entries if entry.match and entry.key[1] in part]
    return matches


def _new_matches(layer: Layer, kind: str, pairs: Pairs) -> list[SearchEntry]:
    """The written resources that match now, in the order of the search."""
    criteria = urlencode([pair for pair in pairs if _base(pair[0]) not in _RESULT and not _counts(*pair)])
    reply = layer.search(kind, criteria, layer.of(kind))
    if not reply.ok:
        raise NotMergedError(f"the search is not decided for resources that this episode wrote: {diagnostics(reply)}")
    return [entry for entry in bundle_of(reply)[1] if entry.match]


def _counts(name: str, value: str) -> bool:
    """Whether a parameter asks for the total only."""
    return name == "_summary" and value.lower() == "count"


def _parts_shown(kind: str, pairs: Pairs) -> str:
    """The parameters that select a part of each resource. Elements without a type belong to the searched one."""
    shows = [(name, value) for name, value in pairs if name in _SHOWS]
    return urlencode([(name, _typed(kind, value) if name == "_elements" else value) for name, value in shows])


def _typed(kind: str, elements: str) -> str:
    """A list of elements, each with its type."""
    names = [name for name in elements.split(",") if name.strip()]
    return ",".join(name if name[:1].isupper() else f"{kind}.{name}" for name in names)


class PassedOn:
    """A search whose matches no write has changed, page by page. Written resources on it are replaced."""

    def __init__(
        self, hospital: Hospital, live: Live, kind: str, pairs: Pairs, first: tuple[Members, list[SearchEntry]]
    ) -> None:
        self._hospital = hospital
        self._live = live
        self._first = first
        self._shows = _parts_shown(kind, pairs)
        reverse = [f"{value}::".split(":")[:3] for name, value in pairs if name == "_revinclude"]
        self._reverse = [(source, parameter) for source, parameter, target in reverse if target in ("", kind)]
        self._links: list[str] = []

    async def page(self, offset: int) -> SearchPage:
        """See `SearchPages.page`; the offset is the number of a page."""
        if offset == 0:
            head, entries = self._first
        elif offset > len(self._links):
            raise NotMergedError("a page that no link has named")
        else:
            head, entries = bundle_of(await _followed(self._hospital, self._links[offset - 1]))
        following = link_of(head, "next")
        if following is not None and offset == len(self._links):
            check_new(following, self._links)
            self._links.append(following)
        layer = self._live()
        if layer is not None and layer.written:
            entries = self._current(layer, entries)
        return SearchPage(head, entries, head.get("total"), None if following is None else offset + 1)

    def _current(self, layer: Layer, entries: Sequence[SearchEntry]) -> list[SearchEntry]:
        """The entries with the versions of the layer, and what it adds by `_revinclude`."""
        written, reverse = set(layer.written), {kind for kind, _ in self._reverse}
        shown = [
            current
            for entry in entries
            if (current := current_entry(layer, entry, self._shows) if entry.key in written else entry) is not None
            and (current.match or current.key not in written or current.key[0] not in reverse)
        ]
        matches = ",".join("/".join(entry.key) for entry in shown if entry.match)
        for kind, parameter in self._reverse:
            if matches and (ids := layer.of(kind)):
                reply = layer.search(kind, f"{parameter}={matches}&{self._shows}".rstrip("&"), ids)
                if not reply.ok:
                    raise NotMergedError("_revinclude is not decided for resources that this episode wrote")
                shown += [_included(entry) for entry in bundle_of(reply)[1]]
        return shown


class Merged:
    """A search whose result the writes have changed: one list of matches, read as far as pages need it."""

    def __init__(
        self,
        hospital: Hospital,
        layer: Layer,
        kind: str,
        pairs: Pairs,
        first: tuple[Members, list[SearchEntry]],
        before: Sequence[Key],
        after: Sequence[SearchEntry],
        copy: Copy,
    ) -> None:
        self._hospital = hospital
        self._layer = layer
        self._kind = kind
        self._copy = copy
        self._head, entries = first
        self._sort = next((value for name, value in pairs if name == "_sort"), "")
        self._unmoved = _unmoved(layer, pairs, before)
        count = count_of(pairs)
        counted = count == 0 or any(_counts(*pair) for pair in pairs)
        self._waiting = [] if counted else list(after)
        self._shows = _parts_shown(kind, pairs)
        self._written = set(layer.written)
        self._items: list[SearchEntry] = []
        self._next = link_of(self._head, "next")
        self._links = list[str]()
        total = self._head.get("total")
        self._total = total - len(before) + len(after) if isinstance(total, int) else None
        self._count = count or (len(entries) if self._next else MOST_MATCHES)
        self._unread: list[SearchEntry] | None = entries

    async def page(self, offset: int) -> SearchPage:
        """See `SearchPages.page`; the offset is the number of matches before the page."""
        end = offset + self._count
        while len(self._items) <= end and (self._unread is not None or self._next is not None):
            await self._read()
        later = set(self._layer.written) - self._written
        entries = [
            current
            for entry in self._items[offset:end]
            if (current := current_entry(self._layer, entry, self._shows) if entry.key in later else entry) is not None
        ]
        return SearchPage(self._head, entries, self._total, end if len(self._items) > end else None)

    async def _read(self) -> None:
        """Take the next page of the hospital into the list."""
        entries, self._unread = self._unread, None
        if entries is None:
            assert self._next is not None
            check_new(self._next, self._links)
            self._links.append(self._next)
            head, entries = bundle_of(await _followed(self._hospital, self._next))
            self._next = link_of(head, "next")
        last = self._next is None
        placed = [
            placed_entry for entry in entries if entry.match and (placed_entry := self._in_place(entry)) is not None
        ]
        self._items += await self._sorted_in(placed, last=last) if self._sort else placed
        if last:
            self._items += self._waiting
        if len(self._items) > MOST_MATCHES:
            raise NotMergedError(f"a search with more than {MOST_MATCHES:,} matches")

    def _in_place(self, entry: SearchEntry) -> SearchEntry | None:
        """The entry; for a written resource, its new version, None if that does not match or is elsewhere."""
        if entry.key not in self._written:
            return entry
        fixed = self._unmoved if self._sort else {entry.key}
        new = next((waiting for waiting in self._waiting if waiting.key == entry.key and waiting.key in fixed), None)
        if new is not None:
            self._waiting.remove(new)
        return new

    async def _sorted_in(self, entries: list[SearchEntry], *, last: bool) -> list[SearchEntry]:
        """A page of the hospital with the written matches that belong on it; the others wait for the next page."""
        for new in [waiting for waiting in self._waiting if last or waiting.key not in self._unmoved]:
            place = await self._place(new, entries)
            if place == len(entries) and not last:
                break  # the waiting ones are in order
            entries.insert(place, new)
            self._waiting.remove(new)
        return entries

    async def _place(self, new: SearchEntry, entries: list[SearchEntry]) -> int:
        """The place of a written match among sorted matches: after all that are before it or equal. Raises
        NotMergedError for one of the hospital's with equal ones, whose order only the hospital knows.
        """
        low, high = 0, len(entries)
        while low < high:
            places = range(low, high, max(1, (high - low) // _COMPARED))
            ranks = await self._ranks([new, *(entries[place] for place in places)])
            later = zip(places, ranks[1:], strict=True)
            first = next((place for place, rank in later if rank > ranks[0]), None)
            low = (places[-1] if first is None else max(first - places.step, low - 1)) + 1
            high = high if first is None else first
        last = entries[low - 1 : low] or self._items[-1:]
        if last and not self._layer.created(new.key) and len(set(await self._ranks([new, *last]))) == 1:
            raise NotMergedError(f"_sort={self._sort} with equal matches, one of which this episode changed")
        return low

    async def _ranks(self, entries: Sequence[SearchEntry]) -> list[int]:
        """The ranks of matches among each other."""
        for entry in entries:
            if not self._shows:
                self._layer.copy(resource_text(entry.text))
            elif not await self._copy(entry.key):
                raise NotMergedError("the server does not show a match by its id")
        ranks = self._layer.ranks(self._kind, self._sort, [entry.key[1] for entry in entries])
        return [ranks[entry.key[1]] for entry in entries]


def current_entry(layer: Layer, entry: SearchEntry, shows: str) -> SearchEntry | None:
    """An entry with the layer's version of its resource, of which `shows` may select a part; None if it is deleted."""
    reply = layer.search(entry.key[0], shows, [entry.key[1]])
    entries = bundle_of(reply)[1] if reply.ok else []
    if not entries:
        return None
    return entries[0] if entry.match else _included(entries[0])


def _included(entry: SearchEntry) -> SearchEntry:
    """A match as an included resource."""
    before, _, after = entry.text.rpartition('"mode": "match"')
    return SearchEntry(entry.key, f'{before}"mode": "include"{after}', match=False)


def check_new(link: str, links: Sequence[str]) -> None:
    """Raises FhirUnavailableError if a search contains this page already, and NotMergedError for too many pages."""
    if link in links:
        raise FhirUnavailableError("the FHIR server's links to next pages lead back to an earlier page")
    if len(links) >= MOST_PAGES:
        raise NotMergedError(f"a search with more than {MOST_PAGES:,} pages")


async def _followed(hospital: Hospital, link: str) -> Reply:
    reply = await hospital.follow(link)
    if not reply.ok:
        raise NotMergedError(f"the server does not show the next page: HTTP status {reply.status}")
    return reply
