"""Resolves conditional references (`Patient?identifier=x`) and placeholders (`urn:uuid:…`) before a write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from fhir_server.errors import FhirError
from fhir_server.interactions._matching import matched
from fhir_server.interactions.context import RequestContext
from fhir_server.resources.normalise import Resource
from fhir_server.wire.json_values import Json

_ADDRESS = re.compile(r"(?:.*/)?([A-Za-z]+/[^/?]+?)(?:/_history/[^/]*)?")


def is_placeholder(address: str) -> bool:
    """Whether a URL is a placeholder for an entry of a Bundle."""
    return address.startswith(("urn:uuid:", "urn:oid:"))


@lru_cache(maxsize=1024)
def source(address: str) -> str:
    """The key of a Bundle entry: its placeholder, otherwise type and id, without base and version."""
    match = None if address.startswith("urn:") else _ADDRESS.fullmatch(address)
    return match[1] if match else address


def resolved(context: RequestContext, resource: Resource, known: Mapping[str, str] | None = None) -> Resource:
    """Replaces references in the resource and returns it.

    Conditional references are replaced by the resource that matches. In a Bundle, references to other entries are
    replaced by `known`, which has their new references by `source`.

    Raises:
        FhirError: HAPI-0541 for an unknown placeholder; HAPI-1091 or HAPI-2207 if not exactly one resource matches.
    """
    _Walk(context, str(resource.get("resourceType")), known).through(resource)
    return resource


class _Walk:
    def __init__(self, context: RequestContext, kind: str, known: Mapping[str, str] | None) -> None:
        self._exchange, self._kind, self._known = context, kind, known or {}
        self._in_bundle = known is not None

    def through(self, value: dict[str, Json], name: str = "") -> None:
        """Replaces the references in an object, which is the value of the element `name`."""
        for key, item in value.items():
            kind = type(item)
            if kind is str:
                if key == "reference":
                    value[key] = self._reference(item, name)
                elif item[:4] == "urn:":
                    value[key] = self._known.get(item, item)
            elif kind is dict:
                self.through(item, key)
            elif kind is list:
                for inner in item:
                    if type(inner) is dict:
                        self.through(inner, key)

    def _reference(self, reference: str, name: str) -> str:
        if "?" in reference:
            return self._known.get(reference) or matched(self._exchange, reference)
        replacement = self._known.get(reference) or self._known.get(source(reference))
        if replacement:
            return replacement
        if self._in_bundle and is_placeholder(reference):
            raise FhirError(
                400,
                f"HAPI-0541: Unable to satisfy placeholder ID {reference} found in element named '{name}'"
                f" within resource of type: {self._kind}",
            )
        return reference
