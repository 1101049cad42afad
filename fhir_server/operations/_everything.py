"""`$everything` of a patient or an encounter: it, the resources that refer to it, and the references of all of these.

HAPI reads the compartment in batches a little larger than a page, and follows the references of each batch before it
reads the next. The first page is in the first batch. The others are read when a further page is requested. `start`,
`end` and `_since` are accepted and ignored. All of this was observed on HAPI 7.6.0.

`Composition/x/$document` is the composition and the resources that it refers to, as one Bundle.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.include import MAX_ROUNDS, referred, referring
from fhir_server.interactions.read import not_known
from fhir_server.interactions.search import at_once, first_page
from fhir_server.interactions.shuffled import order_of, shuffled
from fhir_server.operations._parameters import Arguments
from fhir_server.search.hashing import id_hash, java_order
from fhir_server.search.paging import STAGES, Search
from fhir_server.search.parameters import resource_types
from fhir_server.search.query import Include, subset, whole
from fhir_server.store import Version
from fhir_server.wire.bundle import Bundle, in_groups, search_entries
from fhir_server.wire.http import Pairs, Response, by_name, link

REFERRED = Include("*", "*", "", reverse=False, iterate=True, text="*")
REFERRING = Include("*", "*", "", reverse=True, iterate=False, text="*")


def everything(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Everything about one patient or all patients, by pages; `_type` restricts the resources that refer to them."""
    pairs = Arguments(context).texts()
    count = whole("_count", dict(pairs).get("_count", ""))
    count = context.server.paging.size if count is None or count < 1 else count
    batch = max(STAGES[0], count) + 2
    order = order_of(context, pairs)
    results = partial(_everything, kind=kind, resource_id=resource_id, pairs=pairs, batch=batch, order=order)
    row_ids = array("q", islice(results(context), batch))
    total = len(row_ids) if len(row_ids) < max(STAGES[0], count) else None
    limit = at_once(context)
    if limit is not None:
        row_ids = row_ids[: min(limit, count)]
        total = None if len(row_ids) == limit else len(row_ids)
    search = Search(context.server.ids.uuid(), context.now, row_ids, rest=results)
    answer = first_page(context, search, count, total, subset(context.pairs, kind))
    search.loading.loaded = max(search.loading.loaded, len(row_ids))
    if context.request.method == "POST":
        answer.headers.append(("Location", answer.header("Content-Location") or ""))
    return answer


def _roots(context: RequestContext, kind: str, resource_id: str, ids: str) -> list[Version]:
    """The resource of the path; at type level, the resources in `ids`, or all resources of the type."""
    if resource_id:
        root = context.store.find(kind, resource_id)
        if root is None or root.text is None:
            raise not_known(kind, resource_id)
        return [root]
    named = [reference.rpartition("/")[2] for reference in ids.split(",") if reference]
    if named:
        rows = [context.store.find(kind, name) for name in named]
        return [row for row in rows if row is not None and row.text is not None]
    sql = "SELECT row_id FROM resources WHERE type = ? AND text IS NOT NULL ORDER BY row_id"
    return context.store.rows([row_id for (row_id,) in context.store.query(sql, (kind,))])


def _types(pairs: Pairs) -> set[str]:
    types = {name for key, value in pairs if key == "_type" for name in value.split(",")}
    for name in types:
        if name not in resource_types():
            raise FhirError(404, f"HAPI-2197: Unknown resource type '{name}' in _type parameter.")
    return types


def _everything(
    context: RequestContext, kind: str, resource_id: str, pairs: Pairs, batch: int, order: str
) -> Iterator[int]:
    """The numbers of the results in order, shuffled by `order` if there is one."""
    results = _in_batches(context, kind, resource_id, pairs, batch)
    yield from shuffled(context, results, order) if order else results


def _in_batches(context: RequestContext, kind: str, resource_id: str, pairs: Pairs, batch: int) -> Iterator[int]:
    roots, types = _roots(context, kind, resource_id, dict(pairs).get("_id", "")), _types(pairs)
    sources = [replace(REFERRING, source=kind) for kind in types] or [REFERRING]
    members = sorted({row_id for parameter in sources for row_id in referring(context, roots, parameter)})
    rest = list(dict.fromkeys((*(row.row_id for row in roots), *members)))
    seen: set[int] = set()
    followed: dict[int, None] = {}
    while rest:
        part, rest = [row_id for row_id in rest[:batch] if row_id not in seen], rest[batch:]
        yield from part
        followed |= _followed(context, context.store.rows(part), types, kind)
        seen.update(part)
        others = [row_id for row_id in java_order(followed, id_hash) if row_id not in seen]
        yield from others
        seen.update(others)


def _followed(context: RequestContext, rows: list[Version], types: set[str], kind: str) -> dict[int, None]:
    """The resources that the rows refer to, directly or indirectly. With `types`, only references from these types are
    followed. If `kind` is Patient, other patients are left out.
    """
    followed: dict[int, None] = {}
    new = rows
    for _ in range(MAX_ROUNDS):
        row_ids = referred(context, [row for row in new if not types or row.type in types], REFERRED)
        new = context.store.rows([row_id for row_id in dict.fromkeys(row_ids) if row_id not in followed])
        new = [row for row in new if row.type != "Patient" or kind != "Patient"]
        followed.update(dict.fromkeys(row.row_id for row in new))
    return followed


def document(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Answers `$document`: the composition first, then the resources that it refers to, directly or indirectly."""
    root = context.store.find(kind, resource_id)
    rows = [root] if root is not None and root.text is not None else []
    new = rows
    for _ in range(MAX_ROUNDS):
        known = {row.row_id for row in rows}
        row_ids = [row_id for row_id in java_order(referred(context, new, REFERRED), id_hash) if row_id not in known]
        new = context.store.rows(row_ids)
        if not new:
            break
        rows = rows + new
    texts = [(row.reference.encode(), (row.text or "").encode()) for row in rows]
    groups = (("match", texts[:1]), ("include", texts[1:]))
    entries = in_groups(search_entries(context.base, mode, matches) for mode, matches in groups)
    links = [("self", link(context.address, by_name(context.pairs)))]
    bundle = Bundle(context.server.ids.uuid(), "document", context.now, len(rows[:1]), links, entries)
    return context.bundle(bundle)
