"""FHIRPath patch: the operations of a Parameters resource.

Paths are steps such as `Patient.name[0].given`, each of which may pick from a list: by number, by `first()` and
`last()`, or by `where(use = 'official')`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from fhir_server.errors import FhirError
from fhir_server.wire.json_values import Json

_PART = re.compile(
    r"\[(?P<index>\d{1,6})\]|\.(?:where\(\s*(?P<element>[A-Za-z][\w.]*)\s*=\s*(?P<value>'(?:[^'\\]|\\.)*'|[\w.-]+)\s*\)"
    r"|(?P<end>first|last)\(\)|(?P<name>[A-Za-z]\w*))"
)


@dataclass(frozen=True, slots=True)
class Step:
    """An element's name, and what picks from the list it holds, in order."""

    name: str
    picks: list[re.Match[str]] = field(default_factory=list)

    def chosen(self, items: Sequence[Json]) -> list[int]:
        """The places in the list that are picked: all where nothing picks."""
        places = list(range(len(items)))
        for pick in self.picks:
            if pick["index"] is not None:
                places = places[int(pick["index"]) :][:1]
            elif pick["end"] is not None:
                places = places[:1] if pick["end"] == "first" else places[-1:]
            else:
                places = [place for place in places if _says(items[place], pick["element"], pick["value"])]
        return places


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
    if not steps and kind in ("delete", "replace", "insert", "move"):
        raise FhirError(400, f"HAPI-2761: Failed to resolve path of patch operation: {path}")
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


def _says(item: Json, element: str, value: str) -> bool:
    """Whether an element, some way down, is the value of a FHIRPath literal."""
    for name in element.split("."):
        item = item.get(name) if isinstance(item, dict) else None
    if value.startswith("'"):
        return bool(item == re.sub(r"\\(.)", r"\1", value[1:-1]))
    return item is not None and not isinstance(item, str) and str(item).lower() == value


def _steps(target: Json, path: str) -> list[Step]:
    head = str(target.get("resourceType"))
    position = len(head)
    steps: list[Step] = []
    while path.startswith(head) and position < len(path):
        part = _PART.match(path, position)
        if part is None or (part["name"] is None and not steps):
            break
        position = part.end()
        if part["name"] is not None:
            steps.append(Step(part["name"]))
        else:
            steps[-1].picks.append(part)
    if not path.startswith(head) or position < len(path):
        raise FhirError(400, f"HAPI-2761: Failed to resolve path of patch operation: {path}")
    return steps


def _walk(target: Json, steps: list[Step]) -> Json:
    for step in steps:
        target = target.get(step.name) if isinstance(target, dict) else None
        items = target if isinstance(target, list) else [] if target is None else [target]
        places = step.chosen(items)
        if not places:
            raise FhirError(400, f"HAPI-2761: No element matches the path of the patch operation at {step.name}")
        target = items[places[0]]
    return target


def _append(holder: Json, name: str, value: Json) -> None:
    if not isinstance(holder, dict):
        raise FhirError(400, f"HAPI-2761: Nothing can be added at {name}")
    if isinstance(holder.get(name), list):
        holder[name].append(value)
    else:
        holder[name] = value


def _replace(holder: Json, step: Step, value: Json, path: str) -> None:
    found = holder.get(step.name) if isinstance(holder, dict) else None
    if found is not None and not step.picks:
        holder[step.name] = value
        return
    places = step.chosen(found) if isinstance(found, list) else []
    if not isinstance(found, list) or not places:
        raise FhirError(400, f"HAPI-2761: No element matches the path of the patch operation: {path}")
    found[places[0]] = value


def _delete(target: Json, steps: list[Step]) -> None:
    """Deleting what is not there is no error (FHIR R4, fhirpatch.html)."""
    try:
        holder = _walk(target, steps[:-1])
    except FhirError:
        return
    step = steps[-1]
    found = holder.get(step.name) if isinstance(holder, dict) else None
    if found is not None and not step.picks:
        del holder[step.name]
    elif isinstance(found, list):
        for place in reversed(step.chosen(found)):
            del found[place]


def _list(target: Json, steps: list[Step], path: str) -> list[Json]:
    holder = _walk(target, steps[:-1])
    items = holder.get(steps[-1].name) if isinstance(holder, dict) else None
    if not isinstance(items, list):
        raise FhirError(400, f"HAPI-2761: The path of the patch operation is no list: {path}")
    return items


def _index(parts: dict[str, Json], name: str, last: int) -> int:
    value = _value(parts, name)
    if not isinstance(value, int) or not 0 <= value <= last:
        raise FhirError(400, f"HAPI-1270: Invalid {name} for patch operation: {value}")
    return value
