"""Amounts as texts for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def natural(name: str) -> list[tuple[str, int]]:
    """A sorting key that compares numbers in names as numbers: `task2` is before `task10`."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def counted(count: int, nouns: str) -> str:
    """A number of things whose name is a regular plural: `1 unit`, `2 units`."""
    return f"{count:,} {nouns.removesuffix('s') if count == 1 else nouns}"


def some_are(count: int, total: int, nouns: str) -> str:
    """The start of a sentence: `3 of 5 units are`, `1 of 1 unit is`."""
    return f"{count} of {counted(total, nouns)} {'is' if total == 1 else 'are'}"


_DIGEST = re.compile(r"(?<![0-9a-f])([0-9a-f]{8})[0-9a-f]{56}(?![0-9a-f])")


def short_key(unit: str) -> str:
    """A unit's key for people. A SHA-256, as in the keys of judges' calls, is shortened to 8 digits."""
    return _DIGEST.sub(r"\1…", unit)


def dollars(cost: float | None) -> str:
    """An amount of US dollars; `–` if it is unknown."""
    if cost is None:
        return "–"
    return f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def duration(seconds: float) -> str:
    """A duration in seconds as a text: `42 s`, `3 min`, `2 h 05`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02}"


_DIGITS = {"percent": 1, "points": 2}


def figure(value: float | None, measure: str) -> str:
    """A value as a text, by its `Measure`; `–` if there is none."""
    return f"{bare(value, measure)}%" if measure == "percent" and value is not None else bare(value, measure)


def bare(value: float | None, measure: str = "percent") -> str:
    """The same without a percent sign."""
    if value is None:
        return "–"
    return f"{value:.4f}" if measure == "score" else f"{100 * value:.{_DIGITS[measure]}f}"


def percent(share: float | None) -> str:
    """A share as `91.7%`; `–` if there is none."""
    return figure(share, "percent")


def spread(ends: Sequence[float], measure: str = "percent") -> str:
    """The two ends of an interval as `3.1–7.9`."""
    return "–".join(bare(end, measure) for end in ends)


def difference(value: float, measure: str = "percent") -> str:
    """A difference with its sign: `−27.0 points`; of scores `+0.1250`."""
    return signed(value, measure) + ("" if measure == "score" else " points")


def difference_spread(ends: Sequence[float], measure: str = "percent") -> str:
    """The two ends of an interval of differences: `−32.7 to +1.5`."""
    return " to ".join(signed(end, measure) for end in ends)


def signed(value: float, measure: str = "percent") -> str:
    """A number with its sign."""
    text = bare(value, measure)
    return f"−{text[1:]}" if text.startswith("-") else f"+{text}"


_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


def model_name(name: str) -> str:
    """A served model's name without the folders of its file on the server's machine."""
    is_file = name.startswith("/") or bool(_DRIVE.match(name)) or name.lower().endswith(".gguf")
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] if is_file else name


def harm_words(harm: Mapping[str, Any] | None) -> str:
    """How many orders would have done harm: `7 orders, 3 missing`; empty if no order matters in a set."""
    if not harm:
        return ""
    missing = harm["classes"].get("missing", 0)
    reached = sum(harm["classes"].values()) - missing
    return f"{counted(reached, 'orders')}, {missing} missing" if missing else counted(reached, "orders")
