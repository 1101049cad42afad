"""Reports and notes that quote a reading (`HGB 9.8 (L)`), and the same texts after the reading has changed."""

from __future__ import annotations

import base64
import re
from binascii import Error
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from refsol.clinical.sources import Resource
from refsol.json_values import as_object, objects
from refsol.resources import codes

_LISTED = re.compile(r"Outside the reference range: (?P<list>[^.]*(?:\.\d[^.]*)*)\.")
_NONE = "Within the reference ranges."
_LATER = timedelta(hours=36)
"""A text quotes the readings of the day before it."""


def quoted(text: Resource, reading: Resource) -> bool:
    """Whether a report or a note quotes a reading."""
    pattern = _pattern(reading)
    return pattern is not None and _is_after(text, reading) and any(pattern.search(content) for content in _texts(text))


def requoted(text: Resource, old: Resource, new: Resource | None) -> Resource | None:
    """The text with the new reading instead of the old one. None if it would have to say something else."""
    pattern = _pattern(old)
    assert pattern is not None
    flag = None if new is None else _flag(new)
    if flag == _flag(old) and new is not None:
        value = new["valueQuantity"]["value"]
        return _with_texts(text, lambda content: pattern.sub(lambda match: f"{match['code']} {value}", content))
    if flag is not None and flag != "N":
        return None
    rest = [_without(content, pattern) for content in _texts(text)]
    if any(pattern.search(content) for content in rest):
        return None
    return _with_texts(text, lambda content: _without(content, pattern))


def _pattern(reading: Resource) -> re.Pattern[str] | None:
    value = as_object(reading.get("valueQuantity")).get("value")
    if not isinstance(value, int | float):
        return None
    names = "|".join(map(re.escape, codes(reading)))
    return re.compile(rf"(?<![\w.])(?P<code>{names}) {re.escape(f'{value:g}')}(?!\d|\.\d)") if names else None


def _flag(reading: Resource) -> str:
    interpretations = objects(reading.get("interpretation"))
    flags = [
        str(coding.get("code"))
        for interpretation in interpretations
        for coding in objects(interpretation.get("coding"))
    ]
    return flags[0] if flags else ""


def _without(text: str, pattern: re.Pattern[str]) -> str:
    """The text without this reading in its list of readings outside the reference range."""

    def shorter(match: re.Match[str]) -> str:
        rest = [part for part in match["list"].split(", ") if not pattern.match(part)]
        return f"Outside the reference range: {', '.join(rest)}." if rest else _NONE

    return _LISTED.sub(shorter, text)


def _is_after(text: Resource, reading: Resource) -> bool:
    """Whether a text was written at the time of a reading, or within a day and a half."""
    written = text.get("effectiveDateTime") or text.get("date")
    try:
        gap = datetime.fromisoformat(str(written)) - datetime.fromisoformat(str(reading.get("effectiveDateTime")))
    except (TypeError, ValueError):
        return False
    return timedelta(0) <= gap <= _LATER


def _texts(resource: Resource) -> Iterator[str]:
    if resource.get("resourceType") == "DiagnosticReport":
        yield str(resource.get("conclusion") or "")
    elif resource.get("resourceType") == "DocumentReference":
        for content in objects(resource.get("content")):
            yield _decoded(as_object(content.get("attachment")))


def _decoded(attachment: Mapping[str, Any]) -> str:
    try:
        return base64.b64decode(str(attachment.get("data") or "")).decode()
    except (Error, ValueError):
        return ""


def _with_texts(resource: Resource, change: Any) -> Resource:
    if resource.get("resourceType") == "DiagnosticReport":
        return {**resource, "conclusion": change(str(resource["conclusion"]))}
    contents = []
    for content in objects(resource.get("content")):
        attachment = as_object(content.get("attachment"))
        data = base64.b64encode(change(_decoded(attachment)).encode()).decode()
        contents.append({**content, "attachment": {**attachment, **({"data": data} if "data" in attachment else {})}})
    return {**resource, "content": contents}
