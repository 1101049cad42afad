"""Removes secrets and control characters from text for files and terminals.

A process remembers its secrets. Every text that a provider influenced goes through `hide` (only secrets are replaced)
or `error_text` (one line, for messages). `one_line` is for a text shown in a terminal, `printable` for one of several
lines, and `markdown_text` for one in Markdown.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from html import escape
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from medagent.core.wire import without_password

HIDDEN = "***"
SHORTEST_SECRET = 8
"""Shorter secrets (`none`, `EMPTY`) are placeholders of local endpoints; hiding them would hide ordinary words."""

SPACED_SECRET = 20
"""From this length on, a secret with white space between its characters is hidden too. A shorter one might be found in
ordinary text then.
"""


class _Form(NamedTuple):
    """A format of a secret. `spaced` also matches it with white space between its characters, if it is long enough."""

    text: str
    spaced: re.Pattern[str] | None = None


_forms: list[_Form] = []
"""All formats of the remembered secrets, the longest first."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_KEY_LIKE = re.compile(r"\b(sk-|Bearer\s+)[\w\-.*]+", re.IGNORECASE)
_SYMBOLS = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_SYMBOLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_SYMBOLS |= dict.fromkeys(
    [0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)], 0xFFFD
)
_STEERING = re.compile(f"[{''.join(map(chr, _SYMBOLS))}]")
_UNSAFE_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_RESERVED_IN_NAMES = re.compile(r'[<>:"\\|?*]')
_LONGEST_NAME = 120


def remember(secret: str) -> None:
    """Hide `secret` and its encodings from now on, unless it is a placeholder of a few letters."""
    if len(secret) < SHORTEST_SECRET:
        return
    forms = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), escape(secret)}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms |= {re.sub("%..", lambda match: match[0].lower(), form) for form in forms}
    if len(secret) >= SPACED_SECRET or not secret.isalpha():  # a key of a few letters may be a word
        forms |= _cases(secret)
    for written in _cases(secret):
        forms |= {form for encoding in _encodings(written) for form in _cases(encoding)}
    forms.update(_base64_forms(secret))
    known = {form.text for form in _forms}
    is_long = len(secret) >= SPACED_SECRET
    _forms.extend(_Form(text, _spaced(text) if is_long else None) for text in forms - known)
    _forms.sort(key=lambda form: len(form.text), reverse=True)


def _spaced(text: str) -> re.Pattern[str]:
    return re.compile(r"\s*".join(map(re.escape, text)))


def _cases(text: str) -> set[str]:
    return {text, text.upper(), text.lower(), text.swapcase()}


def _encodings(secret: str) -> Iterator[str]:
    """The secret with each of its characters encoded: percent-encoding, hexadecimal, JSON and HTML."""
    octets = secret.encode("utf-8", "surrogatepass")
    yield "".join(f"%{octet:02x}" for octet in octets)
    yield octets.hex()
    yield "".join(f"&#{ord(character)};" for character in secret)
    for digits in "xX":  # the letters of the hexadecimal digits may have another case than the prefix
        yield "".join(f"\\x{octet:02{digits}}" for octet in octets)
        yield "".join(f"\\u{ord(character):04{digits}}" for character in secret)
        yield "".join(f"&#x{ord(character):{digits}};" for character in secret)


def _base64_forms(secret: str) -> Iterator[str]:
    """The part of a Base64 text that the secret decides. Inside a longer text, it depends on the secret's offset."""
    for offset in range(3):
        text = bytes(offset) + secret.encode()
        inner = slice((0, 2, 3)[offset], len(text) * 8 // 6)
        yield b64encode(text).decode()[inner]
        yield urlsafe_b64encode(text).decode()[inner]


def remember_environment(environment: Mapping[str, str]) -> None:
    """Remember the values of variables whose names indicate a secret (`OPENAI_API_KEY`, `HF_TOKEN`)."""
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            remember(value.strip())


def hide(text: str) -> str:
    """The text with every remembered secret as `***`, otherwise unchanged."""
    for form in _forms:
        if form.text in text:
            text = text.replace(form.text, HIDDEN)
    squeezed = "".join(text.split())
    for form in _forms:
        if form.spaced is not None and form.text in squeezed:
            text = form.spaced.sub(HIDDEN, text)
    return text


def error_text(text: str, *, longest: int = 500) -> str:
    """A message for files and output: one line without secrets, strings that look like keys, or control characters."""
    text = _KEY_LIKE.sub(HIDDEN, without_password(hide(text)))
    return printable(" ".join(text.split()))[:longest]


def printable(text: str) -> str:
    """The text with control characters as symbols (␛ for ESC), so that it cannot steer a terminal.

    Tabs and line feeds stay. Lone surrogates, C1 controls and marks that reverse the reading direction become U+FFFD.
    """
    return text.translate(_SYMBOLS)


def one_line(text: str) -> str:
    """The text on one line, with control characters as symbols: a line break within it (␊) cannot forge a line."""
    return printable(text).replace("\n", "␊").replace("\t", " ")


_MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", "`": "'", "*": "\\*", "~": "\\~"})
_LINK = re.compile(r"\](?=[(\[:])")


def json_text(text: str) -> str:
    """A JSON text with the control characters within its strings escaped."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def markdown_text(text: str) -> str:
    """The text on one line of Markdown, where it can neither end a cell of a table nor become markup or a link."""
    return _LINK.sub(r"\\]", printable(" ".join(text.split())).translate(_MARKDOWN))


def markdown_line(text: str) -> str:
    """The same for a text that begins a line: it becomes neither a heading nor a list."""
    return _MARKER.sub(lambda match: match[1] + "\\" + match[2], markdown_text(text))


_MARKER = re.compile(r"^(\d*)([#>+=\-.)])")


def safe_name(text: str) -> str:
    """A file or folder name for a model's name, of limited length: `/` becomes `--`, characters that some file systems
    and tools reject (`:` and others) become `-`, control characters `_`.
    """
    name = _RESERVED_IN_NAMES.sub("-", text.replace("/", "--"))
    name = _UNSAFE_IN_NAMES.sub("_", name)[:_LONGEST_NAME].strip()
    return f"_{name}" if name.startswith(".") or not name else name
