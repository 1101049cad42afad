"""Import of NDJSON: many resources with their own ids, in a few large transactions.

A resource gets its number from the number of its line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fhir_server.clock import Clock
from fhir_server.errors import FhirError, ServerError
from fhir_server.ids import IdSource
from fhir_server.load.members import ImportStamp, MemberCache
from fhir_server.search.indexer import index, table_rows
from fhir_server.search.kinds.kind import IndexRows
from fhir_server.store import BaseStore, Version
from fhir_server.store.custom_parameters import put_in_force
from fhir_server.store.schema import COLUMNS
from fhir_server.wire.json_text import decode, render

CHUNK = 4000
"""The number of lines in one transaction. A page of the file that several of them change is then written once."""
Refused = Callable[[int, str], None]


@dataclass(slots=True)
class Chunk:
    """The rows of some lines, with the columns of `store.schema`.

    `tables` contains the rows of each index table as one flat list of values. `refused` contains line numbers and
    reasons.
    """

    resources: list[tuple[int, str, str, int, int, str]] = field(default_factory=list)
    tables: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    refused: list[tuple[int, str]] = field(default_factory=list)

    @property
    def last_number(self) -> int:
        """The largest number of a resource, or all-digit id. The server's next ids must be above it."""
        ids = (row[2] for row in self.resources)
        digits = [int(name) for name in ids if name.isascii() and name.isdigit() and len(name) < 19]
        return max([self.resources[-1][0], *digits])


def load(
    store: BaseStore,
    lines: Iterable[str | bytes],
    refused: Refused | None = None,
    ids: IdSource | None = None,
    clock: Clock | None = None,
) -> int:
    """Imports one resource per line. Returns the number of imported resources.

    `meta.lastUpdated` and `meta.source` are kept if a resource contains them. If a resource with the same id exists,
    the imported one becomes its next version. References are not checked, so the lines can be in any order. Afterwards
    the counter is above the largest all-digit id and above the number of resources.

    Args:
        store: where to write.
        lines: one resource each, as JSON. Empty lines are skipped.
        refused: called with the number (from 1) and the reason of each line that is not an R4 resource with an id.
            Without it, the first of these lines ends the import.
        ids: supplies the request id for resources without `meta.source`; a random one by default.
        clock: supplies the time for resources without `meta.lastUpdated`; the wall clock by default.

    Raises:
        ServerError: a line was refused. Of the lines before it, all except the last few thousand are in the store.
    """
    cache = MemberCache(store.registry, ImportStamp((clock or Clock()).now(), (ids or IdSource()).request_id()))
    count, done, first, defines, empty = 0, 0, store.next_number, False, not store.count()
    rest = iter(lines)
    with store.importing(), ExitStack() as stack:
        while part := list(islice(rest, CHUNK)):
            chunk = rows_of(part, first + done, done, cache)
            for number, reason in chunk.refused:
                if refused is None:
                    raise ServerError(f"line {number}: {reason}")
                refused(number, reason)
            if chunk.resources:
                with store.transaction():
                    _write(store, chunk)
            if empty and not count and len(chunk.resources) == CHUNK:  # a large import
                stack.enter_context(store.ordered_later())
            done += len(part)
            count += len(chunk.resources)
            defines |= any(row[1] == "SearchParameter" for row in chunk.resources)
        if defines:
            with store.transaction():
                put_in_force(store)
    return count


def rows_of(lines: Sequence[str | bytes], first: int, before: int, cache: MemberCache) -> Chunk:
    """The rows of some lines. `first` is the number of the first line's resource, `before` counts earlier lines."""
    chunk = Chunk()
    owners: dict[str, list[int]] = defaultdict(list)
    for offset, line in enumerate(lines):
        try:
            text = (line.encode() if isinstance(line, str) else line).decode()
            if text and not text.isspace():
                kind, resource_id, updated, stored, rows = cache.prepare(text)
                row_id = first + offset
                chunk.resources.append((row_id, kind, resource_id, 1, updated, stored))
                for table, values, number in rows:
                    chunk.tables[table] += values
                    owners[table] += [row_id] * number
        except FhirError as error:
            chunk.refused.append((before + offset + 1, error.diagnostics))
        except UnicodeError:
            chunk.refused.append((before + offset + 1, "is not UTF-8"))
        except OverflowError:
            chunk.refused.append((before + offset + 1, "meta.lastUpdated is outside the years 1 to 9999"))
    for table, row_ids in owners.items():
        columns = COLUMNS[table]
        chunk.tables[table][columns.index("row_id") :: len(columns)] = row_ids
    return chunk


def _write(store: BaseStore, chunk: Chunk) -> None:
    registry = store.registry
    store.skip_to(chunk.last_number + 1)
    if store.insert_many(chunk.resources, chunk.tables):
        return
    for values in chunk.resources:
        row = Version(*values)
        assert row.text is not None
        resource = decode(row.text)
        old = store.find(row.type, row.id)
        if old is None:
            store.insert(row, table_rows(row.type, index(resource, registry), registry, row.row_id))
            continue
        resource["meta"]["versionId"] = str(old.version + 1)
        new = Version(old.row_id, old.type, old.id, old.version + 1, row.updated, render(resource))
        before = index(decode(old.text), registry) if old.text is not None else IndexRows()
        old_rows = table_rows(old.type, before, registry, old.row_id)
        store.replace(old, old_rows, new, table_rows(new.type, index(resource, registry), registry, new.row_id))
