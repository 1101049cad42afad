"""The columns that `correlate` works on: imapScore, the baselines raw and `+imap`, and scores that a recording brings.

Items without an agreed extraction have no score, so they are left out of every column: metrics stay comparable. Empty
imaps stay, with their 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from refsol.errors import InputError
from refsol.imapscore.baselines import BASELINES, Baselines
from refsol.imapscore.correlate import Table
from refsol.imapscore.imap import serialise
from refsol.imapscore.records import DIMENSIONS, Item, Recording
from refsol.imapscore.score import ImapScore, Status

IMAPSCORE = "imapscore"
ON_IMAPS = "+imap"


@dataclass(frozen=True, slots=True)
class Scored:
    """An item with its recording and score; both None where no imaps are at hand."""

    item: Item
    recording: Recording | None = None
    result: ImapScore | None = None


def join(name: str, items: Sequence[Item], recorded: Iterable[tuple[Recording, ImapScore]]) -> list[Scored]:
    """Each item of the file `name` with its recording, found by digest.

    Raises InputError where an item has none: the imaps were made from other texts.
    """
    by_digest = {recording.digest: (recording, result) for recording, result in recorded}
    missing = [item.id for item in items if item.digest not in by_digest]
    if missing:
        raise InputError(
            f"{name}: no imaps for {len(missing)} of {len(items)} items (first: item {missing[0]}):"
            " the imaps were made from other texts; make them for these with `medagent run imapscore --data`"
        )
    return [Scored(item, *by_digest[item.digest]) for item in items]


def available(scored: Sequence[Scored]) -> list[str]:
    """The metrics that every one of these items can have."""
    recordings = [one.recording for one in scored if one.recording is not None]
    if len(recordings) < len(scored):
        return list(BASELINES)
    kept = [recording.scores for recording in recordings if recording.failure is None]
    recorded = [name for name in kept[0] if all(name in scores for scores in kept)] if kept else []
    return [IMAPSCORE, *BASELINES, *(name + ON_IMAPS for name in BASELINES), *recorded]


def table(name: str, scored: Sequence[Scored], metrics: Sequence[str]) -> tuple[Table, Counter[Status]]:
    """The columns of one file, and how many items were left out or hold an empty 0, by status.

    Raises InputError for a metric that is not at hand, and for an item without its three human scores.
    """
    known = available(scored)
    for metric in metrics:
        if metric not in known:
            raise InputError(f"{name}: no metric {metric!r} for every item; at hand: {', '.join(known)}")
    for one in scored:
        if set(DIMENSIONS) - set(one.item.human):
            raise InputError(f"{name}: item {one.item.id} has no human scores for {', '.join(DIMENSIONS)}")
    statuses = Counter(one.result.status for one in scored if one.result is not None)
    kept = [one for one in scored if one.result is None or one.result.value is not None]
    value = _Values(metrics)
    columns = {metric: [value(metric, one) for one in kept] for metric in metrics}
    human = {dimension: [one.item.human[dimension] for one in kept] for dimension in DIMENSIONS}
    return Table(name, columns, human), statuses


class _Values:
    """A metric's value of an item; the baselines of a pair of texts are computed once for all of them."""

    def __init__(self, metrics: Sequence[str]) -> None:
        needed = any(metric.removesuffix(ON_IMAPS) in BASELINES for metric in metrics)
        self._score: Callable[[str, str], dict[str, float]] = Baselines().scores if needed else lambda *_: {}
        self._known: dict[tuple[str, str], dict[str, float]] = {}

    def __call__(self, metric: str, scored: Scored) -> float:
        recording, result = scored.recording, scored.result
        if metric in BASELINES:
            return self._baseline(metric, scored.item.label, scored.item.response)
        assert recording is not None  # `available` lists the others only where every item has one
        assert result is not None
        assert result.value is not None
        if metric == IMAPSCORE:
            return float(result.value)
        name = metric.removesuffix(ON_IMAPS)
        if name in BASELINES:
            return self._baseline(name, serialise(recording.label), serialise(recording.response))
        return recording.scores[metric]

    def _baseline(self, name: str, label: str, response: str) -> float:
        texts = (label, response)
        if texts not in self._known:
            self._known[texts] = self._score(label, response)
        return self._known[texts][name]
