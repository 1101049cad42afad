"""The written resources of an episode, in an engine of our own.

The engine contains copies of the hospital's resources that a write needs (its old version, the targets of its
references) and every version that the episode wrote. Versions are shown as the hospital's own (`7`) or as `private-3`,
never as the engine counts them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from fhir_server import Request, Server
from fhir_server.clock import SteppingClock
from fhir_server.errors import FhirError, ServerError
from fhir_server.ids import IdSource
from fhir_server.interactions.read import etag
from fhir_server.search.indexer import index
from fhir_server.search.plan import ranked_sql
from fhir_server.search.query import parse
from fhir_server.store import Version
from fhir_server.wire.json_text import decode, render
from medagent.fhir_data.embedded import changes_of
from medagent.fhir_data.private.hospital import NotMergedError
from medagent.fhir_data.record import JSON, FhirRequest, Reply
from refsol.changes import Change
from refsol.json_values import as_object

FIRST = 10**15
"""The number from which the layer counts new ids, so that none is the hospital's."""
PREFIX = "private-"
Key = tuple[str, str]
"""The type and id of a resource."""
_STALE = "-not-current"
"""Follows a version in an `If-Match` that the engine must refuse, since the engine may use its number for another."""
_ADDRESS = re.compile(r"\b([A-Z][A-Za-z]+)/([A-Za-z0-9.-]{1,64})/_history/(\d+)(?![A-Za-z0-9.-])")
_OF_ENTRIES = ("searchset", "history", "transaction-response", "batch-response")
"""The types of Bundles that answer a request. Others are resources that somebody stored."""


class Layer:
    """The engine of one episode. `shown` is the base in its replies; ids and times derive from `seed` and `now`."""

    def __init__(self, shown: str, seed: str, now: datetime) -> None:
        self._server = Server.open(None, base=shown.rstrip("/"))
        self._path = urlsplit(self._server.context.base).path
        self._server.context.ids, self._server.context.clock = IdSource(seed), SteppingClock(now)
        self._store = self._server.store
        self._store.skip_to(FIRST)
        self._store.changes = []
        self._before: dict[Key, str | None] = {}
        self._versions: dict[Key, dict[int, str]] = {}
        """The shown version of each of the engine's versions, oldest first; "" if it is unknown."""

    @property
    def written(self) -> Sequence[Key]:
        """The resources that the episode wrote, in the order of the first writes."""
        return list(self._before)

    def created(self, key: Key) -> bool:
        """Whether the layer wrote a resource that does not exist in the hospital."""
        return key in self._before and self._before[key] is None

    def alone(self, key: Key) -> bool:
        """Whether all versions of a written resource are the layer's: the hospital never stored it."""
        return all(version.startswith(PREFIX) for version in self._versions[key].values())

    def has(self, key: Key) -> bool:
        """Whether the engine knows the resource: written, copied or buried."""
        return bool(self._versions.get(key))

    def of(self, kind: str) -> list[str]:
        """The ids of the written resources of a type."""
        return [name for written_kind, name in self._before if written_kind == kind]

    def copy(self, text: str) -> Key:
        """Copy a resource of the hospital into the engine, unless it contains this version, or one that the episode
        wrote. Raises NotMergedError.
        """
        try:
            resource = json.loads(text)
            key, meta = (resource["resourceType"], resource["id"]), as_object(resource.get("meta"))
            versions, version = self._versions.setdefault(key, {}), str(meta.get("versionId", ""))
            if key not in self._before and versions.get(len(versions)) != version:
                self._server.load([text])
                self._store.take_changes()
                versions[len(versions) + 1] = version
        except (ServerError, FhirError, ValueError, LookupError, TypeError):
            raise NotMergedError("a resource of the hospital is not FHIR R4, so our engine cannot copy it") from None
        return key

    def bury(self, key: Key) -> None:
        """Let the engine know that the hospital deleted a resource, unless it knows the resource."""
        if not self.has(key):
            with self._store.transaction():
                number, now = self._store.next_row_id(), self._server.context.clock.now()
                self._store.insert(Version(number, *key, 1, now, None), {})
            self._store.take_changes()
            self._versions[key] = {1: ""}

    def send(self, request: FhirRequest) -> Reply:
        """The engine's reply. What it writes is noted."""
        kind, _, name = request.target.partition("?")[0].strip("/").partition("/")
        headers = [
            (header, self.if_match((kind, name), value) if header == "If-Match" else value)
            for header, value in (("Accept", JSON), *request.headers)
        ]
        target = f"{self._path}{request.target}"
        response = self._server.handle(Request(request.method, target, headers, request.body.encode()))
        for row in self._store.take_changes():
            key = (row.type, row.id)
            if key not in self._before:
                before = self._store.version(row.type, row.id, row.version - 1) if row.version > 1 else None
                self._before[key] = before and before.text
            self._versions.setdefault(key, {})[row.version] = f"{PREFIX}{row.version}"
        return Reply(response.status, self._shown(response.text))

    def current(self, key: Key) -> dict[str, Any] | None:
        """The engine's current version of a resource."""
        row = self._store.find(*key)
        return None if row is None or row.text is None else dict(json.loads(row.text))

    def search(self, kind: str, pairs: str, ids: Iterable[str]) -> Reply:
        """The engine's reply to a search among these resources."""
        return self.send(FhirRequest("GET", f"/{kind}?{pairs}{'&' if pairs else ''}_id={','.join(ids)}&_count=1000"))

    def ranks(self, kind: str, sort: str, ids: Sequence[str]) -> dict[str, int]:
        """The ranks of resources in a `_sort`; equal ones have the same rank. Raises NotMergedError."""
        registry, names = self._store.registry, (kind, json.dumps(ids))
        chosen = "FROM resources WHERE type = ? AND id IN (SELECT value FROM json_each(?))"
        try:
            keys = parse(registry, kind, (("_sort", sort),)).sort
            sql, args = ranked_sql(kind, f"SELECT row_id, 0 AS tie {chosen}", keys, registry)
        except FhirError:
            raise NotMergedError(f"_sort={sort} is not decided for resources that this episode wrote") from None
        ranks = dict(self._store.query(sql, (*names, *args)).fetchall())
        return {name: ranks[row_id] for name, row_id in self._store.query(f"SELECT id, row_id {chosen}", names)}

    def version(self, key: Key, shown: str) -> str:
        """The engine's number of a version that is shown; otherwise the text, which the engine repeats in its error."""
        return next((str(number) for number, version in self._versions[key].items() if version == shown), shown)

    def if_match(self, key: Key, condition: str) -> str:
        """An `If-Match` with the engine's number of the version. For a resource that only the layer contains, it may be
        that number. Raises NotMergedError.
        """
        stated, versions = etag(condition), self._versions.get(key)
        if not stated or not versions:
            return condition
        number, current = next(reversed(versions.items()))
        if not current:
            raise NotMergedError("If-Match for a resource whose version the server does not state")
        fits = stated == current or (self.alone(key) and stated == str(number))
        return f'W/"{number}"' if fits else f'W/"{stated}{_STALE}"'

    def keeps(self, key: Key, parameters: Sequence[str]) -> bool:
        """Whether these search parameters find the same values in a written resource as before the episode."""
        now, before = self._store.find(*key), self._before[key]
        if now is None or now.text is None or before is None or "_lastUpdated" in parameters:
            return False
        old_rows, new_rows = (index(decode(text), self._store.registry) for text in (before, now.text))
        return all(
            [row for row in old_rows[kind] if row[0] in parameters]
            == [row for row in new_rows[kind] if row[0] in parameters]
            for kind in {*old_rows, *new_rows}
        )

    def changes(self) -> list[Change]:
        """The state difference."""
        rows = {key: self._store.find(*key) for key in self._before}
        return changes_of((*key, self._before[key], row and row.text) for key, row in rows.items())

    def close(self) -> None:
        """Drop the layer."""
        self._server.close()

    def _shown(self, text: str) -> str:
        """A reply with the shown versions. What resources contain stays as it is."""
        if not text.startswith("{"):
            return text
        reply = decode(text)
        if reply["resourceType"] == "Bundle" and reply["type"] in _OF_ENTRIES:
            for entry in reply.get("entry", ()):
                self._show_in_entry(entry)
        else:
            self._show_in_resource(reply)
        return render(reply)

    def _show_in_entry(self, entry: dict[str, Any]) -> None:
        self._show_in_resource(entry.get("resource", {}))
        for part, member in (("request", "url"), ("response", "location")):
            address = entry.get(part, {}).get(member, "")
            if match := _ADDRESS.search(address):
                number, shown = match[3], self._shown_version((match[1], match[2]), match[3])
                entry[part][member] = _ADDRESS.sub(self._shown_address, address)
                entry["response"]["etag"] = entry["response"]["etag"].replace(number, shown)
        self._show_in_resource(entry.get("response", {}).get("outcome", {}))

    def _show_in_resource(self, resource: dict[str, Any]) -> None:
        meta, issues = resource.get("meta", {}), resource.get("issue", ())
        if "versionId" in meta:
            meta["versionId"] = self._shown_version((resource["resourceType"], resource["id"]), meta["versionId"])
        elif resource.get("resourceType") == "OperationOutcome":
            for issue in issues:
                issue["diagnostics"] = _ADDRESS.sub(self._shown_address, issue["diagnostics"]).replace(_STALE, "")

    def _shown_address(self, match: re.Match[str]) -> str:
        return f"{match[1]}/{match[2]}/_history/{self._shown_version((match[1], match[2]), match[3])}"

    def _shown_version(self, key: Key, number: str) -> str:
        return self._versions.get(key, {}).get(int(number)) or number
