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

from fhir_server import Request, Server
from fhir_server.clock import SteppingClock
from fhir_server.errors import FhirError, ServerError
from fhir_server.ids import IdSource
from medagent.fhir_data.embedded import changes_of
from medagent.fhir_data.private.hospital import NotMergedError
from medagent.fhir_data.record import FhirRequest, Reply
from refsol.changes import Change
from refsol.json_values import as_object

FIRST = 10**15
"""The number from which the layer counts new ids, so that none is the hospital's."""
PREFIX = "private-"
Key = tuple[str, str]
"""The type and id of a resource."""
_NO_VERSION = "999999999"
_HISTORY = re.compile(r"\b([A-Z][A-Za-z]+)/([A-Za-z0-9.-]{1,64})/_history/(\d+)\b")
_META = re.compile(r'("resourceType": "(\w+)",\s*"id": "([^"]+)",\s*"meta": \{[^{}]*?"versionId": ")(\d+)"')
_ETAGS = re.compile(
    r'(\b([A-Z][A-Za-z]+)/([A-Za-z0-9.-]{1,64})/_history/(\d+)"(?:(?!_history/).){0,120}?"etag": "(?:W/\\")?)(\d+)',
    re.DOTALL,
)
"""The ETag that follows the address of a version in an entry of a Bundle."""
_ETAG = re.compile(r'(?:W/)?"?([^"]*)"?')


class Layer:
    """The engine of one episode. `shown` is the base in its replies; ids and times derive from `seed` and `now`."""

    def __init__(self, shown: str, seed: str, now: datetime) -> None:
        self._server = Server.open(None, base=shown.rstrip("/"))
        self._server.context.ids, self._server.context.clock = IdSource(seed), SteppingClock(now)
        self._store = self._server.store
        self._store.skip_to(FIRST)
        self._store.changes = []
        self._before: dict[Key, str | None] = {}
        self._versions: dict[Key, list[str]] = {}

    @property
    def written(self) -> Sequence[Key]:
        """The resources that the episode wrote, in the order of the first writes."""
        return list(self._before)

    def created(self, key: Key) -> bool:
        """Whether the layer wrote a resource that does not exist in the hospital."""
        return key in self._before and self._before[key] is None

    def has(self, key: Key) -> bool:
        """Whether the engine contains the resource, written or copied."""
        return key in self._versions

    def of(self, kind: str) -> list[str]:
        """The ids of the written resources of a type."""
        return [name for one, name in self._before if one == kind]

    def copy(self, text: str) -> Key:
        """Copy a resource of the hospital into the engine, unless it contains this version. Raises NotMergedError."""
        try:
            resource = json.loads(text)
            key, meta = (resource["resourceType"], resource["id"]), as_object(resource.get("meta"))
            versions, version = self._versions.setdefault(key, []), str(meta.get("versionId", ""))
            if not versions or versions[-1] != version:
                self._server.load([text])
                self._store.take_changes()
                versions.append(version)
        except (ServerError, FhirError, ValueError, LookupError, TypeError):
            raise NotMergedError("a resource of the hospital is not FHIR R4, so our engine cannot copy it") from None
        return key

    def send(self, request: FhirRequest) -> Reply:
        """The engine's reply. What it writes is noted."""
        kind, _, name = request.target.partition("?")[0].strip("/").partition("/")
        headers = tuple(
            (header, f'W/"{self.own_version((kind, name), value)}"' if header == "If-Match" else value)
            for header, value in request.headers
        )
        response = self._server.handle(
            Request(request.method, f"/fhir{request.target}", headers, request.body.encode())
        )
        for row in self._store.take_changes():
            key = (row.type, row.id)
            if key not in self._before:
                before = self._store.version(row.type, row.id, row.version - 1) if row.version > 1 else None
                self._before[key] = before and before.text
            self._versions.setdefault(key, []).append(f"{PREFIX}{row.version}")
        return Reply(response.status, self._shown(response.text))

    def current(self, key: Key) -> dict[str, Any] | None:
        """The engine's current version of a resource."""
        row = self._store.find(*key)
        return None if row is None or row.text is None else dict(json.loads(row.text))

    def search(self, kind: str, pairs: str, ids: Iterable[str]) -> Reply:
        """The engine's reply to a search among these resources."""
        return self.send(FhirRequest("GET", f"/{kind}?{pairs}{'&' if pairs else ''}_id={','.join(ids)}&_count=1000"))

    def version(self, key: Key, shown: str) -> str:
        """The engine's number of a version that is shown; for an unknown version, a number that no resource uses."""
        versions = self._versions.get(key, [])
        return str(len(versions) - versions[::-1].index(shown)) if shown in versions else _NO_VERSION

    def changes(self) -> list[Change]:
        """The state difference."""
        rows = {key: self._store.find(*key) for key in self._before}
        return changes_of((*key, self._before[key], row and row.text) for key, row in rows.items())

    def close(self) -> None:
        """Drop the layer."""
        self._server.close()

    def own_version(self, key: Key, condition: str) -> str:
        """The engine's number of the version in an `If-Match`."""
        match = _ETAG.fullmatch(condition.strip())
        return self.version(key, match[1] if match else condition)

    def _shown(self, text: str) -> str:
        """A reply with the shown versions."""
        if "/_history/" in text:
            text = _ETAGS.sub(lambda m: f"{m[1]}{self._shown_version((m[2], m[3]), m[5])}", text)
            text = _HISTORY.sub(lambda m: f"{m[1]}/{m[2]}/_history/{self._shown_version((m[1], m[2]), m[3])}", text)
        return _META.sub(lambda m: f'{m[1]}{self._shown_version((m[2], m[3]), m[4])}"', text)

    def _shown_version(self, key: Key, number: str) -> str:
        versions = self._versions.get(key, [])
        place = int(number) - 1
        return versions[place] if place < len(versions) else number


def references(value: Any) -> Iterable[str]:
    """The references in a resource, as written."""
    if isinstance(value, list):
        for one in value:
            yield from references(one)
    elif isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value["reference"]
        for one in value.values():
            yield from references(one)
