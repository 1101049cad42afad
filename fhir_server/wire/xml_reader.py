"""Reads FHIR XML into the JSON of a resource. Document types are refused, and so are entities other than XML's own.

R4's definitions decide whether an element is a list, and whether it is a primitive or an object. Elements that R4 does
not define are dropped, as in HAPI's lenient parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from xml.parsers import expat

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import DEPTH_LIMIT, Json

_FHIR, _XHTML = "http://hl7.org/fhir", "http://www.w3.org/1999/xhtml"
_NUMBERS = ("decimal", "integer", "positiveInt", "unsignedInt")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?")
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
        FhirError: 400. The text is not XML, has a document type, is nested too deeply, or its root is not a resource.
    """
    text = text.removeprefix("\ufeff")
    first = text.lstrip()[:1]
    if first != "<":
        raise _refusal(_no_element(text, first))
    reader = _TreeReader(text.encode())
    root = reader.root
    if not definitions.is_resource_type(root.name):
        raise _refusal(f'HAPI-1684: Unknown resource name "{root.name}" (this name is not known in FHIR version "R4")')
    return _resource(root)


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


def _resource(node: _Node) -> Json:
    return {"resourceType": node.name, **_members(node, node.name)}


@cache
def _known(type_name: str) -> dict[str, tuple[bool, str]]:
    """For each element of a type, by name: whether it is a list, and its type."""
    return {
        element.key(declared): (element.many, declared.name)
        for element in definitions.elements(type_name)
        for declared in element.types
    }


def _members(node: _Node, type_name: str) -> Json:
    members: dict[str, Json] = {name: node.attributes[name] for name in ("id", "url") if name in node.attributes}
    known = _known(type_name)
    for child in node.children:
        many, kind = known.get(child.name, (False, ""))
        if not kind:
            continue
        value, beside = _value(child, kind)
        for key, one in ((child.name, value), (f"_{child.name}", beside)):
            if many and (one is not None or key in members or (key[0] != "_" and beside)):
                members.setdefault(key, []).append(one)
            elif one is not None:  # if it occurs several times, the first is used
                members.setdefault(key, one)
        if many and beside and len(members[f"_{child.name}"]) < len(members[child.name]):
            beside_all = members[f"_{child.name}"]
            members[f"_{child.name}"] = [None] * (len(members[child.name]) - len(beside_all)) + beside_all
    return members


def _value(node: _Node, kind: str) -> tuple[Json, Json]:
    """The value of an element, and for a primitive its id and extensions (`_key` in JSON)."""
    if kind == "Resource":
        return (_resource(node.children[0]) if node.children else None), None
    if kind == "xhtml":
        return node.markup, None
    if not definitions.is_primitive(kind):
        return _members(node, kind), None
    beside = _members(
        _Node(node.name, {k: v for k, v in node.attributes.items() if k == "id"}, node.children), "Element"
    )
    text = node.attributes.get("value")
    return (decode(text) if text is not None and _literal(kind, text) else text), beside or None


def _literal(kind: str, text: str) -> bool:
    """Whether a value is written without quotes in JSON. An invalid boolean or number stays a string, refused later."""
    return text in ("true", "false") if kind == "boolean" else kind in _NUMBERS and _NUMBER.fullmatch(text) is not None
