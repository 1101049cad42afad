"""Functions of texts. Places count Unicode characters, as in JSON."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fhir_server.expressions.budget import CHARACTERS
from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.functions._collections import place
from fhir_server.expressions.node import Nodes, computed, value_of
from fhir_server.expressions.scope import Expression, Scope, Signature, argument, joined, text

Arguments = tuple[Expression, ...]
_JSON_ESCAPE = re.compile(r'(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))+')


def _texts(focus: Nodes, arguments: Arguments, scope: Scope) -> list[str] | None:
    """The text before a function, and its arguments; None if one is missing."""
    texts = [text(focus, scope), *(text(argument(arguments, index, scope), scope) for index in range(len(arguments)))]
    present = [value for value in texts if value is not None]
    return present if len(present) == len(texts) else None


def _of_texts(function: Callable[..., str | int | bool], arguments: int = 0) -> Signature:
    """A function of a text and other texts; its result is empty if one is missing."""

    def run(focus: Nodes, others: Arguments, scope: Scope) -> Nodes:
        texts = _texts(focus, others, scope)
        return [] if texts is None else [computed(function(*texts))]

    return Signature(run, arguments, arguments)


def _of_pattern(function: Callable[[str, str, Scope], int | bool], *, of_empty: int | bool) -> Signature:
    """A function that looks for a text or a pattern. As in HAPI, an empty one has the same result for all values."""

    def run(focus: Nodes, others: Arguments, scope: Scope) -> Nodes:
        operand = text(argument(others, 0, scope), scope)
        if not focus or operand is None:
            return []
        if not operand:
            return [computed(of_empty)]
        value = text(focus, scope)
        return [] if value is None else [computed(function(value, operand, scope))]

    return Signature(run, 1, 1)


def _of_several(function: Callable[[str, str, Scope], int | bool], *, of_empty: int | bool) -> Signature:
    """The same, but several texts are one with commas between them."""
    single = _of_pattern(function, of_empty=of_empty)

    def run(focus: Nodes, others: Arguments, scope: Scope) -> Nodes:
        value = joined(focus, scope) if len(focus) > 1 and isinstance(value_of(focus[0]), str) else None
        return single.run(focus if value is None else [computed(value)], others, scope)

    return Signature(run, 1, 1)


def _of_one(function: Callable[[str, str, Scope], bool], *, of_empty: bool) -> Signature:
    """The same, but the result is false for several texts."""
    single = _of_pattern(function, of_empty=of_empty)

    def run(focus: Nodes, others: Arguments, scope: Scope) -> Nodes:
        return [computed(False)] if len(focus) > 1 else single.run(focus, others, scope)

    return Signature(run, 1, 1)


def _of_any(function: Callable[..., str | None], arguments: int = 0) -> Signature:
    """A function of the text of any scalar, and other texts."""

    def run(focus: Nodes, others: Arguments, scope: Scope) -> Nodes:
        value = joined(focus, scope) if len(focus) == 1 and focus[0].has_scalar else None
        texts = _texts([computed(value)], others, scope) if value is not None else None
        result = None if texts is None else function(*texts)
        return [] if result is None else [computed(result)]

    return Signature(run, arguments, arguments)


def _substring(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value, start, length = text(focus, scope), place(arguments, 0, scope), place(arguments, 1, scope)
    if value is None or start is None or not 0 <= start < len(value):
        return []
    part = value[start:] if length is None else value[start : start + max(length, 0)]
    return [computed(part)] if part else []


def _replace(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    texts = _texts(focus, arguments, scope)
    if texts is None:
        return []
    value, old, new = texts
    count = value.count(old)
    scope.environment.budget.build(len(value) + count * len(new))
    return [computed(value.replace(old, new))]


def _charged(expression: str, value: str, scope: Scope) -> Any:
    """The compiled regular expression, after its steps over a text have been charged: its size times the length."""
    compiled = pattern(expression)
    scope.spend(compiled.programsize * (1 + len(value) // CHARACTERS))
    return compiled


def _matches(value: str, expression: str, scope: Scope) -> bool:
    return _charged(expression, value, scope).search(value) is not None


def _matches_full(value: str, expression: str, scope: Scope) -> bool:
    return _charged(expression, value, scope).fullmatch(value) is not None


def _replace_matches(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    if len(focus) > 1:  # as in HAPI
        first = joined(focus[:1], scope)
        return [] if first is None else [computed(first)]
    texts = _texts(focus, arguments, scope)
    if texts is None:
        return []
    value, expression, new = texts
    if not expression:
        return [computed(value)]
    scope.environment.budget.build((len(value) + 1) * (len(new) + 1))
    scope.spend(len(value))  # each character can be a match
    return [computed(_charged(expression, value, scope).sub(_in_re2(new), value))]


def _in_re2(replacement: str) -> str:
    """A replacement with `$1` as RE2 has it: `\\1`."""
    parts: list[str] = []
    escaped = group = False
    for character in replacement:
        if escaped:
            parts.append("\\\\" if character == "\\" else character)
        elif group and character.isdecimal():
            parts.append(f"\\{character}")
        elif character not in "\\$":
            parts.append(character)
        escaped, group = character == "\\" and not escaped, character == "$" and not escaped
    return "".join(parts)


@lru_cache(maxsize=256)
def pattern(expression: str) -> Any:
    """A regular expression compiled by RE2, which takes linear time: clients choose the text.

    Raises:
        FhirPathError: the text is not a regular expression, uses features that RE2 lacks (backreferences, lookaround),
            or RE2 is not installed.
    """
    try:
        import re2  # type: ignore[import-untyped]  # late: most users of the server do not need it
    except ImportError as error:
        raise FhirPathError("regular expressions need the package google-re2: pip install google-re2") from error
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise FhirPathError(f"{expression} is not a pattern that RE2 accepts: {shown}") from error


def _split(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value, separator = joined(focus, scope), text(argument(arguments, 0, scope), scope)
    if len(focus) != 1 or value is None or separator is None or not focus[0].has_scalar:
        return []
    scope.spend(value.count(separator))
    return [computed(part) for part in (value.split(separator) if separator else value)]


def _join(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    separator = text(argument(arguments, 0, scope), scope) or ""
    texts = [joined([node], scope) or "" for node in focus if node.has_scalar]
    scope.environment.budget.build(sum(map(len, texts)) + len(separator) * len(texts))
    return [computed(separator.join(texts))]


def _to_chars(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value = text(focus, scope) or ""
    scope.spend(len(value))
    return [computed(character) for character in value]


def _encode(value: str, encoding: str) -> str | None:
    data = value.encode("utf-8", "surrogatepass")
    match encoding:
        case "hex":
            return data.hex().upper()
        case "base64":
            return base64.b64encode(data).decode("ascii")
        case "urlbase64":
            return base64.urlsafe_b64encode(data).decode("ascii")
    return None


def _decode(value: str, encoding: str) -> str | None:
    try:
        match encoding:
            case "hex":
                return bytes.fromhex(value).decode()
            case "base64":
                return base64.b64decode(value, validate=True).decode()
            case "urlbase64":
                return base64.urlsafe_b64decode(value).decode()
    except (binascii.Error, ValueError) as error:
        raise FhirPathError(f"the text is not {encoding} of UTF-8: {error}") from error
    return None


def _escape(value: str, target: str) -> str | None:
    match target:
        case "html":
            return html.escape(value).replace("&#x27;", "&#39;")
        case "json":
            return json.dumps(value, ensure_ascii=False)[1:-1]
    return None


def _unescape(value: str, target: str) -> str | None:
    match target:
        case "html":
            return html.unescape(value)
        case "json":
            return _JSON_ESCAPE.sub(lambda match: str(json.loads(f'"{match[0]}"')), value)
    return None


FUNCTIONS: dict[str, Signature] = {
    "indexOf": _of_several(lambda value, part, scope: value.find(part), of_empty=0),
    "lastIndexOf": _of_texts(str.rfind, 1),
    "substring": Signature(_substring, 1, 2),
    "startsWith": _of_several(lambda value, start, scope: value.startswith(start), of_empty=True),
    "endsWith": _of_one(lambda value, end, scope: value.endswith(end), of_empty=True),
    "contains": _of_pattern(lambda value, part, scope: part in value, of_empty=True),
    "upper": _of_texts(str.upper),
    "lower": _of_texts(str.lower),
    "trim": _of_any(str.strip),
    "length": _of_texts(len),
    "replace": Signature(_replace, 2, 2),
    "matches": _of_one(_matches, of_empty=False),
    "matchesFull": _of_one(_matches_full, of_empty=False),
    "replaceMatches": Signature(_replace_matches, 2, 2),
    "split": Signature(_split, 1, 1),
    "join": Signature(_join, 1, 1),
    "toChars": Signature(_to_chars),
    "encode": _of_any(_encode, 1),
    "decode": _of_any(_decode, 1),
    "escape": _of_any(_escape, 1),
    "unescape": _of_any(_unescape, 1),
}
