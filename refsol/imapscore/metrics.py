"""The columns that `correlate` uses: imapScore, the baselines raw and `+imap`, and scores from a recording.

Items that lack a metric, mostly those without an agreed extraction, are left out of every column, so that metrics are
compared on the same items. Items with empty imaps count with their score of 0. The baselines are ROUGE and BLEU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any, Literal

from refsol.errors import InputError
from refsol.imapscore._extra import need
from refsol.imapscore.correlate import Table
from refsol.imapscore.imap import serialise
from refsol.imapscore.records import DIMENSIONS, RatedAnswer, Recording
from refsol.imapscore.score import UNSCORED, ImapScore, Status
from refsol.stats import common_subsequence

IMAPSCORE = "imapscore"
ON_IMAPS = "+imap"


@dataclass(frozen=True, slots=True)
class Scored:
    """An item with its recording and score; both are None if there are no imaps."""

    item: RatedAnswer
    recording: Recording | None = None
    result: ImapScore | None = None


def join(name: str, items: Sequence[RatedAnswer], recorded: Iterable[tuple[Recording, ImapScore]]) -> list[Scored]:
    """Each item of the file `name` with its recording, matched by digest.

    Raises InputError if an item is without one, because the imaps were made from other texts.
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
    """The available metrics. If the imaps of an item are missing, only those on the texts."""
    recordings = [row.recording for row in scored if row.recording is not None]
    names = dict.fromkeys(name for row in scored for name in row.item.scores)
    if len(recordings) < len(scored):
        return [*BASELINES, *names]
    recorded = dict.fromkeys(name for recording in recordings for name in recording.scores)
    return [IMAPSCORE, *BASELINES, *(name + ON_IMAPS for name in BASELINES), *(names | recorded)]


@dataclass(frozen=True, slots=True)
class UncomparedCounts:
    """The number of items that count as 0 because nothing could be compared, and of those left out, by reason."""

    empty: Counter[str]
    left_out: Counter[str]


def table(
    name: str, scored: Sequence[Scored], metrics: Sequence[str], chinese: ChineseTokens = "characters"
) -> tuple[Table, UncomparedCounts]:
    """The columns of one file over the items with all of `metrics`. `chinese` is the unit that ROUGE counts.

    Raises InputError for a metric that is not available, or if an item lacks one of its three human scores.
    """
    known = available(scored)
    for metric in metrics:
        if metric not in known:
            raise InputError(f"{name}: unknown metric {metric!r}; available: {', '.join(known)}")
    needed = any(metric.removesuffix(ON_IMAPS) in BASELINES for metric in metrics)
    baselines = BaselineScores(chinese) if needed else None
    counts = UncomparedCounts(Counter(), Counter({Status.NO_AGREEMENT: 0, Status.EXTRACTION_FAILED: 0}))
    columns: dict[str, list[float]] = {metric: [] for metric in metrics}
    human: dict[str, list[float]] = {dimension: [] for dimension in DIMENSIONS}
    for row in scored:
        if without := [dimension for dimension in DIMENSIONS if dimension not in row.item.human]:
            raise InputError(f"{name}: item {row.item.id} is without a human score for {', '.join(without)}")
        values = _values(row, baselines)
        missing = [metric for metric in metrics if metric not in values]
        status = None if row.result is None else row.result.status
        if status in UNSCORED or missing:
            counts.left_out[status if status in UNSCORED else f"no {missing[0]}"] += 1
            continue
        if status not in (None, Status.OK):
            counts.empty[status] += 1
        for metric in metrics:
            columns[metric].append(values[metric])
        for dimension in DIMENSIONS:
            human[dimension].append(row.item.human[dimension])
    return Table(name, columns, human), counts


def compression(row: Scored) -> float | None:
    """The length of both imaps divided by their texts' length, in characters; None without imaps."""
    if row.recording is None:
        return None
    imaps = len(serialise(row.recording.label)) + len(serialise(row.recording.response))
    return imaps / (len(row.item.label) + len(row.item.response))


def disagreement(row: Scored) -> float | None:
    """The mean difference between two raters, over pairs and dimensions; None without two raters."""
    pairs = [abs(first - second) for ratings in row.item.raters.values() for first, second in combinations(ratings, 2)]
    return fmean(pairs) if pairs else None


BINS: dict[str, Callable[[Scored], float | None]] = {"compression": compression, "disagreement": disagreement}
"""The values that items can be ordered by, to compare a metric along them."""


def binned(by: str, scored: Sequence[Scored], count: int = 3) -> list[tuple[str, list[Scored]]]:
    """Split the items into `count` parts of similar size, from the lowest to the highest value, named by their range.

    Raises InputError for fewer than `count` items with the value.
    """
    placed = sorted(((value, n) for n, row in enumerate(scored) if (value := BINS[by](row)) is not None))
    if len(placed) < count:
        needs = "imaps (--imaps)" if by == "compression" else "the scores of two raters (Accuracy_scores, …)"
        raise InputError(f"--by {by}: {len(placed)} items with {needs}, but {count} are needed; choose another --by")
    edges = [round(len(placed) * n / count) for n in range(count + 1)]
    parts = [placed[low:high] for low, high in pairwise(edges)]
    return [(f"{by} {part[0][0]:.2f} to {part[-1][0]:.2f}", [scored[n] for _, n in part]) for part in parts]


def _values(row: Scored, baselines: BaselineScores | None) -> dict[str, float]:
    """An item's score in each metric; the baselines only if they are passed."""
    values = dict(row.item.scores)
    if baselines is not None:
        values |= baselines.scores(row.item.label, row.item.response)
    if row.recording is not None and row.result is not None and row.result.value is not None:
        values |= {IMAPSCORE: float(row.result.value), **row.recording.scores}
        if baselines is not None:
            on_imaps = baselines.scores(serialise(row.recording.label), serialise(row.recording.response))
            values |= {name + ON_IMAPS: value for name, value in on_imaps.items()}
    return values


_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_ROUGES = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}

BASELINES = (*_ROUGES, "bleu")
ChineseTokens = Literal["characters", "jieba"]


class BaselineScores:
    """Score a response against a label with every baseline. Raises InputError if the packages are not installed."""

    def __init__(self, chinese: ChineseTokens = "characters") -> None:
        scorer = need("rouge_score.rouge_scorer").RougeScorer
        kinds = list(_ROUGES.values())
        self._rouge = scorer(kinds)
        self._chinese_rouge = scorer(kinds, tokenizer=_ChineseTokenizer())
        self._word_rouge = _WordRouge() if chinese == "jieba" else None
        bleu = need("sacrebleu").BLEU
        self._bleu = bleu(effective_order=True)
        self._chinese_bleu = bleu(effective_order=True, tokenize="zh")

    def scores(self, label: str, response: str) -> dict[str, float]:
        """The score of each of BASELINES."""
        chinese = _CHINESE.search(label + response) is not None
        bleu = (self._chinese_bleu if chinese else self._bleu).sentence_score(response, [label])
        if chinese and self._word_rouge is not None:
            return self._word_rouge.scores(label, response) | {"bleu": bleu.score}
        rouge = (self._chinese_rouge if chinese else self._rouge).score(label, response)
        return {name: 100 * rouge[kind].fmeasure for name, kind in _ROUGES.items()} | {"bleu": bleu.score}


class _ChineseTokenizer:
    """rouge-score's tokenizer interface on sacrebleu's `zh` tokenizer. As in rouge-score, punctuation is dropped."""

    def __init__(self) -> None:
        self._split: Any = need("sacrebleu.tokenizers.tokenizer_zh").TokenizerZh()

    def tokenize(self, text: str) -> list[str]:
        """The lower-case words and Chinese characters of `text`."""
        return re.findall(r"\w+", self._split(text.lower()))


class _WordRouge:
    """ROUGE over jieba's words as rouge_chinese computes it: distinct words and pairs, including punctuation, and the
    longest common subsequence of all words. As there, a blank line counts as one empty word.
    """

    def __init__(self) -> None:
        jieba = need("jieba")
        jieba.setLogLevel("WARNING")
        self._split: Any = jieba.lcut

    def scores(self, label: str, response: str) -> dict[str, float]:
        """ROUGE-1, -2 and -L, 0 to 100; 0 if a text contains no words."""
        reference, candidate = self._words(label), self._words(response)
        if not reference or not candidate:
            return dict.fromkeys(_ROUGES, 0.0)
        common = common_subsequence(reference, candidate)
        return {
            "rouge-1": _overlap(set(reference), set(candidate)),
            "rouge-2": _overlap(set(pairwise(reference)), set(pairwise(candidate))),
            "rouge-l": _f_measure(common, len(reference), len(candidate)),
        }

    def _words(self, text: str) -> list[str]:
        lines = _sentences(" ".join(self._split(text)))
        return [word for line in lines if line for word in " ".join(line.split()).split(" ")]


_ENDS = "。！？?"
_CLOSING_QUOTES = "”’"


def _sentences(text: str) -> list[str]:
    """The text split after sentence ends and at line ends."""
    text = re.sub(rf"([{_ENDS}])([^{_CLOSING_QUOTES}])", r"\1\n\2", text)
    text = re.sub(rf"(\.{{6}}|…{{2}})([^{_CLOSING_QUOTES}])", r"\1\n\2", text)
    text = re.sub(rf"([{_ENDS}][{_CLOSING_QUOTES}])([^，{_ENDS}])", r"\1\n\2", text)
    return text.rstrip().split("\n")


def _overlap(reference: set[Hashable], candidate: set[Hashable]) -> float:
    return _f_measure(len(reference & candidate), len(reference), len(candidate))


def _f_measure(common: int, reference: int, candidate: int) -> float:
    precision, recall = common / candidate if candidate else 0.0, common / reference if reference else 0.0
    return 100 * 2 * precision * recall / (precision + recall + 1e-8)
