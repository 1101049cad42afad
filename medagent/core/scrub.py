"""Removes secrets and control characters from text for files and terminals.

A process remembers its secrets. Every text that a provider influenced goes through `hide` (only secrets are replaced)
or `error_text` (one line, for messages). `printable` is for text shown in a terminal.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

from medagent.core.wire import without_password

HIDDEN = "***"
SHORTEST_SECRET = 8
"""Shorter secrets (`none`, `EMPTY`) are placeholders of local endpoints; hiding them would hide ordinary words."""

_forms: list[str] = []
"""All formats of the remembered secrets, the longest first."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_KEY_LIKE = re.compile(r"\b(sk-|Bearer\s+)[\w\-.*]+", re.IGNORECASE)
_SYMBOLS = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_SYMBOLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_SYMBOLS |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)], 0xFFFD)
_UNSAFE_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_RESERVED_IN_NAMES = re.compile(r'[<>:"\\|?*]')
_LONGEST_NAME = 120


def remember(secret: str) -> None:
    """Hide `secret` and its URL-quoted and Base64 formats from now on, unless it is a placeholder of a few letters."""
    if len(secret) < SHORTEST_SECRET:
        return
    forms = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)}
    forms |= {re.sub("%..", lambda match: match[0].lower(), form) for form in forms}
    for offset in range(3):  # inside a longer Base64 text, a secret's form depends on its offset
        text = bytes(offset) + secret.encode()
        inner = slice((0, 2, 3)[offset], len(text) * 8 // 6)
        forms |= {b64encode(text).decode()[inner], urlsafe_b64encode(text).decode()[inner]}
    _forms[:] = sorted(forms.union(_forms), key=len, reverse=True)


def remember_environment(environment: Mapping[str, str]) -> None:
    """Remember the values of variables whose names indicate a secret (`OPENAI_API_KEY`, `HF_TOKEN`)."""
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            remember(value.strip())


def hide(text: str) -> str:
    """The text with every remembered secret as `***`, otherwise unchanged."""
    for form in _forms:
        if form in text:
            text = text.replace(form, HIDDEN)
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


def safe_name(text: str) -> str:
    """A file or folder name for a model's name, of limited length: `/` becomes `--`, characters that some file systems
    and tools reject (`:` and others) become `-`, control characters `_`.
    """
    name = _RESERVED_IN_NAMES.sub("-", text.replace("/", "--"))
    name = _UNSAFE_IN_NAMES.sub("_", name)[:_LONGEST_NAME].strip()
    return f"_{name}" if name.startswith(".") or not name else name
