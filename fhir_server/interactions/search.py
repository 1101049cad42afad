"""Search and its pages."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from fhir_server.errors import FhirError
from fhir_server.interactions.context import Exchange
from fhir_server.interactions.include import included
from fhir_server.resources.summary import shaped
from fhir_server.search.paging import DEFAULT_COUNT, STAGES, Search
from fhir_server.search.plan import Plan, plan
from fhir_server.search.query import Include, Query, Shape, parse, shape, whole
from fhir_server.store import Row
from fhir_server.wire.bundle import Bundle, search_entry
from fhir_server.wire.http import Pairs, Response, by_name, escape, link

MAX_PLANS = 4096
MAX_REMEMBERED = 100
"""Longer lists of matches are found anew each time."""
MAX_RENDERED = 20_000
"""Entries kept as they were rendered, some thirty megabytes."""


def search(exchange: Exchange, kind: str) -> Response:
    """`GET Type?…` and `_search`."""
    query, planned = understood(exchange, kind, exchange.pairs)
    # A search by POST is repeated without its parameters.
    self_link = (
        exchange.address if exchange.request.method == "POST" else link(exchange.address, by_name(exchange.pairs))
    )
    if query.shape.summary == "count" or query.count == 0:
        return _count_only(exchange, planned)
    count = DEFAULT_COUNT if query.count is None else query.count
    if count < 0:
        bundle = Bundle(exchange.hospital.marks.uuid(), "searchset", exchange.now, links=[("self", self_link)])
        return exchange.bundle(bundle)
    if query.offset is not None:
        return _offset_page(exchange, query, planned, count, self_link)
    pids = run(exchange, planned, max(STAGES[0], count + 1))
    total = count_all(exchange, planned) if query.accurate else None
    if total is None and len(pids) < max(STAGES[0], count):
        total = len(pids)
    found = Search(exchange.hospital.marks.uuid(), exchange.now, pids, query.includes)
    links = [("self", self_link)]
    if len(pids) > count:
        found.rest = planned
        found.total = total if query.accurate else None
        found.total_at(count, known_matches=len(pids))
        exchange.hospital.searches.keep(found)
        links.append(("next", page_link(exchange, found, exchange.pairs, count, count)))
    entries = entries_of(exchange, pids[:count], query.includes, query.shape)
    return exchange.bundle(_bundle(found, total, links, entries, query.shape))


def understood(exchange: Exchange, kind: str, pairs: Pairs) -> tuple[Query, Plan]:
    """The query and its SQL; the same parameters are understood once."""
    plans = exchange.hospital.plans
    known = plans.get((kind, pairs))
    if known is None:
        query = parse(kind, pairs)
        known = query, plan(query, exchange.hospital.params)
        if len(plans) >= MAX_PLANS:
            plans.clear()
        plans[kind, pairs] = known
    return known


def run(exchange: Exchange, planned: Plan, limit: int = -1, offset: int = 0) -> array[int]:
    """The numbers of the matches, in order; a first page is found once until something is written."""
    known = exchange.store.found
    key = (planned.sql, planned.args, limit, offset)
    if key in known:
        return array("q", known[key])
    cursor = exchange.store.query(f"{planned.sql} LIMIT ? OFFSET ?", (*planned.args, limit, offset))
    pids = array("q", [row[0] for row in cursor])
    if len(pids) <= MAX_REMEMBERED:
        if len(known) >= MAX_PLANS:
            known.clear()
        known[key] = pids[:]
    return pids


def count_all(exchange: Exchange, planned: Plan) -> int:
    """How many matches there are."""
    return int(exchange.store.query(f"SELECT count(*) FROM ({planned.sql})", planned.args).fetchone()[0])


def page(exchange: Exchange) -> Response:
    """A further page of a search (`_getpages`)."""
    search_id = exchange.value("_getpages") or ""
    found = exchange.hospital.searches.find(search_id)
    if found is None:
        raise FhirError(410, f'HAPI-0417: Search ID "{search_id}" does not exist and may have expired')
    offset = max(whole("_getpagesoffset", exchange.value("_getpagesoffset") or "") or 0, 0)
    count = whole("_count", exchange.value("_count") or "")
    count = DEFAULT_COUNT if count is None or count < 1 else count
    if found.rest is not None:
        first = set(found.pids)
        found.pids.extend(pid for pid in run(exchange, found.rest) if pid not in first)
        found.rest = None
    end = offset + count
    total = found.total_at(end)
    links = [("self", page_link(exchange, found, exchange.pairs, offset, count))]
    if len(found.pids) > end:
        links.append(("next", page_link(exchange, found, exchange.pairs, end, count)))
    if offset:
        links.append(("previous", page_link(exchange, found, exchange.pairs, max(offset - count, 0), count)))
    wanted = shape(exchange.pairs)
    entries = entries_of(exchange, found.pids[offset:end], found.includes, wanted)
    headers = [("Content-Location", f"{exchange.base}/Bundle/{found.id}")]
    return exchange.bundle(_bundle(found, total, links, entries, wanted), headers)


def page_link(exchange: Exchange, found: Search, pairs: Pairs, offset: int, count: int) -> str:
    """The address of a page; of the parameters at hand it repeats what shapes the page."""
    parts = [f"_getpages={found.id}", f"_getpagesoffset={offset}", f"_count={count}"]
    parts += [f"_format={escape(value.replace(' ', '+'))}" for name, value in pairs if name == "_format"][:1]
    if exchange.pretty:
        parts.append("_pretty=true")
    parts += (f"_include={escape(one.text)}" for one in found.includes if not one.reverse)
    parts.append("_bundletype=searchset")
    elements = sorted(set(shape(pairs).elements))
    if elements:
        parts.append("_elements=" + ",".join(map(escape, elements)))
    return f"{exchange.base}?{'&'.join(parts)}"


def entries_of(exchange: Exchange, pids: Sequence[int], includes: Sequence[Include], wanted: Shape) -> list[str]:
    """The entries of a page: matches, then what they include."""
    if includes or wanted:
        rows = exchange.store.rows(pids)
        entries = [_entry(exchange, row, wanted, "match") for row in rows]
        entries += (_entry(exchange, row, wanted, "include") for row in included(exchange, rows, includes))
        return entries
    rendered = exchange.store.rendered
    base = exchange.base
    new = [pid for pid in pids if (base, pid) not in rendered]
    if new:
        if len(rendered) > MAX_RENDERED:
            rendered.clear()
            new = list(pids)
        rendered.update(((base, row.pid), _entry(exchange, row, wanted, "match")) for row in exchange.store.rows(new))
    return [rendered[base, pid] for pid in pids if (base, pid) in rendered]


def _entry(exchange: Exchange, row: Row, wanted: Shape, mode: str) -> str:
    assert row.text is not None
    text = shaped(row.text, wanted) if wanted else row.text
    return search_entry(f"{exchange.base}/{row.type}/{row.id}", text, mode)


def _bundle(
    found: Search, total: int | None, links: list[tuple[str, str]], entries: list[str], wanted: Shape
) -> Bundle:
    return Bundle(
        found.id, "searchset", found.updated, total, links, entries, subsetted=wanted.summary in ("true", "data")
    )


def _count_only(exchange: Exchange, planned: Plan) -> Response:
    total = count_all(exchange, planned)
    bundle = Bundle(exchange.hospital.marks.uuid(), "searchset", exchange.now, total, subsetted=True)
    return exchange.bundle(bundle)


def offset_link(exchange: Exchange, count: int, offset: int) -> str:
    """The address of the page that begins at `offset`: the request again, its parameters by name."""
    others = [pair for pair in exchange.pairs if pair[0] not in ("_offset", "_count")]
    return link(exchange.address, by_name([*others, ("_count", str(count)), ("_offset", str(offset))]))


def _offset_page(exchange: Exchange, query: Query, planned: Plan, count: int, self_link: str) -> Response:
    """A page by `_offset`: no search is kept, the links repeat the request."""
    offset = max(query.offset or 0, 0)
    pids = run(exchange, planned, count, offset)
    total = count_all(exchange, planned) if query.accurate else None

    links = [("self", self_link)]
    if len(pids) == count:
        links.append(("next", offset_link(exchange, count, offset + count)))
    if offset:
        links.append(("previous", offset_link(exchange, count, max(offset - count, 0))))
    found = Search(exchange.hospital.marks.uuid(), exchange.now, pids, query.includes)
    entries = entries_of(exchange, pids, query.includes, query.shape)
    return exchange.bundle(_bundle(found, total, links, entries, query.shape))
