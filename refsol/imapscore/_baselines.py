"""The metrics that imapScore is compared with: ROUGE-1, -2 and -L, and BLEU, on raw texts or on serialised imaps.

ROUGE is rouge-score's F-measure and BLEU is sacrebleu's sentence score, both 0 to 100. Their default tokenizers drop or
never split Chinese. So if a pair of texts contains Chinese, sacrebleu's `zh` tokenizer splits it, with one token per
Chinese character. ROUGE can use jieba's words instead; it then equals rouge_chinese (1.0.3).
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from itertools import pairwise
from typing import Any, Literal

from refsol._sequences import common_subsequence
from refsol.imapscore._extra import need

_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_ROUGES = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}

BASELINES = (*_ROUGES, "bleu")
ChineseTokens = Literal["characters", "jieba"]


class Baselines:
    """Score a response against a label with every baseline. Raises InputError if the packages are not installed."""

    def __init__(self, chinese: ChineseTokens = "characters") -> None:
        scorer = need("rouge_score.rouge_scorer").RougeScorer
        kinds = list(_ROUGES.values())
        self._rouge, self._chinese_rouge = scorer(kinds), scorer(kinds, tokenizer=_ChineseTokenizer())
        self._word_rouge = _WordRouge() if chinese == "jieba" else None
        bleu = need("sacrebleu").BLEU
        self._bleu, self._chinese_bleu = bleu(effective_order=True), bleu(effective_order=True, tokenize="zh")

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
        """ROUGE-1, -2 and -L, 0 to 100; 0 if a text has no words."""
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
