"""The reads of an episode: each GET as the agent requested it and as it was sent, and the ids in the reply.

Grading takes the ids that an agent has read only from here, never from the agent's messages. `handled` changes a
request by a setting before it is sent; the server itself stays strict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote_plus

from refsol.json_values import as_object, json_value

Handling = Literal["strict", "lenient", "corrected"]
"""How to handle search parameters that a type does not support: send them (HAPI answers 400), drop them, or send those
that mean `_id` as `_id`.
"""

_ENTRIES = '  "entry": [ {\n'
_RESOURCE = re.compile(r'\n    "resource": \{\n      "resourceType": "(\w+)",\n      "id": "([^"]+)"')
"""An entry's resource in HAPI's layout of a Bundle.

It cannot match inside a JSON string, which cannot contain a line break.
"""
_OUTCOME = "OperationOutcome"


@dataclass(frozen=True, slots=True)
class Read:
    """One GET: the URL that the agent requested, the one that was sent, and the ids in the reply, by type.

    `refused` is the server's error, if the GET failed.
    """

    asked: str
    sent: str
    ids: dict[str, list[str]] = field(default_factory=dict)
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a reply: ids by type, in order, and the address of the next page ("" on the last one)."""

    ids: dict[str, list[str]]
    next: str = ""


def handled(target: str, handling: Handling) -> str:
    """The path and query to send for a path and query below the FHIR base. Only searches of a type are changed."""
    path, _, query = target.partition("?")
    kind = path.strip("/")
    if handling == "strict" or not query or "/" in kind:
        return target
    pairs = query.split("&")
    if handling == "corrected":
        return f"{path}?{'&'.join(_corrected(kind, pair) for pair in pairs)}"
    known = [pair for pair in pairs if _is_known(kind, _name(pair))]
    return f"{path}?{'&'.join(known)}" if known else path


def _name(pair: str) -> str:
    """The name of a parameter, without modifiers and chains."""
    return re.split(r"[:.]", unquote_plus(pair.partition("=")[0]))[0]


def _corrected(kind: str, pair: str) -> str:
    name, equals, value = pair.partition("=")
    if kind == "Patient" and name in ("id", "patient"):
        return f"_id{equals}{value.removeprefix('Patient/')}"
    return f"_id{equals}{value}" if name == "id" else pair


def _is_known(kind: str, name: str) -> bool:
    """Whether a type supports a search parameter; always true for an unknown type."""
    from fhir_server.search.parameters import parameters
    from fhir_server.search.query import RESULT_PARAMETERS

    try:
        known = parameters(kind)
    except KeyError:
        return True
    return name in known or name in RESULT_PARAMETERS or name in ("_has", "_query", "_filter")


def read_page(text: str) -> Page:
    """The content of a reply: for a Bundle the resources of its entries, otherwise the resource itself."""
    head, entries, rest = text.partition(_ENTRIES)
    if entries and (
        bundle := as_object(json_value(f"{head.rstrip().rstrip(',')}}}"))
    ):  # HAPI's layout: parsing the whole text is not needed
        ids: dict[str, list[str]] = {}
        for kind, resource_id in _RESOURCE.findall(rest):
            if kind != _OUTCOME:
                ids.setdefault(kind, []).append(resource_id)
        return Page(ids, next_link(bundle))
    document = as_object(json_value(text))
    return Page(ids_of(resources_of(document)), next_link(document))


def resources_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The resources in a parsed reply: of a Bundle, the resources of its entries, except outcomes; otherwise itself."""
    if document.get("resourceType") != "Bundle":
        return [dict(document)] if document.get("resourceType") not in (None, _OUTCOME) else []
    entries = document.get("entry")
    resources = (
        [entry.get("resource") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )
    return [
        resource for resource in resources if isinstance(resource, dict) and resource.get("resourceType") != _OUTCOME
    ]


def ids_of(resources: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The ids of resources by type, in order."""
    ids: dict[str, list[str]] = {}
    for resource in resources:
        if isinstance(resource.get("resourceType"), str) and isinstance(resource.get("id"), str):
            ids.setdefault(resource["resourceType"], []).append(resource["id"])
    return ids


def read_ids(reads: Iterable[Read], *, last: bool) -> dict[str, list[str]]:
    """All ids that an episode read, by type, without duplicates; with `last`, only the ids of each type's last read."""
    by_type: dict[str, dict[str, None]] = {}
    for read in reads:
        for kind, ids in read.ids.items():
            if last:
                by_type[kind] = dict.fromkeys(ids)
            else:
                by_type.setdefault(kind, {}).update(dict.fromkeys(ids))
    return {kind: list(ids) for kind, ids in by_type.items()}


def next_link(document: Mapping[str, Any]) -> str:
    """The address of a Bundle's next page; "" on the last one."""
    links = document.get("link")
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict) and link.get("relation") == "next" and isinstance(link.get("url"), str):
            return str(link["url"])
    return ""
