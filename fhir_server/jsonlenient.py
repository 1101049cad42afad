"""A slow JSON reader for text the C scanner refuses: accepts single quotes, and errs in Jackson's words and places.

Jackson's wording and columns are observed behaviour of HAPI FHIR 7.6.0 (Jackson 2.17, reader-based parser).
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from fhir_server.jsontext import DEPTH_LIMIT, Json, JsonTextError, number

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z0-9_$]+")
_PLAIN: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_INT_DIGITS: Final = 1000  # a longer one is refused by `number`
_LITERALS: Final = {"true": True, "false": False, "null": None}
_VALUES: Final = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


def read(text: str) -> Json:
    """Read one JSON value that fills the text.

    Raises:
        JsonTextError: with Jackson's message, line and column.
    """
    reader = _Reader(text)
    value = reader.value("", 0)
    reader.skip()
    if reader.at < len(text):
        reader.fail_at("Unexpected character {}: expected end of input")
    return value


class _Reader:
    """A cursor over the text; `opened` is where the innermost object or list began."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        return self.text.count("\n", 0, at) + 1, at - (self.text.rfind("\n", 0, at) + 1) + 1

    def fail(self, message: str, at: int) -> NoReturn:
        raise JsonTextError(message, *self.place(at))

    def fail_at(self, message: str) -> NoReturn:
        """Fail over the character at the cursor, which takes the place of `{}`."""
        character = self.text[self.at]
        shown = f"('{character}' (code {ord(character)}))"
        if ord(character) < 32:
            shown = f"((CTRL-CHAR, code {ord(character)}))"
        self.fail(message.format(shown), self.at)

    def skip(self) -> None:
        match = _BLANK.match(self.text, self.at)
        assert match  # the pattern matches the empty text
        self.at = match.end()

    def peek(self, inside: str, opened: int) -> str:
        """The next character that is not blank; `inside` names what is open for the message at the end of input."""
        self.skip()
        if self.at >= len(self.text):
            line, column = self.place(opened)
            marker = f"expected close marker for {inside} (start marker at [line: {line}, column: {column}])"
            self.fail(f"Unexpected end-of-input: {marker}" if inside else "Unexpected end-of-input", self.at)
        return self.text[self.at]

    def value(self, inside: str, opened: int, depth: int = 1) -> Json:
        if depth > DEPTH_LIMIT:
            limit = "from `StreamReadConstraints.getMaxNestingDepth()`"
            raise JsonTextError(
                f"Document nesting depth ({depth}) exceeds the maximum allowed ({DEPTH_LIMIT}, {limit})"
            )
        first = self.peek(inside, opened)
        if first == "{":
            return self.members(depth)
        if first == "[":
            return self.items(depth)
        if first in _PLAIN:
            return self.string()
        if first == "-" or "0" <= first <= "9":
            return self.number()
        return self.word()

    def members(self, depth: int) -> dict[str, Json]:
        opened, found = self.at, {}
        self.at += 1
        first = self.peek("Object", opened)
        while first != "}":
            if first not in _PLAIN:
                self.fail_at("Unexpected character {}: was expecting double-quote to start field name")
            name = self.string()
            if self.peek("Object", opened) != ":":
                self.fail_at("Unexpected character {}: was expecting a colon to separate field name and value")
            self.at += 1
            found[name] = self.value("Object", opened, depth + 1)
            first = self.peek("Object", opened)
            if first == ",":
                self.at += 1
                first = self.peek("Object", opened)
                if first == "}":
                    self.fail_at("Unexpected character {}: was expecting double-quote to start field name")
            elif first == "]":
                self.close_mismatch("}", "Object", opened)
            elif first != "}":
                self.fail_at("Unexpected character {}: was expecting comma to separate Object entries")
        self.at += 1
        return found

    def items(self, depth: int) -> list[Json]:
        opened, found = self.at, []
        self.at += 1
        first = self.peek("Array", opened)
        while first != "]":
            found.append(self.value("Array", opened, depth + 1))
            first = self.peek("Array", opened)
            if first == ",":
                self.at += 1
                first = self.peek("Array", opened)
                if first == "]":
                    self.fail_at(f"Unexpected character {{}}: expected a valid value {_VALUES}")
            elif first == "}":
                self.close_mismatch("]", "Array", opened)
            elif first != "]":
                self.fail_at("Unexpected character {}: was expecting comma to separate Array entries")
        self.at += 1
        return found

    def close_mismatch(self, wanted: str, inside: str, opened: int) -> NoReturn:
        line, column = self.place(opened)
        start = f"(for {inside} starting at [line: {line}, column: {column}])"
        self.fail(f"Unexpected close marker '{self.text[self.at]}': expected '{wanted}' {start}", self.at)

    def string(self) -> str:
        mark = self.text[self.at]
        self.at += 1
        parts = []
        while True:
            match = _PLAIN[mark].match(self.text, self.at)
            assert match  # the pattern matches the empty text
            parts.append(match[0])
            self.at = match.end()
            if self.at >= len(self.text):
                self.fail("Unexpected end-of-input: was expecting closing quote for a string value", self.at)
            character = self.text[self.at]
            if character == mark:
                self.at += 1
                return "".join(parts)
            if character != "\\":
                tail = "has to be escaped using backslash to be included in string value"
                self.fail_at(f"Illegal unquoted character {{}}: {tail}")
            parts.append(self.escape())

    def escape(self) -> str:
        """The character that the escape at the cursor stands for; the cursor goes behind it."""
        kind = self.text[self.at + 1 : self.at + 2]
        if kind == "u":
            digits = self.text[self.at + 2 : self.at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                self.at = min(self.at + 2, len(self.text) - 1)
                self.fail_at("Unexpected character {}: expected a hex-digit for character escape sequence")
            code = int(digits, 16)
            self.at += 6
            following = re.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", self.text[self.at : self.at + 6])
            if 0xD800 <= code < 0xDC00 and following:
                self.at += 6
                code = 0x10000 + ((code - 0xD800) << 10) + (int(following[1], 16) - 0xDC00)
            return chr(code)
        if kind not in _ESCAPES or not kind:
            self.at = min(self.at + 1, len(self.text) - 1)
            self.fail(f"Unrecognized character escape '{kind}' (code {ord(kind) if kind else 0})", self.at)
        self.at += 2
        return _ESCAPES[kind]

    def number(self) -> Json:
        match = _NUMBER.match(self.text, self.at)
        if not match:
            self.at += 1
            self.fail(
                "Unexpected character: expected digit (0-9) to follow minus sign, for valid numeric value", self.at
            )
        end = match.end()
        if match[0] in ("0", "-0") and self.text[end : end + 1].isdigit():
            self.fail("Invalid numeric value: Leading zeroes not allowed", end)
        self.at = end
        if match[2] or match[3]:
            return number(match[0])
        return int(match[0]) if len(match[0]) <= _INT_DIGITS else number(match[0])

    def word(self) -> Json:
        match = _WORD.match(self.text, self.at)
        if not match:
            self.fail_at(f"Unexpected character {{}}: expected a valid value {_VALUES}")
        word = match[0]
        self.at = match.end()
        if word in _LITERALS:
            return _LITERALS[word]
        if word in ("NaN", "Infinity", "INF"):
            tail = "enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"
            self.fail(f"Non-standard token '{word}': {tail}", self.at)
        self.fail(f"Unrecognized token '{word}': was expecting {_VALUES}", self.at)
