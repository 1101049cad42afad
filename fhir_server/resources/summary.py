"""`_summary` and `_elements`: a stored resource reduced to the requested elements, and tagged SUBSETTED."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fhir_server.definitions import stems, summary_flags
from fhir_server.wire.json_text import decode, render
from fhir_server.wire.json_values import Json

SUBSETTED = {
    "system": "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
    "code": "SUBSETTED",
    "display": "Resource encoded in summary mode",
}
ALWAYS = ("resourceType", "id", "meta")


@dataclass(frozen=True, slots=True)
class Subset:
    """The parts of each resource that a request asks for: by `_summary`, or by the paths in `_elements`."""

    summary: str = ""
    elements: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.summary or self.elements)


def cut_down(text: str, subset: Subset) -> str:
    """A resource's text, reduced to the subset."""
    if not subset:
        return text
    resource = decode(text)
    kind = resource["resourceType"]
    if subset.elements:
        selected = _elements(resource, kind, subset.elements)
    elif subset.summary == "true":
        selected = _summary(resource, kind)
    elif subset.summary == "data":
        selected = {key: value for key, value in resource.items() if key != "text"}
    else:
        required = {"text", *_names(kind, required=True)}
        selected = {key: value for key, value in resource.items() if key in required}
    if selected is resource and not any(path.endswith("*") for path in subset.elements):
        return text
    head = {key: resource[key] for key in ALWAYS if key in resource}
    meta = head["meta"]
    tags = [tag for tag in meta.get("tag", []) if tag.get("code") != "SUBSETTED"]
    head["meta"] = {**meta, "tag": [*tags, SUBSETTED]}
    return render({**head, **{key: value for key, value in selected.items() if key not in ALWAYS}})


def _elements(resource: Json, kind: str, elements: tuple[str, ...]) -> Json:
    """The elements with these paths; a path that begins with another type is ignored."""
    paths = []
    for path in elements:
        if path.rpartition(".")[2] == "*":
            return resource
        first, _, rest = path.partition(".")
        if first[:1].isupper():
            if first not in (kind, "*"):
                continue
            path = rest
        paths.append(path.split("."))
    if not paths:
        return resource
    return _cut(resource, paths)


def _cut(value: Json, paths: list[list[str]]) -> Json:
    if isinstance(value, list):
        return [item for item in (_cut(one, paths) for one in value) if item]
    if not isinstance(value, dict):
        return value
    selected = {}
    for key, item in value.items():
        below = [path[1:] for path in paths if _is(key, path[0])]
        if below:
            part = item if any(not rest for rest in below) else _cut(item, below)
            if part or part is item:
                selected[key] = part
    return selected


def _is(key: str, name: str) -> bool:
    """Whether a key is the element `name`. Like in HAPI, letters after the element's own name are ignored if they begin
    with a capital: `valueString` and `value` select all variants of the choice.
    """
    stem = stems().get(key.removeprefix("_"), key.removeprefix("_"))
    return name == stem or (name.startswith(stem) and name[len(stem)].isupper())


def _summary(value: Json, type_name: str) -> Json:
    """The elements of the summary, at every level, without extensions, including those of scalars."""
    names = _names(type_name, required=False)
    selected = {}
    for key, item in value.items():
        below = names.get(key)
        if below is None:
            continue
        if isinstance(item, dict):
            selected[key] = _summary(item, below) if below else item
        elif isinstance(item, list) and below:
            selected[key] = [_summary(one, below) if isinstance(one, dict) else one for one in item]
        else:
            selected[key] = item
    return {key: item for key, item in selected.items() if item not in ({}, [])}


@cache
def _names(type_name: str, *, required: bool) -> dict[str, str]:
    """The JSON keys of a type that are in summaries (or `required`), each with its value's type ('' for a scalar)."""
    types: dict[str, str] = {}
    for element, in_summary, is_required in summary_flags(type_name):
        if is_required if required else in_summary:
            types |= {element.key(declared): _complex(declared.name) for declared in element.types}
    return types


def _complex(type_name: str) -> str:
    try:
        summary_flags(type_name)
    except KeyError:
        return ""
    return type_name if type_name not in ("Extension", "Resource") else ""
