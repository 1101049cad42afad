"""What single samples say: the main figure of each, and the bootstrap interval of a task's main figure over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refsol.promptcblue.metrics import Items, averaged, extracted, pairs_of, prf
from refsol.promptcblue.rouge import rouge
from refsol.promptcblue.tasks import Kind, Task
from refsol.stats import Interval, bootstrap

DRAWS = 400


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a task: its main figure alone (0 to 1), and what it adds to the task's."""

    sample_id: str
    score: float
    hits: int = 0
    wanted: int = 0
    given: int = 0
    gold_label: str = ""
    label: str = ""


def samples(task: Task, gold: Items, predicted: Items) -> list[Sample]:
    """Every sample of a task, in order. Raises InputError where the two sides do not fit."""
    ids = [str(item["sample_id"]) for item in gold]
    return [_sample(task, id_, want, have) for id_, (want, have) in zip(ids, pairs_of(gold, predicted), strict=True)]


def interval(task: Task, found: Sequence[Sample]) -> Interval | None:
    """The 95 % bootstrap interval of a task's main figure over its samples; None of nothing."""
    if not found:
        return None
    return bootstrap(lambda drawn: _main(task, [found[i] for i in drawn]), len(found), draws=DRAWS)


def _sample(task: Task, sample_id: str, want: Any, have: Any) -> Sample:
    match task.kind:
        case Kind.EXTRACTION:
            wanted, given = extracted(want), extracted(have)
            hits = len(wanted & given)
            score = prf(hits, len(wanted), len(given)).f1 if wanted or given else 1.0
            return Sample(sample_id, score, hits, len(wanted), len(given))
        case Kind.CLASSES:
            label = have or task.empty_label
            return Sample(sample_id, float(want == label), gold_label=want, label=label)
        case Kind.TEXT:
            return Sample(sample_id, rouge(want, have).rouge_l)
        case Kind.REPORT:
            parts = [rouge(text, have.get(name, "")).rouge_l for name, text in want.items()]
            return Sample(sample_id, sum(parts) / len(parts) if parts else 0.0)


def _main(task: Task, drawn: Sequence[Sample]) -> float:
    if task.kind is Kind.EXTRACTION:
        return prf(sum(one.hits for one in drawn), sum(one.wanted for one in drawn), sum(one.given for one in drawn)).f1
    if task.kind is Kind.CLASSES:
        hits = Counter(one.label for one in drawn if one.label == one.gold_label)
        wanted = Counter(one.gold_label for one in drawn)
        given = Counter(one.label for one in drawn)
        return averaged(hits, wanted, given, task.average).f1
    return sum(one.score for one in drawn) / len(drawn)
