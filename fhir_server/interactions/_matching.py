"""Match URLs (`Patient?identifier=x`) in conditional writes and references, and placeholders (`urn:uuid:…`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote_plus

from fhir_server.definitions import fields, is_primitive
from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.search import run, understood
from fhir_server.resources.normalise import Resource
from fhir_server.resources.references import without_version
from fhir_server.search.parameters import resource_types
from fhir_server.store import Version
from fhir_server.wire.http import parse_query


class MatchUrl:
    """A match URL: a type and the query of a condition. Errors repeat it as `shown`."""

    def __init__(self, context: RequestContext, kind: str, query: str, shown: str = "") -> None:
        self._context = context
        self._kind = kind
        self._shown = shown or f"{kind}?{query}"
        pairs = parse_query(query)
        for name, _ in pairs:
            base = name.partition(":")[0].partition(".")[0]
            if not base.startswith("_") and base not in context.registry.parameters(kind):
                problem = f"Resource type {kind} does not have a parameter with name: {base}"
                raise FhirError(400, f"HAPI-0488: Failed to parse match URL[{self._shown}] - {problem}")
        parsed, self._planned = understood(context, kind, pairs)
        self._criteria = parsed.criteria

    def check_selective(self) -> None:
        """Raises HAPI-0518 for a condition without search parameters, which any resource meets."""
        if not self._criteria:
            raise FhirError(400, f"HAPI-0518: Invalid match URL[{self._shown}] - URL has no search parameters")

    def numbers(self, limit: int = 2) -> list[int]:
        """The numbers of the first resources that match; of all with -1."""
        if limit > 0:
            self.check_selective()
        return list(run(self._context, self._planned, limit))

    def only(self, operation: str) -> Version | None:
        """The resource that matches, or None. Raises HAPI's error for an operation if several match."""
        numbers = self.numbers()
        if len(numbers) > 1:
            raise several_match(operation, self._kind, self._shown, len(numbers))
        return self._context.store.rows(numbers)[0] if numbers else None

    def check_satisfied(self) -> None:
        """Refuses a conditionally created resource that does not match its own condition.

        Conditions that HAPI cannot evaluate in memory are ignored.

        Raises:
            FhirError: 400 with HAPI-0929.
            UnmetConditionError: in a Bundle, 412 with HAPI-0539, which repeats the condition.
        """
        parameters = self._context.registry.parameters(self._kind)
        for criterion in self._criteria:
            known = parameters.get(criterion.name)
            if criterion.chain or criterion.modifier in _NOT_IN_MEMORY or (known and known.kind == "composite"):
                return
            if criterion.name.startswith("_has") or criterion.name == "_lastUpdated":
                return
        # When HAPI checks `_id` outside of a Bundle, there is no id yet.
        in_bundle = self._context.in_transaction
        if (in_bundle or all(criterion.name != "_id" for criterion in self._criteria)) and self.numbers(1):
            return
        if in_bundle:
            problem = f'Invalid conditional URL "{self._shown}". The given resource is not matched by this URL.'
            raise UnmetConditionError(412, f"HAPI-0539: {problem}")
        raise not_satisfied()


class UnmetConditionError(FhirError):
    """A resource that is created in a Bundle does not match its own condition."""


def not_satisfied() -> FhirError:
    """HAPI's error for a conditionally created resource that does not match its own condition."""
    problem = "Failed to process conditional create. The supplied resource did not satisfy the conditional URL."
    return FhirError(400, f"HAPI-0929: {problem}")


def several_match(operation: str, kind: str, shown: str, count: int) -> FhirError:
    """HAPI's error for a condition of CREATE, UPDATE, PATCH or DELETE that matches several resources."""
    problem = f'Failed to {operation} {kind} with match URL "{shown}" because this search matched {count} resources'
    return FhirError(412, f"HAPI-{_SEVERAL_MATCH[operation]}: {problem}")


_SEVERAL_MATCH = {"CREATE": "0958", "UPDATE": "0988", "PATCH": "0972", "DELETE": "0962"}
_NOT_IN_MEMORY = ("exact", "contains", "text", "above", "below")


def matched(context: RequestContext, url: str) -> str:
    """The reference that a conditional reference (`Patient?identifier=x`) resolves to."""
    kind, _, query = url.partition("?")
    if kind not in resource_types():
        return url
    matches = MatchUrl(context, kind, query).numbers()
    if not matches:
        raise FhirError(404, f'HAPI-1091: Invalid match URL "{url}" - No resources match this search')
    if len(matches) > 1:
        raise FhirError(412, f'HAPI-2207: Invalid match URL "{url}" - Multiple resources match this search')
    return context.store.rows(matches)[0].reference


_ADDRESS = re.compile(r"(?:.*/)?([A-Za-z]+/[^/?]+?)(?:/_history/[^/]*)?")


def is_placeholder(address: str) -> bool:
    """Whether a URL is a placeholder for an entry of a Bundle."""
    return address.startswith(("urn:uuid:", "urn:oid:"))


@lru_cache(maxsize=1024)
def source(address: str) -> str:
    """The key of a Bundle entry: its placeholder, otherwise type and id, without base and version."""
    if address.startswith("urn:"):
        return address
    match = _ADDRESS.fullmatch(address)
    return match[1] if match else ""


def resolve(context: RequestContext, resource: Resource, known: Mapping[str, str] | None = None) -> bool:
    """Replaces references in the resource. Returns whether there was one to replace.

    Conditional references are replaced by the resource that matches. In a Bundle, references to other entries, and URIs
    that are equal to one, are replaced by `known`, which maps to their new references by `source`.

    Raises:
        FhirError: HAPI-0541 for an unknown placeholder; HAPI-1091 or HAPI-2207 if not exactly one resource matches.
    """
    kind = str(resource["resourceType"])
    walk = _Walk(context, kind, known)
    walk.through(resource, kind)
    return walk.replaced


def placeholders(query: str) -> set[str]:
    """The values of a condition that are placeholders."""
    values = (unquote_plus(part.partition("=")[2]) for part in query.split("&"))
    return {value for value in values if is_placeholder(value)}


def with_references(query: str, known: Mapping[str, str]) -> str:
    """A condition in which each value that is a placeholder of an entry is replaced by the entry's new reference.

    Like HAPI, only whole values are replaced: none in a list, and none behind a system.
    """
    parts = []
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        address = unquote_plus(value)
        known_as = known.get(address) if is_placeholder(address) else None
        parts.append(f"{name}={known_as}" if equals and known_as else part)
    return "&".join(parts)


_URIS = frozenset(("canonical", "oid", "uri", "url", "uuid"))


class _Walk:
    def __init__(self, context: RequestContext, kind: str, known: Mapping[str, str] | None) -> None:
        self._exchange = context
        self._kind = kind
        self._known = known or {}
        self._in_bundle = known is not None
        self.replaced = False

    def through(self, value: Resource, kind: str, name: str = "") -> None:
        """Replaces the references and URIs in an object of type `kind`, which is the value of the element `name`.

        Like HAPI, skips extensions of primitives and the resources in a Bundle.
        """
        known, types = self._known, fields(kind)
        for key, item in value.items():
            field = types.get(key)
            if field is None:
                continue
            declared = field.type_name
            if declared in _URIS:
                value[key] = [known.get(uri, uri) for uri in item] if type(item) is list else known.get(item, item)
            elif key == "reference" and type(item) is str:
                value[key] = self._reference(item, name)
            elif not is_primitive(declared) and (declared != "Resource" or key == "contained"):
                for inner in item if type(item) is list else (item,):
                    self.through(inner, inner["resourceType"] if key == "contained" else declared, key)

    def _reference(self, reference: str, name: str) -> str:
        replacement = self._known.get(without_version(reference))
        self.replaced |= bool(replacement) or "?" in reference
        if replacement:
            return replacement
        if "?" in reference:
            return matched(self._exchange, reference)
        if self._in_bundle and is_placeholder(reference):
            raise FhirError(
                400,
                f"HAPI-0541: Unable to satisfy placeholder ID {reference} found in element named '{name}'"
                f" within resource of type: {self._kind}",
            )
        return reference
