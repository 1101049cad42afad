"""`_summary` and `_elements`: a stored resource reduced to the requested elements, and tagged SUBSETTED.

A stored text is in HAPI's layout: each member of an object begins on its own line, two blanks deeper than the object.
Texts contain no other line breaks. So a text can be cut at its lines, without being parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

from fhir_server.definitions import stems, summary_flags
from fhir_server.resources.strict import EXTENSIONS
from fhir_server.wire.bundle import SUBSETTED

ALWAYS = ("resourceType", "id", "meta")
"""The members that are always selected, at every level."""
Choice: TypeAlias = "Callable[[str], bool | Choice]"
"""Whether the member with a key is selected. If only parts of it are, the choice among its own members."""


@dataclass(frozen=True, slots=True)
class Subset:
    """The parts of each resource that a request asks for: by `_summary`, or by the paths in `_elements`."""

    summary: str = ""
    elements: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.summary or self.elements)


def cut_down(text: str, subset: Subset) -> str:
    """A resource's text, reduced to the subset."""
    choice = _choice(subset, text.split('"', 4)[3]) if subset else None
    if choice is None:
        return text
    selected = _selected(text, choice, "\n")
    meta = selected.index('\n  "meta": {')
    end = selected.index("\n  }", meta)
    others = '\n    "tag": [ ' in selected[meta:end]
    before = f"{selected[: end - 2]}, " if others else f'{selected[:end]},\n    "tag": [ '
    return f"{before}{SUBSETTED} ]{selected[end:]}"


def _selected(value: str, choice: Choice, margin: str) -> str:
    """The text of an object or a list of objects with the selected members. Like in HAPI, an object may become empty.

    `margin` is the line break before the end of each object, with the blanks after it.
    """
    start, end = value.index("{"), value.rindex(f"{margin}}}")
    first, following = f'{margin}  "', f',{margin}  "'
    objects = []
    for text in value[start + len(first) + 1 : end].split(f"{margin}}}, {{{first}"):
        members = []
        for member in text.split(following):
            key, _, item = member.partition('": ')
            chosen = key in ALWAYS or choice(key)
            if callable(chosen) and item.startswith(("{\n", "[ {\n")):
                member = f'{key}": {_selected(item, chosen, margin + "  ")}'
            if chosen:
                members.append(member)
        objects.append(f"{{{first}{following.join(members)}{margin}}}" if members else "{ }")
    return value[:start] + ", ".join(objects) + value[end + len(margin) + 1 :]


@lru_cache(maxsize=64)
def _choice(subset: Subset, kind: str) -> Choice | None:
    """The choice among the members of a resource; None if it stays whole. Cached, as pages contain many of a type."""
    if subset.elements:
        return _by_elements(kind, subset.elements)
    if subset.summary == "true":
        return _in_summary(kind)
    if subset.summary == "data":
        return "text".__ne__
    return {"text", *_names(kind, required=True)}.__contains__


def _by_elements(kind: str, elements: tuple[str, ...]) -> Choice | None:
    """The choice of the elements with these paths. A path that begins with another type is ignored."""
    paths = []
    for path in elements:
        if path.rpartition(".")[2] == "*":
            return lambda key: True
        first, _, rest = path.partition(".")
        if first[:1].isupper():
            if first not in (kind, "*"):
                continue
            path = rest
        paths.append(path.split("."))
    return _by_paths(paths) if paths else None


def _by_paths(paths: Sequence[Sequence[str]]) -> Choice:
    @cache
    def choice(key: str) -> bool | Choice:
        below = [path[1:] for path in paths if _is(key, path[0])]
        whole = key[0] == "_" or key in EXTENSIONS or not all(below)
        return bool(below) and (whole or _by_paths(below))

    return choice


def _is(key: str, name: str) -> bool:
    """Whether a key is the element `name`. Like in HAPI, letters after the element's own name are ignored if they begin
    with a capital: `valueString` and `value` select all variants of the choice.
    """
    stem = stems().get(key.removeprefix("_"), key.removeprefix("_"))
    return name == stem or (name.startswith(stem) and name[len(stem)].isupper())


@cache
def _in_summary(type_name: str) -> Choice:
    """The elements of the summary, at every level, without extensions (including scalars' extensions)."""
    names = _names(type_name, required=False)
    return cache(lambda key: key in names and (not names[key] or _in_summary(names[key])))


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
