"""Score judged answers of SimpleQA: a panel's label for each, and the published scores for many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from medagent.agents.unusable import count_unusable
from medagent.benchmarks.simpleqa._items import QuestionItem, gold_digest, question_items
from medagent.benchmarks.simpleqa.settings import SimpleqaSettings
from medagent.core.number_formats import figure
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Grader, Metrics, Score, Scored
from medagent.judging.judged import Judged
from medagent.judging.rows import ExchangeRow
from refsol.simpleqa.export import NAMELESS, TREATMENTS, section_documents
from refsol.simpleqa.metrics import Bounds, Calibration, Tally, confidence_of, share
from refsol.simpleqa.recipes import Headline
from refsol.simpleqa.score import VOTES, Counted, Outcome, Section, Vote, sections_of

NAMED = 5
_STATES: Mapping[str, Outcome] = {"unreadable": "unscored", "failed": "judge_errors"}
"""The outcome of an answer without a verdict, by the state of its judgement."""


class QuestionGrader(Grader[ExchangeRow]):
    """Scores by the majority of the panel's labels."""

    def __init__(self, source: SimpleqaSettings) -> None:
        self._source = source
        self._recipe = source.published
        self.rules = self._recipe.rule if self._recipe else "robust"

    @property
    def digests(self) -> Mapping[str, str]:
        return {"gold": gold_digest(question_items(self._source))}

    def score(self, item: QuestionItem, row: ExchangeRow, judged: Judged | None = None) -> Score:
        assert judged is not None
        outcome = judged.majority or "unscored"
        part = {"labels": judged.labels, "confidence": confidence_of(row.reply or ""), "outcome": outcome}
        details = {"replies": judged.replies}
        if outcome in ("unscored", "left_out"):  # the judges disagree, or the rule reads no label
            return Score(reason=outcome, part=part, details=details)
        words = outcome.replace("_", " ")
        kind = "" if outcome == "correct" else words
        return Score(correct=outcome == "correct", kind=kind, reason=words, part=part, details=details)

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        unusable = count_unusable(((score.unit, score.status) for score in scores), self._source.allowed)
        if not any(is_judged(score) for score in scores):
            return Metrics(
                notes=["Nothing is scored: no answer has been judged yet.", *unusable.notes], measure="score"
            )
        sections = sections_of([counted(score) for score in scores])
        votes = _votes(scores)
        title = f"{self._source.variant}"
        headline = self._recipe.headline if self._recipe else "correct"
        return Metrics(
            table=[
                *(section_table(section, title, list(votes), headline) for section in sections[:-1]),
                section_table(sections[-1], title, list(votes), headline).model_copy(update={"detail": False}),
                *votes_table(votes),
                *denominators(sections[-1].total),
            ],
            overall=total_line("all", sections[-1], headline),
            notes=[*unusable.notes, *_unread(scores), *_languages(sections, headline)],
            background=list(map(calibration_note, sections)),
            unusable=unusable.fault,
            measure="score",
            figure=headline,
            count="N",
            details=self._details(sections, votes),
        )

    def _details(self, sections: Sequence[Section], votes: Mapping[str, Counter[Vote]]) -> dict[str, Any]:
        return {
            "judges": list(votes),
            "votes": {judge: {vote: counts[vote] for vote in VOTES} for judge, counts in votes.items()},
            "dataset": self._source.variant,
            "sections": section_documents(sections),
        }


def is_judged(score: Scored) -> bool:
    """Whether a judge was called for a unit, whatever its reply."""
    return score.score is not None or score.status in _STATES


def counted(score: Scored) -> Counted:
    """The outcome of a unit."""
    if score.score is not None:
        part = score.score.part
        outcome: Outcome = part["outcome"]
        return Counted(score.item.name, score.item.language, score.item.group, outcome, part["confidence"])
    answered = score.status in (*_STATES, "not_judged", "owed")
    outcome = _STATES.get(score.status, "not_judged" if answered else "unanswered")
    return Counted(score.item.name, score.item.language, score.item.group, outcome)


def _votes(scores: Sequence[Scored]) -> dict[str, Counter[Vote]]:
    """The votes of each judge by name, and how often its calls failed."""
    votes: dict[str, Counter[Vote]] = {}
    known = set(get_args(Vote))
    for score in scores:
        if score.score is None:
            continue
        replies = score.score.details["replies"]
        for judge, label in score.score.part["labels"].items():
            vote: Vote = label if label in known else "no label"
            if replies[judge] is None:
                vote = "failed call"
            votes.setdefault(judge, Counter())[vote] += 1
    return votes


def _unread(scores: Sequence[Scored]) -> Iterator[str]:
    """Lines about the answers without a verdict, by what is missing."""
    for status, words in {"unreadable": "no readable label", "failed": "no reply of a judge"}.items():
        if units := [score.unit for score in scores if score.score is None and score.status == status]:
            more = f" and {len(units) - NAMED} more" if len(units) > NAMED else ""
            yield f"{words}: {', '.join(units[:NAMED])}{more}"


def _languages(sections: Sequence[Section], headline: Headline) -> Iterator[str]:
    """The main score of each language, if there are several."""
    lines = [total_line(section.name, section, headline) for section in sections[:-1]]
    if lines:
        yield "By language: " + ", ".join(f"{line.name} {figure(line.value, 'score')}" for line in lines)


ASIDE = ("unscored", "left_out", "judge_errors", "unanswered", "not_judged")


def total_line(name: str, section: Section, headline: Headline) -> TableLine:
    """The scores of a section in one line. Its value is the main score."""
    return _line(name, section.total, section.bounds, (), headline)


def section_table(section: Section, dataset: str, judges: Sequence[str], headline: Headline) -> TableSection:
    """The scores of a language, in total and by group."""
    outside = tuple(name for name in ASIDE if getattr(section.total, name))
    lines = [_line("total", section.total, section.bounds, outside, headline)]
    lines += [
        _line(name or NAMELESS, tally, section.group_bounds[name], outside, headline)
        for name, tally in section.groups.items()
        if tally != Tally()
    ]
    return TableSection(
        lines=tuple(lines),
        title=f"{dataset}: {section.name}, judged by {', '.join(judges)}",
        detail=True,
    )


def _line(name: str, tally: Tally, bounds: Bounds, outside: tuple[str, ...], headline: Headline) -> TableLine:
    """A tally as a line. The interval is for the share of correct answers; F comes without one."""
    correct = share(tally.correct, tally.count)
    more: dict[str, int | float | None] = {
        "correct": correct,
        "incorrect": share(tally.incorrect, tally.count),
        "not attempted": share(tally.not_attempted, tally.count),
        "correct given attempted": share(tally.correct, tally.attempted),
        "F": tally.f_score,
    }
    more |= {outcome.replace("_", " "): int(getattr(tally, outcome)) for outcome in outside}
    del more[headline]
    if headline == "F":
        return TableLine(name=name, n=tally.count, value=tally.f_score, more=more)
    interval = (bounds.correct.low, bounds.correct.high)
    return TableLine(name=name, n=tally.count, value=correct, interval=interval, more=more)


def votes_table(votes: Mapping[str, Counter[Vote]]) -> list[TableSection]:
    """The votes of each judge of a panel."""
    if len(votes) < 2:
        return []
    lines = tuple(
        TableLine(name=judge, n=counts.total(), counts={vote.replace("_", " "): counts[vote] for vote in VOTES})
        for judge, counts in votes.items()
    )
    return [TableSection(lines=lines, title="Each judge", name="votes of", detail=True)]


def denominators(tally: Tally) -> list[TableSection]:
    """Rows without a readable label, counted in three ways. Empty if there are none."""
    if not tally.unscored:
        return []
    lines = []
    for treatment in TREATMENTS:
        treated = tally.treated(treatment)
        figures: dict[str, int | float | None] = {
            "correct given attempted": treated.correct_given_attempted,
            "F": treated.f_score,
        }
        value = share(treated.correct, treated.count)
        lines.append(TableLine(name=treatment, n=treated.count, value=value, more=figures))
    title = f"{tally.unscored} unscored rows, counted in three ways"
    return [TableSection(lines=tuple(lines), title=title, name="unscored", detail=True)]


def calibration_note(section: Section) -> str:
    """How well stated confidence agrees with correctness, as a line."""
    calibration: Calibration = section.calibration
    if calibration.brier is None or calibration.ece is None:
        return f"{section.name}: no calibration: {calibration.left_out} attempted rows, none of them with a confidence"
    return (
        f"{section.name}: calibration: Brier {calibration.brier:.4f}, expected calibration error {calibration.ece:.4f}"
        f" ({calibration.left_out} attempted rows without a confidence left out)"
    )
