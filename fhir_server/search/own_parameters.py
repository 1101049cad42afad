"""Search parameters that clients define by SearchParameter resources, and the index rows for them.

Their FHIRPath is evaluated for each resource of their types and may call any function. R4's own parameters are compiled
(`_element_paths`). The refused definitions and the messages were observed in HAPI FHIR 7.6.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.fhirpath.evaluator import FUNCTIONS, Environment, evaluate, pattern
from fhir_server.fhirpath.node import Node
from fhir_server.fhirpath.parser import FhirPathError, TooCostlyError, calls, parse
from fhir_server.resources.references import target
from fhir_server.search._element_paths import ElementPath, compile_path
from fhir_server.search.kinds import KINDS
from fhir_server.search.kinds.kind import Extractor, IndexRows
from fhir_server.search.parameters import Component, Key, Own, SearchParameter, parameters
from fhir_server.wire.json_values import Json

Find = Callable[[str], Json | None]
"""Returns the SearchParameter with a URL, or None."""
STEPS = 100
"""The steps that each resource adds to the budget of its request for each search parameter."""
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
    problem = f'HAPI-1121: Invalid FHIRPath format for SearchParameter.expression "{expression}"'
    try:
        called = [*calls(parse(expression))]
    except FhirPathError as error:
        raise FhirError(422, f"{problem}: {error}") from None
    for name, arguments in called:
        if name not in FUNCTIONS:
            raise FhirError(422, f"{problem}: Error in ?? at 1, 1: The name {name} is not a valid function name")
        if name in ("matches", "replaceMatches") and arguments and arguments[0][0] == "literal":
            try:
                pattern(str(arguments[0][1]))
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
    own: dict[Key, SearchParameter | None] = {}
    for base in filter(definitions.is_resource_type, resource["base"]):
        if status == "retired":
            own[base, code] = None
            continue
        parameter = SearchParameter(
            code, kind, resource.get("expression", ""), tuple(resource.get("target", ())), _components(resource, find)
        )
        if not _is_r4(base, parameter):
            own[base, code] = parameter
    return own


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
        other = find(url)
        code = url.rpartition("/")[2].partition("-")[2] if other is None else str(other.get("code"))
        known = other.get("type") if other is not None else _kind(resource["base"], code)
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
    expected = {one.strip() for one in known.expression.split(" | ")}
    return expected == {one.strip() for one in parameter.expression.split(" | ") if _concerns(one, base)}


def _concerns(alternative: str, base: str) -> bool:
    """Whether an alternative of an expression can apply to `base`. It cannot if it begins with another type."""
    named = _OF_A_TYPE.match(alternative.strip())
    return named is None or named[1] == base or not definitions.is_resource_type(named[1])


def add_rows(rows: IndexRows, resource: Json, own: Iterable[SearchParameter]) -> None:
    """Adds the rows of a resource for parameters that clients define.

    If the expression of a parameter fails for this resource, the parameter does not get rows.

    Raises:
        FhirError: 400. The expressions take too many steps for this resource.
    """

    node = Node(resource, resource["resourceType"])

    def resolve(reference: str) -> Node | None:
        kind = target(reference).type
        return node.contained(reference) or (Node({}, kind) if kind else None)

    environment = Environment(node, node, resolve)
    for parameter in own:
        if parameter.kind == "composite":
            continue
        environment.budget.left += STEPS
        try:
            values = evaluate(parameter.expression, node, environment)
        except TooCostlyError:
            problem = f"The expression of the search parameter {parameter.name} takes too many steps"
            raise FhirError(400, f"{problem} for this {node.type_name}: {parameter.expression}", "too-costly") from None
        except (FhirPathError, TypeError, ValueError, ArithmeticError, LookupError):
            continue
        for item in values:
            extract = _extractor(parameter, node.type_name, item.type_name)
            if extract is not None and item.value is not None:
                extract(rows, [item.value])


@lru_cache(maxsize=1024)
def _extractor(parameter: SearchParameter, resource_type: str, type_name: str) -> Extractor | None:
    """The extractor for values of a type. If the parameter's path can be compiled, codes get their list's system."""
    plain = compile_path(parameter.expression, resource_type) if type_name == "code" else []
    lists = {path.codes for path in plain}
    codes = lists.pop() if len(lists) == 1 else None
    path = ElementPath((), (), type_name, codes, path=parameter.expression)
    return KINDS[parameter.kind].extractor(parameter, path)


def as_text(own: Own) -> str:
    """The definitions as JSON text for a store."""
    return json.dumps(
        [[*key, parameter and _plain(parameter)] for key, parameter in sorted(own.items(), key=lambda one: one[0])]
    )


def _plain(parameter: SearchParameter) -> list[Json]:
    components = [[one.parameter, one.kind] for one in parameter.components]
    return [parameter.kind, parameter.expression, list(parameter.targets), components]


def from_text(text: str) -> Own:
    """The definitions from the text of `as_text`."""
    return {(resource_type, name): _parameter(name, plain) for resource_type, name, plain in json.loads(text)}


def _parameter(name: str, plain: list[Json] | None) -> SearchParameter | None:
    if plain is None:
        return None
    kind, expression, targets, components = plain
    return SearchParameter(name, kind, expression, tuple(targets), tuple(Component(*one) for one in components))
