"""An episode's view of the hospital with its private layer of writes."""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from medagent.core.errors import UserError
from medagent.fhir_data.http import HttpEhr, ambiguous
from medagent.fhir_data.private.hospital import Hospital, NotMergedError, link_of
from medagent.fhir_data.private.layer import PREFIX, Key, Layer, references
from medagent.fhir_data.private.search import Page, Pages, bundle_of, open_search
from medagent.fhir_data.record import ONLY_EMBEDDED, EhrSession, FhirRequest, Reply
from refsol.changes import Change
from refsol.clinical.sources import Amendment
from refsol.json_values import as_object, json_value, objects

MOST_WRITES, MOST_BYTES = 1_000, 50_000_000
"""The most writes of an episode, and the most characters of their bodies."""
MOST_SEARCHES, PAGES_S = 50, 900.0
"""The most open searches of an episode, and the seconds after which a link to a next page expires."""
_TYPE = re.compile(r"[A-Z][A-Za-z]+")
_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
_REFERENCE = re.compile(r"([A-Z][A-Za-z]+)/([A-Za-z0-9.-]{1,64})(/_history/.*)?")
_ABSENT = (404, 410)


class PrivateEhr:
    """A hospital's server whose episodes write into private layers. `now` is the clock of their writes."""

    def __init__(self, ehr: HttpEhr, shown: str, now: datetime) -> None:
        self._hospital = Hospital(ehr, shown)
        self._shown, self._now = shown.rstrip("/"), now

    async def check(self) -> None:
        """See `Ehr.check`; the server must be of FHIR R4."""
        await self._hospital.check()

    @asynccontextmanager
    async def session(self, seed: str, change: Amendment = ()) -> AsyncIterator[EhrSession]:
        """An episode's view; its writes are dropped at the end. Raises UserError for a change."""
        if change:
            raise UserError(ONLY_EMBEDDED)
        session = _PrivateSession(self._hospital, self._shown, seed, self._now)
        try:
            yield session
        finally:
            session.reset()


class _RefusedError(Exception):
    """The hospital refuses a read that a write needs."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class _Part:
    """One write: of a request, or of an entry of a Bundle."""

    method: str
    kind: str
    id: str = ""
    search: str = ""
    resource: Any = None


class _PrivateSession:
    fixed = False

    def __init__(self, hospital: Hospital, shown: str, seed: str, now: datetime) -> None:
        self._hospital, self._shown, self._seed, self._now = hospital, shown, seed, now
        self._layer: Layer | None = None
        self._writes = self._bytes = 0
        self._searches: OrderedDict[str, tuple[float, Pages]] = OrderedDict()
        self._opened = 0

    def reset(self) -> None:
        if self._layer is not None:
            self._layer.close()
        self._layer, self._writes, self._bytes = None, 0, 0
        self._searches.clear()

    def changes(self) -> list[Change]:
        return [] if self._layer is None else self._layer.changes()

    async def rehearse(self, target: str, body: str) -> Reply | None:
        """See `EhrSession.rehearse`; the layer carries out every write."""
        return None

    async def get(self, target: str) -> Reply:
        if problem := ambiguous(target):
            return Reply(400, "", problem)
        path, _, query = target.partition("?")
        pairs = [one for one in query.split("&") if one and one.partition("=")[0] not in ("_format", "_pretty")]
        try:
            return await self._read([part for part in path.split("/") if part], "&".join(pairs))
        except NotMergedError as error:
            return _refused(501, "not-supported", str(error))

    async def write(self, request: FhirRequest) -> Reply:
        if problem := ambiguous(request.target):
            return Reply(400, "", problem)
        try:
            parts = list(_parts(request))
            self._writes += len(parts)
            self._bytes += len(request.body)
            if self._writes > MOST_WRITES or self._bytes > MOST_BYTES:
                limits = f"{MOST_WRITES:,} writes and {MOST_BYTES // 10**6} MB"
                return _refused(413, "too-costly", f"an episode may make {limits}")
            layer = self._own_layer()
            for part in parts:
                await self._prepare(layer, part)
            return layer.send(_in_layer(layer, request))
        except NotMergedError as error:
            return _refused(501, "not-supported", str(error))
        except _RefusedError as error:
            return error.reply

    def _own_layer(self) -> Layer:
        if self._layer is None:
            self._layer = Layer(self._shown, self._seed, self._now)
        return self._layer

    async def _read(self, parts: list[str], query: str) -> Reply:
        match parts:
            case []:
                return await self._next_page(query)
            case ["metadata"]:
                return await self._hospital.get(_with_format("/metadata", query))
            case [kind] if _TYPE.fullmatch(kind):
                opened = await open_search(
                    self._hospital, lambda: self._layer, kind, f"{query}&_format=json".lstrip("&"), self._copy
                )
                return opened if isinstance(opened, Reply) else await self._page(self._remember(opened), 0)
            case [kind, name] if _TYPE.fullmatch(kind) and _ID.fullmatch(name):
                return await self._resource((kind, name), _with_format(f"/{kind}/{name}", query))
            case [kind, name, "_history"] if _TYPE.fullmatch(kind) and _ID.fullmatch(name):
                return await self._history((kind, name), query)
            case [kind, name, "_history", version] if _ID.fullmatch(name) and _ID.fullmatch(version):
                return await self._version((kind, name), version, query)
        reason = "an operation" if any(part.startswith("$") for part in parts) else "this address"
        if parts[-1:] == ["_history"]:
            reason = "the history of a type or of the system"
        raise NotMergedError(f"{reason} is not passed on to the hospital's server")

    async def _resource(self, key: Key, target: str) -> Reply:
        if self._layer is not None and key in self._layer.written:
            return self._layer.send(FhirRequest("GET", target))
        return await self._hospital.get(target)

    async def _version(self, key: Key, version: str, query: str) -> Reply:
        target = f"/{key[0]}/{key[1]}/_history/"
        if self._layer is not None and (version.startswith(PREFIX) or self._layer.created(key)):
            own = self._layer.version(key, version)
            return self._layer.send(FhirRequest("GET", _with_format(target + own, query)))
        return await self._hospital.get(_with_format(target + version, query))

    async def _history(self, key: Key, query: str) -> Reply:
        """The history of a resource: the versions of this episode, then the hospital's."""
        target = f"/{key[0]}/{key[1]}/_history"
        if self._layer is None or key not in self._layer.written:
            return await self._hospital.get(_with_format(target, query))
        own = self._layer.send(FhirRequest("GET", target))
        if self._layer.created(key):
            return own
        if query:
            raise NotMergedError("parameters of the history of a resource that this episode wrote")
        theirs = await self._hospital.get(f"{target}?_format=json")
        if not theirs.ok:
            raise _RefusedError(theirs)
        head, entries = bundle_of(own)
        old_head, old = bundle_of(theirs)
        if link_of(old_head, "next") is not None:
            raise NotMergedError("a history of several pages of a resource that this episode wrote")
        mine = [one for one in entries if f'"versionId": "{PREFIX}' in one.text or '"DELETE"' in one.text]
        total = old_head.get("total")
        known = total + len(mine) if isinstance(total, int) else None
        return Reply(200, Page(head, [*mine, *old], known, None).text(None))

    def _remember(self, pages: Pages) -> str:
        """Keep a search for its further pages; returns its name."""
        self._opened += 1
        name = f"{PREFIX}{self._opened}"
        self._searches[name] = (time.monotonic(), pages)
        while len(self._searches) > MOST_SEARCHES:
            self._searches.popitem(last=False)
        return name

    async def _next_page(self, query: str) -> Reply:
        values = dict(parse_qsl(query))
        name, offset = values.get("_getpages", ""), values.get("_getpagesoffset", "")
        if not name:
            raise NotMergedError("a search of all types is not passed on to the hospital's server")
        opened, _ = self._searches.get(name, (0.0, None))
        if not offset.isdigit() or time.monotonic() - opened > PAGES_S:
            return _refused(410, "not-found", f'Search ID "{name}" does not exist and may have expired')
        return await self._page(name, int(offset))

    async def _page(self, name: str, offset: int) -> Reply:
        page = await self._searches[name][1].page(offset)
        following = None
        if page.more is not None:
            following = f"{self._shown}?_getpages={name}&_getpagesoffset={page.more}"
        return Reply(200, page.text(following))

    async def _prepare(self, layer: Layer, part: _Part) -> None:
        """Give the layer what a write needs. Raises NotMergedError, _RefusedError."""
        keys = [(part.kind, part.id)] if part.id and await self._copy((part.kind, part.id)) else []
        if part.search:
            keys = await self._copy_matches(layer, part.kind, part.search)
        if part.method == "DELETE" and any(not layer.created(key) for key in keys):
            raise NotMergedError(_DELETION)
        patched = [layer.current(key) for key in keys] if part.method == "PATCH" else []
        for reference in references([part.resource, *patched]):
            kind, _, search = reference.partition("?")
            relative = reference.removeprefix(f"{self._shown}/")
            if search and _TYPE.fullmatch(kind):
                await self._copy_matches(layer, kind, search)
            elif (match := _REFERENCE.fullmatch(relative)) and not layer.has((match[1], match[2])):
                await self._copy((match[1], match[2]))

    async def _copy(self, key: Key) -> bool:
        """Give the layer the hospital's current version of a resource; returns whether there is one."""
        layer = self._own_layer()
        if key in layer.written or not (_TYPE.fullmatch(key[0]) and _ID.fullmatch(key[1])):
            return True
        reply = await self._hospital.get(f"/{key[0]}/{key[1]}?_format=json")
        if reply.status in _ABSENT:
            return False
        if not reply.ok:
            raise _RefusedError(reply)
        layer.copy(reply.text)
        return True

    async def _copy_matches(self, layer: Layer, kind: str, search: str) -> list[Key]:
        """Give the layer the matches of a condition; returns up to two of them, which is all that it depends on."""
        opened = await open_search(self._hospital, lambda: layer, kind, f"{search}&_count=2&_format=json", self._copy)
        if isinstance(opened, Reply):
            raise _RefusedError(opened)
        keys = [one.key for one in (await opened.page(0)).entries if one.match][:2]
        for key in keys:
            await self._copy(key)
        own = layer.send(FhirRequest("GET", f"/{kind}?{search}&_count=3"))
        ours = [one.key for one in bundle_of(own)[1] if one.match] if own.ok else []
        if (set(keys) != set(ours) and len(keys) < 2) or not own.ok or not set(keys) <= set(ours):
            raise NotMergedError("the server and the layer disagree about what matches the condition")
        return keys


_DELETION = "the deletion of a resource of the hospital, to which others may refer"


def _parts(request: FhirRequest) -> Iterator[_Part]:
    """The writes of a request. Raises NotMergedError if it is none, or if a Bundle contains other entries."""
    names = [part for part in request.target.partition("?")[0].split("/") if part]
    body = json_value(request.body)
    if not names and request.method == "POST":
        for entry in objects(as_object(body).get("entry")):
            stated = as_object(entry.get("request"))
            method, url = str(stated.get("method")), str(stated.get("url"))
            if method not in ("POST", "PUT", "PATCH", "DELETE"):
                raise NotMergedError("a read in a Bundle")
            yield _part(method, url, entry.get("resource"), str(stated.get("ifNoneExist") or ""))
        return
    condition = next((value for name, value in request.conditions if name == "If-None-Exist"), "")
    yield _part(request.method, request.target, body, condition)


def _part(method: str, url: str, resource: Any, condition: str) -> _Part:
    path, _, search = url.partition("?")
    kind, _, name = path.strip("/").partition("/")
    if not _TYPE.fullmatch(kind) or not (name == "" or _ID.fullmatch(name)) or (method == "POST" and name):
        raise NotMergedError("an operation, or a write that is not below the base")
    if method == "POST":
        return _Part(method, kind, search=condition.partition("?")[2] or condition, resource=resource)
    return _Part(method, kind, name, search, resource)


def _in_layer(layer: Layer, request: FhirRequest) -> FhirRequest:
    """A request with the layer's own versions in the entries of a Bundle."""
    if request.target.strip("/"):
        return request
    bundle = as_object(json_value(request.body))
    for entry in objects(bundle.get("entry")):
        stated = as_object(entry.get("request"))
        if stated.get("ifMatch"):
            kind, _, name = str(stated.get("url")).partition("/")
            stated["ifMatch"] = f'W/"{layer.own_version((kind, name), str(stated["ifMatch"]))}"'
    return replace(request, body=json.dumps(bundle, ensure_ascii=False)) if bundle else request


def _with_format(target: str, query: str) -> str:
    return f"{target}?{query}&_format=json" if query else f"{target}?_format=json"


def _refused(status: int, code: str, reason: str) -> Reply:
    issue = {"severity": "error", "code": code, "diagnostics": reason}
    return Reply(status, json.dumps({"resourceType": "OperationOutcome", "issue": [issue]}, indent=2))
