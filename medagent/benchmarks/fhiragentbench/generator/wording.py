"""The sentences of the generator: writes a lookup as a sentence, and parses a sentence into its lookup."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from medagent.benchmarks.fhiragentbench._chart_lookup import CODED, PLACES, STAYS

Lookup = dict[str, Any]
"""The lookup of a question. `_chart_lookup.py` describes its keys."""

_FILE = Path(__file__).with_name("wording.toml")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_PAIRED = ("change", "compare")
_SINGLE = ("get", "when", "when-extreme", "elapsed", "grew")
_SLOTS = {
    "patient": r"[A-Za-z0-9-]+",
    "name": r".+?",
    "name2": r".+?",
    "name3": r".+?",
    "route": r"\w+",
    "exact": "|".join(PLACES),
    "other": "|".join(PLACES),
    "agg": "lowest|highest|average",
    "side": "above|below",
    "limit": r"\d+(?:\.\d+)?",
    "per": "day|month|year",
    "unit": "hours|days",
    "window": (
        rf"| in (?:{'|'.join(_MONTHS)}) \d{{4}}| in \d{{4}}| since \d{{1,2}} (?:{'|'.join(_MONTHS)}) \d{{4}}"
        r"| during the (?:first|last|current) (?:hospital stay|stay in intensive care)"
    ),
}
"""The pattern of each slot of a sentence. A window begins with a space, or is empty."""
_CARE = {"stay": "hospital stay", "icu": "stay in intensive care"}


class Template(BaseModel):
    """A template. `named` is the number of names in its sentences.

    `published` is the beginning of the SHA-256 of the published template that it corresponds to.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str
    published: str
    kind: str
    op: str
    sentences: tuple[str, ...]
    field: str = ""
    body: str = ""
    named: int = 0
    routed: bool = False
    sided: bool = False
    windows: tuple[str, ...] = ("ever", "month", "year", "since", "stay", "icu")
    aggs: tuple[str, ...] = ("lowest", "highest", "average")
    exacts: tuple[str, ...] = tuple(PLACES)

    @property
    def fixed(self) -> Lookup:
        """The values that all lookups of the template share."""
        return {"kind": self.kind, "op": self.op, **({"field": self.field} if self.field else {})}

    @property
    def is_paired(self) -> bool:
        """Whether two entries are compared."""
        return self.op in _PAIRED

    @property
    def is_single(self) -> bool:
        """Whether one entry is selected by its position in time."""
        return self.op in _SINGLE


@cache
def templates() -> tuple[Template, ...]:
    """All templates, in the order of their file."""
    return tuple(Template.model_validate(template) for template in _words()["templates"])


def coded_names(kind: str) -> Mapping[str, str]:
    """The names that questions use for a kind's codes. Empty for kinds whose names are in the chart."""
    return dict(_words()["names"][kind]) if kind in CODED else {}


def sentence(template: Template, number: int, patient: str, lookup: Lookup) -> str:
    """A question: one of the template's sentences, filled in."""
    names = [_spoken(lookup["kind"], name) for name in lookup.get("names", ())]
    slots = {**lookup, "patient": patient, "window": _window_words(lookup["window"])}
    slots |= dict(zip(("name", "name2", "name3"), names, strict=False))
    return template.sentences[number % len(template.sentences)].format_map(slots)


def assumption(lookup: Lookup, now: str) -> str:
    """Further information that an agent needs for the question, such as codes and the time."""
    texts: Mapping[str, str] = _words()["assumptions"]
    kind, names = lookup["kind"], lookup.get("names", ())
    lines = [texts["now"].format(now=now)] if lookup["op"] == "elapsed" else []
    if kind in CODED and any("/" in name for name in names):
        lines.append(texts["pressure"])
    elif kind in CODED:
        lines += [texts["code"].format(name=_spoken(kind, name), code=name) for name in names]
    lines += [texts[name] for name in (kind, lookup["window"][0]) if name in (*STAYS, "careunit")]
    if kind not in STAYS and kind != "patient":
        lines.append(texts["void"])
        lines += [texts["window"]] if lookup["window"][0] in STAYS else []
    lines += [texts[kind]] if kind in ("drug", "procedure", "diagnosis") else []
    return " ".join(dict.fromkeys(lines))


def read(question: str) -> Lookup | None:
    """Parse a generated question into its lookup. None for any other question."""
    for template, pattern in _patterns():
        match = pattern.fullmatch(question)
        lookup = _lookup(template, match.groupdict()) if match else None
        if lookup is not None:
            return lookup
    return None


def _lookup(template: Template, slots: Mapping[str, str]) -> Lookup | None:
    """The lookup of a template with these slots. None if a name is unknown for its kind."""
    lookup = dict(template.fixed)
    names = [slots[slot] for slot in ("name", "name2", "name3") if slot in slots]
    if template.kind in CODED:
        codes = coded_names(template.kind)
        if not all(name in codes for name in names):
            return None
        names = [codes[name] for name in names]
    if template.body and names != [coded_names("body")[template.body]]:
        return None
    if names:
        lookup["names"] = names
    lookup |= {name: slots[name] for name in ("route", "exact", "other", "agg", "side", "per", "unit") if name in slots}
    if "limit" in slots:
        lookup["limit"] = float(slots["limit"]) if "." in slots["limit"] else int(slots["limit"])
    lookup["window"] = _window(slots["window"]) if "window" in slots else default_window(template)
    return lookup


def default_window(template: Template) -> list[str]:
    """The window of a sentence without one."""
    return ["stay", "current"] if template.windows == ("current",) else ["ever"]


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


@cache
def _patterns() -> tuple[tuple[Template, re.Pattern[str]], ...]:
    return tuple((template, re.compile(_pattern(text))) for template in templates() for text in template.sentences)


def _pattern(text: str) -> str:
    pieces: Iterator[str] = (
        f"(?P<{piece[1:-1]}>{_SLOTS[piece[1:-1]]})" if piece.startswith("{") else re.escape(piece)
        for piece in re.split(r"(\{\w+\})", text)
    )
    return "".join(pieces)


def _spoken(kind: str, name: str) -> str:
    """The name that questions use for a code. Other names are unchanged."""
    return next((words for words, code in coded_names(kind).items() if code == name), name)


def _window_words(window: list[str]) -> str:
    form, *value = window
    if form == "ever":
        return ""
    if form in _CARE:
        return f" during the {value[0]} {_CARE[form]}"
    parts = value[0].split("-")
    if form == "year":
        return f" in {parts[0]}"
    month = f"{_MONTHS[int(parts[1]) - 1]} {parts[0]}"
    return f" in {month}" if form == "month" else f" since {int(parts[2])} {month}"


def _window(words: str) -> list[str]:
    parts = words.split()
    if not parts:
        return ["ever"]
    if parts[0] == "during":
        return ["stay" if parts[3] == "hospital" else "icu", parts[2]]
    if len(parts) == 2:
        return ["year", parts[1]]
    month = f"{parts[-1]}-{_MONTHS.index(parts[-2]) + 1:02}"
    return ["month", month] if parts[0] == "in" else ["since", f"{month}-{int(parts[1]):02}"]
