"""`Composition/x/$document`: the composition and the resources that it refers to, as one Bundle."""

from __future__ import annotations

from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.include import MAX_ROUNDS, referred
from fhir_server.search.hashing import java_set_order
from fhir_server.search.query import Include
from fhir_server.wire.bundle import Bundle, in_groups, search_entries
from fhir_server.wire.http import Response, by_name, link

_REFERRED = Include("*", "*", "", reverse=False, iterate=True, text="*")


def document(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Answers `$document`: the composition first, then the resources that it refers to, directly or indirectly."""
    root = context.store.find(kind, resource_id)
    rows = [root] if root is not None and root.text is not None else []
    new = rows
    for _ in range(MAX_ROUNDS):
        known = {row.row_id for row in rows}
        row_ids = [row_id for row_id in java_set_order(referred(context, new, _REFERRED)) if row_id not in known]
        new = context.store.rows(row_ids)
        if not new:
            break
        rows = rows + new
    texts = [(row.reference.encode(), (row.text or "").encode()) for row in rows]
    groups = (("match", texts[:1]), ("include", texts[1:]))
    entries = in_groups(search_entries(context.base, mode, some) for mode, some in groups)
    links = [("self", link(context.address, by_name(context.pairs)))]
    bundle = Bundle(context.server.ids.uuid(), "document", context.now, len(rows[:1]), links, entries)
    return context.bundle(bundle, [("Content-Location", f"{context.base}/Bundle/{bundle.id}")])
