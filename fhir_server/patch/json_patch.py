"""JSON Patch (RFC 6902) over JSON values, with the messages of the library that HAPI uses."""

from __future__ import annotations

import re
from copy import deepcopy

from fhir_server.errors import FhirError
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import Json, JsonTextError

NO_PATH = "no such path in target JSON document"
_OPERATION = "com.github.fge.jsonpatch.operation.JsonPatchOperation"
_KINDS = ("add", "copy", "move", "remove", "replace", "test")
MAX_OPERATIONS = 1000
MAX_COPYING = 1_000_000
"""The total number of values in the documents after each `copy`: a copy of a document into itself doubles it."""


def operations(text: str) -> list[Json]:
    """The operations of a patch document. Raises FhirError (HAPI-1272) if the text is not a patch."""
    try:
        document = decode(text)
    except JsonTextError as error:
        source = "Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled)"
        raise _refused(f"{error.message}\n at [{source}; line: {error.line}, column: {error.column}]") from error
    if isinstance(document, dict):
        raise _refused(
            "Cannot deserialize value of type `java.util.ArrayList<com.github.fge.jsonpatch.operation."
            "JsonPatchOperation>` from Object value (token `JsonToken."
            f"{'FIELD_NAME' if document else 'END_OBJECT'}`)\n at [Source: UNKNOWN; byte offset: #UNKNOWN]"
        )
    if not isinstance(document, list) or not all(isinstance(item, dict) for item in document):
        raise _refused("a JSON patch is an array of operations")
    if len(document) > MAX_OPERATIONS:
        raise _refused(f"a patch may have at most {MAX_OPERATIONS} operations")
    return document


def apply_json_patch(target: Json, patch: list[Json]) -> Json:
    """A copy of the target with all operations applied, in order."""
    target = deepcopy(target)
    copying = 0
    for at, operation in enumerate(patch):
        target = _apply(target, operation, at)
        if operation.get("op") == "copy":
            copying += _nodes(target)
            if copying > MAX_COPYING:
                raise _refused("the patch copies too much")
    return target


def _place(at: int) -> str:
    return f"\n at [Source: UNKNOWN; byte offset: #UNKNOWN] (through reference chain: java.util.ArrayList[{at}])"


def _apply(target: Json, operation: Json, at: int) -> Json:
    name, path = operation.get("op"), operation.get("path")
    if "op" not in operation:
        raise _refused(
            f"Could not resolve subtype of [simple type, class {_OPERATION}]: missing type id property 'op'{_place(at)}"
        )
    if name not in _KINDS:
        kinds = f"known type ids = [{', '.join(_KINDS)}] (for POJO property '#temporary-name')"
        raise _refused(f"Could not resolve type id '{name}' as a subtype of `{_OPERATION}`: {kinds}{_place(at)}")
    if not isinstance(path, str):
        raise _refused("an operation needs a `path`")
    if path and not path.startswith("/"):
        kind = f'{_OPERATION.rpartition(".")[0]}.{name.capitalize()}Operation["path"]'
        why = "problem: illegal pointer: expected a slash to separate tokens"
        where = f"{_place(at)[:-1]}->{kind})"
        raise _refused(f"Cannot construct instance of `com.github.fge.jackson.jsonpointer.JsonPointer`, {why}{where}")
    tokens = _tokens(path)
    match name:
        case "test":
            if _find(target, tokens) != _value(operation):
                raise _refused("value differs from expectations")
            return target
        case "add":
            return _add(target, tokens, _value(operation))
        case "remove":
            _remove(target, tokens)
            return target
        case "replace":
            _find(target, tokens)
            if not tokens:
                return deepcopy(_value(operation))
            _remove(target, tokens)
            return _add(target, tokens, _value(operation))
        case "copy" | "move":
            source = operation.get("from")
            if not isinstance(source, str):
                raise _refused("this operation needs a `from`")
            value = deepcopy(_find(target, _tokens(source)))
            if name == "move":
                if tokens[: len(_tokens(source))] == _tokens(source) and path != source:
                    raise _refused("cannot move a node to one of its children")
                _remove(target, _tokens(source))
            return _add(target, tokens, value)
    raise AssertionError(name)


def _value(operation: Json) -> Json:
    if "value" not in operation:
        raise _refused("this operation needs a `value`")
    return operation["value"]


def _tokens(pointer: str) -> list[str]:
    """The steps of a JSON Pointer (RFC 6901)."""
    if pointer and not pointer.startswith("/"):
        raise _refused("not a valid JSON Pointer: it must start with /")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _find(target: Json, tokens: list[str]) -> Json:
    for token in tokens:
        target = _child(target, token)
    return target


def _child(target: Json, token: str) -> Json:
    if isinstance(target, dict) and token in target:
        return target[token]
    if isinstance(target, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", token) and int(token) < len(target):
        return target[int(token)]
    raise _refused(NO_PATH)


def _add(target: Json, tokens: list[str], value: Json) -> Json:
    if not tokens:
        return deepcopy(value)
    try:
        parent = _find(target, tokens[:-1])
    except FhirError:
        raise _refused("parent of node to add does not exist") from None
    last = tokens[-1]
    if isinstance(parent, dict):
        parent[last] = deepcopy(value)
    elif isinstance(parent, list):
        if last != "-" and not re.fullmatch(r"0|[1-9][0-9]{0,8}", last):
            raise _refused("reference token is not an array index")
        if last != "-" and int(last) > len(parent):
            raise _refused("no such index in target array")
        parent.insert(len(parent) if last == "-" else int(last), deepcopy(value))
    else:
        raise _refused("parent of path to add to is not a container")
    return target


def _remove(target: Json, tokens: list[str]) -> None:
    if not tokens:
        raise _refused("the whole document cannot be removed")
    parent = _find(target, tokens[:-1])
    _child(parent, tokens[-1])
    if isinstance(parent, dict):
        del parent[tokens[-1]]
    else:
        del parent[int(tokens[-1])]


def _nodes(value: Json) -> int:
    """The number of values in a value, itself included."""
    count, left = 0, [value]
    while left:
        member = left.pop()
        count += 1
        if isinstance(member, dict):
            left.extend(member.values())
        elif isinstance(member, list):
            left.extend(member)
    return count


def _refused(message: str) -> FhirError:
    return FhirError(400, f"HAPI-1272: {message}")
