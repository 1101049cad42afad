"""History of a resource, a type or the server, newest first. A shuffled order applies to versions of the same time."""

from __future__ import annotations

from functools import partial

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.read import not_known
from fhir_server.interactions.search import offset_link, page_links
from fhir_server.interactions.shuffled import order_of, place
from fhir_server.resources.primitives import date_precision
from fhir_server.resources.summary import Subset, cut_down
from fhir_server.search.kinds.date import date_param, date_params
from fhir_server.search.kinds.kind import LOWER, UPPER
from fhir_server.search.query import integer, subset, whole
from fhir_server.store import Version
from fhir_server.wire.bundle import Bundle, entry, joined, size_of
from fhir_server.wire.http import Response
from fhir_server.wire.outcome import quoted


def history(context: RequestContext, kind: str | None = None, resource_id: str | None = None) -> Response:
    """`GET [Type/[id/]]_history`: a page of `_count` versions from `_offset` on."""
    where = "1"
    values: tuple[object, ...] = ()
    if kind is not None and resource_id is not None:
        row = context.store.find(kind, resource_id)
        if row is None:
            raise not_known(kind, resource_id)
        where, values = "row_id = ?", (row.row_id,)
    elif kind is not None:
        where, values = "type = ?", (kind,)
    limits, bounds = _times(context)
    where, values = f"{where}{limits}", (*values, *bounds)
    count = integer(context.value("_count") or "")  # like in HAPI, others are ignored
    count = context.server.paging.size if count is None or count < 0 else count
    selected = subset(context.pairs, kind or "")
    if selected.summary == "count":
        count = 0
    offset = max(whole("_offset", context.value("_offset") or "") or 0, 0)
    order = order_of(context, context.pairs)
    if order:
        versions = context.store.history(where, values)
        rows = sorted(versions, key=lambda row: (-row.updated, place(order, f"{row.reference}/{row.version}")))
        rows = rows[offset : offset + count]
    else:
        rows = context.store.history(where, values, count, offset)
    total = context.store.history_count(where, values)
    links = [("self", context.self_link)] if count else []
    links += page_links(partial(offset_link, context, count), count, offset, more=0 < count < total - offset)
    entries = joined(_entry(row, _address(context, row, in_type=kind is not None), selected) for row in rows)
    if context.store.meter is not None:
        context.store.meter.answered(size_of(entries))
    cut = count == 0 or selected.summary in ("true", "data", "count")
    shown = None if limits else total  # with a time, HAPI returns no total
    bundle = Bundle(context.server.ids.uuid(), "history", context.now, shown, links, entries, subsetted=cut)
    return context.bundle(bundle)


def _times(context: RequestContext) -> tuple[str, tuple[int, ...]]:
    """SQL and arguments for `_since` (versions from a time on) and `_at` (versions that were current in a range)."""
    since, at = context.value("_since"), [value for name, value in context.pairs if name == "_at" and value]
    if since:
        return " AND updated >= ?", (_instant(since),)
    sql = ""
    bounds: tuple[int, ...] = ()
    for item in date_params(at):
        if item.prefix not in UPPER:
            start = item.high + 1 if item.prefix in ("gt", "sa") else item.low
            # The version that is current at the start is the last one before it.
            sql += (
                " AND updated >= coalesce((SELECT max(at) FROM (SELECT updated AS at, row_id AS number FROM resources"
                " UNION ALL SELECT updated, row_id FROM versions) WHERE number = row_id AND at <= ?), 0)"
            )
            bounds += (start,)
        if item.prefix not in LOWER:
            sql += " AND updated <= ?"
            bounds += (item.low - 1 if item.prefix in ("lt", "eb") else item.high,)
    return sql, bounds


def _instant(text: str) -> int:
    """An instant in milliseconds since 1970. HAPI refuses dates without a time."""
    bounds = date_param(text) if text[:1].isdigit() else None
    if bounds is None:
        raise FhirError(400, f'HAPI-1882: Invalid date/time format: "{text}"')
    if len(text) <= 10:
        precision = date_precision(text)
        problem = f"Invalid date/time string (datatype InstantDt does not support {precision} precision): {text}"
        raise FhirError(400, f"HAPI-1885: {problem}")
    return bounds.low


def _address(context: RequestContext, row: Version, *, in_type: bool) -> str:
    """The `fullUrl` of an entry. For a history of the server, HAPI's is wrong if a client chose the id."""
    return f"{context.base}/{row.reference}" if in_type or row.id.isdigit() else f"{row.type}/{row.reference}"


def _entry(row: Version, address: str, selected: Subset) -> str:
    method, status = ("POST", "201 Created") if row.version == 1 else ("PUT", "200 OK")
    if row.text is None:
        method = "DELETE"
    request = f'{{\n  "method": "{method}",\n  "url": "{row.reference}/_history/{row.version}"\n}}'
    response = f'{{\n  "status": "{status}",\n  "etag": "W/\\"{row.version}\\""\n}}'
    fields = [("fullUrl", quoted(address))]
    if row.text is not None:
        fields.append(("resource", cut_down(row.text, selected)))
    return entry([*fields, ("request", request), ("response", response)])
