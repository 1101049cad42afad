"""Searches and their pages."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from functools import partial

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext, StoredLibrary
from fhir_server.interactions.include import included
from fhir_server.interactions.shuffled import order_of, shuffled
from fhir_server.resources.summary import Subset, cut_down
from fhir_server.search.paging import STAGES, Search
from fhir_server.search.plan import Planned, loaded, matches, plan, total
from fhir_server.search.query import Include, Query, parse, subset, whole
from fhir_server.wire.bundle import Bundle, in_groups, search_entries, size_of
from fhir_server.wire.http import Pairs, Response, by_name, escape, link, split_target

DEFAULT_AT_ONCE, MAX_AT_ONCE = 100, 1000
"""The number of matches that `Cache-Control: no-store` loads by default, and its maximum."""


def search(context: RequestContext, kind: str) -> Response:
    """`GET Type?…` and `_search`."""
    query, planned = understood(context, kind, context.pairs)
    if query.subset.summary == "count" or query.count == 0:
        bundle_id, matching = context.server.ids.uuid(), _total(context, planned)
        return context.bundle(Bundle(bundle_id, "searchset", context.now, matching, subsetted=True), addressed=False)
    count = context.server.paging.size if query.count is None else query.count
    order = "" if query.sort else order_of(context, context.pairs)
    if count < 0:
        return _nothing_asked(context, query, planned, count)
    limit = at_once(context)
    if limit is not None or query.offset is not None:
        return _single_page(context, query, planned, count, limit, order)
    row_ids = run(context, planned, max(STAGES[0], count + 1), order=order)
    entries = entries_of(context, row_ids[:count], query.includes, query.subset)
    rest = partial(run, planned=planned, order=order)
    stored = Search(context.server.ids.uuid(), context.now, row_ids, query.includes, rest)
    stored.total = _total(context, planned) if query.accurate else None
    full = max(STAGES[0], count)
    if planned.rows and count <= len(row_ids) < full:
        stored.loading.rows = loaded(context.store, planned.rows, row_ids, full)
    total = stored.total_at(count)
    links = [("self", _self_link(context)), *_next_link(context, stored, count)]
    return _answer(context, query, stored.id, total, links, entries)


def _next_link(context: RequestContext, stored: Search, count: int) -> list[tuple[str, str]]:
    """The link to the second page, if there is one. The search is then stored."""
    if len(stored.row_ids) <= count:
        return []
    context.server.searches.keep(stored)
    return [("next", page_link(context, stored, count, count))]


def _self_link(context: RequestContext) -> str:
    """The link of the search to itself. For a search by POST, it does not contain parameters."""
    return context.address if context.request.method == "POST" else context.self_link


def at_once(context: RequestContext) -> int | None:
    """The maximum number of matches for `Cache-Control: no-store, max-results=5`; None without `no-store`.

    HAPI then loads the matches at once and does not store the search.

    Raises:
        FhirError: HAPI-1165. `max-results` is above HAPI's maximum.
    """
    header = context.request.header("cache-control")
    directives = [part.strip() for part in header.split(",")] if header else []
    if "no-store" not in directives:
        return None
    named = [part.removeprefix("max-results=") for part in directives if part.startswith("max-results=")]
    limit = int(named[-1]) if named and re.fullmatch(r"[+-]?\d{1,9}", named[-1], re.ASCII) else DEFAULT_AT_ONCE
    if limit > MAX_AT_ONCE:
        problem = f"Cache-Control header max-results value must not exceed {MAX_AT_ONCE}"
        raise FhirError(400, f"HAPI-1165: {problem}")
    return max(limit, 1)


def _nothing_asked(context: RequestContext, query: Query, planned: Planned, count: int) -> Response:
    """The response to a negative `_count`: no entries, and a link to an empty next page if all matches are known."""
    row_ids = run(context, planned, STAGES[0])
    stored = Search(context.server.ids.uuid(), context.now, row_ids, query.includes)
    links = [("self", _self_link(context))]
    if len(row_ids) < STAGES[0]:
        stored.total = len(row_ids)
        links += _next_link(context, stored, count)
    return context.bundle(Bundle(stored.id, "searchset", context.now, stored.total, links), addressed=False)


def understood(context: RequestContext, kind: str, pairs: Pairs) -> tuple[Query, Planned]:
    """The query of the pairs, and its plan."""
    query = parse(context.registry, kind, pairs)
    return query, plan(query, context.registry, StoredLibrary(context.server))


def run(context: RequestContext, planned: Planned, limit: int = -1, offset: int = 0, *, order: str = "") -> array[int]:
    """Runs a search. Returns the numbers of the matches in order, shuffled by `order` if there is one."""
    if not order:
        return matches(context.store, planned, limit, offset)
    row_ids = shuffled(context, matches(context.store, planned), order)
    return row_ids[offset:] if limit < 0 else row_ids[offset : offset + limit]


def _total(context: RequestContext, planned: Planned) -> int:
    return total(context.store, planned)


def first_page(context: RequestContext, stored: Search, count: int, total: int | None, selected: Subset) -> Response:
    """The first page of an operation's results. The search is stored if there are further pages."""
    stored.total_at(count)
    links = [("self", context.self_link), *_next_link(context, stored, count)]
    entries = entries_of(context, stored.row_ids[:count], (), selected)
    return context.bundle(Bundle(stored.id, "searchset", context.now, total, links, entries))


def page(context: RequestContext) -> Response:
    """A further page of a search (`_getpages`)."""
    search_id = context.value("_getpages") or ""
    stored = context.server.searches.find(search_id)
    if stored is None:
        raise FhirError(410, f'HAPI-0417: Search ID "{search_id}" does not exist and may have expired')
    offset = whole("_getpagesoffset", context.value("_getpagesoffset") or "") or 0
    count = whole("_count", context.value("_count") or "")
    if offset < 0 and count is not None and count < 0:
        return _nothing_more(context, stored, offset, count)
    offset = max(offset, 0)
    count = context.server.paging.size if count is None or count < 1 else count
    if stored.rest is not None:
        first = set(stored.row_ids)
        stored.row_ids.extend(row_id for row_id in stored.rest(context) if row_id not in first)
        stored.rest = None
    end = offset + count
    total = stored.total_at(end)
    more = len(stored.row_ids) > end
    links = [("self", f"{context.base}?{split_target(context.request.target)[1]}")]
    links += page_links(partial(page_link, context, stored, count), count, offset, more=more)
    selected = subset(context.pairs)
    entries = entries_of(context, stored.row_ids[offset:end], stored.includes, selected)
    subsetted = selected.summary in ("true", "data")
    bundle = Bundle(stored.id, "searchset", stored.updated, total, links, entries, subsetted=subsetted)
    return context.bundle(bundle)


def _nothing_more(context: RequestContext, stored: Search, offset: int, count: int) -> Response:
    """The page after the page of a negative `_count`. Its next page is itself."""
    address = page_link(context, stored, count, offset)
    links = [("self", address), ("next", address)]
    return context.bundle(Bundle(stored.id, "searchset", stored.updated, stored.total, links))


def page_link(context: RequestContext, stored: Search, count: int, offset: int) -> str:
    """The link to a page. It repeats the parameters of the request that determine the form of the page."""
    parts = [f"_getpages={stored.id}", f"_getpagesoffset={offset}", f"_count={count}"]
    parts += [f"_format={escape(value)}" for name, value in context.pairs if name == "_format"][:1]
    if context.layout.pretty:
        parts.append("_pretty=true")
    includes, bundle_type = [include.text for include in stored.includes if not include.reverse], "searchset"
    if context.value("_getpages") is not None:
        includes = list(dict.fromkeys(value for name, value in context.pairs if name == "_include"))
        bundle_type = context.value("_bundletype") or ""
    parts += (f"_include={escape(include)}" for include in includes)
    if bundle_type:
        parts.append(f"_bundletype={escape(bundle_type)}")
    elements = sorted(set(subset(context.pairs).elements))
    if elements:
        parts.append("_elements=" + ",".join(map(escape, elements)))
    return f"{context.base}?{'&'.join(parts)}"


def entries_of(
    context: RequestContext, row_ids: array[int], includes: Sequence[Include], selected: Subset, most: int | None = None
) -> list[bytes]:
    """The entries of a page: the matches, then the included resources, at most `most` together."""
    rows = context.store.rows(row_ids)
    others = included(context, rows, includes) if includes else []
    left = None if most is None else max(most - len(rows), 0)
    entries = in_groups(
        search_entries(
            context.base,
            mode,
            ((row.reference.encode(), cut_down(row.text or "", selected).encode()) for row in group),
        )
        for mode, group in (("match", rows[:most]), ("include", others[:left]))
    )
    if context.store.meter is not None:
        context.store.meter.answered(size_of(entries))
    return entries


def _answer(
    context: RequestContext,
    query: Query,
    search_id: str,
    total: int | None,
    links: Sequence[tuple[str, str]],
    entries: Sequence[bytes],
) -> Response:
    subsetted = query.subset.summary in ("true", "data")
    bundle = Bundle(search_id, "searchset", context.now, total, links, entries, subsetted=subsetted)
    return context.bundle(bundle, addressed=False)


def offset_link(context: RequestContext, count: int, offset: int) -> str:
    """The link to the page that begins at `offset`: the request's URL with its parameters sorted by name."""
    others = [pair for pair in context.pairs if pair[0] not in ("_offset", "_count")]
    return link(context.address, by_name([*others, ("_count", str(count)), ("_offset", str(offset))]))


def page_links(link_to: Callable[[int], str], count: int, offset: int, *, more: bool) -> list[tuple[str, str]]:
    """The links of a page that begins at `offset` to its neighbours. `link_to` makes the link to an offset."""
    links = [("next", link_to(offset + count))] if more else []
    return [*links, ("previous", link_to(max(offset - count, 0)))] if offset else links


def _single_page(
    context: RequestContext, query: Query, planned: Planned, count: int, limit: int | None, order: str
) -> Response:
    """A page of a search that is not stored: with `_offset`, or the only page, of at most `limit` matches.

    HAPI loads its resources at once and counts the included ones too. It knows no total if it may load no more.
    """
    offset, size = max(query.offset or 0, 0), min(count, limit or count)
    row_ids = run(context, planned, size + 1, offset, order=order)
    shown = row_ids[:size]
    others = included(context, context.store.rows(shown), query.includes) if query.includes else []
    loaded = len(shown) + len(others)
    total = offset + loaded if loaded < (limit or count) else None
    total = _total(context, planned) if query.accurate else total
    more = limit is None and len(row_ids) > size
    links = [("self", _self_link(context)), *page_links(partial(offset_link, context, count), count, offset, more=more)]
    entries = entries_of(context, shown, query.includes, query.subset, limit and count)
    return _answer(context, query, context.server.ids.uuid(), total, links, entries)
