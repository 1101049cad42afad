"""The scores of one task from its gold and predicted answers, both lists of `{"sample_id", "answer"}`.

Samples are paired by position, and the ids of a pair must agree. These functions accept what the published scorer
accepts (numbers for texts, missing and extra keys). `files` checks the format of a file more strictly before that.
Three inputs that the published scorer accepts by accident are errors here: labels that are lists, gold labels that end
in NUL, and empty gold labels. As in that scorer's arrays, a predicted label loses trailing NULs.

ROUGE's tokens are those of BERT's basic tokenizer (Devlin et al. 2019, uncased). Two translation tables and a split
replace its loop over characters. ROUGE-1 and -2 compare sets of n-grams; ROUGE-L compares token sequences (Lin 2004).
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import Any, Generic, TypeVar

from refsol.errors import InputError
from refsol.promptcblue.tasks import Average
from refsol.promptcblue.tree import TreeFigures, TreePart, tree_figures
from refsol.stats import bootstrap_values, common_subsequence

Items = Sequence[Mapping[str, Any]]
Part = TypeVar("Part")
EMPTY_TEXT = ["无", "。"]
"""The token of a text that has no tokens."""

_EPSILON = 1e-8
_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclass(frozen=True, slots=True)
class Rouge:
    """F scores, 0 to 1. `rouge_l` is the main score."""

    rouge1: float
    rouge2: float
    rouge_l: float


class _Cleaning(dict[int, str]):
    """First table: removes control characters, turns whitespace into spaces, puts spaces around CJK characters."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            out = " "
        elif code in (0, 0xFFFD) or category.startswith("C"):
            out = ""
        elif any(first <= code <= last for first, last in _CJK):
            out = f" {char} "
        else:
            out = char
        self[code] = out
        return out


class _Splitting(dict[int, str]):
    """Second table, after lower-casing and decomposition: removes accents, puts spaces around punctuation."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        ascii_symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
        if category == "Mn":
            out = ""
        elif ascii_symbol or category.startswith("P"):
            out = f" {char} "
        else:
            out = char
        self[code] = out
        return out


_cleaning, _splitting = _Cleaning(), _Splitting()


def tokens(text: str) -> list[str]:
    """The tokens of a text: CJK characters, punctuation marks, and the words between them."""
    folded = unicodedata.normalize("NFD", text.translate(_cleaning).lower())
    return folded.translate(_splitting).split() or EMPTY_TEXT


def rouge(gold: str, predicted: str) -> Rouge:
    """ROUGE-1, -2 and -L of one pair of texts."""
    reference, candidate = tokens(gold), tokens(predicted)
    subsequence = common_subsequence(reference, candidate)
    return Rouge(
        _overlap(set(reference), set(candidate)),
        _overlap(set(pairwise(reference)), set(pairwise(candidate))),
        _f(subsequence, len(reference), len(candidate)),
    )


def mean(figures: Iterable[Rouge]) -> Rouge:
    """The mean of each score; `figures` must not be empty."""
    columns = zip(*((f.rouge1, f.rouge2, f.rouge_l) for f in figures), strict=True)
    return Rouge(*(sum(column) / len(column) for column in columns))


def _overlap(gold: set[Hashable], predicted: set[Hashable]) -> float:
    return _f(len(gold & predicted), len(gold), len(predicted))


def _f(common: int, gold: int, predicted: int) -> float:
    if not common:
        return 0.0
    precision, recall = common / predicted, common / gold
    return 2 * precision * recall / (precision + recall + _EPSILON)


@dataclass(frozen=True, slots=True)
class PRF:
    """Precision, recall and F1, each 0 to 1. F1 is the main score."""

    precision: float
    recall: float
    f1: float


Figures = PRF | Rouge | TreeFigures


@dataclass(frozen=True, slots=True)
class Measured(Generic[Part]):
    """The contribution of each sample to a task's scores, and the function that combines contributions.

    A bootstrap interval resamples these contributions, so there is one part per sample.
    """

    parts: Sequence[Part]
    combine: Callable[[Sequence[Part]], Figures]

    @property
    def figures(self) -> Figures:
        """The scores of all samples."""
        return self.combine(self.parts)

    def draws(self, draws: int = 1000, seed: int = 0) -> list[float]:
        """The main score of `draws` bootstrap samples. The same seed draws the same samples."""
        return list(_drawn(tuple(self.parts), self.combine, draws, seed))


@lru_cache(maxsize=64)  # a comparison of runs draws the samples of each run more than once
def _drawn(parts: tuple[Part, ...], combine: Callable[[Sequence[Part]], Figures], draws: int, seed: int) -> list[float]:
    return bootstrap_values(lambda drawn: main_figure(combine(drawn)), parts, draws=draws, seed=seed)


@cache
def _averaging(average: Average) -> Callable[[Sequence[tuple[str, str]]], PRF]:
    return partial(_averaged, average=average)


def main_figure(figures: Figures) -> float:
    """The main score: F1 or ROUGE-L, 0 to 1, or the edit ratio, which can be negative."""
    if isinstance(figures, TreeFigures):
        return figures.edit_ratio
    return figures.rouge_l if isinstance(figures, Rouge) else figures.f1


def extracted_part(want: object, have: object, *, lists_as_sets: bool = False) -> tuple[int, int, int]:
    """The numbers of hits, gold entries and predicted entries of one sample; duplicates count once. Raises InputError.

    An entry is the tuple of its values, sorted by key; key names are not compared. The order of lists counts unless
    `lists_as_sets` is set.
    """
    freeze = _frozen_unordered if lists_as_sets else _frozen
    want_items, have_items = _extracted(want, freeze), _extracted(have, freeze)
    return len(want_items & have_items), len(want_items), len(have_items)


def averaged(parts: Sequence[tuple[str, str]], average: Average) -> Measured[tuple[str, str]]:
    """The scores of pairs (gold label, predicted label)."""
    return Measured(parts, _averaging(average))


def class_part(want: object, have: object, empty_label: str) -> tuple[str, str]:
    """The gold and the predicted label of a sample. An empty prediction counts as `empty_label`. Raises InputError."""
    gold, label = _label(want), (_label(have) or empty_label).rstrip("\0")
    if not gold or gold.endswith("\0"):
        raise InputError("a gold label ends in a NUL character" if gold else "an empty gold label")
    return gold, label


def text_part(want: object, have: object) -> Rouge:
    """The ROUGE of one sample. Raises InputError."""
    return rouge(_text(want), _text(have))


def report_part(want: object, have: object) -> tuple[Rouge, ...]:
    """The ROUGE of each gold section of one sample. A section missing in the prediction counts as empty.

    Raises InputError.
    """
    if not isinstance(want, dict) or not isinstance(have, dict):
        raise InputError("a report must be an object of sections")
    return tuple(rouge(_text(text), _text(have.get(name, ""))) for name, text in want.items())


def combined_trees(parts: Sequence[TreePart]) -> TreeFigures:
    """The scores of a bootstrap sample; NaN if its trees have no triple."""
    if not any(part.most_edits for part in parts):
        return TreeFigures(math.nan, math.nan, math.nan)
    return tree_figures(parts)


def micro(parts: Sequence[tuple[int, int, int]]) -> PRF:
    """Micro-averaged scores from (hits, gold entries, predicted entries) per sample."""
    hits, gold, predicted = map(sum, zip(*parts, strict=True)) if parts else (0, 0, 0)
    return _prf(hits, gold, predicted)


def _averaged(parts: Sequence[tuple[str, str]], *, average: Average) -> PRF:
    counts = Counter(parts)
    gold: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for (want, have), count in counts.items():
        gold[want] += count
        predicted[have] += count
        if want == have:
            hits[want] += count
    if average is Average.MICRO:
        return _prf(hits.total(), len(parts), len(parts))
    labels = sorted(gold.keys() | predicted.keys())
    if not labels:
        return PRF(0.0, 0.0, 0.0)
    by_label = [_prf(hits[label], gold[label], predicted[label]) for label in labels]
    weights = [1 if average is Average.MACRO else gold[label] for label in labels]

    def averaged(values: Sequence[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)

    return PRF(
        averaged([figures.precision for figures in by_label]),
        averaged([figures.recall for figures in by_label]),
        averaged([figures.f1 for figures in by_label]),
    )


def mean_of_sections(parts: Sequence[Sequence[Rouge]]) -> Rouge:
    """The mean over all sections; NaN if the reports of a bootstrap sample have none."""
    sections = [section for part in parts for section in part]
    return mean(sections) if sections else Rouge(math.nan, math.nan, math.nan)


def pairs(gold: Items, predicted: Items) -> Iterator[tuple[Any, Any]]:
    """The gold and the predicted answer of each sample. Raises InputError."""
    if len(gold) != len(predicted):
        raise InputError(f"{len(predicted)} predicted samples for {len(gold)} in the gold")
    for number, (want, have) in enumerate(zip(gold, predicted, strict=True), 1):
        for item in (want, have):
            if "sample_id" not in item or "answer" not in item:
                raise InputError(f"item {number} does not contain {'answer' if 'sample_id' in item else 'sample_id'}")
        if want["sample_id"] != have["sample_id"]:
            raise InputError(f"item {number} is sample {have['sample_id']!r}, in the gold {want['sample_id']!r}")
        yield want["answer"], have["answer"]


def _extracted(answer: object, freeze: Callable[[object], Hashable]) -> set[Hashable]:
    if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
        raise InputError("an answer must be a list of objects")
    return {tuple(freeze(item[key]) for key in sorted(item)) for item in answer}


def _frozen(value: object) -> Hashable:
    if isinstance(value, dict):
        return tuple((key, _frozen(value[key])) for key in sorted(value))
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _frozen_unordered(value: object) -> Hashable:
    return frozenset(map(_frozen, value)) if isinstance(value, list) else _frozen(value)


def _label(answer: object) -> str:
    if not isinstance(answer, str):
        raise InputError("a label is not text")
    return answer


def _text(answer: object) -> str:
    if not isinstance(answer, str):
        raise InputError("an answer is not text")
    return answer


def _prf(hits: int, gold: int, predicted: int) -> PRF:
    if not hits:
        return PRF(0.0, 0.0, 0.0)
    precision, recall = hits / predicted, hits / gold
    return PRF(precision, recall, 2 * precision * recall / (precision + recall))
