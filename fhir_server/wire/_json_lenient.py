"""A slow JSON reader for text that the C scanner refuses. It accepts single quotes and reports Jackson's errors.

Messages and positions were observed in HAPI FHIR 7.6.0 (Jackson 2.17, reader-based parser).
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from fhir_server.wire.json_values import DEPTH_LIMIT, Json, JsonTextError, Number, number

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_UNFINISHED = re.compile(r"\.(?!\d)|[eE][+-]?(?!\d)", re.ASCII)
_EXPONENT = re.compile(r"[eE][+-]?(?!\d)", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_$]+")
_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")
_PAIR = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_PLAIN: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_TOKENS: Final = {str: "VALUE_STRING", int: "VALUE_NUMBER_INT", Number: "VALUE_NUMBER_FLOAT"}
_INT_DIGITS: Final = 1000  # `number` refuses longer ones
_LITERALS: Final = {"true": True, "false": False, "null": None}
_NON_NUMERIC: Final = "enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"
_VALUES: Final = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


def read(text: str) -> Json:
    """Reads a text that is one JSON value.

    Raises:
        JsonTextError: with Jackson's message, line and column.
    """
    reader = _JacksonReader(text)
    value = reader.value("", 0)
    reader.check_end()
    return value


class _JacksonReader:
    """A cursor over the text. `inside` is the current container (Object or Array), `opened` is where it starts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def place(self, at: int) -> str:
        """The position of a character, as Jackson writes it."""
        return "[line: {}, column: {}]".format(*self.position(at))

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        return self.text.count("\n", 0, at) + 1, at - (self.text.rfind("\n", 0, at) + 1) + 1

    def fail(self, message: str, at: int) -> NoReturn:
        raise JsonTextError(message, *self.position(at))

    def fail_at(self, message: str) -> NoReturn:
        """Fails at the character at the cursor."""
        self.fail(f"Unexpected character ({_shown(self.text[self.at])}): {message}", self.at)

    def skip(self) -> None:
        match = _BLANK.match(self.text, self.at)
        assert match  # the pattern matches the empty text
        self.at = match.end()
        if self.text.startswith("/", self.at):
            hint = "(not recognized as one since Feature 'ALLOW_COMMENTS' not enabled for parser)"
            self.fail_at(f"maybe a (non-standard) comment? {hint}")

    def next_entry(self, inside: str, opened: int) -> str:
        """The next non-blank character before an entry or the end of the container."""
        self.skip()
        if self.at >= len(self.text):
            marker = f"expected close marker for {inside} (start marker at {self.place(opened)})"
            self.fail(f"Unexpected end-of-input: {marker}", self.at)
        return self.text[self.at]

    def next_part(self, inside: str) -> str:
        """The next non-blank character within an entry."""
        self.skip()
        if self.at >= len(self.text):
            self.fail(f"Unexpected end-of-input within/between {inside} entries", self.at)
        return self.text[self.at]

    def check_end(self) -> None:
        """Refuses text after the value. Jackson's message contains its first token, or the error in it."""
        self.skip()
        if self.at >= len(self.text):
            return
        start, first = self.at, self.text[self.at]
        if first in "]}":
            self.close_mismatch("}" if first == "]" else "]", "root", "[line: 1]")
        value = None if first in "{[" else self.value("root", 1)
        kind = {"{": "START_OBJECT", "[": "START_ARRAY"}.get(first) or _TOKENS.get(type(value), "VALUE_NULL")
        if isinstance(value, bool):
            kind = f"VALUE_{str(value).upper()}"
        bound = "(bound as `com.fasterxml.jackson.databind.JsonNode`)"
        rule = "`DeserializationFeature.FAIL_ON_TRAILING_TOKENS`"
        self.fail(f"Trailing token (of type {kind}) found after value {bound}: not allowed as per {rule}", start)

    def value(self, inside: str, depth: int) -> Json:
        """Reads the next value, at nesting level `depth`."""
        if depth >= DEPTH_LIMIT:
            limit = f"({DEPTH_LIMIT}, from `StreamReadConstraints.getMaxNestingDepth()`)"
            raise JsonTextError(f"Document nesting depth ({depth + 1}) exceeds the maximum allowed {limit}")
        first = self.next_part(inside)
        if first == "{":
            return self.members(depth + 1)
        if first == "[":
            return self.items(depth + 1)
        if first in _PLAIN:
            return self.string(": was expecting closing quote for a string value")
        if first in "+-" or "0" <= first <= "9":
            return self.number()
        return self.word()

    def members(self, depth: int) -> dict[str, Json]:
        opened, members = self.at, {}
        self.at += 1
        first = self.next_entry("Object", opened)
        if first == "]":
            self.close_mismatch("}", "Object", self.place(opened))
        while first != "}":
            if first not in _PLAIN:
                self.fail_at("was expecting double-quote to start field name")
            name = self.string(" in field name")
            if self.next_part("Object") != ":":
                self.fail_at("was expecting a colon to separate field name and value")
            self.at += 1
            members[name] = self.value("Object", depth)
            first = self.next_entry("Object", opened)
            if first == ",":
                self.at += 1
                if self.next_part("Object") == "}":
                    self.fail_at("was expecting double-quote to start field name")
                first = self.text[self.at]
            elif first == "]":
                self.close_mismatch("}", "Object", self.place(opened))
            elif first != "}":
                self.fail_at("was expecting comma to separate Object entries")
        self.at += 1
        return members

    def items(self, depth: int) -> list[Json]:
        opened, items = self.at, []
        self.at += 1
        first = self.next_entry("Array", opened)
        if first == "}":
            self.close_mismatch("]", "Array", self.place(opened))
        while first != "]":
            items.append(self.value("Array", depth))
            first = self.next_entry("Array", opened)
            if first == ",":
                self.at += 1
                if self.next_part("Array") == "]":
                    self.fail_at(f"expected a valid value {_VALUES}")
            elif first == "}":
                self.close_mismatch("]", "Array", self.place(opened))
            elif first != "]":
                self.fail_at("was expecting comma to separate Array entries")
        self.at += 1
        return items

    def close_mismatch(self, expected: str, inside: str, opened: str) -> NoReturn:
        start = f"(for {inside} starting at {opened})"
        self.fail(f"Unexpected close marker '{self.text[self.at]}': expected '{expected}' {start}", self.at)

    def string(self, what: str) -> str:
        """Reads the quoted text at the cursor. `what` ends the message if the closing quote is missing."""
        mark = self.text[self.at]
        self.at += 1
        parts = []
        while True:
            match = _PLAIN[mark].match(self.text, self.at)
            assert match  # the pattern matches the empty text
            parts.append(match[0])
            self.at = match.end()
            if self.at >= len(self.text):
                self.fail(f"Unexpected end-of-input{what}", self.at)
            character = self.text[self.at]
            if character == mark:
                self.at += 1
                return "".join(parts)
            if character != "\\":
                tail = "has to be escaped using backslash to be included in string value"
                self.fail(f"Illegal unquoted character ({_shown(character)}): {tail}", self.at + 1)
            parts.append(self.escape())

    def escape(self) -> str:
        """Reads the escape at the cursor and returns its character."""
        kind = self.text[self.at + 1 : self.at + 2]
        if kind == "u":
            return self.code_unit()
        if kind not in _ESCAPES:
            shown = _shown(kind) if kind else "at the end"
            self.fail(f"Unrecognized character escape {shown}", min(self.at + 2, len(self.text)))
        self.at += 2
        return _ESCAPES[kind]

    def code_unit(self) -> str:
        """Reads one `\\u` escape, or two that are a surrogate pair, and returns the character."""
        pair = _PAIR.match(self.text, self.at)
        if pair:
            self.at = pair.end()
            return chr(0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + (int(pair[2], 16) - 0xDC00))
        unit = _UNIT.match(self.text, self.at)
        if not unit:
            self.at = min(self.at + 2, len(self.text) - 1)
            self.fail_at("expected a hex-digit for character escape sequence")
        self.at = unit.end()
        return chr(int(unit[1], 16))

    def number(self) -> Json:
        match = _NUMBER.match(self.text, self.at)
        if not match and self.text.startswith("-Infinity", self.at):
            self.fail(f"Non-standard token '-Infinity': {_NON_NUMERIC}", self.at + len("-Infinity"))
        if not match:
            if self.text.startswith(".", self.at + 1):
                self.at += 1
                self.fail_at(f"expected a valid value {_VALUES}")
            sign = " to follow minus sign," if self.text[self.at] == "-" else ""
            self.fail_in_number(self.at + 1, f"expected digit (0-9){sign} for valid numeric value")
        end = match.end()
        self.check_finished(match)
        if match[1] == "0" and end == match.end(1) and self.text[end : end + 1].isdigit():
            self.fail("Invalid numeric value: Leading zeroes not allowed", end)
        self.at = end
        text = match[0].removeprefix("+")
        if match[2] or match[3] or len(text) > _INT_DIGITS:
            return number(text)
        return int(text)

    def check_finished(self, match: re.Match[str]) -> None:
        """Refuses a point or an exponent without digits. Jackson's position is that after the integer part."""
        if match[3]:
            return
        unfinished = _EXPONENT if match[2] else _UNFINISHED
        odd = unfinished.match(self.text, match.end())
        if odd is None:
            return
        if odd.end() < len(self.text):
            what = "Decimal point" if odd[0] == "." else "Exponent indicator"
            self.fail_in_number(odd.end(), f"{what} not followed by a digit", match.end(1))
        if odd[0] == ".":
            self.fail_in_number(odd.start(), "Decimal point not followed by a digit")
        self.fail("Unexpected end-of-inputexpected a digit for number exponent", len(self.text))

    def fail_in_number(self, at: int, message: str, place: int | None = None) -> NoReturn:
        """Fails at a character in a number. `place` is the position to report, if it is another one."""
        if at >= len(self.text):
            self.fail("Unexpected end-of-inputNo digit following sign", at)
        shown = _shown(self.text[at])
        self.fail(f"Unexpected character ({shown}) in numeric value: {message}", at if place is None else place)

    def word(self) -> Json:
        match = _WORD.match(self.text, self.at)
        if not match:
            self.fail_at(f"expected a valid value {_VALUES}")
        word = match[0]
        self.at = match.end()
        if word in _LITERALS:
            return _LITERALS[word]
        if word in ("NaN", "Infinity"):
            self.fail(f"Non-standard token '{word}': {_NON_NUMERIC}", self.at)
        self.fail(f"Unrecognized token '{word}': was expecting {_VALUES}", self.at)


def _shown(character: str) -> str:
    """A character as in Jackson's messages."""
    code = ord(character)
    return f"(CTRL-CHAR, code {code})" if code < 32 else f"'{character}' (code {code})"
