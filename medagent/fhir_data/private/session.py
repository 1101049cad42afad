"""An episode's view of the hospital with its private layer of writes."""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

from fhir_server.search.condition import escaped
from fhir_server.search.paging import DEFAULT_COUNT
from fhir_server.wire.json_text import render
from medagent.core.errors import UserError
from medagent.fhir_data.http import HttpEhr, ambiguous
from medagent.fhir_data.private.hospital import Hospital, NotMergedError, link_of
from medagent.fhir_data.private.layer import PREFIX, Key, Layer
from medagent.fhir_data.private.search import SearchPage, SearchPages, bundle_of, criteria_of, open_search
from medagent.fhir_data.private.writes import ID, TYPE, Part, bundle_in, conditions, parts_of, references, unique_url
from medagent.fhir_data.record import ONLY_EMBEDDED, EhrSession, FhirRequest, Reply
from refsol.changes import Change
from refsol.clinical.sources import Amendment

MOST_WRITES, MOST_BYTES = 1_000, 50_000_000
"""The most writes of an episode, and the most characters of their bodies."""
MOST_SEARCHES, PAGES_S = 50, 900.0
"""The most open searches of an episode, and the seconds after which a link to a next page expires."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_VERSIONS = 1_000
"""The most versions that the hospital is asked for at once."""
_OWN_VERSION = f'"etag": "W/\\"{PREFIX}'


class PrivateEhr:
    """A hospital's server whose episodes write into private layers. `now` is the clock of their writes."""

    def __init__(self, ehr: HttpEhr, shown: str, now: datetime) -> None:
        self._hospital = Hospital(ehr, shown)
        self._shown = shown.rstrip("/")
        self._now = now

    async def check(self) -> None:
        """See `Ehr.check`; the server must be of FHIR R4."""
        await self._hospital.check()

    @asynccontextmanager
    async def session(self, seed: str, change: Amendment = (), chart: str = "") -> AsyncIterator[EhrSession]:
        """An episode's view; its writes are dropped at the end. Raises UserError for an item that changes
        the data.
        """
        if change or chart:
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


class _PrivateSession:
    fixed = False

    def __init__(self, hospital: Hospital, shown: str, seed: str, now: datetime) -> None:
        self._hospital = hospital
        self._shown = shown
        self._seed = seed
        self._now = now
        self._layer: Layer | None = None
        self._writes = self._bytes = 0
        self._searches: OrderedDict[str, tuple[float, SearchPages]] = OrderedDict()
        self._opened = 0

    def reset(self) -> None:
        if self._layer is not None:
            self._layer.close()
        self._layer = None
        self._writes = 0
        self._bytes = 0
        self._searches.clear()

    def changes(self) -> list[Change]:
        return [] if self._layer is None else self._layer.changes()

    async def preview(self, target: str, body: str) -> Reply | None:
        """See `EhrSession.preview`; the layer carries out every write."""
        return None

    async def get(self, target: str) -> Reply:
        if problem := ambiguous(target):
            return Reply(400, "", problem)
        path, _, query = target.partition("?")
        try:
            return await self._read([part for part in path.split("/") if part], _in_json(query))
        except NotMergedError as error:
            return _refused(501, "not-supported", str(error))
        except _RefusedError as error:
            return error.reply

    async def write(self, request: FhirRequest) -> Reply:
        if problem := ambiguous(request.target):
            return Reply(400, "", problem)
        try:
            bundle = bundle_in(request)
            parts = parts_of(request, bundle)
            writes, size = self._writes + len(parts), self._bytes + len(request.body)
            if writes > MOST_WRITES or size > MOST_BYTES:
                limits = f"{MOST_WRITES:,} writes and {MOST_BYTES // 10**6} MB"
                return _refused(413, "too-costly", f"an episode may make {limits}")
            layer = self._own_layer()
            await self._prepare(layer, parts, in_turn=bundle is not None and bundle.get("type") == "batch")
            reply = layer.send(_in_layer(layer, request, bundle or {}))
            if reply.ok:
                self._writes = writes
                self._bytes = size
            return reply
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
                return await self._hospital.get(_with("/metadata", query))
            case [kind] | [kind, "_search"] if TYPE.fullmatch(kind):
                path = "/".join(parts)
                opened = await open_search(self._hospital, lambda: self._layer, path, query, self._copy)
                return opened if isinstance(opened, Reply) else await self._page(self._remember(opened), 0)
            case [kind, name] if TYPE.fullmatch(kind) and ID.fullmatch(name):
                return await self._resource((kind, name), query)
            case [kind, name, "_history"] if TYPE.fullmatch(kind) and ID.fullmatch(name):
                return await self._history((kind, name), query)
            case [kind, name, "_history", version] if all(map(ID.fullmatch, parts[1::2])) and TYPE.fullmatch(kind):
                return await self._resource((kind, name), query, version)
        reason = "an operation" if any(part.startswith("$") for part in parts) else "this address"
        if parts[-1:] == ["_history"]:
            reason = "the history of a type or of the system"
        raise NotMergedError(f"{reason} is not passed on to the hospital's server")

    async def _resource(self, key: Key, query: str, version: str = "") -> Reply:
        """A resource, or one version of it."""
        if any(name == "_summary" and value.lower() == "text" for name, value in parse_qsl(query)):
            raise NotMergedError("_summary=text of one resource, which is not JSON")
        layer, target = self._layer, f"/{key[0]}/{key[1]}"
        if layer is not None and key in layer.written:
            if not version:
                return layer.send(FhirRequest("GET", _with(target, query)))
            if version.startswith(PREFIX) or layer.alone(key):
                versioned = f"{target}/_history/{layer.version(key, version)}"
                return layer.send(FhirRequest("GET", _with(versioned, query)))
        return await self._hospital.get(_with(f"{target}/_history/{version}" if version else target, query))

    async def _history(self, key: Key, query: str) -> Reply:
        """The history of a resource: the versions of this episode, then the hospital's."""
        target = f"/{key[0]}/{key[1]}/_history"
        if self._layer is None or key not in self._layer.written:
            return await self._hospital.get(_with(target, query))
        if self._layer.alone(key):
            return self._layer.send(FhirRequest("GET", _with(target, query)))
        values = dict(parse_qsl(query, keep_blank_values=True))
        count, offset = values.pop("_count", str(DEFAULT_COUNT)), values.pop("_offset", "0")
        if values or not all(map(_NUMBER.fullmatch, (count, offset))) or not int(count):
            raise NotMergedError("these parameters in the history of a resource that this episode wrote")
        ours = self._layer.send(FhirRequest("GET", f"{target}?_count={2 * MOST_WRITES}"))
        theirs = await self._hospital.get(f"{target}?_count={_VERSIONS}")
        if not ours.ok or not theirs.ok:
            raise NotMergedError(f"the history is not shown: HTTP status {theirs.status if ours.ok else ours.status}")
        head, entries = bundle_of(ours)
        old_head, old = bundle_of(theirs)
        if link_of(old_head, "next") is not None:
            raise NotMergedError("a history of several pages of a resource that this episode wrote")
        mine = [entry for entry in entries if _OWN_VERSION in entry.text]
        total, known = old_head.get("total"), [*mine, *old]
        start, end = int(offset), int(offset) + int(count)
        head["link"] = [{"relation": "self", "url": _with(f"{self._shown}{target}", query)}]
        following = f"{self._shown}{target}?_count={count}&_offset={end}" if end < len(known) else None
        shown = total + len(mine) if isinstance(total, int) else None
        return Reply(200, SearchPage(head, known[start:end], shown, None).text(following))

    def _remember(self, pages: SearchPages) -> str:
        """Keep a search for its further pages; returns its name."""
        self._opened += 1
        name = f"{PREFIX}{self._opened}"
        self._searches[name] = (time.monotonic(), pages)
        while len(self._searches) > MOST_SEARCHES:
            self._searches.popitem(last=False)
        return name

    async def _next_page(self, query: str) -> Reply:
        values = dict(parse_qsl(query, keep_blank_values=True))
        name, offset = values.pop("_getpages", ""), values.pop("_getpagesoffset", "0")
        if not name:
            raise NotMergedError("a search of all types is not passed on to the hospital's server")
        if values:
            raise NotMergedError(f"{', '.join(sorted(values))} in a link to a next page; use the link as it is")
        if name not in self._searches or time.monotonic() - self._searches[name][0] > PAGES_S:
            return _refused(410, "not-found", f'Search ID "{name}" does not exist and may have expired')
        if not _NUMBER.fullmatch(offset):
            return _refused(400, "processing", f"Invalid _getpagesoffset value: {offset}")
        return await self._page(name, int(offset))

    async def _page(self, name: str, offset: int) -> Reply:
        page = await self._searches[name][1].page(offset)
        following = None
        if page.more is not None:
            following = f"{self._shown}?_getpages={name}&_getpagesoffset={page.more}"
        return Reply(200, page.text(following))

    async def _prepare(self, layer: Layer, parts: Sequence[Part], *, in_turn: bool) -> None:
        """Give the layer what the writes need, which are carried out one by one or, in a transaction, deletions first.
        Raises NotMergedError, _RefusedError.
        """
        most = len(parts) + 1  # each of the other writes may change one of the matches
        values = []
        for part in parts:
            keys = [(part.kind, part.id)] if part.id and await self._copy((part.kind, part.id)) else []
            if part.search:
                keys = await self._copy_matches(layer, part.kind, part.search, most)
            if part.method == "DELETE":
                _check_deletion(layer, part, keys, [sibling for sibling in parts if in_turn and sibling != part])
            values += [part.resource, *(layer.current(key) for key in keys if part.method == "PATCH")]
            if url := unique_url(part):
                await self._copy_matches(layer, part.kind, urlencode({"url": escaped(url)}), most)
        for kind, search in dict.fromkeys(conditions(values)):
            await self._copy_matches(layer, kind, search, most)
        for key in dict.fromkeys(references(values)):
            if not layer.has(key):
                await self._copy(key)

    async def _copy(self, key: Key) -> bool:
        """Give the layer the hospital's current version of a resource; returns whether the hospital knows it."""
        layer = self._own_layer()
        if key in layer.written or not (TYPE.fullmatch(key[0]) and ID.fullmatch(key[1])):
            return True
        reply = await self._hospital.get(f"/{key[0]}/{key[1]}")
        if reply.status == 404:
            return False
        if reply.status == 410:
            layer.bury(key)
        elif reply.ok:
            layer.copy(reply.text)
        else:
            raise _RefusedError(reply)
        return True

    async def _copy_matches(self, layer: Layer, kind: str, search: str, most: int) -> list[Key]:
        """Give the layer the first matches of a condition, which is all that it depends on; returns them."""
        criteria = criteria_of(search)
        if not criteria:
            return []  # the engine refuses such a condition
        query = f"{criteria}&_count={most}"
        opened = await open_search(self._hospital, lambda: layer, kind, query, self._copy)
        keys: list[Key] = []
        if not isinstance(opened, Reply):
            keys = [entry.key for entry in (await opened.page(0)).entries if entry.match][:most]
            for key in keys:
                await self._copy(key)
        in_layer = layer.send(FhirRequest("GET", f"/{kind}?{query}"))
        if isinstance(opened, Reply) and not in_layer.ok:
            return []  # both refuse the condition, so the engine refuses the write
        ours = [entry.key for entry in bundle_of(in_layer)[1] if entry.match] if in_layer.ok else []
        agree = set(keys) == set(ours) or min(len(keys), len(ours)) == most
        if isinstance(opened, Reply) or not in_layer.ok or not agree:
            raise NotMergedError("the server and the layer disagree about what matches the condition")
        return keys


def _check_deletion(layer: Layer, part: Part, keys: Sequence[Key], others: Sequence[Part]) -> None:
    """Raises NotMergedError for a deletion of anything that the episode did not create."""
    if any(not layer.created(key) for key in keys) or not (part.id or part.search):
        raise NotMergedError("the deletion of a resource of the hospital, to which others may refer")
    if part.search and any(sibling.kind == part.kind for sibling in others):
        raise NotMergedError("a conditional deletion in a batch that also writes what it may delete")


def _in_layer(layer: Layer, request: FhirRequest, bundle: dict[str, Any]) -> FhirRequest:
    """A request with the layer's own versions in the entries of its Bundle."""
    stated = [entry["request"] for entry in bundle.get("entry", []) if "ifMatch" in entry["request"]]
    for entry_request in stated:
        kind, _, name = entry_request["url"].partition("?")[0].strip("/").partition("/")
        entry_request["ifMatch"] = layer.if_match((kind, name), entry_request["ifMatch"])
    return replace(request, body=render(bundle)) if stated else request


def _in_json(query: str) -> str:
    """A query without its format, as replies are indented JSON. Raises NotMergedError for another format."""
    parts = [(unquote_plus(part.partition("=")[0]), part) for part in query.split("&") if part]
    formats = [unquote_plus(part.partition("=")[2]) for name, part in parts if name == "_format"]
    if unsupported := next((named for named in formats if named and "json" not in named), None):
        raise NotMergedError(f"replies in {unsupported}")
    return "&".join(part for name, part in parts if name not in ("_format", "_pretty"))


def _with(target: str, query: str) -> str:
    return f"{target}?{query}" if query else target


def _refused(status: int, code: str, reason: str) -> Reply:
    issue = {"severity": "error", "code": code, "diagnostics": reason}
    return Reply(status, json.dumps({"resourceType": "OperationOutcome", "issue": [issue]}, indent=2))
