"""Compare two labellings of the same units: confusion table, agreement, Cohen's kappa with an interval, differences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import InputFile, csv_rows, id_of, json_object
from refsol.stats import Interval, bootstrap, cohen_kappa

UNREAD = "unscored"
"""The name in the table of units without a label."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A unit and its label (None if unlabelled). `ids` are other names of the unit; several units may share one."""

    unit: str
    label: str | None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well two labellings agree.

    `table` counts pairs (first's label, second's label) over all units in both labellings, including `unscored`.
    `agreed`, `kappa` and its 95% bootstrap `interval` are over the `labelled` units, which both labelled. `differ`
    lists the units with different labels; `only_first` and `only_second` list the units missing from the other one.
    """

    table: Mapping[tuple[str, str], int]
    labelled: int
    agreed: int
    kappa: float
    interval: Interval | None
    differ: tuple[tuple[str, str, str], ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The agreement with its units. kappa and its interval are null if undefined."""
        return {
            "table": [{"first": a, "second": b, "count": count} for (a, b), count in sorted(self.table.items())],
            "labelled": self.labelled,
            "agreement": self.agreed / self.labelled if self.labelled else 0.0,
            "kappa": _defined(self.kappa),
            "kappa_interval": self.interval
            and {"low": _defined(self.interval.low), "high": _defined(self.interval.high)},
            "differ": [{"unit": unit, "first": first, "second": second} for unit, first, second in self.differ],
            "only_first": list(self.only_first),
            "only_second": list(self.only_second),
        }


def compare(first: Sequence[Labelled], second: Sequence[Labelled], *, seed: int = 0) -> Agreement:
    """The agreement of two labellings. If a unit is missing from the other labelling, it is matched with the only unit
    there whose ids include its name. Raises InputError if there is no common unit.
    """
    ours, theirs = _by_unit(first, second), _by_unit(second, first)
    shared = [unit for unit in ours if unit in theirs]
    if not shared:
        raise InputError("the two runs share no unit; compare runs with the same ids and languages")
    named = [(unit, ours[unit] or UNREAD, theirs[unit] or UNREAD) for unit in shared]
    pairs = [(a, b) for _, a, b in named if UNREAD not in (a, b)]

    def kappa(drawn: Sequence[int]) -> float:
        return cohen_kappa([pairs[i] for i in drawn])

    return Agreement(
        table=Counter((a, b) for _, a, b in named),
        labelled=len(pairs),
        agreed=sum(a == b for a, b in pairs),
        kappa=cohen_kappa(pairs),
        interval=bootstrap(kappa, len(pairs), seed=seed) if pairs else None,
        differ=tuple(entry for entry in named if entry[1] != entry[2]),
        only_first=tuple(unit for unit in ours if unit not in theirs),
        only_second=tuple(unit for unit in theirs if unit not in ours),
    )


def read_labels(path: Path, labels: Sequence[str]) -> list[Labelled]:
    """A file labelled by people: JSON lines or, if it ends in `.csv`, a CSV file, with `id` (or `qid`) and `label`.

    `labels` are the allowed labels; if empty, every text is allowed. With a `language` the unit is `id/language`. A row
    without an id gets its line number as id. An empty label means that the unit is not labelled.

    Raises InputError that lists every row with an unknown label or a duplicate unit.
    """
    units: dict[str, Labelled] = {}
    known = {_plain(label): label for label in labels}
    with InputFile(path) as file:
        for line, row in csv_rows(file, ("label",)) if path.suffix == ".csv" else file.json_lines(json_object):
            name = id_of(row.get("id", row.get("qid")), line)
            unit = f"{name}/{row['language']}" if row.get("language") else name
            value = row.get("label")
            label = None
            if isinstance(value, str) and value:
                label = known.get(_plain(value)) if labels else value
            if unit in units:
                file.fault(f"{unit} is a duplicate", line=line)
            elif label is None and value:
                file.fault(f"is not one of {', '.join(labels)}", line=line, place="label")
            units[unit] = Labelled(unit, label)
    return list(units.values())


def self_judged(model: str, judges: Sequence[str]) -> list[str]:
    """A warning if the model is one of the judges."""
    return [f"the judge {model} is the model itself: it judges its own answers"] if model in judges else []


def _by_unit(labels: Sequence[Labelled], counterpart: Sequence[Labelled]) -> dict[str, str | None]:
    """Labels by the other labelling's unit names."""
    units = {label.unit for label in counterpart}
    count = Counter(name for label in counterpart for name in label.ids)
    names = {name: label.unit for label in counterpart for name in label.ids if count[name] == 1}
    return {label.unit if label.unit in units else names.get(label.unit, label.unit): label.label for label in labels}


def _plain(label: str) -> str:
    return label.strip().lower().replace(" ", "_")


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
