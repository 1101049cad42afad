"""Two labellings of the same rows compared: confusion, agreement, Cohen's kappa with an interval, where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import InputFile
from refsol.simpleqa.data import csv_rows, id_of, json_rows
from refsol.simpleqa.verdict import LABELS, Label
from refsol.stats import Interval, bootstrap, cohen_kappa

# A row's name in both labellings: its id, and its language ("" where the file has none).
Key = tuple[str, str]
Labelling = Mapping[Key, Label | None]
UNREAD = "unscored"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two labellings agree.

    `table` counts (first's label, second's label) over all rows both have, `unscored` among the labels; `agreed`,
    `kappa` and its 95 % bootstrap `interval` are over the `labelled` rows alone, those that both gave a label.
    `differ` names rows with unlike labels; `only_first` and `only_second` the rows that the other one lacks.
    """

    table: Mapping[tuple[str, str], int]
    labelled: int
    agreed: int
    kappa: float
    interval: Interval | None
    differ: tuple[tuple[Key, str, str], ...]
    only_first: tuple[Key, ...]
    only_second: tuple[Key, ...]


def compare(first: Labelling, second: Labelling, *, seed: int = 0) -> Agreement:
    """The agreement of two labellings, rows matched by key. Raises InputError where they share no row."""
    shared = [key for key in first if key in second]
    if not shared:
        raise InputError("the two share no row: ids (and languages) must be the same in both")
    named = [(key, first[key] or UNREAD, second[key] or UNREAD) for key in shared]
    pairs = [(a, b) for key, a, b in named if UNREAD not in (a, b)]

    def kappa(drawn: Sequence[int]) -> float:
        return cohen_kappa([pairs[i] for i in drawn])

    return Agreement(
        table=Counter((a, b) for _, a, b in named),
        labelled=len(pairs),
        agreed=sum(a == b for a, b in pairs),
        kappa=cohen_kappa(pairs),
        interval=bootstrap(kappa, len(pairs), seed=seed) if pairs else None,
        differ=tuple(entry for entry in named if entry[1] != entry[2]),
        only_first=tuple(key for key in first if key not in second),
        only_second=tuple(key for key in second if key not in first),
    )


def read_labels(path: Path) -> dict[Key, Label | None]:
    """A file labelled by people: JSON lines or, ending in `.csv`, a CSV file, with `id` (or `qid`) and `label`.

    `language` tells apart the rows of a run in several languages. Without an id a row's line number is its id. An empty
    label is a row not labelled. Raises InputError, naming every row that has no known label or stands there twice.
    """
    labels: dict[Key, Label | None] = {}
    with InputFile(path) as file:
        for line, row in csv_rows(file, ("label",)) if path.suffix == ".csv" else json_rows(file):
            key = (id_of(row.get("id", row.get("qid")), line), str(row.get("language") or ""))
            label = _label(row.get("label"))
            if key in labels:
                file.fault(f"{key[0]} stands there twice", line=line)
            elif label is None and row.get("label"):
                file.fault(f"is not one of {', '.join(LABELS)}", line=line, place="label")
            labels[key] = label
    return labels


def _label(value: Any) -> Label | None:
    text = value.strip().lower().replace(" ", "_") if isinstance(value, str) else None
    return next((label for label in LABELS if label == text), None)
