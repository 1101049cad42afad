"""Copies every resource of a live FHIR server into one NDJSON file, type by type, page by page.

Resources are copied as the server sends them. Until the copy is complete, a folder beside the file has for each type
its lines and a mark with the next page; a stopped copy continues from there. If the server no longer has that page
(HAPI keeps searches for an hour), the type is copied again from its first page.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from fhir_server.wire.json_text import compact, decode, render
from fhir_server.wire.json_values import JsonTextError
from medagent.core.errors import FhirUnavailableError, StopRunError, UserError
from medagent.core.tell import Tell
from medagent.core.writing import write_whole
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.record import FhirRequest, Reply, TooMuchError, diagnostics

PAGE_SIZES = (200, 20, 1)
"""Resources per page. A page that is too large is requested again with the next smaller size."""

FORGOTTEN = (404, 410)
"""The statuses of a server for a page that it no longer has."""


class Mark(BaseModel):
    """The progress of one type: the next page (None: complete), and the size of the lines' file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    next: str | None
    size: int = 0
    count: int = 0


class _Part:
    """The copied lines of one type, and their mark."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.path = folder / f"{kind}.ndjson"
        self._mark_path = folder / f"{kind}.mark"
        try:
            self.mark = Mark.model_validate_json(self._mark_path.read_bytes())
        except (OSError, ValidationError):
            self.mark = self.first(PAGE_SIZES[0])

    def first(self, page_size: int) -> Mark:
        """The mark of a type without copied lines."""
        return Mark(next=f"/{self.kind}?_count={page_size}")

    def add(self, lines: Sequence[str], next_page: str | None) -> None:
        """Store a page. Lines that a killed copy wrote after its last mark are cut off."""
        with self.path.open("ab") as file:
            file.truncate(self.mark.size)
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        self.mark = Mark(next=next_page, size=size, count=self.mark.count + len(lines))
        write_whole(self._mark_path, self.mark.model_dump_json())


def copy(server: HttpEhr, file: Path, report: Tell) -> str:
    """Copy all resources of the server into `file`; returns a summary. `report` gets the number done and the total.

    Raises UserError if the file exists, or if the server or the folder fails; in that case the same call continues.
    """
    if file.exists():
        raise UserError(f"{file}: already exists; name a new file")
    folder = file.with_name(f"{file.name}.parts")
    try:
        totals, parts = asyncio.run(_fetch(server, folder, report))
        _join(parts, folder, file)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    except (FhirUnavailableError, StopRunError) as error:
        raise UserError(f"{error}; repeat the command to continue") from None
    changed = [f"{p.kind} ({p.mark.count}, counted {totals[p.kind]})" for p in parts if p.mark.count != totals[p.kind]]
    note = f"; the server changed meanwhile: {', '.join(changed)}" if changed else ""
    return f"{file}: {sum(part.mark.count for part in parts)} resources of {len(parts)} types{note}"


async def _fetch(server: HttpEhr, folder: Path, report: Tell) -> tuple[dict[str, int], list[_Part]]:
    async with server:
        await server.check()
        _claim(folder, server.url)
        totals = await _totals(server)
        parts = [_Part(folder, kind) for kind, total in totals.items() if total]
        for part in parts:
            await _copy_type(server, part, lambda: report(sum(p.mark.count for p in parts), sum(totals.values())))
        return totals, parts


def _claim(folder: Path, url: str) -> None:
    """Create the folder of the parts, or reuse it if it is a copy of the same server."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source"
    if not source.exists():
        write_whole(source, url)
    elif (copied := source.read_text(encoding="utf-8")) != url:
        raise UserError(f"{folder}: contains a part of a copy of {copied}; remove it, or name another file")


async def _totals(server: HttpEhr) -> dict[str, int]:
    """The number of resources of each searchable type."""
    statement = _object(server, "/metadata", await server.send(FhirRequest("GET", "/metadata")))
    try:
        kinds = _searchable(statement)
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{server.url}/metadata: is not a CapabilityStatement") from None
    totals = {}
    for kind in kinds:
        page = f"/{kind}?_summary=count"
        total = _object(server, page, await server.send(FhirRequest("GET", page))).get("total")
        if not isinstance(total, int):
            raise UserError(f"{server.url}{page}: does not state a total")
        totals[kind] = total
    return totals


def _searchable(statement: Mapping[str, Any]) -> list[str]:
    """The types that a CapabilityStatement lists with a search. Their names are checked, as they become file names."""
    return [
        resource["type"]
        for rest in statement.get("rest", [])
        for resource in rest.get("resource", [])
        if resource["type"].isalpha()
        and any(interaction["code"] == "search-type" for interaction in resource.get("interaction", []))
    ]


async def _copy_type(server: HttpEhr, part: _Part, report: Callable[[], None]) -> None:
    sizes = iter(PAGE_SIZES[1:])
    resumed = part.mark.count > 0
    while (page := part.mark.next) is not None:
        try:
            reply = await server.send(FhirRequest("GET", page))
        except TooMuchError:
            size = next(sizes, None)
            if size is None:
                raise UserError(f"{server.url}{page}: is too large to read") from None
            part.mark = part.first(size)
            continue
        if resumed and reply.status in FORGOTTEN:
            part.mark = part.first(PAGE_SIZES[0])
        else:
            bundle = _object(server, page, reply)
            part.add(*_page(server, page, bundle))
            report()
        resumed = False


def _object(server: HttpEhr, page: str, reply: Reply) -> dict[str, Any]:
    if not reply.ok:
        raise UserError(f"{server.url}{page}: answers {reply.status}: {diagnostics(reply)}")
    try:
        value = decode(reply.text)
    except JsonTextError as error:
        raise UserError(f"{server.url}{page}: does not answer in JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{server.url}{page}: answers with JSON that is not a resource")
    return value


def _page(server: HttpEhr, page: str, bundle: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """The matches on a page as lines (without resources that the server adds itself), and the next page."""
    try:
        entries = [
            entry for entry in bundle.get("entry", []) if entry.get("search", {}).get("mode", "match") == "match"
        ]
        following = [link["url"] for link in bundle.get("link", []) if link["relation"] == "next"]
        lines = [compact(render(entry["resource"])) for entry in entries]
        return lines, _below_base(server, page, following[0]) if following else None
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{server.url}{page}: does not answer with a searchset Bundle") from None


def _below_base(server: HttpEhr, page: str, url: str) -> str:
    """The next page below the base. Only the link's path and query count, since a server behind a mapped port names
    another host and port than those of its address.
    """
    link, base = urlsplit(url), urlsplit(server.url).path
    target = link.path.removeprefix(base) + (f"?{link.query}" if link.query else "")
    if not link.path.startswith(base) or target == page:
        raise UserError(f"{server.url}{page}: the link to its next page is outside the base: {url}")
    return target


def _join(parts: Sequence[_Part], folder: Path, file: Path) -> None:
    whole = folder / "whole"
    with whole.open("wb") as joined:
        for part in parts:
            with part.path.open("rb") as lines:
                shutil.copyfileobj(lines, joined)
        joined.flush()
        os.fsync(joined.fileno())
    whole.replace(file)
    shutil.rmtree(folder)
