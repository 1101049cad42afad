"""`Observation/$lastn`: the last observations of each code in a search, as R4 defines it.

HAPI without a search index ignores `max` and all conditions; here both are applied. The groups are in order of their
codes, with the latest observation of each group first.
"""

from __future__ import annotations

from array import array

from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.search import first_page, run, understood
from fhir_server.interactions.shuffled import order_of, shuffled
from fhir_server.operations._parameters import Arguments
from fhir_server.search.kinds.date import period_span, span, timing_span
from fhir_server.search.paging import Search
from fhir_server.search.query import subset, whole
from fhir_server.wire.http import Response
from fhir_server.wire.json_values import Json

_OWN = ("max", "_count")


def lastn(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Answers `$lastn`: `max` observations per code (default 1)."""
    pairs = Arguments(context).texts()
    parameters = dict(pairs)
    most = max(whole("max", parameters.get("max", "")) or 1, 1)
    _, planned = understood(context, kind, tuple(pair for pair in pairs if pair[0] not in _OWN))
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in context.store.rows(run(context, planned)):
        resource = row.resource
        groups.setdefault(_code(resource), []).append((-_time(resource), row.row_id))
    row_ids = array("q", [row_id for code in sorted(groups) for _, row_id in sorted(groups[code])[:most]])
    if order := order_of(context, pairs):
        row_ids = shuffled(context, row_ids, order)
    count = whole("_count", parameters.get("_count", "")) or context.server.paging.size
    search = Search(context.server.ids.uuid(), context.now, row_ids)
    return first_page(context, search, count, len(row_ids), subset(pairs, kind))


def _code(resource: Json) -> tuple[str, str]:
    """The group of an observation: its first code, or its text; observations without a code come last."""
    concept = resource.get("code") or {}
    coding = next((coding for coding in concept.get("coding", ()) if "code" in coding), None)
    if coding is not None:
        return str(coding["code"]), str(coding.get("system", ""))
    return "\U0010ffff", str(concept.get("text", ""))


def _time(resource: Json) -> int:
    """The time of an observation, in milliseconds since 1970; the earliest possible if there is none."""
    for key in ("effectiveDateTime", "effectiveInstant"):
        if key in resource:
            return span(resource[key]).high
    times = period_span(resource.get("effectivePeriod") or {}) or timing_span(resource.get("effectiveTiming") or {})
    return times.high if times else -(2**62)
