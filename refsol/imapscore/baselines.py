"""The metrics that imapScore is compared with: ROUGE-1, -2 and -L, and BLEU, on raw texts or on serialised imaps.

ROUGE is rouge-score's F-measure and BLEU is sacrebleu's sentence score, both 0 to 100. Their own tokenizers drop or
never split Chinese, so a pair of texts that holds Chinese is split by sacrebleu's `zh` tokenizer, in which each Chinese
character is a token.
"""

from __future__ import annotations

import re
from typing import Any

from refsol.imapscore.extra import need

_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_ROUGES = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}

BASELINES = (*_ROUGES, "bleu")


class Baselines:
    """Scores a response against a label by every baseline. Raises InputError where the packages are missing."""

    def __init__(self) -> None:
        scorer = need("rouge_score.rouge_scorer").RougeScorer
        kinds = list(_ROUGES.values())
        self._rouge, self._chinese_rouge = scorer(kinds), scorer(kinds, tokenizer=_ChineseTokenizer())
        bleu = need("sacrebleu").BLEU
        self._bleu, self._chinese_bleu = bleu(effective_order=True), bleu(effective_order=True, tokenize="zh")

    def scores(self, label: str, response: str) -> dict[str, float]:
        """The score of each of BASELINES."""
        chinese = _CHINESE.search(label + response) is not None
        rouge = (self._chinese_rouge if chinese else self._rouge).score(label, response)
        bleu = (self._chinese_bleu if chinese else self._bleu).sentence_score(response, [label])
        return {name: 100 * rouge[kind].fmeasure for name, kind in _ROUGES.items()} | {"bleu": bleu.score}


class _ChineseTokenizer:
    """rouge-score's tokenizer interface over sacrebleu's `zh` tokenizer; punctuation is no token, as in rouge-score."""

    def __init__(self) -> None:
        self._split: Any = need("sacrebleu.tokenizers.tokenizer_zh").TokenizerZh()

    def tokenize(self, text: str) -> list[str]:
        """The lower-case words and Chinese characters of `text`."""
        return re.findall(r"\w+", self._split(text.lower()))
