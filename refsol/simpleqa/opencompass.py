"""Reads the output folder of an OpenCompass run that was judged by a model, and proves that nothing of it is missing.

The layout (observed): `predictions/<model>/<ds>.json` or its parts `<ds>_0.json`, `<ds>_1.json`, …, and the same names
under `results/<model>_judged-by--<judge>/`. Each file is an object with the keys "0", "1", … of
`{origin_prompt, prediction, gold}`. One missing part would raise or lower a score unseen, so every gap is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import Fault, FaultsError, read_json
from refsol.simpleqa.data import GoldQuestion
from refsol.simpleqa.score import JudgedAnswer, JudgedSet

JUDGED_BY = "_judged-by--"


@dataclass(frozen=True, slots=True)
class _Entry:
    prediction: str | None
    gold: Any
    prompt: Any


def is_opencompass(path: Path) -> bool:
    """Whether a path is an output folder of OpenCompass, one judge's folder below its `results`, or a file in that."""
    return (path / "results").is_dir() or JUDGED_BY in path.name or JUDGED_BY in path.parent.name


def read_opencompass(path: Path, items: Sequence[GoldQuestion] | None = None) -> list[JudgedSet]:
    """Every judged data set of an output folder, or of one `results/<model>_judged-by--<judge>` folder in it, or the
    one that a file there belongs to, with all its parts.

    `items` are the questions in the order they were asked in: they prove the total and give the groups. Raises
    InputError, naming what is missing, where parts or keys have a gap, or results and predictions differ.
    """
    if path.is_file():
        return [judged for judged in _judged_sets(path.parent, items) if judged.dataset == _dataset_of(path)[0]]
    folders = [path] if JUDGED_BY in path.name else sorted((path / "results").glob(f"*{JUDGED_BY}*"))
    if not folders:
        raise InputError(f"{path / 'results'}: no folder <model>{JUDGED_BY}<judge>")
    return [judged for folder in folders for judged in _judged_sets(folder, items)]


def _judged_sets(folder: Path, items: Sequence[GoldQuestion] | None) -> Iterator[JudgedSet]:
    model, _, judge = folder.name.partition(JUDGED_BY)
    asked = folder.parent.parent / "predictions" / model
    results, predictions = _datasets(folder), _datasets(asked)
    if unjudged := sorted(predictions.keys() - results.keys()):
        raise InputError(f"{folder}: no results for {', '.join(unjudged)}, of which {asked} has predictions")
    for dataset, parts in results.items():
        entries, replies = _matched(asked, predictions.get(dataset, {}), folder, parts)
        warnings = tuple(_proof(folder / dataset, entries, items))
        rows = tuple(
            JudgedAnswer(
                id=items[n].id if items else str(n),
                language=dataset,
                group=items[n].group if items else "",
                prediction=entry.prediction,
                judged={judge: reply.prediction},
            )
            for n, (entry, reply) in enumerate(zip(entries, replies, strict=True))
        )
        json_labels = '"evaluation"' in str(replies[0].prompt)  # all rows have one template
        yield JudgedSet(model, dataset, rows, json_labels, warnings)


def _datasets(folder: Path) -> dict[str, dict[int | None, Path]]:
    """The files of a folder by data set and part; the part is None for a data set in one file."""
    found: dict[str, dict[int | None, Path]] = {}
    for path in sorted(folder.glob("*.json")):
        name, part = _dataset_of(path)
        found.setdefault(name, {})[part] = path
    if not found:
        raise InputError(f"{folder}: no results (*.json) here")
    for name, parts in found.items():
        numbers = sorted(part for part in parts if part is not None)
        if None in parts and numbers:
            raise InputError(f"{folder}: {name}.json stands beside its parts {name}_{numbers[0]}.json …; remove one")
        if gaps := sorted(set(range(max(numbers, default=-1))) - set(numbers)):
            raise InputError(f"{folder}: missing {', '.join(f'{name}_{part}.json' for part in gaps)}")
    return found


def _dataset_of(path: Path) -> tuple[str, int | None]:
    match = re.fullmatch(r"(.+)_(\d+)", path.stem)
    return (match[1], int(match[2])) if match else (path.stem, None)


def _matched(
    asked: Path, predictions: Mapping[int | None, Path], folder: Path, results: Mapping[int | None, Path]
) -> tuple[list[_Entry], list[_Entry]]:
    """Both sides' entries in the order of parts and keys, after a check that they are the same."""
    missing = [str(folder / path.name) for part, path in predictions.items() if part not in results]
    missing += [str(asked / path.name) for part, path in results.items() if part not in predictions]
    if missing:
        raise InputError(f"missing {', '.join(sorted(missing))}")
    entries: list[_Entry] = []
    replies: list[_Entry] = []
    for part in sorted(results, key=lambda number: number or 0):
        before, after = _entries(predictions[part]), _entries(results[part])
        if len(before) != len(after):
            shorter = predictions[part] if len(before) < len(after) else results[part]
            low, high = sorted((len(before), len(after)))
            raise InputError(f"{shorter}: missing the keys {low} … {high - 1}, which its counterpart has")
        entries += before
        replies += after
    return entries, replies


def _entries(path: Path) -> list[_Entry]:
    return read_json(path, _numbered)


def _numbered(table: Any) -> list[_Entry]:
    """The entries under the keys "0" to "n-1"; every entry of another form is a fault."""
    if not isinstance(table, dict) or not table:
        raise FaultsError([Fault('is not an object with the keys "0", "1", …')])
    if gaps := [str(n) for n in range(len(table)) if str(n) not in table]:
        raise FaultsError([Fault(f"missing the keys {', '.join(gaps)}; a file holds 0 to n-1")])
    entries = [table[str(n)] for n in range(len(table))]
    if wrong := [n for n, entry in enumerate(entries) if not _is_entry(entry)]:
        raise FaultsError([Fault("is not an object whose `prediction` is a text", (str(n),)) for n in wrong])
    return [_Entry(entry.get("prediction"), entry.get("gold"), entry.get("origin_prompt")) for entry in entries]


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("prediction"), str | None)


def _proof(place: Path, entries: Sequence[_Entry], items: Sequence[GoldQuestion] | None) -> Iterator[str]:
    if items is None:
        yield f"{place}: completeness is not proved (a last part may be missing); name the questions with --data"
        return
    if len(items) != len(entries):
        raise InputError(f"{place}: {len(entries)} rows of the {len(items)} that --data holds")
    other = [
        n for n, (entry, item) in enumerate(zip(entries, items, strict=True)) if entry.gold not in (None, item.answer)
    ]
    if other:
        yield (
            f"{place}: the gold of {len(other)} rows differs from --data (first: row {other[0]});"
            " groups go by position and may be wrong"
        )
