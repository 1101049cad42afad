"""What a write needs of the hospital: the resources that it changes, searches for, and refers to.

Bodies are read as the engine reads them. A body that the engine cannot read needs nothing, since it refuses it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fhir_server.definitions import is_resource_type
from fhir_server.errors import FhirError
from fhir_server.resources.normalise import normalise
from fhir_server.resources.references import target
from fhir_server.wire.json_text import decode, parse
from medagent.fhir_data.private.hospital import NotMergedError
from medagent.fhir_data.private.layer import Key
from medagent.fhir_data.record import FhirRequest
from refsol.json_values import as_object

TYPE = re.compile(r"[A-Z][A-Za-z]+")
ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
UNIQUE_URLS = ("CodeSystem", "ConceptMap", "ValueSet")
"""The types of which no two resources may have the same URL."""
_LONGEST = 300
"""The most characters of a reference; `target` remembers texts, which must not be whole attachments."""


@dataclass(frozen=True, slots=True)
class Part:
    """One write: a request, or an entry of a Bundle. `search` is its condition, `resource` its body as JSON."""

    method: str
    kind: str
    id: str = ""
    search: str = ""
    resource: Any = None


def bundle_in(request: FhirRequest) -> dict[str, Any] | None:
    """The Bundle of a transaction or batch, empty if it cannot be read; None if the request is another one."""
    if request.method != "POST" or request.target.partition("?")[0].strip("/"):
        return None
    try:
        body = parse(request.body)
        bundle = normalise({**body, "resourceType": "Bundle"}, expected_type="Bundle")
    except (FhirError, RecursionError):
        return {}
    return {**bundle, "resourceType": body.get("resourceType")}  # the engine refuses another type


def parts_of(request: FhirRequest, bundle: dict[str, Any] | None) -> list[Part]:
    """The writes of a request, or of the Bundle in it. Raises NotMergedError for an operation or a read."""
    if bundle is None:
        condition = next((value for name, value in request.conditions if name == "If-None-Exist"), "")
        return [_part(request.method, request.target, _json(request.body), condition)]
    parts = []
    for entry in bundle.get("entry", []):
        stated, resource = entry.get("request", {}), entry.get("resource")
        method, url = stated.get("method"), stated.get("url", "")
        if method not in ("POST", "PUT", "PATCH", "DELETE"):
            raise NotMergedError("a read in a Bundle")
        if method == "POST" and resource and TYPE.fullmatch(url.strip("/")):
            url = resource["resourceType"]  # the engine creates this type, whatever the URL names
        if method == "PATCH" and resource and resource["resourceType"] == "Binary":
            resource = _json(base64.b64decode(resource.get("data", "")).decode("utf-8", "replace"))
        parts.append(_part(method, url, resource, stated.get("ifNoneExist", "")))
    return parts


def _part(method: str, url: str, resource: Any, condition: str) -> Part:
    path, _, search = url.partition("?")
    kind, _, name = path.strip("/").partition("/")
    if not TYPE.fullmatch(kind) or not (name == "" or ID.fullmatch(name)) or (method == "POST" and name):
        raise NotMergedError("an operation, or a write that is not below the base")
    if kind == "SearchParameter":
        raise NotMergedError("a search parameter, which would change what the server's searches find")
    if method == "POST":
        return Part(method, kind, search=condition[condition.find("?") + 1 :], resource=resource)
    return Part(method, kind, name, search, resource)


def _json(body: str) -> Any:
    try:
        return decode(body)
    except ValueError:
        return None


def references(value: Any) -> Iterator[Key]:
    """The resources that the texts of a JSON value may refer to. References to others are canonical URLs, and values of
    patches, too.
    """
    for _, text in _texts(value):
        if "/" in text and "://" not in text and len(text) <= _LONGEST:
            kind, name = target(text)
            if is_resource_type(kind) and ID.fullmatch(name):
                yield kind, name


def conditions(values: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The conditional references in JSON values (`Patient?identifier=x`): type and search."""
    for key, text in _texts(values):
        kind, _, search = text.partition("?")
        if key == "reference" and search and is_resource_type(kind):
            yield kind, search


def unique_url(part: Part) -> str:
    """The URL that no other resource of the type may have; empty if there is none."""
    url = as_object(part.resource).get("url") if part.kind in UNIQUE_URLS else None
    return url if isinstance(url, str) else ""


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """All texts in a JSON value, each with its key. It does not recurse, since bodies may be nested deeply."""
    waiting = [("", value)]
    while waiting:
        key, node = waiting.pop()
        if isinstance(node, str):
            yield key, node
        elif isinstance(node, list):
            waiting += [(key, item) for item in reversed(node)]
        elif isinstance(node, dict):
            waiting += [*reversed(node.items())]
