"""Score recorded imaps with refsol, and compute the results of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import fmean
from typing import Any

from medagent.benchmarks.imapscore._extract import G_EVAL
from medagent.benchmarks.imapscore._items import ImapItem, linker_of
from medagent.benchmarks.imapscore._job import ItemRow
from medagent.benchmarks.imapscore.settings import ImapscoreSettings
from medagent.core.errors import UserError
from medagent.core.writing import file_digest
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Grader, Metrics, Score, Scored, mean_line
from refsol.imapscore.imap import Imap, TermValue
from refsol.imapscore.records import recording_of
from refsol.imapscore.score import AskedLabel, majority_scores, score_recordings

CEILING, FLOOR = "ceiling: the label itself", "floor: nothing said"
WITHOUT_PENALTY = "without λ"
MAJORITY = "majority: the most frequent value of each term"


class ImapGrader(Grader[ItemRow]):
    """Scores with the graph of its source. Raises UserError if the graph no longer exists."""

    def __init__(self, source: ImapscoreSettings) -> None:
        self._source = source
        if source.graph is not None and not source.graph.is_file():
            raise UserError(f"{source.graph}: the run's graph no longer exists; restore this file")

    @property
    def digests(self) -> Mapping[str, str]:
        return {"graph": file_digest(self._source.graph)} if self._source.graph else {}

    def score(self, item: ImapItem, row: ItemRow, judged: Any = None) -> Score:
        if row.recording is None:
            return Score(reason=row.error or row.status, graded=False)
        recording = recording_of(row.recording)
        result = score_recordings([recording], linker_of(self._source.graph))[0]
        rating = [text for text in row.recording.warnings if text.startswith(G_EVAL)][:1]
        return Score(
            value=None if result.value is None else float(result.value),
            kind="" if result.status == "ok" else result.status.replace("_", " "),
            reason=recording.reason,
            part={
                "status": result.status,
                "failure": recording.failure,
                "most": 2 * len({pair.term for pair in recording.label.inform}),
                "penalty": float(sum((term.penalty for term in result.terms), Fraction(0)) / result.divisor),
                "asked": list(recording.question.query_terms),
                "label": [[pair.term, pair.value] for pair in recording.label.inform],
                **({"unrated": rating[0]} if rating else {}),
            },
        )

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        """See `Grader.metrics`; the ceiling of an item is twice the number of its terms."""
        parts = [score.score.part for score in scores if score.score is not None and score.score.part]
        statuses = Counter(part["status"].replace("_", " ") for part in parts)
        line = mean_line("all", scores).model_copy(update={"more": dict(statuses)})
        most = [
            float(score.score.part["most"]) for score in scores if score.score is not None and score.value is not None
        ]
        common = majority(scores)
        ceiling = TableLine(name=CEILING, n=len(most), value=fmean(most) if most else None)
        majority_line = TableLine(name=MAJORITY, n=len(common), value=fmean(common) if common else None)
        floor = TableLine(name=FLOOR, n=len(most), value=0.0 if most else None)
        return Metrics(
            table=[
                TableSection(lines=(line,), title="imapScore", detail=True),
                TableSection(lines=(ceiling, mean_line(WITHOUT_PENALTY, unpenalised(scores)))),
                TableSection(lines=(majority_line, floor), detail=True),
            ],
            overall=line,
            baselines={"saying nothing": floor.value, "majority": majority_line.value},
            notes=list(_notes(scores)),
            unusable=self._without_extraction(parts),
            measure="score",
            figure="mean score",
        )

    def _without_extraction(self, parts: Sequence[Mapping[str, Any]]) -> str:
        """Why the scores are not valid: too many items lack a readable sample."""
        failed = sum(part["failure"] == "extraction_failed" for part in parts)
        if failed <= self._source.allowed * len(parts):
            return ""
        share = failed / len(parts)
        allowed = self._source.allowed
        return f"{share:.1%} of the items could not be extracted, more than the {allowed:.1%} of --allow-empty"


def unpenalised(scores: Sequence[Scored]) -> list[Scored]:
    """The scored items with their values without λ."""
    return [
        replace(score, score=replace(score.score, value=score.value + score.score.part["penalty"]))
        for score in scores
        if score.score is not None and score.value is not None and "penalty" in score.score.part
    ]


def majority(scores: Sequence[Scored]) -> list[float]:
    """The score of the majority response to each scored item."""
    parts = [
        (score.item.id, score.score.part)
        for score in scores
        if score.score is not None and score.value is not None and "label" in score.score.part
    ]
    labels = [
        AskedLabel(id_, tuple(part["asked"]), Imap(inform=tuple(TermValue(*pair) for pair in part["label"])))
        for id_, part in parts
    ]
    return [float(value) for value in majority_scores(labels)]


def _notes(scores: Sequence[Scored]) -> Iterator[str]:
    """Lines about items without a score or a rating, by kind, each with its first item."""
    unscored: dict[str, list[Scored]] = {}
    unrated: list[tuple[str, str]] = []
    for score in scores:
        part = (score.score.part or {}) if score.score else {}
        if part.get("failure"):
            unscored.setdefault(part["failure"], []).append(score)
        elif "unrated" in part:
            unrated.append((score.unit, part["unrated"]))
    for failure, group in unscored.items():
        first = group[0]
        reason = first.score.reason if first.score else ""
        yield f"{len(group)} of {len(scores)} items: {failure} (first: item {first.item.id}: {reason})"
    if unrated:
        yield f"{len(unrated)} of {len(scores)} items lack a rating (first: item {': '.join(unrated[0])})"
