"""FHIRPath patch: the operations of a Parameters resource; paths are plain steps such as `Patient.name[0].given`."""

from __future__ import annotations

import re
from copy import deepcopy

from fhir_server.errors import FhirError
from fhir_server.jsontext import Json

_STEP = re.compile(r"([A-Za-z]\w*)(?:\[(\d{1,6})\])?")


def apply_fhir_patch(target: Json, parameters: Json) -> Json:
    """The resource with all operations applied, in order."""
    target = deepcopy(target)
    for item in parameters.get("parameter", []):
        if item.get("name") != "operation":
            raise FhirError(400, f"HAPI-2756: Unknown patch parameter name: {item.get('name')}")
        parts = {part.get("name"): part for part in item.get("part", [])}
        _apply(target, parts)
    return target


def _apply(target: Json, parts: dict[str, Json]) -> None:
    kind, path = _scalar(parts, "type"), _scalar(parts, "path")
    steps = _steps(target, path)
    match kind:
        case "add":
            holder = _walk(target, steps)
            _append(holder, _scalar(parts, "name"), _value(parts))
        case "delete":
            _delete(target, steps)
        case "replace":
            holder = _walk(target, steps[:-1])
            _replace(holder, steps[-1], _value(parts), path)
        case "insert":
            items = _list(target, steps, path)
            items.insert(_index(parts, "index", len(items)), _value(parts))
        case "move":
            items = _list(target, steps, path)
            source = _index(parts, "source", len(items) - 1)
            items.insert(_index(parts, "destination", len(items) - 1), items.pop(source))
        case _:
            raise FhirError(400, f"HAPI-1267: Unknown patch operation type: {kind}")


def _scalar(parts: dict[str, Json], name: str) -> str:
    value = _value(parts, name)
    if not isinstance(value, str):
        raise FhirError(400, f"HAPI-1268: Invalid value for patch parameter: {name}")
    return value


def _value(parts: dict[str, Json], name: str = "value") -> Json:
    part = parts.get(name, {})
    for key, value in part.items():
        if key.startswith("value"):
            return value
    if "part" in part:
        return {item.get("name"): _value({"value": item}) for item in part["part"]}
    raise FhirError(400, f"HAPI-1268: Missing patch parameter: {name}")


def _steps(target: Json, path: str) -> list[tuple[str, int | None]]:
    head, *rest = path.split(".")
    found = [_STEP.fullmatch(step) for step in rest]
    if head != target.get("resourceType") or not rest or not all(found):
        raise FhirError(400, f"HAPI-2761: Failed to resolve path of patch operation: {path}")
    return [(step.group(1), int(step.group(2)) if step.group(2) else None) for step in found if step]


def _walk(target: Json, steps: list[tuple[str, int | None]]) -> Json:
    for name, index in steps:
        target = target.get(name) if isinstance(target, dict) else None
        if isinstance(target, list):
            target = target[index or 0] if (index or 0) < len(target) else None
        if target is None:
            raise FhirError(400, f"HAPI-2761: No element matches the path of the patch operation at {name}")
    return target


def _append(holder: Json, name: str, value: Json) -> None:
    if not isinstance(holder, dict):
        raise FhirError(400, f"HAPI-2761: Nothing can be added at {name}")
    if isinstance(holder.get(name), list):
        holder[name].append(value)
    else:
        holder[name] = value


def _replace(holder: Json, step: tuple[str, int | None], value: Json, path: str) -> None:
    name, index = step
    if not isinstance(holder, dict) or name not in holder:
        raise FhirError(400, f"HAPI-2761: No element matches the path of the patch operation: {path}")
    if index is None:
        holder[name] = value
    elif isinstance(holder[name], list) and index < len(holder[name]):
        holder[name][index] = value
    else:
        raise FhirError(400, f"HAPI-2761: No element matches the path of the patch operation: {path}")


def _delete(target: Json, steps: list[tuple[str, int | None]]) -> None:
    """Deleting what is not there is no error (FHIR R4, fhirpatch.html)."""
    try:
        holder = _walk(target, steps[:-1])
    except FhirError:
        return
    name, index = steps[-1]
    if isinstance(holder, dict) and name in holder:
        if index is None:
            del holder[name]
        elif isinstance(holder[name], list) and index < len(holder[name]):
            del holder[name][index]


def _list(target: Json, steps: list[tuple[str, int | None]], path: str) -> list[Json]:
    holder = _walk(target, steps[:-1])
    items = holder.get(steps[-1][0]) if isinstance(holder, dict) else None
    if not isinstance(items, list):
        raise FhirError(400, f"HAPI-2761: The path of the patch operation is no list: {path}")
    return items


def _index(parts: dict[str, Json], name: str, last: int) -> int:
    value = _value(parts, name)
    if not isinstance(value, int) or not 0 <= value <= last:
        raise FhirError(400, f"HAPI-1270: Invalid {name} for patch operation: {value}")
    return value
