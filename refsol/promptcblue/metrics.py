"""The figures of one task from its gold and predicted answers, both lists of `{"sample_id", "answer"}`.

Pairs are by position, and the sample ids of a pair must agree. These functions take whatever the published scorer
takes (numbers for texts, missing and extra keys); the strict check of a file's form stands before them, in `files`.
Three things that scorer takes by accident are refused: labels that are lists, labels ending in NUL, empty gold labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refsol.errors import InputError
from refsol.promptcblue.rouge import Rouge, mean, rouge
from refsol.promptcblue.tasks import Average

Items = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PRF:
    """Precision, recall and F1 between 0 and 1; F1 is the main one."""

    precision: float
    recall: float
    f1: float


def extraction_figures(gold: Items, predicted: Items, *, lists_as_sets: bool = False) -> PRF:
    """Micro figures over the items of all samples, duplicates within a sample counted once; 0 without a hit.

    An item is the tuple of its values in the order of its sorted keys; key names are not compared. Lists are compared
    in their order, unless `lists_as_sets`. Raises InputError.
    """
    hits = wanted = given = 0
    freeze = _frozen_unordered if lists_as_sets else _frozen
    for want, have in pairs_of(gold, predicted):
        want_items, have_items = extracted(want, freeze), extracted(have, freeze)
        hits += len(want_items & have_items)
        wanted += len(want_items)
        given += len(have_items)
    return prf(hits, wanted, given)


def class_figures(gold: Items, predicted: Items, *, empty_label: str, average: Average) -> PRF:
    """Figures averaged over all labels seen in gold or prediction; an empty prediction counts as `empty_label`.

    Raises InputError.
    """
    pairs = [(_label(want), _label(have) or empty_label) for want, have in pairs_of(gold, predicted)]
    if not all(want for want, _ in pairs):
        raise InputError("an empty gold label")
    wanted, given = Counter(want for want, _ in pairs), Counter(have for _, have in pairs)
    hits = Counter(want for want, have in pairs if want == have)
    return averaged(hits, wanted, given, average)


def averaged(hits: Counter[str], wanted: Counter[str], given: Counter[str], average: Average) -> PRF:
    """Figures from the counts of each label: right ones, gold ones, predicted ones."""
    if average is Average.MICRO:
        return prf(hits.total(), wanted.total(), given.total())
    labels = sorted(wanted.keys() | given.keys())
    if not labels:
        return PRF(0.0, 0.0, 0.0)
    by_label = [prf(hits[label], wanted[label], given[label]) for label in labels]
    weights = [1 if average is Average.MACRO else wanted[label] for label in labels]

    def weighted(values: Sequence[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)

    return PRF(
        weighted([figures.precision for figures in by_label]),
        weighted([figures.recall for figures in by_label]),
        weighted([figures.f1 for figures in by_label]),
    )


def text_figures(gold: Items, predicted: Items) -> Rouge:
    """The mean ROUGE of all samples. Raises InputError, also where there is no sample."""
    pairs = list(pairs_of(gold, predicted))
    if not pairs:
        raise InputError("no sample to score")
    return mean(rouge(_text(want), _text(have)) for want, have in pairs)


def report_figures(gold: Items, predicted: Items) -> Rouge:
    """The mean ROUGE of all (sample, gold section) pairs; a section missing in the prediction counts as empty.

    Raises InputError, also where the gold has no section at all.
    """
    pairs = []
    for want, have in pairs_of(gold, predicted):
        if not isinstance(want, dict) or not isinstance(have, dict):
            raise InputError("a report is no object of sections")
        pairs += [(_text(text), _text(have.get(name, ""))) for name, text in want.items()]
    if not pairs:
        raise InputError("no section in the gold to score")
    return mean(rouge(want, have) for want, have in pairs)


def pairs_of(gold: Items, predicted: Items) -> Iterator[tuple[Any, Any]]:
    """The answers of each sample, gold and predicted. Raises InputError where the two sides do not fit."""
    if len(gold) != len(predicted):
        raise InputError(f"{len(predicted)} predicted samples for {len(gold)} in the gold")
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True), 1):
        for item in (want, have):
            if "sample_id" not in item or "answer" not in item:
                raise InputError(f"item {number} has no {'answer' if 'sample_id' in item else 'sample_id'}")
        if want["sample_id"] != have["sample_id"]:
            raise InputError(f"item {number} is sample {have['sample_id']!r}, in the gold {want['sample_id']!r}")
        yield want["answer"], have["answer"]


def extracted(answer: object, freeze: Callable[[object], Hashable] | None = None) -> set[Hashable]:
    """The items of one answer, as values that can be compared. Raises InputError."""
    freeze = freeze or _frozen
    if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
        raise InputError("an answer is no list of objects")
    return {tuple(freeze(item[key]) for key in sorted(item)) for item in answer}


def _frozen(value: object) -> Hashable:
    if isinstance(value, dict):
        return tuple((key, _frozen(value[key])) for key in sorted(value))
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _frozen_unordered(value: object) -> Hashable:
    return frozenset(map(_frozen, value)) if isinstance(value, list) else _frozen(value)


def _label(answer: object) -> str:
    if not isinstance(answer, str):
        raise InputError("a label is no text")
    if answer.endswith("\0"):
        raise InputError("a label ends in a NUL character")
    return answer


def _text(answer: object) -> str:
    if not isinstance(answer, str):
        raise InputError("an answer is no text")
    return answer


def prf(hits: int, wanted: int, given: int) -> PRF:
    """Precision, recall and F1 from counts; 0 without a hit."""
    if not hits:
        return PRF(0.0, 0.0, 0.0)
    precision, recall = hits / given, hits / wanted
    return PRF(precision, recall, 2 * precision * recall / (precision + recall))
