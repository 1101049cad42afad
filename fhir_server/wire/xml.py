"""Reads FHIR XML into the JSON of a resource, and writes a resource as XML in HAPI's layout.

R4's definitions decide whether an element is a list, and whether it is a primitive or an object. Elements that R4 does
not define are dropped, as in HAPI's lenient parser. Document types are refused, and so are entities except those of
XML and HTML.

The JSON of a resource is sufficient for writing it. An object with a `resourceType` is a resource, and its id is an
element, not an attribute. The url of an extension is an attribute. `_name` contains the id and extensions of the
primitive `name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.entities import html5
from xml.parsers import expat

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import DEPTH_LIMIT, Json

_FHIR, _XHTML = "http://hl7.org/fhir", "http://www.w3.org/1999/xhtml"
_NUMBERS = ("decimal", "integer", "positiveInt", "unsignedInt")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?")
_ENTITY = re.compile(r"<!\[CDATA\[.*?\]\]>|&([A-Za-z][A-Za-z0-9]*;)", re.DOTALL)
_XML_ENTITIES = frozenset(("amp;", "lt;", "gt;", "quot;", "apos;", "AMP;", "LT;", "GT;", "QUOT;"))
_REFUSED = "HAPI-0450: Failed to parse request body as XML resource. Error was: "


@dataclass(slots=True)
class _Node:
    """An XML element. `name` is without the namespace."""

    name: str
    attributes: dict[str, str]
    children: list[_Node] = field(default_factory=list)
    markup: str = ""
    """The text of a narrative's `div`, including its tags."""


def parse_xml(text: str) -> Json:
    """Reads the body of a request that must contain a resource.

    Raises:
        FhirError: 400. The text is not XML, contains a document type, is nested too deeply, or its root is not a
            resource.
    """
    text = text.removeprefix("\ufeff")
    first = text.lstrip()[:1]
    if first != "<":
        raise _refusal(_no_element(text, first))
    reader = _TreeReader(with_characters(text).encode())
    root = reader.root
    if not definitions.is_resource_type(root.name):
        raise _refusal(f'HAPI-1684: Unknown resource name "{root.name}" (this name is not known in FHIR version "R4")')
    return _read_resource(root)


def with_characters(text: str) -> str:
    """XML with characters instead of HTML's entities (`&nbsp;`), except those that are markup."""
    return _ENTITY.sub(
        lambda entity: entity[0] if entity[1] in _XML_ENTITIES else html5.get(entity[1], entity[0]), text
    )


def _no_element(text: str, first: str) -> str:
    """The message of HAPI's XML parser for a text that does not begin with an element."""
    parser = "HAPI-1852: com.ctc.wstx.exc.Wstx"
    if not first:
        place = f"[{text.count(chr(10)) + 1},{len(text) - text.rfind(chr(10)) - 1 or 0}]"
        return f"{parser}EOFException: Unexpected EOF in prolog\n at [row,col {{unknown-source}}]: {place}"
    start = text.index(first)
    place = f"[{text.count(chr(10), 0, start) + 1},{start - text.rfind(chr(10), 0, start)}]"
    problem = f"Unexpected character '{first}' (code {ord(first)}) in prolog; expected '<'"
    return f"{parser}UnexpectedCharException: {problem}\n at [row,col {{unknown-source}}]: {place}"


def _refusal(message: str) -> FhirError:
    return FhirError(400, _REFUSED + message)


class _TreeReader:
    """Builds the tree of elements. An XHTML `div` is stored as text."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._open: list[_Node] = []
        self._div: tuple[int, int] | None = None
        self._root: _Node | None = None
        self._parser = parser = expat.ParserCreate("utf-8", "|")  # HAPI also ignores the declared encoding
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        parser.XmlDeclHandler = self._declaration
        try:
            parser.Parse(source, True)
        except expat.ExpatError as error:
            reason = expat.errors.messages[error.code]
            raise _refusal(f"HAPI-1851: {reason} at [row,col]: [{error.lineno},{error.offset}]") from error

    @property
    def root(self) -> _Node:
        """The root element."""
        assert self._root is not None  # expat refuses a text without an element
        return self._root

    def _doctype(self, *_: object) -> None:
        raise _refusal("HAPI-1851: a document type declaration is not allowed")

    def _declaration(self, version: str, *_: object) -> None:
        if version not in ("1.0", "1.1"):
            problem = f"Invalid XML pseudo-attribute 'version' value '{version}'; expected \"1.0\" or \"1.1\""
            raise _refusal(f"HAPI-1849: com.ctc.wstx.exc.WstxParsingException: {problem}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEPTH_LIMIT:
            raise _refusal("HAPI-1851: nested too deeply")
        node = _Node(name.rpartition("|")[2], attributes)
        if self._div is None and name == f"{_XHTML}|div":
            self._div = len(self._open), self._parser.CurrentByteIndex
        if self._open:
            self._open[-1].children.append(node)
        else:
            self._root = node
        self._open.append(node)

    def _end(self, name: str) -> None:
        node = self._open.pop()
        if self._div is not None and self._div[0] == len(self._open):
            end = self._source.find(b">", self._parser.CurrentByteIndex) + 1
            node.markup = self._source[self._div[1] : end].decode("utf-8")
            node.children = []
            self._div = None


def _read_resource(node: _Node) -> Json:
    return {"resourceType": node.name, **_read_members(node, node.name)}


def _read_members(node: _Node, type_name: str) -> Json:
    members: dict[str, Json] = {name: node.attributes[name] for name in ("id", "url") if name in node.attributes}
    fields = definitions.fields(type_name)
    for child in node.children:
        field = fields.get(child.name)
        if field is None:
            continue
        many = field.element.many
        value, beside = _read_value(child, field.type_name)
        for key, part in ((child.name, value), (f"_{child.name}", beside)):
            if many and (part is not None or key in members or (key[0] != "_" and beside)):
                members.setdefault(key, []).append(part)
            elif part is not None:  # if it occurs several times, the first is used
                members.setdefault(key, part)
        if many and beside and len(members[f"_{child.name}"]) < len(members[child.name]):
            beside_all = members[f"_{child.name}"]
            members[f"_{child.name}"] = [None] * (len(members[child.name]) - len(beside_all)) + beside_all
    return members


def _read_value(node: _Node, kind: str) -> tuple[Json, Json]:
    """The value of an element, and for a primitive its id and extensions (`_key` in JSON)."""
    if kind == "Resource":
        return (_read_resource(node.children[0]) if node.children else None), None
    if kind == "xhtml":
        return node.markup, None
    if not definitions.is_primitive(kind):
        return _read_members(node, kind), None
    beside = _read_members(
        _Node(node.name, {k: v for k, v in node.attributes.items() if k == "id"}, node.children), "Element"
    )
    text = node.attributes.get("value")
    return (decode(text) if text is not None and _literal(kind, text) else text), beside or None


def _literal(kind: str, text: str) -> bool:
    """Whether a value is written without quotes in JSON. An invalid boolean or number stays a string, refused later."""
    return text in ("true", "false") if kind == "boolean" else kind in _NUMBERS and _NUMBER.fullmatch(text) is not None


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
    parents: list[bool] = []  # for each open element, whether it contains child elements
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
        item = values[number] if number < len(values) else None
        sibling = others[number] if number < len(others) else None
        yield from _element(key, item, sibling or {}, depth)


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
