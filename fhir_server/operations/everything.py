"""`Patient/x/$everything`: the patient, what refers to it, and what all of that refers to.

HAPI reads the compartment in one batch a little larger than a page, follows the references of that batch, and only then
reads on; `start`, `end` and `_since` are taken and change nothing. All of it observed on 7.6.0.
"""

from __future__ import annotations

from array import array

from fhir_server.interactions.context import Exchange
from fhir_server.interactions.include import MAX_ROUNDS, referred, referring
from fhir_server.interactions.read import not_known
from fhir_server.interactions.search import entries_of, page_link
from fhir_server.search.hashing import java_set_order
from fhir_server.search.paging import DEFAULT_COUNT, STAGES, Search
from fhir_server.search.query import Include, shape, whole
from fhir_server.store import Row
from fhir_server.wire.bundle import Bundle
from fhir_server.wire.http import Response, by_name, link

REFERRED = Include("*", "*", "", reverse=False, iterate=True, text="*")
REFERRING = Include("*", "*", "", reverse=True, iterate=False, text="*")


def everything(exchange: Exchange, patient_id: str) -> Response:
    """Everything about a patient, by pages; `_type` restricts what refers to it."""
    patient = exchange.store.find("Patient", patient_id)
    if patient is None or patient.text is None:
        raise not_known("Patient", patient_id)
    count = whole("_count", exchange.value("_count") or "")
    count = DEFAULT_COUNT if count is None or count < 1 else count
    pids = _everything(exchange, patient, max(STAGES[0], count + 1) + 1)
    total = len(pids) if len(pids) < max(STAGES[0], count) else None
    found = Search(exchange.hospital.marks.uuid(), exchange.now, pids)
    links = [("self", link(exchange.address, by_name(exchange.pairs)))]
    if len(pids) > count:
        found.total_at(count)
        exchange.hospital.searches.keep(found)
        links.append(("next", page_link(exchange, found, exchange.pairs, count, count)))
    entries = entries_of(exchange, pids[:count], (), shape(exchange.pairs, "Patient"))
    bundle = Bundle(found.id, "searchset", exchange.now, total, links, entries)
    return exchange.bundle(bundle, [("Content-Location", f"{exchange.base}/Bundle/{found.id}")])


def _everything(exchange: Exchange, patient: Row, batch: int) -> array[int]:
    members = exchange.store.rows(referring(exchange, [patient], REFERRING))
    types = {name for key, value in exchange.pairs if key == "_type" for name in value.split(",")}
    if types:
        members = [row for row in members if row.type in types]
    found = array("q")
    rest = [patient, *(row for row in members if row.pid != patient.pid)]
    while rest:
        part, rest = [row for row in rest[:batch] if row.pid not in found], rest[batch:]
        found.extend(row.pid for row in part)
        found.extend(pid for pid in _followed(exchange, part, follow=not types) if pid not in found)
    return found


def _followed(exchange: Exchange, rows: list[Row], *, follow: bool) -> list[int]:
    """What the rows refer to, other patients left out; with `follow`, also what that refers to, and so on."""
    found: dict[int, None] = {}
    new = rows
    for _ in range(MAX_ROUNDS if follow else 1):
        pids = dict.fromkeys(referred(exchange, new, REFERRED))
        new = [row for row in exchange.store.rows([pid for pid in pids if pid not in found]) if row.type != "Patient"]
        found.update(dict.fromkeys(row.pid for row in new))
    return java_set_order(found)
