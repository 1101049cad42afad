"""Whether an agent had read the data that decides an item. docs/psb-300.md has the table."""

from __future__ import annotations

from collections.abc import Sequence

from refsol._reads import Query, Read, has_read, searched
from refsol.psb300._ruling import Evidence


def unread(evidence: Evidence, patient: str, reads: Sequence[Read]) -> list[str]:
    """The resources and searches of the evidence that the agent did not read, as texts. Empty if it read all.

    `reads` are the GETs that were answered with 200 before the first POST, or all of them if there was no POST.
    """
    missing = [reference for reference in evidence.resources if not has_read(reads, reference)]
    for search in evidence.searches:
        for code in search.code.split(",") if search.code else [None]:
            query = Query(search.kind, patient, code, search.status, evidence.window)
            if not searched(reads, query):
                missing.append(f"{search.kind}?{f'code={code}' if code else f'status={search.status}'}")
    return missing
