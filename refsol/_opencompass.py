"""The files of an OpenCompass run: entries of predictions or judgements, one data set in one file or in parts.

The layout (observed): `<folder>/<data set>.json`, or its parts `<data set>_0.json`, `<data set>_1.json`, …, or one file
per repetition, `<data set>_replica0.json`, …. Each contains the keys "0", "1", … with
`{origin_prompt, prediction, gold}`, at the top or under `details`. A missing part or key would change a score silently,
so a gap is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import Fault, FaultsError, read_json

_GAP = object()
# A longer number is part of the name: some data set names end in a date (…_250208).
_PART = re.compile(r"(.+)_(\d{1,3})")
_REPLICA = re.compile(r"(.+)_replica(\d+)")

Parts = dict[int | None, Path]
"""The files of a data set by part number; the part is None for a file with the whole data set."""


@dataclass(frozen=True, slots=True)
class OpenCompassEntry:
    """One question's entry."""

    prediction: str | None
    gold: Any
    prompt: Any


@dataclass(frozen=True, slots=True)
class EntryFile:
    """A file's entries. `replicas` is the number of times that all questions were asked, one round after the other."""

    entries: list[OpenCompassEntry]
    replicas: int = 1


def read_entries(path: Path) -> EntryFile:
    """The entries of a file. Raises InputError for gaps and for entries of another format."""
    return read_json(path, _file)


def is_replica(path: Path) -> bool:
    """Whether a file is one repetition of a data set."""
    return _REPLICA.fullmatch(path.stem) is not None


def dataset_of(path: Path) -> str:
    """The data set that a file belongs to."""
    match = _REPLICA.fullmatch(path.stem) or _PART.fullmatch(path.stem)
    return match[1] if match else path.stem


def data_sets(folder: Path) -> dict[str, Parts]:
    """The files of a folder by data set and part. Repetitions replace the file with scores next to them.

    Raises InputError for a folder without files and for missing parts.
    """
    sets: dict[str, Parts] = {}
    replicas: dict[str, Parts] = {}
    for path in sorted(folder.glob("*.json")):
        if replica := _REPLICA.fullmatch(path.stem):
            replicas.setdefault(replica[1], {})[int(replica[2])] = path
        else:
            part = _PART.fullmatch(path.stem)
            sets.setdefault(dataset_of(path), {})[int(part[2]) if part else None] = path
    sets |= replicas
    if not sets:
        raise InputError(f"{folder}: no results (*.json) here")
    for name, parts in sets.items():
        numbers = sorted(part for part in parts if part is not None)
        if None in parts and numbers:
            raise InputError(f"{folder}: both {name}.json and its parts {name}_{numbers[0]}.json … exist; remove one")
        if gaps := sorted(set(range(max(numbers, default=-1))) - set(numbers)):
            stem = parts[numbers[0]].stem.removesuffix(str(numbers[0]))
            raise InputError(f"{folder}: missing {', '.join(f'{stem}{part}.json' for part in gaps)}")
    return sets


def in_order(parts: Parts) -> list[int | None]:
    """The parts of a data set in the order of its questions."""
    return sorted(parts, key=lambda number: number or 0)


def _file(value: Any) -> EntryFile:
    """The entries under the keys "0" to "n-1", at the top or under `details`. An entry of another format is a fault."""
    steps: tuple[str, ...] = ()
    if isinstance(value, dict) and "0" not in value:
        if "details" not in value and any(isinstance(figure, int | float) for figure in value.values()):
            raise FaultsError([Fault("contains only scores; run OpenCompass with --dump-eval-details")])
        if "details" in value:
            value, steps = value["details"], ("details",)
    if not isinstance(value, dict | list) or not value:
        raise FaultsError([Fault('is not an object with the keys "0", "1", …', steps)])
    entries = value if isinstance(value, list) else [value.get(str(n), _GAP) for n in range(len(value))]
    if gaps := [str(n) for n, entry in enumerate(entries) if entry is _GAP]:
        raise FaultsError([Fault(f"missing the keys {', '.join(gaps)}; a file needs 0 to n-1", steps)])
    rounds = [_rounds(entry) for entry in entries]
    replicas = len(rounds[0])
    if wrong := [n for n, replies in enumerate(rounds) if not replies or len(replies) != replicas]:
        raise FaultsError([Fault("is not an object whose `prediction` is a text", (*steps, str(n))) for n in wrong])
    return EntryFile([replies[replica] for replica in range(replicas) for replies in rounds], replicas)


def _rounds(value: Any) -> list[OpenCompassEntry]:
    """An entry as a list, one per repetition if its fields are lists. Empty for a value of another format."""
    if not isinstance(value, dict) or not value.keys() & {"prediction", "pred"}:
        return []
    prediction = value["prediction"] if "prediction" in value else value.get("pred")
    gold = value["gold"] if "gold" in value else value.get("ref")
    if isinstance(prediction, str | None):
        return [OpenCompassEntry(prediction, gold, value.get("origin_prompt"))]
    replies = prediction if isinstance(prediction, list) else [prediction]
    golds = gold if isinstance(gold, list) and len(gold) == len(replies) else [gold] * len(replies)
    if not all(isinstance(reply, str | None) for reply in replies):
        return []
    return [
        OpenCompassEntry(reply, gold, value.get("origin_prompt")) for reply, gold in zip(replies, golds, strict=True)
    ]
