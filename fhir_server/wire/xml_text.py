"""Writes a resource as FHIR XML in HAPI's layout.

The JSON of a resource is sufficient for this. An object with a `resourceType` is a resource, and its id is an element,
not an attribute. The url of an extension is an attribute. `_name` has id and extensions of the primitive `name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fhir_server.wire.json_values import Json

NAMESPACE = "http://hl7.org/fhir"
_STEP = "   "
_ESCAPES: dict[int, str | None] = {
    **dict.fromkeys([*range(32), 0xFFFE, 0xFFFF]),  # characters that XML does not allow
    **{ord("&"): "&amp;", ord("<"): "&lt;", ord('"'): "&quot;", 9: "&#x9;", 10: "&#xa;", 13: "&#xd;"},
}


def to_xml(resource: Json, *, pretty: bool = True) -> str:
    """The XML of a resource: indented by three blanks per level, or in one line."""
    lines = _resource(resource, 0, f' xmlns="{NAMESPACE}"')
    if pretty:
        return "\n".join(_narrative(line) if line.lstrip().startswith(_DIV) else line for line in lines)
    return "".join(line.lstrip(" ") for line in lines)


def _narrative(line: str) -> str:
    """Indents a narrative's `div`.

    Each element begins on a new line. The end tag of an element with child elements is also on a new line. Blanks at
    the start and end of a text become one blank. The content of `pre` does not change.
    """
    div = line.lstrip()
    depth = (len(line) - len(div)) // len(_STEP)
    parts: list[str] = []
    parents: list[bool] = []  # for each open element, whether it has child elements
    pre = 0
    for token in _MARKUP.findall(div):
        margin = "" if pre or not parts else f"\n{_STEP * (depth + len(parents))}"
        if token[0] != "<":
            parts.append(token if pre else _BLANKS_AT_ENDS.sub(" ", token))
        elif token.startswith("</"):
            parts.append(f"{margin.removesuffix(_STEP)}{token}" if parents.pop() else token)
            pre = max(pre - 1, 0)
        else:
            if parents:
                parents[-1] = True
            parts.append(f"{' ' if token.startswith('<!--') else ''}{margin}{token}")
            if not token.endswith("/>") and not token.startswith("<!--"):
                parents.append(False)
                pre += pre > 0 or token.startswith("<pre")
    return line[: len(line) - len(div)] + "".join(parts)


_DIV = "<div "
_MARKUP = re.compile(r'<!--.*?-->|<(?:"[^"]*"|[^">])*>|[^<]+', re.DOTALL)
_BLANKS_AT_ENDS = re.compile(r"\A[ \t\r\n]+|[ \t\r\n]+\Z")


def _resource(resource: Json, depth: int, attributes: str = "") -> Iterator[str]:
    members = {key: value for key, value in resource.items() if key != "resourceType"}
    yield from _tagged(resource["resourceType"], attributes, members, depth)


def _tagged(name: str, attributes: str, members: Json, depth: int) -> Iterator[str]:
    """An element with its members as child elements."""
    blanks = _STEP * depth
    inner = list(_members(members, depth + 1))
    if inner:
        yield f"{blanks}<{name}{attributes}>"
        yield from inner
        yield f"{blanks}</{name}>"
    else:
        yield f"{blanks}<{name}{attributes}/>"


def _members(members: Json, depth: int) -> Iterator[str]:
    for key, value in members.items():
        if key.startswith("_"):
            if key[1:] not in members:
                yield from _each(key[1:], None, value, depth)
        else:
            yield from _each(key, value, members.get(f"_{key}"), depth)


def _each(key: str, value: Json, beside: Json, depth: int) -> Iterator[str]:
    """The elements of a member. `beside` is the value of `_key`."""
    values = value if isinstance(value, list) else [value]
    others = beside if isinstance(beside, list) else [beside]
    for number in range(max(len(values), len(others))):
        one = values[number] if number < len(values) else None
        other = others[number] if number < len(others) else None
        yield from _element(key, one, other or {}, depth)


def _element(key: str, value: Json, beside: Json, depth: int) -> Iterator[str]:
    blanks = _STEP * depth
    if isinstance(value, dict) and "resourceType" in value:
        yield f"{blanks}<{key}>"
        yield from _resource(value, depth + 1, f' xmlns="{NAMESPACE}"')
        yield f"{blanks}</{key}>"
        return
    if key == "div" and isinstance(value, str):
        yield f"{blanks}{value}"
        return
    fields = dict(value) if isinstance(value, dict) else dict(beside)
    attributes = "".join(
        f' {name}="{str(fields.pop(name)).translate(_ESCAPES)}"'
        for name in ("id", *(("url",) if key in ("extension", "modifierExtension") else ()))
        if fields.get(name) is not None
    )
    if not isinstance(value, dict) and value is not None:
        attributes += f' value="{_text(value)}"'
    yield from _tagged(key, attributes, fields, depth)


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).translate(_ESCAPES)
