"""Match URLs: what stands for the resources that a search finds, in conditional writes and references."""

from __future__ import annotations

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.search import run, understood
from fhir_server.search.parameters import resource_types
from fhir_server.wire.http import parse_query


def matching(context: RequestContext, kind: str, query: str, limit: int = 2, shown: str = "") -> list[int]:
    """The numbers of the first resources that meet a condition (the query part of a match URL). Errors repeat the URL
    as it is `shown`.
    """
    shown = shown or f"{kind}?{query}"
    pairs = parse_query(query)
    for name, _ in pairs:
        base = name.partition(":")[0].partition(".")[0]
        if not base.startswith("_") and base not in context.registry.parameters(kind):
            problem = f"Resource type {kind} does not have a parameter with name: {base}"
            raise FhirError(400, f"HAPI-0488: Failed to parse match URL[{shown}] - {problem}")
    found, planned = understood(context, kind, pairs) if pairs else (None, None)
    if found is None or planned is None or not found.criteria:
        raise FhirError(400, f"HAPI-0518: Invalid match URL[{shown}] - URL has no search parameters")
    return list(run(context, planned, limit))


def matched(context: RequestContext, url: str) -> str:
    """What a conditional reference (`Patient?identifier=x`) stands for."""
    kind, _, query = url.partition("?")
    if kind not in resource_types():
        return url
    matches = matching(context, kind, query)
    if not matches:
        raise FhirError(404, f'HAPI-1091: Invalid match URL "{url}" - No resources match this search')
    if len(matches) > 1:
        raise FhirError(412, f'HAPI-2207: Invalid match URL "{url}" - Multiple resources match this search')
    return context.store.rows(matches)[0].reference
