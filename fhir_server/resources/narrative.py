"""Narrative as HAPI stores it: parsed as XML and written in one canonical form.

The form (an empty element closes itself, `"` in text becomes `&quot;`, other entities become their character, the
XHTML namespace is added to the `div`) is observed behaviour of HAPI FHIR 7.6.0.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from fhir_server.errors import FhirError
from fhir_server.wire.xml import with_characters

NAMESPACE: Final = "http://www.w3.org/1999/xhtml"
_ATTRIBUTE = re.compile(r"=\"[^\"]*\"|='[^']*'")
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_ELEMENTS: Final = frozenset(
    "p br div h1 h2 h3 h4 h5 h6 a span b em i strong small big tt dfn q var abbr acronym cite blockquote hr address bdo"  # noqa: SIM905  # words: as a list they are harder to read
    " kbd q sub sup ul ol li dl dt dd pre table caption colgroup col thead tr tfoot tbody th td code samp img map area"
    " ins del u s".split()
)
"""The elements that a narrative may have: chapters 7 to 11 and 15 of HTML 4.0, links, images and tables."""
_ATTRIBUTES: Final = frozenset(("title", "style", "class", "id", "lang", "dir", "accesskey", "tabindex"))
_SPECIAL: Final = frozenset(
    (element, key)
    for elements, keys in {
        "a": "href name charset type hreflang rel rev shape coords target",
        "img": "src alt height width usemap longdesc border align",
        "blockquote q ins del": "cite",
        "col colgroup": "span",
        "table": "width border cellpadding cellspacing summary frame rules",
        "td th tr col colgroup thead tbody tfoot table p div li ul": "align valign width bgcolor colspan rowspan abbr"
        " axis headers scope",
        "td th": "nowrap height char charoff",
        "ol": "type start",
        "ul": "type",
        "li": "value",
        "bdo": "dir",
        "area": "shape coords href alt nohref",
        "map": "name",
        "br": "clear",
        "hr": "width size",
    }.items()
    for element in elements.split()
    for key in keys.split()
)
"""Attributes that only some elements may have."""
_ERROR: Final = "org.hl7.fhir.exceptions.FHIRFormatError: "


def normalise(text: str) -> str:
    """The narrative's `div` in canonical form.

    Raises:
        FhirError: 400, the text is not well-formed or its root is not `div` (HAPI itself answers 500).
    """
    text = text.strip()
    if not text.startswith("<"):
        text = f'<div xmlns="{NAMESPACE}">{text}</div>'
    writer = _Writer(text)
    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.characters
    parser.CommentHandler = writer.comment
    parser.StartDoctypeDeclHandler = writer.refuse_doctype
    try:
        # An XML parser turns a line feed in an attribute into a space; HAPI keeps it.
        escaped = _ATTRIBUTE.sub(lambda match: match[0].replace("\n", "&#10;"), text)
        parser.Parse(with_characters(escaped), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        where = f"line {error.lineno} column {error.offset}"
        raise FhirError(400, f"{_ERROR}Malformed XHTML: {reason} at {where}") from error
    return "".join(writer.parts)


def is_valid_div(text: str) -> bool:
    """Whether a narrative uses only the XHTML that FHIR allows, and is not empty (R4, narrative.html)."""
    checker = _Checker()
    parser = expat.ParserCreate()
    parser.StartElementHandler = checker.start
    parser.CharacterDataHandler = checker.characters
    try:
        parser.Parse(with_characters(text), True)
    except expat.ExpatError:
        return False
    return checker.is_valid and checker.has_content


class _Checker:
    """Detects elements and attributes that a narrative must not have, and whether it has any text or image."""

    def __init__(self) -> None:
        self.is_valid = True
        self.has_content = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.has_content = self.has_content or name == "img"
        allowed = name in _ELEMENTS and all(
            key in _ATTRIBUTES or key.startswith(("xmlns", "xml:")) or (name, key) in _SPECIAL for key in attributes
        )
        self.is_valid = self.is_valid and allowed

    def characters(self, text: str) -> None:
        self.has_content = self.has_content or not text.isspace()


class _Writer:
    """Writes the parser's events; a start tag stays open until it is known whether the element is empty."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.parts: list[str] = []
        self.is_open = False

    def start(self, name: str, attributes: list[str]) -> None:
        if not self.parts:
            self.check_root(name)
            if "xmlns" not in attributes[::2]:
                attributes = [*attributes, "xmlns", NAMESPACE]
        self.close_tag()
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        written = "".join(f' {key}="{value.translate(_ESCAPES)}"' for key, value in pairs)
        self.parts.append(f"<{name}{written}")
        self.is_open = True

    def check_root(self, name: str) -> None:
        if name != "div":
            end = self.source.find(">") + 1
            line = self.source.count("\n", 0, end) + 1
            column = end - (self.source.rfind("\n", 0, end) + 1)
            problem = f"starts with 'null::{name}' not 'div' at line {line} column {column}"
            raise FhirError(400, f"{_ERROR}Unable to Parse HTML - {problem}")

    def close_tag(self) -> None:
        if self.is_open:
            self.parts.append(">")
            self.is_open = False

    def end(self, name: str) -> None:
        self.parts.append("/>" if self.is_open else f"</{name}>")
        self.is_open = False

    def characters(self, text: str) -> None:
        self.close_tag()
        self.parts.append(text.translate(_ESCAPES))

    def comment(self, text: str) -> None:
        self.close_tag()
        self.parts.append(f"<!-- {text.strip()} -->")

    def refuse_doctype(self, *_: object) -> None:
        raise FhirError(400, f"{_ERROR}Malformed XHTML: a document type declaration is not allowed")
