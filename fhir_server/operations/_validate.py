"""`$validate`: checks a resource against R4 (`fhir_server/validation`) and reports the problems as HAPI does.

A resource that HAPI's parser refuses is refused with the same message. Lines and columns refer to the body, or to the
stored resource without layout; they are those after a value, as in messages of HL7's validator.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]  # missing in the stubs
from typing import TypeAlias

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext, StoredLibrary
from fhir_server.interactions.integrity import check_not_referred_to
from fhir_server.interactions.read import current
from fhir_server.operations._parameters import Arguments
from fhir_server.resources.normalise import normalise
from fhir_server.validation.check import issues
from fhir_server.validation.structure import Issue
from fhir_server.wire.http import Response
from fhir_server.wire.json_text import compact, render
from fhir_server.wire.json_values import Json

_EXTENSION = "http://hl7.org/fhir/StructureDefinition/operationoutcome-issue-"
_MESSAGE_ID = "http://hl7.org/fhir/StructureDefinition/operationoutcome-message-id"
_MESSAGES = "http://hl7.org/fhir/java-core-messageId"
_STEP = re.compile(r"\.?(\w+)(?:\.ofType\((\w+)\))?(?:\[(\d+)\])?")


def validate(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Answers `$validate` of a stored resource, or of the one in the body, alone or in Parameters.

    Raises:
        FhirError: HAPI-0992 without a resource; the parser's error; 409 if `mode` is `delete` and other resources
            refer to it.
    """
    arguments = Arguments(context)
    if arguments.text("mode") == "delete" and resource_id:
        check_not_referred_to(context, current(context, kind, resource_id))
        return _answer(context, [Issue("information", "Ok to delete", "")], {})
    resource = arguments.value("resource") if arguments.body is None else arguments.body
    if resource is None and resource_id:
        resource = current(context, kind, resource_id).resource
    if resource is None:
        problem = 'No resource supplied for $validate operation (resource is required unless mode is "delete")'
        raise FhirError(400, f"HAPI-0992: {problem}")
    normalise(resource, expected_type=None)
    inner = [
        f"parameter[{at}]" for at, parameter in enumerate(arguments.listed) if parameter.get("resource") is resource
    ]
    owner = f"{resource['resourceType']}/{resource.get('id', 'null')}"
    place = f"Parameters.{inner[0]}.resource/*{owner}*/" if inner else ""
    nothing = [Issue("information", "No issues detected during validation", "")]
    problems = issues(resource, StoredLibrary(context.server), arguments.text("profile").split(), place) or nothing
    sent = (inner or resource is arguments.body) and not context.layout.in_xml
    text = context.request.text if sent else compact(render(resource))
    try:
        places = ends(text)
    except (ValueError, IndexError):  # a text that only a lenient parser accepts
        places = {}
    return _answer(context, problems, places)


def _answer(context: RequestContext, problems: list[Issue], places: Mapping[Path, tuple[int, int]]) -> Response:
    listed = [_rendered(problem, places) for problem in problems]
    return context.respond(200, render({"resourceType": "OperationOutcome", "issue": listed}))


def _rendered(issue: Issue, places: Mapping[Path, tuple[int, int]]) -> Json:
    if not issue.location:
        return {"severity": issue.severity, "code": "informational", "diagnostics": issue.diagnostics}
    path = (*_path(issue.location), issue.key) if issue.key else _path(issue.location)
    line, column = places.get(path, (1, 1))
    extensions: list[Json] = [
        {"url": f"{_EXTENSION}line", "valueInteger": line},
        {"url": f"{_EXTENSION}col", "valueInteger": column},
    ]
    rendered: Json = {"extension": extensions, "severity": issue.severity, "code": "processing"}
    if issue.message_id:
        extensions.append({"url": _MESSAGE_ID, "valueString": issue.message_id})
        rendered["details"] = {"coding": [{"system": _MESSAGES, "code": issue.message_id}]}
    location = [issue.location, f"Line[{line}] Col[{column}]"]
    return rendered | {"diagnostics": issue.diagnostics, "location": location}


def _path(location: str) -> Path:
    """The JSON keys and indexes of a location, without `[x]` at its end; a choice is named by its JSON key."""
    steps: list[str | int] = []
    for name, kind, number in _STEP.findall(re.sub(r"/\*[^*]*\*/|\.\w+\[x\]", "", location))[1:]:
        steps.append(name + kind[:1].upper() + kind[1:])
        if number:
            steps.append(int(number))
    return tuple(steps)


Path: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"[\s,:]*")
_SCALAR = re.compile(r"[^\s,\]}]+")


def ends(text: str) -> dict[Path, tuple[int, int]]:
    """Line and column (from 1) after each value of a valid JSON text, by the path of the value."""
    places: dict[Path, int] = {}
    _walk_value(text, _skip(text, 0), (), places)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return {path: _line_and_column(starts, end) for path, end in places.items()}


def _line_and_column(starts: list[int], end: int) -> tuple[int, int]:
    line = bisect_right(starts, end)
    return line, end - starts[line - 1] + 1


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _walk_value(text: str, at: int, path: Path, places: dict[Path, int]) -> int:
    """Adds the ends of the value that begins at `at`, and of those inside it. Returns its end."""
    if text[at] == "{":
        end = _skip(text, at + 1)
        while text[end] != "}":
            key, end = scanstring(text, end + 1)
            end = _skip(text, _walk_value(text, _skip(text, end), (*path, key), places))
        end += 1
    elif text[at] == "[":
        end, number = _skip(text, at + 1), 0
        while text[end] != "]":
            end = _skip(text, _walk_value(text, end, (*path, number), places))
            number += 1
        end += 1
    elif text[at] == '"':
        _, end = scanstring(text, at + 1)
    else:
        match = _SCALAR.match(text, at)
        end = match.end() if match else at + 1
    places[path] = end
    return end
