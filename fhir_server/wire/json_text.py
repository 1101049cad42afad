"""Reads and writes JSON like HAPI. Decimals keep their digits. Errors have Jackson's messages.

The standard library's C scanner reads strict JSON. It refuses single quotes and errors. Then `_json_lenient` reads the
text again, which knows positions and Jackson's messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from json.encoder import encode_basestring
from json.scanner import make_scanner
from typing import Final, NoReturn

from fhir_server.errors import FhirError
from fhir_server.wire._json_lenient import read as read_leniently
from fhir_server.wire.json_values import DEPTH_LIMIT, Json, JsonTextError, number

_BODY: Final = "HAPI-0450: Failed to parse request body as JSON resource. Error was: "
_RISKY_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_BLANKS: Final = " \t\n\r"
_BRACES: Final = bytes.maketrans(b"[]", b"{}")


def decode(text: str) -> Json:
    """Reads JSON text. Single quotes are accepted. If a key occurs twice, the last value is used.

    Raises:
        JsonTextError: the text is not JSON, is nested too deeply, or contains a lone surrogate.
    """
    try:
        if _is_too_deep(text):
            limit = "from `StreamReadConstraints.getMaxNestingDepth()`"
            deep = f"({DEPTH_LIMIT + 1}) exceeds the maximum allowed ({DEPTH_LIMIT}, {limit})"
            raise JsonTextError(f"Document nesting depth {deep}")
        value, end = scan(text, len(text) - len(text.lstrip(_BLANKS)))
        if text[end:].strip(_BLANKS):
            raise ValueError(end)
    except (ValueError, StopIteration, RecursionError) as error:
        if isinstance(error, JsonTextError):
            raise
        value = read_leniently(text)
    if is_risky(text):
        _check_characters(value)
    return value


def is_risky(text: str) -> bool:
    """Whether a text contains escapes that may be invalid characters: a NUL, or half of a surrogate pair."""
    return "\\u" in text and _RISKY_ESCAPE.search(text) is not None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_float=number, parse_constant=_refuse_constant)
scan: Callable[[str, int], tuple[Json, int]] = make_scanner(_decoder)  # type: ignore[arg-type]  # the stub is outdated
"""Returns the JSON value that begins at a position of a text, and its end. Raises ValueError or StopIteration."""


def _is_too_deep(text: str) -> bool:
    """Whether the brackets of a text are nested more deeply than `DEPTH_LIMIT`; False if they do not match.

    Strings are removed first, since brackets in them do not count. No Python step runs for each bracket.
    """
    if text.count("{") + text.count("[") <= DEPTH_LIMIT:
        return False
    unescaped = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    left = unescaped.encode("ascii", "replace").translate(_BRACES, _NO_BRACKETS)
    left = b"".join(left.replace(b'""', b"").split(b'"')[::2])  # most strings have no brackets
    for _ in range(DEPTH_LIMIT):  # each step removes the innermost level
        before = len(left)
        left = left.replace(b"{}", b"")
        if len(left) == before:
            return False
    return bool(left)


def _check_characters(value: Json) -> None:
    for text in _texts(value):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise JsonTextError("Illegal character: a surrogate that is not one of a pair") from error


def _texts(value: Json) -> Iterator[str]:
    """All keys and strings in the value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def parse(text: str) -> Json:
    """Reads the body of a request that must contain a resource.

    Raises:
        FhirError: 400, with HAPI's message (HAPI-0450 with HAPI-1861). The text is not a JSON object.
    """
    start = text.lstrip()[:1]
    if start != "{":
        broken = (
            f"HAPI-1859: Content does not appear to be FHIR JSON, first non-whitespace character was: '{start}' "
            "(must be '{')"
        )
        raise _refusal(broken if start else "HAPI-1857: Did not find any content to parse")
    try:
        return decode(text)
    except JsonTextError as error:
        place = f"\n at [line: {error.line}, column: {error.column}]" if error.line else ""
        raise _refusal(f"{error.message}{place}") from error


def _refusal(message: str) -> FhirError:
    return FhirError(400, f"{_BODY}HAPI-1861: Failed to parse JSON encoded FHIR content: {message}")


def render(value: Json) -> str:
    """Writes JSON in HAPI's layout: objects indented by two blanks per level, lists inline."""
    text = _pretty(value, "\n")
    # Jackson writes these hex digits in upper case. The pattern matches all escapes, to skip escaped backslashes.
    return _ESCAPE.sub(_upper_hex, text) if "\\u00" in text else text


def compact(text: str) -> str:
    """The text without indentation and line breaks (`_pretty=false`)."""
    if "\\" not in text:  # every second part is inside a string
        parts = text.split('"')
        parts[::2] = ["".join(part.split()) for part in parts[::2]]
        return '"'.join(parts)
    return _SPACE.sub(lambda match: match.group(1) or "", text)


def member(key: str, value: Json) -> str:
    """A member of a resource, as one or more lines of its text."""
    text = _key(key) + _pretty(value, "\n  ")
    return _ESCAPE.sub(_upper_hex, text) if "\\u00" in text else text


def assemble(members: Iterable[str]) -> str:
    """The text of a resource from its members' lines."""
    return "{\n  " + ",\n  ".join(members) + "\n}"


def _upper_hex(match: re.Match[str]) -> str:
    return "\\u" + match[0][2:].upper() if len(match[0]) > 2 else match[0]


@lru_cache(maxsize=4096)
def _key(key: str) -> str:
    return encode_basestring(key) + ": "


def _scalar(value: Json) -> str:
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)


def _pretty(value: Json, margin: str) -> str:
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is dict:
        if not value:
            return "{ }"
        inner = margin + "  "
        lines = [
            _key(key) + (encode_basestring(item) if type(item) is str else _pretty(item, inner))
            for key, item in value.items()
        ]
        return "{" + inner + ("," + inner).join(lines) + margin + "}"
    if kind is list:
        return "[ " + ", ".join([_pretty(item, margin) for item in value]) + " ]" if value else "[ ]"
    return _scalar(value)
