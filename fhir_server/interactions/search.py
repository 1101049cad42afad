"""Searches and their pages."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import partial

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext, StoredLibrary
from fhir_server.interactions.include import included
from fhir_server.resources.summary import Subset, cut_down
from fhir_server.search.paging import DEFAULT_COUNT, STAGES, Search
from fhir_server.search.plan import Planned, matches, plan
from fhir_server.search.query import Include, Query, parse, subset, whole
from fhir_server.wire.bundle import Bundle, in_groups, search_entries, size_of
from fhir_server.wire.http import Pairs, Response, by_name, escape, link

DEFAULT_AT_ONCE, MAX_AT_ONCE = 100, 1000
"""The number of matches that `Cache-Control: no-store` loads by default, and its maximum."""


def search(context: RequestContext, kind: str) -> Response:
    """`GET Type?…` and `_search`."""
    query, planned = understood(context, kind, context.pairs)
    if query.subset.summary == "count" or query.count == 0:
        bundle_id, matching = context.server.ids.uuid(), _total(context, planned)
        return context.bundle(Bundle(bundle_id, "searchset", context.now, matching, subsetted=True))
    count = DEFAULT_COUNT if query.count is None else query.count
    if count < 0:
        return _nothing_asked(context, query, planned, count)
    limit = at_once(context)
    if limit is not None:
        return _only_page(context, query, planned, count, limit)
    if query.offset is not None:
        return _offset_page(context, query, planned, count)
    row_ids = run(context, planned, max(STAGES[0], count + 1))
    entries = entries_of(context, row_ids[:count], query.includes, query.subset)
    total = _total(context, planned) if query.accurate else None
    stored = Search(
        context.server.ids.uuid(), context.now, row_ids, query.includes, partial(run, planned=planned), total=total
    )
    links = [("self", _self_link(context))]
    if len(row_ids) > count:
        stored.total_at(count)
        context.server.searches.keep(stored)
        links.append(("next", page_link(context, stored, context.pairs, count, count)))
    if total is None and len(row_ids) < max(STAGES[0], count):
        total = len(row_ids)
    return context.bundle(_bundle(stored.id, context.now, query, total, links, entries))


def _self_link(context: RequestContext) -> str:
    """The link of the search to itself. For a search by POST, it has no parameters."""
    return context.address if context.request.method == "POST" else link(context.address, by_name(context.pairs))


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


def _only_page(context: RequestContext, query: Query, planned: Planned, count: int, limit: int) -> Response:
    """The only page of a search that is not stored: at most `limit` matches, and no next page."""
    offset = max(query.offset or 0, 0)
    row_ids = run(context, planned, min(limit, count), offset)
    others = included(context, context.store.rows(row_ids), query.includes) if query.includes else []
    total = None if len(row_ids) == limit else offset + len(row_ids) + len(others)
    total = _total(context, planned) if query.accurate else total
    links = [("self", _self_link(context))]
    if offset:
        links.append(("previous", offset_link(context, count, max(offset - count, 0))))
    entries = entries_of(context, row_ids, query.includes, query.subset, count)
    return context.bundle(_bundle(context.server.ids.uuid(), context.now, query, total, links, entries))


def _nothing_asked(context: RequestContext, query: Query, planned: Planned, count: int) -> Response:
    """The response to a negative `_count`: no entries, and a link to an empty next page if all matches are known."""
    row_ids = run(context, planned, STAGES[0])
    stored = Search(context.server.ids.uuid(), context.now, row_ids, query.includes)
    total, links = None, [("self", _self_link(context))]
    if len(stored.row_ids) < STAGES[0]:
        total = stored.total = len(stored.row_ids)
        context.server.searches.keep(stored)
        links.append(("next", page_link(context, stored, context.pairs, count, count)))
    return context.bundle(Bundle(stored.id, "searchset", context.now, total, links))


def understood(context: RequestContext, kind: str, pairs: Pairs) -> tuple[Query, Planned]:
    """The query of the pairs, and its plan."""
    query = parse(context.registry, kind, pairs)
    return query, plan(query, context.registry, StoredLibrary(context.server))


def run(context: RequestContext, planned: Planned, limit: int = -1, offset: int = 0) -> array[int]:
    """Runs a search. Returns the numbers of the matches in order."""
    return matches(context.store, planned, limit, offset)


def _total(context: RequestContext, planned: Planned) -> int:
    return int(context.store.query(*planned.count).fetchone()[0])


def first_page(context: RequestContext, stored: Search, count: int, total: int | None, selected: Subset) -> Response:
    """The first page of an operation's results. The search is stored if there are further pages."""
    links = [("self", link(context.address, by_name(context.pairs)))]
    if len(stored.row_ids) > count:
        stored.total_at(count)
        context.server.searches.keep(stored)
        links.append(("next", page_link(context, stored, context.pairs, count, count)))
    entries = entries_of(context, stored.row_ids[:count], (), selected)
    address = f"{context.base}/Bundle/{stored.id}"
    return context.bundle(
        Bundle(stored.id, "searchset", context.now, total, links, entries), [("Content-Location", address)]
    )


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
    count = DEFAULT_COUNT if count is None or count < 1 else count
    if stored.rest is not None:
        first = set(stored.row_ids)
        stored.row_ids.extend(row_id for row_id in stored.rest(context) if row_id not in first)
        stored.rest = None
    end = offset + count
    total = stored.total_at(end)
    links = [("self", page_link(context, stored, context.pairs, offset, count))]
    if len(stored.row_ids) > end:
        links.append(("next", page_link(context, stored, context.pairs, end, count)))
    if offset:
        links.append(("previous", page_link(context, stored, context.pairs, max(offset - count, 0), count)))
    selected = subset(context.pairs)
    entries = entries_of(context, stored.row_ids[offset:end], stored.includes, selected)
    headers = [("Content-Location", f"{context.base}/Bundle/{stored.id}")]
    subsetted = selected.summary in ("true", "data")
    bundle = Bundle(stored.id, "searchset", stored.updated, total, links, entries, subsetted=subsetted)
    return context.bundle(bundle, headers)


def _nothing_more(context: RequestContext, stored: Search, offset: int, count: int) -> Response:
    """The page after that of a negative `_count`. Its next page is itself."""
    address = page_link(context, stored, context.pairs, offset, count)
    headers = [("Content-Location", f"{context.base}/Bundle/{stored.id}")]
    links = [("self", address), ("next", address)]
    return context.bundle(Bundle(stored.id, "searchset", stored.updated, stored.total, links), headers)


def page_link(context: RequestContext, stored: Search, pairs: Pairs, offset: int, count: int) -> str:
    """The link to a page. It repeats the parameters that determine the form of the page."""
    parts = [f"_getpages={stored.id}", f"_getpagesoffset={offset}", f"_count={count}"]
    parts += [f"_format={escape(value)}" for name, value in pairs if name == "_format"][:1]
    if context.layout.pretty:
        parts.append("_pretty=true")
    parts += (f"_include={escape(one.text)}" for one in stored.includes if not one.reverse)
    parts.append("_bundletype=searchset")
    elements = sorted(set(subset(pairs).elements))
    if elements:
        parts.append("_elements=" + ",".join(map(escape, elements)))
    return f"{context.base}?{'&'.join(parts)}"


def entries_of(
    context: RequestContext, row_ids: array[int], includes: Sequence[Include], selected: Subset, most: int | None = None
) -> list[bytes]:
    """The entries of a page: the matches, then the included resources, at most `most` together."""
    if not includes and not selected:
        return _metered(context, search_entries(context.base, "match", context.store.texts_of(row_ids)))
    rows = context.store.rows(row_ids)
    others = included(context, rows, includes)
    left = None if most is None else max(most - len(rows), 0)
    groups = (
        search_entries(
            context.base,
            mode,
            ((row.reference.encode(), cut_down(row.text or "", selected).encode()) for row in group),
        )
        for mode, group in (("match", rows[:most]), ("include", others[:left]))
    )
    return _metered(context, in_groups(groups))


def _metered(context: RequestContext, entries: list[bytes]) -> list[bytes]:
    """Counts the entries as answered and returns them."""
    if context.store.meter is not None:
        context.store.meter.answered(size_of(entries))
    return entries


def _bundle(
    search_id: str,
    updated: int,
    query: Query,
    total: int | None = None,
    links: Sequence[tuple[str, str]] = (),
    entries: Sequence[bytes] = (),
) -> Bundle:
    subsetted = query.subset.summary in ("true", "data")
    return Bundle(search_id, "searchset", updated, total, links, entries, subsetted=subsetted)


def offset_link(context: RequestContext, count: int, offset: int) -> str:
    """The link to the page that begins at `offset`: the request's URL with its parameters sorted by name."""
    others = [pair for pair in context.pairs if pair[0] not in ("_offset", "_count")]
    return link(context.address, by_name([*others, ("_count", str(count)), ("_offset", str(offset))]))


def _offset_page(context: RequestContext, query: Query, planned: Planned, count: int) -> Response:
    """A page with `_offset`. The search is not stored; the links repeat the request."""
    offset = max(query.offset or 0, 0)
    row_ids = run(context, planned, count, offset)
    total = _total(context, planned) if query.accurate else None
    if total is None and len(row_ids) < count:
        total = offset + len(row_ids)
    links = [("self", _self_link(context))]
    if len(row_ids) == count:
        links.append(("next", offset_link(context, count, offset + count)))
    if offset:
        links.append(("previous", offset_link(context, count, max(offset - count, 0))))
    entries = entries_of(context, row_ids, query.includes, query.subset)
    return context.bundle(_bundle(context.server.ids.uuid(), context.now, query, total, links, entries))
