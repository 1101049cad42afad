"""The order of results without `_sort` on a server whose `Paging` is shuffled."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from hashlib import sha256

from fhir_server.interactions.context import RequestContext
from fhir_server.search.query import RESULT_PARAMETERS
from fhir_server.wire.http import Pairs


def order_of(context: RequestContext, pairs: Pairs) -> str:
    """What seeds the order of a search's results: its path and conditions, with the patient. "" if not shuffled."""
    if not context.server.paging.shuffled:
        return ""
    conditions = sorted(pair for pair in pairs if pair[0].partition(":")[0] not in RESULT_PARAMETERS)
    return json.dumps([context.path.removesuffix("/_search"), *conditions])


def place(order: str, reference: str) -> bytes:
    """The place of a result (its reference) in an order. Places are compared with each other."""
    return sha256(f"{order} {reference}".encode()).digest()


def shuffled(context: RequestContext, row_ids: Iterable[int], order: str) -> array[int]:
    """The numbers of resources in this order."""
    sql = "SELECT row_id, type || '/' || id FROM resources WHERE row_id IN (SELECT value FROM json_each(?))"
    references = context.store.query(sql, (json.dumps(list(row_ids)),)).fetchall()
    places = {row_id: place(order, reference) for row_id, reference in references}
    return array("q", sorted(places, key=places.__getitem__))
