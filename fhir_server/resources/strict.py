"""Checks a patched resource against R4's structure, as HAPI's strict parser does after a JSON Patch.

`normalise` drops unknown elements, as HAPI's lenient parser does; after a patch that would lose data. So this check
runs first and refuses unknown elements, values of a wrong JSON type, and several values for one element. Rules and
messages are observed behaviour of HAPI FHIR 7.6.0, which does not check for required elements here.
"""

from __future__ import annotations

from typing import NoReturn

from fhir_server import definitions
from fhir_server.definitions import Field
from fhir_server.errors import FhirError
from fhir_server.resources.primitives import PrimitiveError, reader
from fhir_server.wire.json_values import Json, Number

EXTENSIONS = ("extension", "modifierExtension")
_UNREAD = ("resourceType", "fhir_comments")
_TEXT = "SCALAR (STRING)"
_BLANK_ALLOWED = ("date", "dateTime", "instant", "base64Binary")
"""Types whose blank texts are dropped, as with strings; for other types a blank text is an error."""


def check_strictly(resource: Json, type_name: str) -> None:
    """Check a resource of a type. A resource of another type is left to `normalise`.

    Raises:
        FhirError: 400, with the parser's own message, without the text that HAPI puts around it.
    """
    if isinstance(resource, dict) and resource.get("resourceType") == type_name:
        _check_object(type_name, resource)


def _check_object(type_name: str, source: Json) -> None:
    fields = definitions.fields(type_name)
    seen: set[str] = set()
    for key, value in source.items():
        if key in _UNREAD:
            continue
        if key in EXTENSIONS:
            _check_extensions(key, value)
        elif key[:1] == "_":
            if key[1:] not in source:
                _check_alternate(key, value)
        else:
            _check_values(fields.get(key), key, value, seen)
            if f"_{key}" in source:
                _check_alternates(f"_{key}", source[f"_{key}"], beside_list=type(value) is list)


def _check_values(field: Field | None, key: str, value: Json, seen: set[str], *, listed: bool = False) -> None:
    """Checks a value or each item of a list; `seen` are the object's elements so far."""
    if key == "id" and type(value) is not str:
        _refuse_type("id", _TEXT, _json_type(value))
    if type(value) is list:
        for item in value:
            _check_values(field, key, item, seen, listed=True)
        return
    if field is None:
        _refuse(f"HAPI-1825: Unknown element '{key}' found during parse")
    if type(value) is dict and field.element.many and not listed:
        _refuse_type(key, "ARRAY", "OBJECT")
    element = field.element.stem
    if element in seen and not field.element.many:
        _refuse(f"HAPI-1823: Multiple repetitions of non-repeatable element '{element}' found during parse")
    seen.add(element)
    if type(value) is dict:
        _check_inner(element, field.type_name, value)
    elif value is not None:
        _check_scalar(field, key, value)


def _check_inner(field: str, type_name: str, value: Json) -> None:
    if type_name == "Resource":
        type_name = value.get("resourceType")
        if not isinstance(type_name, str):
            _refuse("HAPI-1843: Missing required element 'resourceType' from JSON resource object, unable to parse")
        if not definitions.is_resource_type(type_name):
            return  # the lenient parser refuses it
        if field == "contained" and value.get("id") is None:
            _refuse("HAPI-1819: Resource has contained child resource with no ID")
    if not definitions.is_primitive(type_name):
        _check_object(type_name, value)
        return
    for key, inner in value.items():
        if key in EXTENSIONS:
            _check_extensions(key, inner)
        elif key[:1] != "_" and key not in _UNREAD and inner != []:
            _refuse(f"HAPI-1825: Unknown element '{key}' found during parse")


def _check_scalar(field: Field, key: str, value: Json) -> None:
    if field.type_name == "Resource":
        _refuse("HAPI-1824: Unknown attribute 'value' found during parse")
    if not definitions.is_primitive(field.type_name):
        _refuse_type(key, "OBJECT", _TEXT)
    problem = 'Attribute value must not be empty ("")' if value == "" else ""
    read = reader(field.type_name, field.element.codes) if isinstance(value, str) and value.isspace() else None
    if read is not None and field.type_name not in _BLANK_ALLOWED:
        try:
            read(value)
        except PrimitiveError as error:
            problem = str(error)
    if problem:
        _refuse(f'HAPI-1821: [element="{key}"] Invalid attribute value "{value}": {problem}')


def _check_extensions(key: str, value: Json) -> None:
    if type(value) is not list:
        problem = f"Expected ARRAY at element '{key}', found '{_json_kind(value)}'"
        _refuse(f"HAPI-1841: Syntax error parsing JSON FHIR structure: {problem}")
    for extension in value:
        if type(extension) is not dict:  # HAPI answers 500
            _refuse_type(key, "OBJECT", _json_type(extension))
        if extension.get("url") is None:
            _refuse(f"HAPI-1822: Resource is missing required element 'url' in parent element '{key}'")
        _check_object("Extension", extension)


def _check_alternates(key: str, value: Json, *, beside_list: bool) -> None:
    """Checks the value of `_key`."""
    if not beside_list:
        _check_alternate(key, value)
        return
    if type(value) is not list:
        _refuse_type(key, "ARRAY", _json_kind(value))
    for item in value:
        _check_alternate(key, item)


def _check_alternate(key: str, value: Json) -> None:
    """Checks the id and the extensions of a primitive; HAPI ignores other members."""
    if type(value) is list:
        if len(value) > 1:
            problem = f"Unexpected array of length {len(value)} (expected 0 or 1) for element: {key}"
            _refuse(f"HAPI-1842: {problem}")
        for item in value:
            _check_alternate(key, item)
    elif type(value) is dict:
        for name in EXTENSIONS:
            if name in value:
                _check_extensions(name, value[name])
        if "id" in value and type(value["id"]) is not str:
            _refuse_type("id", _TEXT, _json_type(value["id"]))
    elif value is not None:
        _refuse_type(key, "OBJECT", "SCALAR")


def _json_type(value: Json) -> str:
    """A value's type, in HAPI's terms."""
    if isinstance(value, (dict, list)):
        return "OBJECT" if isinstance(value, dict) else "ARRAY"
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "SCALAR (BOOLEAN)"
    return "SCALAR (NUMBER)" if isinstance(value, (int, Number)) else "SCALAR (STRING)"


def _json_kind(value: Json) -> str:
    """The kind of a value that is no list, in HAPI's terms."""
    if value is None:
        return "NULL"
    return "OBJECT" if isinstance(value, dict) else "SCALAR"


def _refuse_type(element: str, expected: str, actual: str) -> NoReturn:
    _refuse(f"HAPI-1820: Found incorrect type for element {element} - Expected {expected} and found {actual}")


def _refuse(message: str) -> NoReturn:
    raise FhirError(400, message)
