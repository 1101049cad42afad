"""Scores rows by the rules of refsol: by the comparison without a judge, or by the verdicts of a panel."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medagent.benchmarks.fhiragentbench._items import QuestionItem, digest_of
from medagent.benchmarks.fhiragentbench._outputs import output_of
from medagent.benchmarks.fhiragentbench._rubric import JUDGE, NORMALIZE
from medagent.benchmarks.fhiragentbench._tables import question_figures
from medagent.benchmarks.fhiragentbench.sets import questions_of
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.engine.scores import Figures, Grader, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.judging.judged import Judged, Verdict
from refsol.fhiragentbench import Correct, Output, RowScore, decide, grade_row, settle

UNDECIDED = "not decided without a judge"
SPLIT = "the judges differ"
NOT_ALL_READ = "not all true ids were found"


class QuestionGrader(Grader[EpisodeRow]):
    """Grades by the rule set of the source."""

    def __init__(self, source: FhirAgentBenchSettings) -> None:
        self.source = source
        self.rules = source.rule_set

    @property
    def digests(self) -> Mapping[str, str]:
        """See `Grader.digests`."""
        options = f"{self.source.found_in_effect} {self.source.protocol}"
        return {
            "questions": digest_of(questions_of(self.source.dataset)),
            "found": hashlib.sha256(options.encode()).hexdigest(),
        }

    def score(self, item: QuestionItem, row: EpisodeRow, judged: Judged | None = None) -> Score:
        """See `Grader.score`."""
        question, output, rules = item.asked, output_of(row, self.source), self.source.rule_set
        compared = decide(question, output, rules)
        if judged is None:
            graded = grade_row(question, output, compared, rules=rules)
            return _score(graded, compared, {})
        votes = {name: self._vote(item, output, verdicts) for name, verdicts in judged.verdicts.items()}
        counted = Counter(vote for vote in votes.values() if vote is not None)
        best = next(iter(counted.most_common(1)), None)
        correct = best[0] if best is not None and 2 * best[1] > len(votes) else None
        normals = judged.of(NORMALIZE)
        normal = next((one.label for one in normals.values()), None)
        graded = grade_row(question, output, correct, rules=rules, normalized=normal)
        words = {
            name: [(one.query, one.label or "", one.reply or "") for one in verdicts]
            for name, verdicts in judged.verdicts.items()
        }
        return _score(graded, compared, votes, {"words": words})

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """See `Grader.figures`."""
        return question_figures(scores, self.source, questions_of(self.source.dataset))

    def _vote(self, item: QuestionItem, output: Output, verdicts: Sequence[Verdict]) -> Correct | None:
        """One judge's vote on a row. None if no label can be read."""
        labels = {one.query: one.label for one in verdicts}
        label = labels.get(JUDGE)
        if label is not None:
            return 1 if label == "1" else 0
        question, rules = item.asked, self.source.rule_set
        true_answer = question.true_answer if rules == "a2a" else question.judged_answer
        return settle(output.answer, output.error, true_answer, labels.get(NORMALIZE) or "", rules)


def _score(
    graded: RowScore,
    compared: Correct | None,
    votes: Mapping[str, Correct | None],
    details: Mapping[str, Any] | None = None,
) -> Score:
    correct = graded.correct
    undecided = SPLIT if votes else UNDECIDED
    return Score(
        correct=None if correct is None else bool(correct),
        kind=graded.failure or "",
        reason=undecided if correct is None else graded.reason,
        grounded=graded.grounded,
        reading=NOT_ALL_READ if correct and graded.grounded is False else "",
        part={**asdict(graded.part), "compared": compared, "votes": dict(votes)},
        details=dict(details or {}),
    )
