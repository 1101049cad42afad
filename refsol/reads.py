"""What an agent had read of a chart: resources in the answers to its GETs, and searches read to their end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from refsol.history import HistoryMessage
from refsol.resources import as_object, objects

_HARMLESS = {"_count", "_format", "_include", "_offset", "_pretty", "_sort", "_total"}
"""Parameters that leave no match out."""


@dataclass(frozen=True, slots=True)
class Read:
    """A GET that was answered with 200: its URL and the JSON of the answer."""

    url: str
    body: Mapping[str, Any]

    @property
    def resources(self) -> Iterator[Mapping[str, Any]]:
        """The resources in the answer: of a Bundle those of its entries."""
        if self.body.get("resourceType") == "Bundle":
            yield from (as_object(entry.get("resource")) for entry in objects(self.body.get("entry")))
        else:
            yield self.body

    @property
    def next_page(self) -> str | None:
        """The URL of the next page, None on the last one."""
        links = (link for link in objects(self.body.get("link")) if link.get("relation") == "next")
        return next((str(link.get("url")) for link in links), None)


@dataclass(frozen=True, slots=True)
class Query:
    """A search of one patient's resources of a type; `code`, `status` and a window of time narrow it."""

    kind: str
    patient: str
    code: str | None = None
    status: str | None = None
    window: tuple[datetime, datetime] | None = None


def reads_before_post(messages: Sequence[HistoryMessage]) -> list[Read]:
    """The GETs of an episode that were answered with a resource, up to its first POST; `messages` are all of it."""
    reads = []
    for message, following in pairwise(messages):
        if message.is_post_action:
            break
        action = message.content.strip()
        if message.role == "agent" and action.startswith("GET") and (body := _resource_in(following.content)):
            reads.append(Read(action[3:].strip(), body))
    return reads


def _resource_in(text: str) -> Mapping[str, Any] | None:
    """The resource in a reply, whatever words stand around it; None for an error."""
    brace = text.find("{")
    try:
        body = as_object(json.JSONDecoder().raw_decode(text, brace)[0]) if brace >= 0 else {}
    except (ValueError, RecursionError):
        return None
    return body if body.get("resourceType", "OperationOutcome") != "OperationOutcome" else None


def has_read(reads: Sequence[Read], reference: str) -> bool:
    """Whether an answer holds the resource (`Procedure/12`)."""
    return any(
        f"{resource.get('resourceType')}/{resource.get('id')}" == reference
        for read in reads
        for resource in read.resources
    )


def searched(reads: Sequence[Read], query: Query) -> bool:
    """Whether a search that leaves out nothing that is wanted was read to its last page."""
    return any(_covers(read.url, query) and _to_the_end(reads, read) for read in reads)


def _to_the_end(reads: Sequence[Read], first: Read) -> bool:
    pages = {_relative(read.url): read for read in reads}
    page, seen = first, {_relative(first.url)}
    while page.next_page is not None:
        url = _relative(page.next_page)
        if url in seen or url not in pages:
            return False
        seen.add(url)
        page = pages[url]
    return True


def _covers(url: str, query: Query) -> bool:
    parts = urlsplit(url)
    path, patient = parts.path.rstrip("/"), query.patient
    if path.endswith(f"/Patient/{patient}/$everything"):
        return not set(_parameters(parts.query)) - _HARMLESS
    parameters = _parameters(parts.query)
    if path.endswith("/Patient"):
        return f"{query.kind}:patient" in parameters.get("_revinclude", []) and _names(parameters, patient)
    if not path.endswith(f"/{query.kind}") or not _is_about(parameters, patient):
        return False
    rest = {name: values for name, values in parameters.items() if name not in _HARMLESS | {"patient", "subject"}}
    return all(_spares(name, values, query) for name, values in rest.items())


def _spares(name: str, values: Sequence[str], query: Query) -> bool:
    """Whether a parameter leaves out nothing that is wanted."""
    alternatives = [{part.rpartition("|")[2] for part in value.split(",")} for value in values]
    if name == "code":
        return query.code is not None and all(query.code in one for one in alternatives)
    if name == "status":
        return query.status is not None and all(query.status in one for one in alternatives)
    if name == "category":
        return query.kind == "Observation" and all(one & {"laboratory", "vital-signs"} for one in alternatives)
    return name == "date" and query.window is not None and all(_keeps(value, query.window) for value in values)


def _keeps(bound: str, window: tuple[datetime, datetime]) -> bool:
    """Whether a date's bound leaves the window whole."""
    try:
        time = datetime.fromisoformat(bound[2:])
    except ValueError:
        return False
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    start, end = window
    return (
        time <= start if bound[:2] in ("ge", "gt", "sa") else time >= end if bound[:2] in ("le", "lt", "eb") else False
    )


def _is_about(parameters: Mapping[str, list[str]], patient: str) -> bool:
    values = [*parameters.get("patient", []), *parameters.get("subject", [])]
    return bool(values) and all(value in (patient, f"Patient/{patient}") for value in values)


def _names(parameters: Mapping[str, list[str]], patient: str) -> bool:
    values = [*parameters.get("_id", []), *parameters.get("identifier", [])]
    return any(value.rpartition("|")[2] == patient for value in values)


def _parameters(query: str) -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name, []).append(value)
    return parameters


def _relative(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path.rpartition('/')[2]}?{parts.query}"
