"""Search parameters that clients define by SearchParameter resources, and the index rows for them.

Their FHIRPath is evaluated for each resource of their types and may call any function. R4's own parameters are compiled
(`_element_paths`). The refused definitions and the messages were observed in HAPI FHIR 7.6.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache, partial

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.expressions import dialect
from fhir_server.expressions.budget import budget
from fhir_server.expressions.errors import FhirPathError, TooCostlyError
from fhir_server.expressions.evaluator import compiled, evaluate
from fhir_server.expressions.functions import pattern
from fhir_server.expressions.node import Node, in_fhir
from fhir_server.expressions.parser import Literal, parse
from fhir_server.expressions.scope import Environment
from fhir_server.resources.references import target
from fhir_server.search._element_paths import ElementPath
from fhir_server.search.kinds import KINDS
from fhir_server.search.kinds.kind import Extractor, IndexRows
from fhir_server.search.parameters import Component, CustomParameters, Key, SearchParameter, parameters
from fhir_server.wire.json_values import Json

Find = Callable[[str], Json | None]
"""Returns the SearchParameter with a URL, or None."""
STEPS = 100
"""The steps that each resource adds to the budget of its request for each search parameter."""
_BEGINS_WITH_A_PATH = re.compile(r"[( \n\r\t]*([A-Za-z]+\.)?[a-z]")
_OF_A_TYPE = re.compile(r"\(?\s*([A-Z]\w+)\b")


def check(resource: Json) -> None:
    """Refuses a SearchParameter that HAPI refuses, and an active one that this server cannot evaluate.

    Raises:
        FhirError: 422; 400 for the base DomainResource and for a regular expression that this server does not support.
    """
    if resource.get("status") not in ("draft", "active", "retired", "unknown"):
        raise FhirError(422, "HAPI-1112: SearchParameter.status is missing or invalid")
    if not resource.get("base"):
        raise FhirError(422, "HAPI-1113: SearchParameter.base is missing")
    if "DomainResource" in resource["base"]:
        raise FhirError(400, 'HAPI-1684: Unknown resource name "DomainResource" (name the resource types instead)')
    kind, expression = resource.get("type"), resource.get("expression")
    if kind == "special" and resource["status"] == "active":
        message = 'This server cannot evaluate search parameters of type "special"; store it with the status draft'
        raise FhirError(422, message, "not-supported")
    if kind == "composite":
        return
    if expression is None:
        raise FhirError(422, "HAPI-1114: SearchParameter.expression is missing")
    if not _BEGINS_WITH_A_PATH.match(expression):
        message = f'SearchParameter.expression value "{expression}" is invalid due to missing/incorrect path'
        raise FhirError(422, f"HAPI-1120: {message}")
    problem = f'HAPI-1121: Invalid FHIRPath format for SearchParameter.expression "{expression}"'
    try:
        tree = parse(expression)
        unknown = dialect.unknown_function(tree)
        if unknown is not None:
            raise FhirError(422, f"{problem}: Error in ?? at 1, 1: The name {unknown} is not a valid function name")
        difference = dialect.difference(expression)
        if difference is not None:
            message = f"SearchParameter.expression: {difference}: {expression}"
            raise FhirError(422, message, "not-supported")
        compiled(expression)
    except FhirPathError as error:
        raise FhirError(422, f"{problem}: {error}") from None
    for name, arguments in dialect.calls(tree):
        if name in ("matches", "matchesFull", "replaceMatches") and arguments and isinstance(arguments[0], Literal):
            try:
                pattern(str(arguments[0].value))
            except FhirPathError as error:
                raise FhirError(400, f"{problem}: {error}") from None


def defined(resource: Json, find: Find) -> dict[Key, SearchParameter | None]:
    """The search parameters that an active SearchParameter defines, one for each of its types in R4.

    A retired SearchParameter removes R4's parameter with the same code (None). One that equals R4's parameter of a type
    defines nothing for that type.
    """
    code, kind, status = resource.get("code"), resource.get("type"), resource.get("status")
    if status not in ("active", "retired") or not code or kind is None:
        return {}
    custom: dict[Key, SearchParameter | None] = {}
    for base in filter(definitions.is_resource_type, resource["base"]):
        if status == "retired":
            custom[base, code] = None
            continue
        expression, targets = resource.get("expression", ""), tuple(resource.get("target", ()))
        parameter = SearchParameter(code, kind, expression, targets, _components(resource, find), _since(resource))
        if not _is_r4(base, parameter):
            custom[base, code] = parameter
    return custom


def _since(resource: Json) -> str:
    """When a SearchParameter was stored, if its expression asks for the time; otherwise an empty text."""
    try:
        names = {name for name, _ in dialect.calls(parse(resource.get("expression", "")))}
    except FhirPathError:
        return ""
    return str(resource["meta"]["lastUpdated"]) if names & {"now", "today"} else ""


def _components(resource: Json, find: Find) -> tuple[Component, ...]:
    """The components of a composite. They refer to search parameters by URL; those of R4's end with `Type-code`.

    Raises:
        FhirError: 422. The number of components is not two, or a component is unknown.
    """
    if resource["type"] != "composite":
        return ()
    named: list[Component] = []
    for part in resource.get("component", ()):
        url = str(part.get("definition", "")).partition("|")[0]
        definition = find(url)
        code = url.rpartition("/")[2].partition("-")[2] if definition is None else str(definition.get("code"))
        known = definition.get("type") if definition is not None else _kind(resource["base"], code)
        if known is None:
            raise FhirError(422, f"SearchParameter.component: {url} is not a known search parameter", "not-supported")
        named.append(Component(code, str(known)))
    if len(named) != 2:
        message = f"Search parameter of type {resource['code']} must have 2 composite types, found {len(named)}"
        raise FhirError(422, f"HAPI-0498: {message}")
    return tuple(named)


def _kind(bases: Iterable[str], code: str) -> str | None:
    known = (parameters(base).get(code) for base in bases if definitions.is_resource_type(base))
    return next((parameter.kind for parameter in known if parameter is not None), None)


def _is_r4(base: str, parameter: SearchParameter) -> bool:
    known = parameters(base).get(parameter.name)
    if known is None or known.kind != parameter.kind:
        return False
    if parameter.kind == "composite":
        return known.components == parameter.components
    expected = {path.strip() for path in known.expression.split(" | ")}
    return expected == {path.strip() for path in parameter.expression.split(" | ") if _concerns(path, base)}


def _concerns(alternative: str, base: str) -> bool:
    """Whether an alternative of an expression can apply to `base`. It cannot if it begins with another type."""
    named = _OF_A_TYPE.match(alternative.strip())
    return named is None or named[1] == base or not definitions.is_resource_type(named[1])


def add_rows(rows: IndexRows, resource: Json, custom: Iterable[SearchParameter]) -> None:
    """Adds the rows of a resource for parameters that clients define.

    If the expression of a parameter fails for this resource, the parameter does not get rows.

    Raises:
        FhirError: 400. The expressions take too many steps for this resource.
    """

    node = Node(resource, resource["resourceType"])

    def resolve(reference: str) -> Node | None:
        kind = target(reference).type
        return node.contained(reference) or (Node({}, kind) if kind else None)

    shared = budget()
    for parameter in custom:
        if parameter.kind == "composite":
            continue
        environment = Environment(node, node, resolve, shared, partial(_indexed_at, resource, parameter))
        shared.left += STEPS
        try:
            values = evaluate(parameter.expression, node, environment)
        except TooCostlyError:
            problem = f"The expression of the search parameter {parameter.name} takes too many steps"
            raise FhirError(400, f"{problem} for this {node.type_name}: {parameter.expression}", "too-costly") from None
        except FhirPathError:
            continue
        for item in map(in_fhir, values):
            extract = _extractor(parameter, item.type_name, item.codes)
            if extract is not None and item.value is not None:
                extract(rows, [item.value])


def _indexed_at(resource: Json, parameter: SearchParameter) -> datetime:
    """The time for `today()` and `now()`: when the resource was written, or the parameter if that was later.

    So it is the time at which HAPI indexes, and the rows of an old version can be computed again to remove them.
    """
    times = (resource.get("meta", {}).get("lastUpdated"), parameter.since)
    instants = [datetime.fromisoformat(time) for time in times if time]
    return max(instants, default=datetime.now(UTC)).astimezone(UTC)


@lru_cache(maxsize=1024)
def _extractor(parameter: SearchParameter, type_name: str, codes: str | None) -> Extractor | None:
    """The extractor for values of a type. A code gets the system of the closed list that it is from."""
    path = ElementPath((), (), type_name, codes, path=parameter.expression)
    return KINDS[parameter.kind].extractor(parameter, path)


def as_text(custom: CustomParameters) -> str:
    """The definitions as JSON text for a store."""
    return json.dumps(
        [[*key, parameter and _plain(parameter)] for key, parameter in sorted(custom.items(), key=lambda item: item[0])]
    )


def _plain(parameter: SearchParameter) -> list[Json]:
    components = [[component.parameter, component.kind] for component in parameter.components]
    return [parameter.kind, parameter.expression, list(parameter.targets), components, parameter.since]


def from_text(text: str) -> CustomParameters:
    """The definitions from the text of `as_text`."""
    return {(resource_type, name): _parameter(name, plain) for resource_type, name, plain in json.loads(text)}


def _parameter(name: str, plain: list[Json] | None) -> SearchParameter | None:
    if plain is None:
        return None
    kind, expression, targets, components, *since = plain  # an earlier version did not save the last
    named = tuple(Component(*component) for component in components)
    return SearchParameter(name, kind, expression, tuple(targets), named, *since)
