"""History of a resource, a type, or the whole server; newest first."""

from __future__ import annotations

from fhir_server.bundle import Bundle, entry
from fhir_server.exchange import Exchange
from fhir_server.http import Response, by_name, link
from fhir_server.interactions.read import not_known
from fhir_server.outcome import quoted
from fhir_server.paging import DEFAULT_COUNT
from fhir_server.search.parse import whole
from fhir_server.store import Row


def history(exchange: Exchange, kind: str | None = None, resource_id: str | None = None) -> Response:
    """`GET [Type/[id/]]_history`, a page of `_count` versions from `_offset` on."""
    where = "1"
    values: tuple[object, ...] = ()
    if kind is not None and resource_id is not None:
        row = exchange.store.find(kind, resource_id)
        if row is None:
            raise not_known(kind, resource_id)
        where, values = "pid = ?", (row.pid,)
    elif kind is not None:
        where, values = "type = ?", (kind,)
    count = whole("_count", exchange.value("_count") or "")
    count = DEFAULT_COUNT if count is None or count < 0 else count
    offset = max(whole("_offset", exchange.value("_offset") or "") or 0, 0)
    rows = exchange.store.history(where, values, count, offset)
    total = exchange.store.history_count(where, values)
    address = exchange.address
    links = [("self", link(address, by_name(exchange.pairs)))]
    if offset + count < total and count:
        links.append(("next", link(address, [("_count", str(count)), ("_offset", str(offset + count))])))
    if offset:
        links.append(("previous", link(address, [("_count", str(count)), ("_offset", str(max(offset - count, 0)))])))
    # Without a type in the path HAPI gives this as the address of each entry.
    prefix = f"{exchange.base}/" if kind else None
    entries = [_entry(row, f"{prefix}{row.reference}" if prefix else f"{row.type}/{row.reference}") for row in rows]
    bundle = Bundle(exchange.hospital.marks.uuid(), "history", exchange.now, total, links, entries)
    return exchange.bundle(bundle, [("Content-Location", f"{exchange.base}/Bundle/{bundle.id}")])


def _entry(row: Row, address: str) -> str:
    method, status = ("POST", "201 Created") if row.version == 1 else ("PUT", "200 OK")
    if row.text is None:
        method = "DELETE"
    request = f'{{\n  "method": "{method}",\n  "url": "{row.reference}/_history/{row.version}"\n}}'
    response = f'{{\n  "status": "{status}",\n  "etag": "W/\\"{row.version}\\""\n}}'
    fields = [("fullUrl", quoted(address))]
    if row.text is not None:
        fields.append(("resource", row.text))
    return entry([*fields, ("request", request), ("response", response)])
