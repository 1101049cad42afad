"""`$validate`: a resource held against R4's structure.

HAPI's validator names lines and constraints of profiles as well. Here are the errors of structure: elements that R4
does not know, that are missing, or that are one where R4 has a list. What HAPI's parser refuses is refused in the same
words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.read import current
from fhir_server.interactions.write import body_json
from fhir_server.resources.normalise import normalise
from fhir_server.wire.http import Response
from fhir_server.wire.json_text import decode, render
from fhir_server.wire.json_values import Json

_PROFILE = "http://hl7.org/fhir/StructureDefinition/"


class Issue(NamedTuple):
    """What is wrong, and the FHIRPath of where."""

    severity: str
    diagnostics: str
    location: str


def validate(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Answers `$validate` of a stored resource, or of the one in the body, alone or in Parameters.

    Raises:
        FhirError: HAPI-0992 where there is no resource; what parsing refuses.
    """
    if context.request.body:
        resource = body_json(context, "EXTENDED_OPERATION_TYPE")
        if isinstance(resource, dict) and resource.get("resourceType") == "Parameters":
            resource = _parameter(resource, "resource")
    elif resource_id:
        resource = decode(current(context, kind, resource_id).text or "")
    else:
        resource = None
    if resource is None:
        problem = 'No resource supplied for $validate operation (resource is required unless mode is "delete")'
        raise FhirError(400, f"HAPI-0992: {problem}")
    normalise(resource, expected_type=None)
    kind = resource["resourceType"]
    issues = list(_problems(resource, kind, kind, kind)) or [
        Issue("information", "No issues detected during validation", "")
    ]
    return context.respond(
        200, render({"resourceType": "OperationOutcome", "issue": [_rendered(one) for one in issues]})
    )


def _parameter(parameters: Json, name: str) -> Json:
    listed = parameters.get("parameter") or []
    return next((one.get("resource") for one in listed if isinstance(one, dict) and one.get("name") == name), None)


def _rendered(issue: Issue) -> Json:
    code = "processing" if issue.severity == "error" else "informational"
    found = {"severity": issue.severity, "code": code, "diagnostics": issue.diagnostics}
    return found | {"location": [issue.location]} if issue.location else found


def _problems(value: Json, type_name: str, path: str, resource_type: str) -> Iterator[Issue]:
    """What is wrong with an object of a type, at any depth."""
    if type_name == "Resource":
        type_name = resource_type = value.get("resourceType", "")
    known: dict[str, tuple[bool, str]] = {}
    for element, _, required in definitions.summary_flags(type_name):
        keys = {element.key(declared): declared.name for declared in element.types}
        known |= {key: (element.many, name) for key, name in keys.items()}
        if required and not any(key in value or f"_{key}" in value for key in keys):
            name = element.name
            profile = f"{_PROFILE}{resource_type}|4.0.1"
            said = f"{path}.{name}: minimum required = 1, but only found 0 (from {profile})"
            yield Issue("error", said, path)
    for key, item in value.items():
        if key == "resourceType" or key.startswith("_") or key == "fhir_comments":
            continue
        if key not in known:
            yield Issue("error", f"Unrecognized property '{key}'", path)
            continue
        many, name = known[key]
        if many != isinstance(item, list):
            wanted, got = ("a JSON Array", _kind(item)) if many else (_single(name), "an Array")
            yield Issue("error", f"The property {key} must be {wanted}, not {got} (at {path})", f"{path}.{key}")
        elif not definitions.is_primitive(name):
            items = item if isinstance(item, list) else [item]
            for number, one in enumerate(items):
                inner = f"{path}.{key}[{number}]" if many else f"{path}.{key}"
                if isinstance(one, dict):
                    yield from _problems(one, name, inner, resource_type)
                else:
                    yield Issue("error", f"This property must be an Object, not {_kind(one)}", inner)


def _kind(value: Json) -> str:
    if isinstance(value, dict):
        return "an Object"
    return "an Array" if isinstance(value, list) else "a Primitive property"


def _single(type_name: str) -> str:
    return "a simple value" if definitions.is_primitive(type_name) else "an Object"
