"""Scores rows by the rules of refsol (the comparison without a judge, or the verdicts of a panel), and their tables."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from medagent.benchmarks.fhiragentbench._items import FhirQuestionItem, digest_of
from medagent.benchmarks.fhiragentbench._outputs import output_of
from medagent.benchmarks.fhiragentbench._patients import fetch_all, patients_of, would_find
from medagent.benchmarks.fhiragentbench._rubric import JUDGE, NORMALIZE
from medagent.benchmarks.fhiragentbench.sets import PUBLISHED, questions_of
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.engine.intervals import rate_interval
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Grader, Metrics, Score, Scored, grounded_rate
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.verdicts import ended_reason
from medagent.judging.judged import Judged, Verdict
from medagent.reports.published import published_notes, published_sections, published_sources
from refsol.failures import ENDS, Failure
from refsol.fhiragentbench import (
    KIND_WORDS,
    OUTCOMES,
    PENALTIES,
    Correct,
    Output,
    Question,
    RowPart,
    RowScore,
    always_empty,
    baselines,
    by_types,
    decide,
    grade_row,
    of_twin,
    outcome_of,
    reliability,
    settle,
)
from refsol.fhiragentbench import figures as total
from refsol.fhiragentbench.figures import Figures as Total
from refsol.fhiragentbench.figures import f1

UNDECIDED = "not decided without a judge"
SPLIT = "the judges differ"
NOT_ALL_READ = "not all true ids were found"
NOT_SEARCHED = "its requests would not have found the answer in the record of the other twin"
NO_PATIENTS = "the patients are not available, so it is unknown what its requests would have found"


class FhirQuestionGrader(Grader[EpisodeRow]):
    """Grades by the rule set of the source."""

    def __init__(self, source: FhirAgentBenchSettings) -> None:
        self.source = source
        self.rules = source.rule_set

    @property
    def digests(self) -> Mapping[str, str]:
        options = f"{self.source.found_in_effect} {self.source.protocol}"
        return {
            "questions": digest_of(self._questions),
            "found": hashlib.sha256(options.encode()).hexdigest(),
        }

    def score(self, item: FhirQuestionItem, row: EpisodeRow, judged: Judged | None = None) -> Score:
        """See `Grader.score`. A right refusal is grounded if its requests would have found the other twin's data."""
        score = self._scored(item, row, judged)
        if score.kind == "error" and (kind := ENDS.get(row.status)) is not None:
            failure = Failure(kind, KIND_WORDS[kind])
            score = replace(score, kind=kind, reason=ended_reason(row, failure))
        return replace(score, **self._refusal_read(item.asked, row)) if score.correct and item.change else score

    def _refusal_read(self, question: Question, row: EpisodeRow) -> dict[str, Any]:
        """The fields of a score that say whether the agent had looked for the answer."""
        original = next(twin for twin in self._questions if twin.twin == question.twin and twin.true_ids)
        file = patients_of(self.source)
        if file is None:
            return {"grounded": None, "reading": NO_PATIENTS}
        targets = dict.fromkeys(read.sent for read in row.reads or () if read.refused is None)
        searched = would_find(file, targets, original.true_ids)
        return {"grounded": searched, "reading": "" if searched else NOT_SEARCHED}

    def _scored(self, item: FhirQuestionItem, row: EpisodeRow, judged: Judged | None) -> Score:
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
        normal = next((normal.label for normal in normals.values()), None)
        if (settled := of_twin(question, output, normal)) is not None:
            correct = settled
        graded = grade_row(question, output, correct, rules=rules, normalized=normal)
        words = {
            name: [(verdict.query, verdict.label or "", verdict.reply or "") for verdict in verdicts]
            for name, verdicts in judged.verdicts.items()
        }
        return _score(graded, compared, votes, {"words": words})

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        if any(score.item.pair for score in scores):
            return refusal_metrics(scores)
        return question_figures(scores, self.source, self._questions)

    @property
    def _questions(self) -> Sequence[Question]:
        return questions_of(self.source.dataset)

    def _vote(self, item: FhirQuestionItem, output: Output, verdicts: Sequence[Verdict]) -> Correct | None:
        """One judge's vote on a row. None if no label can be read."""
        labels = {verdict.query: verdict.label for verdict in verdicts}
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


_TEMPLATE = 66
"""The most characters of a template in a table."""
_PUBLISHED = Path(__file__).with_name("published.toml")
REBUILT = (
    "If laboratory results were rebuilt from labevents.csv: mark the scores that use them, and do not publish them."
)


def question_figures(
    scores: Sequence[Scored], source: FhirAgentBenchSettings, questions: Sequence[Question]
) -> Metrics:
    """The tables of a run, from its scores. The baseline fetch-all is computed if the patients are available."""
    done = [score for score in scores if score.score is not None]
    parts = [_part(score) for score in done]
    questions_done = [score.item.asked for score in done]
    whole = total(parts)
    published = published_sources(_PUBLISHED) if source.dataset == PUBLISHED else ()
    sections = [
        TableSection(
            lines=tuple(
                _line(name, group)
                for name, group in (
                    ("with true ids", [score for score in done if _part(score).answerable]),
                    ("without true ids", [score for score in done if not _part(score).answerable]),
                )
                if group
            ),
            name="questions",
        ),
        TableSection(lines=(_line("all", done),), detail=True),
        *_groups("By family", done, lambda part: part.family),
        *_groups("By type of the true ids", done, lambda part: part.types, detail=True),
        *_groups("By template", done, lambda part: short_template(part.template), detail=True),
        *_reasons(done),
        *_agreement(done),
        *_baselines(questions_done, source, questions),
        *published_sections(published),
    ]
    return Metrics(
        table=[section for section in sections if section.lines],
        overall=_line("all", done).model_copy(update={"grounded": grounded_rate(done)}),
        notes=list(_notes(whole, source)),
        background=[*_background(whole, parts, questions), *published_notes(published)],
        baselines=dict(baselines(questions_done)),
        measure="percent",
        figure="accuracy",
        count="decided",
        details={"by_types": by_types(parts), "faulty_truth": always_empty(questions)},
    )


def refusal_metrics(scores: Sequence[Scored]) -> Metrics:
    """What became of the replies to twins, of which one cannot be answered, and the reliability scores."""
    decided = [score.score for score in scores if score.score and score.correct is not None]
    outcomes = Counter(outcome_of(score.kind, answerable=score.part["answerable"]) for score in decided)
    count = len(decided)
    values = {f"RS({penalty})": reliability(outcomes, penalty) for penalty in PENALTIES if count}
    replies = [TableLine(name=name, n=outcomes[name], value=outcomes[name] / count) for name in OUTCOMES if count]
    scored = [TableLine(name=name, n=count, value=value) for name, value in values.items()]
    tables = [
        TableSection(lines=tuple(replies), title="Replies", name="reply", figure="share", count="items"),
        TableSection(lines=tuple(scored), title="Reliability", name="score", figure="value", count="items"),
    ]
    return Metrics(
        beside_pairs=tables if count else (),
        details={"replies": {name: outcomes[name] for name in OUTCOMES}, "reliability": values},
    )


def _part(scored: Scored) -> RowPart:
    assert scored.score is not None
    return RowPart(**{name: scored.score.part[name] for name in RowPart.__dataclass_fields__})


def _line(name: str, done: Sequence[Scored]) -> TableLine:
    """The scores of some rows: accuracy over the decided rows, and retrieval with its numbers of rows."""
    values = total(map(_part, done))
    interval = rate_interval(done) if values.decided else None
    return TableLine(
        name=name,
        n=values.decided,
        value=values.accuracy,
        interval=None if interval is None else (interval.low, interval.high),
        counts={"questions": values.rows, "right": values.right},
        more={
            "precision": values.precision,
            "n (precision)": values.precision_rows,
            "recall": values.recall,
            "n (recall)": values.recall_rows,
            "F1": values.f1,
            "grounded": values.grounded,
        },
    )


def _groups(
    title: str, done: Sequence[Scored], key: Callable[[RowPart], str], *, detail: bool = False
) -> Iterator[TableSection]:
    names = sorted({key(_part(score)) for score in done})
    if len(names) > 1:
        whole = (_line(name, [score for score in done if key(_part(score)) == name]) for name in names)
        lines = tuple(line.model_copy(update={"interval": None}) for line in whole)
        yield TableSection(lines=lines, title=title, name=title.removeprefix("By "), detail=detail)


def _reasons(done: Sequence[Scored]) -> Iterator[TableSection]:
    """The reasons why rows are not right, in the order in which they are checked."""
    kinds = Counter(score.score.kind for score in done if score.score is not None and score.correct is False)
    undecided = sum(score.correct is None for score in done)
    lines = [TableLine(name=words, n=kinds[kind]) for kind, words in KIND_WORDS.items() if kinds[kind]]
    if undecided:
        lines.append(TableLine(name="not decided, so not scored", n=undecided))
    if lines:
        yield TableSection(lines=tuple(lines), title="Why not right", name="reason", count="questions", detail=True)


def _agreement(done: Sequence[Scored]) -> Iterator[TableSection]:
    """How often the comparison, and each judge of a panel, agree with the verdict."""
    parts = [score.score.part for score in done if score.score is not None and score.score.part["votes"]]
    if not parts:
        return
    pairs = [(part["compared"], part["correct"]) for part in parts]
    both = [(comparison, verdict) for comparison, verdict in pairs if comparison is not None and verdict is not None]
    lines = [
        TableLine(
            name="comparison without a judge",
            n=len(both),
            value=sum(comparison == verdict for comparison, verdict in both) / len(both) if both else None,
            more={
                "decides": sum(comparison is not None for comparison, _ in pairs),
                "right, judge wrong": sum(comparison == 1 and verdict == 0 for comparison, verdict in both),
                "wrong, judge right": sum(comparison == 0 and verdict == 1 for comparison, verdict in both),
            },
        )
    ]
    judges: Mapping[str, None] = dict.fromkeys(name for part in parts for name in part["votes"])
    for name in judges if len(judges) > 1 else ():
        votes = [(part["votes"].get(name), part["correct"]) for part in parts]
        seen = [(vote, verdict) for vote, verdict in votes if vote is not None and verdict is not None]
        agreed = sum(vote == verdict for vote, verdict in seen)
        lines.append(TableLine(name=name, n=len(seen), value=agreed / len(seen) if seen else None))
    yield TableSection(
        lines=tuple(lines), title="Agreement with the verdict", name="who", figure="agrees", count="n", detail=True
    )


def _baselines(
    done: Sequence[Question], source: FhirAgentBenchSettings, questions: Sequence[Question]
) -> Iterator[TableSection]:
    """The baselines: agents that read nothing, and one that reads whole charts."""
    lines = [_blind_line(name, len(done), value, done) for name, value in baselines(done).items()]
    if len(done) < len(questions):
        lines += [
            _blind_line(f"{name}, whole data set", len(questions), value, questions)
            for name, value in baselines(questions).items()
        ]
    if done and (file := patients_of(source)) is not None:
        chart_figures = fetch_all(done, file, source.handling, source.rule_set)
        more = {"precision": chart_figures.precision, "recall": chart_figures.recall, "F1": chart_figures.f1}
        lines.append(TableLine(name="fetch-all", n=len(done), more=more))
    if lines:
        yield TableSection(
            lines=tuple(lines), title="Baselines", name="agent", figure="accuracy", count="questions", detail=True
        )


def _blind_line(name: str, count: int, value: float, questions: Sequence[Question]) -> TableLine:
    """The line of an agent that fetches nothing. Its recall and precision are 1 for questions without true ids."""
    recall = sum(not any(question.true_ids.values()) for question in questions) / count
    precision = 1.0 if recall else None
    return TableLine(
        name=name, n=count, value=value, more={"precision": precision, "recall": recall, "F1": f1(precision, recall)}
    )


def short_template(template: str) -> str:
    """A template shortened for a table, without its time filters and the field for the patient."""
    words = re.sub(r"\s*\[time_filter\w*\]|\s*\{patient_id\}('s)?", "", template)
    return words if len(words) <= _TEMPLATE else f"{words[: _TEMPLATE - 20]} … {words[-17:]}"


def _notes(whole: Total, source: FhirAgentBenchSettings) -> Iterator[str]:
    if undecided := whole.rows - whole.decided:
        yield f"Not decided without a judge: {undecided} of {whole.rows} answers. To decide them: --judge NAME"
    if source.dataset == PUBLISHED:
        yield REBUILT


def _background(whole: Total, parts: Sequence[RowPart], questions: Sequence[Question]) -> Iterator[str]:
    if whole.precision_rows and all(part.precision is None for part in parts if part.answerable):
        yield (
            "No answer found an id of a right type. Precision covers only questions without true ids "
            f"({whole.precision_rows}); by the published rule, finding nothing is right for them."
        )
    if faulty := always_empty(questions):
        yield (
            f"Wrong true answers: {len(faulty)} templates of the data set list no true ids in any of their "
            f"{sum(faulty.values())} questions. They are graded as they are."
        )
