"""Search and its pages."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext, encode
from fhir_server.interactions.include import included
from fhir_server.interactions.library import StoredLibrary
from fhir_server.resources.summary import Subset, cut_down
from fhir_server.search.paging import DEFAULT_COUNT, STAGES, Search
from fhir_server.search.plan import plan
from fhir_server.search.query import Include, Query, parse, subset, whole
from fhir_server.search.walks import Planned, matches
from fhir_server.wire.bundle import Bundle, search_entries
from fhir_server.wire.http import Pairs, Response, by_name, escape, link

MAX_PLANS = 4096
MAX_REMEMBERED = 100
"""Longer lists of matches are found anew each time."""
DEFAULT_AT_ONCE, MAX_AT_ONCE = 100, 1000
"""How many matches `Cache-Control: no-store` loads, and the most it may ask for."""
MAX_PAGES = 1_000
"""Pages kept as they were rendered: some fifteen megabytes."""
MAX_PAGE = 40_000
"""Longer pages are rendered anew each time."""


def search(context: RequestContext, kind: str) -> Response:
    """`GET Type?…` and `_search`."""
    query, planned = understood(context, kind, context.pairs)
    # A search by POST is repeated without its parameters.
    self_link = context.address if context.request.method == "POST" else link(context.address, by_name(context.pairs))
    if query.subset.summary == "count" or query.count == 0:
        return _count_only(context, planned)
    count = DEFAULT_COUNT if query.count is None else query.count
    if count < 0:
        return _nothing_asked(context, query, planned, count, self_link)
    limit = at_once(context)
    if limit is not None:
        return _only_page(context, query, planned, count, limit, self_link)
    if query.offset is not None:
        return _offset_page(context, query, planned, count, self_link)
    row_ids = run(context, planned, max(STAGES[0], count + 1))
    total = count_all(context, planned) if query.accurate else None
    if total is None and len(row_ids) < max(STAGES[0], count):
        total = len(row_ids)
    search_id = context.server.ids.uuid()
    links = [("self", self_link)]
    if len(row_ids) > count:
        found = Search(search_id, context.now, row_ids, query.includes, planned)
        found.total = total if query.accurate else None
        found.total_at(count, known_matches=len(row_ids))
        context.server.searches.keep(found)
        links.append(("next", page_link(context, found, context.pairs, count, count)))
    entries = entries_of(context, row_ids[:count], query.includes, query.subset)
    return context.bundle(_bundle(search_id, context.now, total, links, entries, query.subset))


def at_once(context: RequestContext) -> int | None:
    """How many matches HAPI loads at once and forgets, with `Cache-Control: no-store, max-results=5`; None without.

    Raises:
        FhirError: HAPI-1165: more are asked for than HAPI allows.
    """
    given = context.request.header("cache-control")
    asked = [part.strip() for part in given.split(",")] if given else []
    if "no-store" not in asked:
        return None
    named = [part.removeprefix("max-results=") for part in asked if part.startswith("max-results=")]
    limit = int(named[-1]) if named and re.fullmatch(r"[+-]?\d{1,9}", named[-1], re.ASCII) else DEFAULT_AT_ONCE
    if limit > MAX_AT_ONCE:
        said = f"Cache-Control header max-results value must not exceed {MAX_AT_ONCE}"
        raise FhirError(400, f"HAPI-1165: {said}")
    return max(limit, 1)


def _only_page(
    context: RequestContext, query: Query, planned: Planned, count: int, limit: int, self_link: str
) -> Response:
    """The one page of a search that is not kept: at most `limit` matches, and no next page."""
    offset = max(query.offset or 0, 0)
    row_ids = run(context, planned, min(limit, count), offset)
    others = included(context, context.store.rows(row_ids), query.includes) if query.includes else []
    total = None if len(row_ids) == limit else offset + len(row_ids) + len(others)
    total = count_all(context, planned) if query.accurate else total
    links = [("self", self_link)]
    if offset:
        links.append(("previous", offset_link(context, count, max(offset - count, 0))))
    entries = entries_of(context, row_ids, query.includes, query.subset, count)
    return context.bundle(_bundle(context.server.ids.uuid(), context.now, total, links, entries, query.subset))


def _nothing_asked(context: RequestContext, query: Query, planned: Planned, count: int, self_link: str) -> Response:
    """The answer to a negative `_count`: no entries, and a next page (which is none) where all matches are known."""
    found = Search(context.server.ids.uuid(), context.now, run(context, planned, STAGES[0]), query.includes)
    total, links = None, [("self", self_link)]
    if len(found.row_ids) < STAGES[0]:
        total = found.total = len(found.row_ids)
        context.server.searches.keep(found)
        links.append(("next", page_link(context, found, context.pairs, count, count)))
    return context.bundle(Bundle(found.id, "searchset", context.now, total, links))


def understood(context: RequestContext, kind: str, pairs: Pairs) -> tuple[Query, Planned]:
    """The query and its SQL; the same parameters are understood once, unless they name a value set: it may change."""
    plans, registry = context.server.plans, context.registry
    known = plans.get((registry, kind, pairs))
    if known is None:
        query = parse(registry, kind, pairs)
        library = StoredLibrary(context.server)
        known = query, plan(query, registry, library)
        if library.asked:
            return known
        if len(plans) >= MAX_PLANS:
            plans.clear()
        plans[registry, kind, pairs] = known
    return known


def run(context: RequestContext, planned: Planned, limit: int = -1, offset: int = 0) -> array[int]:
    """The numbers of the matches, in order; a first page is found once until something is written."""
    known = context.store.found
    key = (planned.sql, planned.values, limit, offset)
    meter = context.store.meter
    if key in known and not (meter and meter.in_bundle):  # a Bundle's steps count whatever was found before
        return array("q", known[key])
    row_ids = matches(context.store.query, planned, limit, offset)
    if len(row_ids) <= MAX_REMEMBERED:
        if len(known) >= MAX_PLANS:
            known.clear()
        known[key] = row_ids[:]
    return row_ids


def count_all(context: RequestContext, planned: Planned) -> int:
    """How many matches there are; counted once until something is written."""
    known = context.store.found
    key = (planned.sql, planned.values)
    if key not in known:
        if len(known) >= MAX_PLANS:
            known.clear()
        known[key] = array("q", context.store.query(*planned.count).fetchone())
    return known[key][0]


def page(context: RequestContext) -> Response:
    """A further page of a search (`_getpages`)."""
    search_id = context.value("_getpages") or ""
    found = context.server.searches.find(search_id)
    if found is None:
        raise FhirError(410, f'HAPI-0417: Search ID "{search_id}" does not exist and may have expired')
    offset = whole("_getpagesoffset", context.value("_getpagesoffset") or "") or 0
    count = whole("_count", context.value("_count") or "")
    if offset < 0 and count is not None and count < 0:
        return _nothing_more(context, found, offset, count)
    offset = max(offset, 0)
    count = DEFAULT_COUNT if count is None or count < 1 else count
    if found.rest is not None:
        first = set(found.row_ids)
        found.row_ids.extend(row_id for row_id in run(context, found.rest) if row_id not in first)
        found.rest = None
    end = offset + count
    total = found.total_at(end)
    links = [("self", page_link(context, found, context.pairs, offset, count))]
    if len(found.row_ids) > end:
        links.append(("next", page_link(context, found, context.pairs, end, count)))
    if offset:
        links.append(("previous", page_link(context, found, context.pairs, max(offset - count, 0), count)))
    wanted = subset(context.pairs)
    entries = entries_of(context, found.row_ids[offset:end], found.includes, wanted)
    headers = [("Content-Location", f"{context.base}/Bundle/{found.id}")]
    return context.bundle(_bundle(found.id, found.updated, total, links, entries, wanted), headers)


def _nothing_more(context: RequestContext, found: Search, offset: int, count: int) -> Response:
    """The page behind that of a negative `_count`, which is followed by itself."""
    address = page_link(context, found, context.pairs, offset, count)
    headers = [("Content-Location", f"{context.base}/Bundle/{found.id}")]
    links = [("self", address), ("next", address)]
    return context.bundle(Bundle(found.id, "searchset", found.updated, found.total, links), headers)


def page_link(context: RequestContext, found: Search, pairs: Pairs, offset: int, count: int) -> str:
    """The address of a page; of the parameters at hand it repeats what shapes the page."""
    parts = [f"_getpages={found.id}", f"_getpagesoffset={offset}", f"_count={count}"]
    parts += [f"_format={escape(value.replace(' ', '+'))}" for name, value in pairs if name == "_format"][:1]
    if context.pretty:
        parts.append("_pretty=true")
    parts += (f"_include={escape(one.text)}" for one in found.includes if not one.reverse)
    parts.append("_bundletype=searchset")
    elements = sorted(set(subset(pairs).elements))
    if elements:
        parts.append("_elements=" + ",".join(map(escape, elements)))
    return f"{context.base}?{'&'.join(parts)}"


def entries_of(
    context: RequestContext, row_ids: array[int], includes: Sequence[Include], wanted: Subset, most: int | None = None
) -> bytes:
    """The entries of a page: matches, then what they include, `most` in all."""
    entries = _entries(context, row_ids, includes, wanted, most)
    if context.store.meter is not None:
        context.store.meter.answered(len(entries))
    return entries


def _entries(
    context: RequestContext, row_ids: array[int], includes: Sequence[Include], wanted: Subset, most: int | None
) -> bytes:
    if includes or wanted:
        rows = context.store.rows(row_ids)
        found = [("match", rows), ("include", included(context, rows, includes))]
        entries: list[bytes] = []
        for mode, part in found:
            texts = [(row.row_id, row.reference, encode(cut_down(row.text or "", wanted))) for row in part]
            entries += search_entries(context.base, mode, texts)
        return b", ".join(entries[:most])
    rendered, key = context.store.rendered, (context.base, row_ids.tobytes())
    page = rendered.get(key)
    if page is None:
        page = b", ".join(search_entries(context.base, "match", context.store.texts_of(row_ids)))
        if len(page) <= MAX_PAGE:
            if len(rendered) >= MAX_PAGES:
                rendered.clear()
            rendered[key] = page
    return page


def _bundle(
    search_id: str, updated: int, total: int | None, links: list[tuple[str, str]], entries: bytes, wanted: Subset
) -> Bundle:
    subsetted = wanted.summary in ("true", "data")
    return Bundle(search_id, "searchset", updated, total, links, entries, subsetted=subsetted)


def _count_only(context: RequestContext, planned: Planned) -> Response:
    total = count_all(context, planned)
    bundle = Bundle(context.server.ids.uuid(), "searchset", context.now, total, subsetted=True)
    return context.bundle(bundle)


def offset_link(context: RequestContext, count: int, offset: int) -> str:
    """The address of the page that begins at `offset`: the request again, its parameters by name."""
    others = [pair for pair in context.pairs if pair[0] not in ("_offset", "_count")]
    return link(context.address, by_name([*others, ("_count", str(count)), ("_offset", str(offset))]))


def _offset_page(context: RequestContext, query: Query, planned: Planned, count: int, self_link: str) -> Response:
    """A page by `_offset`: no search is kept, the links repeat the request."""
    offset = max(query.offset or 0, 0)
    row_ids = run(context, planned, count, offset)
    total = count_all(context, planned) if query.accurate else None
    if total is None and len(row_ids) < count:
        total = offset + len(row_ids)
    links = [("self", self_link)]
    if len(row_ids) == count:
        links.append(("next", offset_link(context, count, offset + count)))
    if offset:
        links.append(("previous", offset_link(context, count, max(offset - count, 0))))
    entries = entries_of(context, row_ids, query.includes, query.subset)
    return context.bundle(_bundle(context.server.ids.uuid(), context.now, total, links, entries, query.subset))
