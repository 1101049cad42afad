"""SimpleQA in an HTML report: outcomes by group and language, calibration, each judge's vote and reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medagent.benchmarks.simpleqa._grader import counted
from medagent.benchmarks.simpleqa._items import QuestionItem
from medagent.engine.blocks import (
    AnswerBlock,
    Block,
    ConversationBlock,
    ReliabilityBlock,
    SharesBlock,
    TextBlock,
    TranscriptMessage,
    VotesBlock,
)
from medagent.engine.scores import Score, Scored
from medagent.judging.rows import ExchangeRow
from refsol.simpleqa.export import NAMELESS
from refsol.simpleqa.metrics import Tally
from refsol.simpleqa.replies import last_object
from refsol.simpleqa.score import Section, sections_of

_RIGHT = {"correct": True, "incorrect": False}
_PARTS = ("correct", "incorrect", "not attempted", "no label", "not graded")


def outcome_panels(scores: Sequence[Scored]) -> Iterator[Block]:
    """Outcomes by language and group, and calibration."""
    return _panels(sections_of([counted(score) for score in scores]))


def question_blocks(item: QuestionItem, row: ExchangeRow, score: Score | None) -> Iterator[Block]:
    """A question, the answer next to the gold, each judge's label, and the messages."""
    yield TextBlock("Question", item.question)
    if row.reply is not None:
        stated = last_object(row.reply)
        answer = stated.get("answer") if stated else None
        yield AnswerBlock(
            answer if isinstance(answer, str) else row.reply, [item.target], score.correct if score else None
        )
    if score is not None and score.part["labels"]:
        replies = score.details["replies"]
        yield VotesBlock(
            [
                (judge, _RIGHT.get(label), (label or "no label").replace("_", " "), replies.get(judge) or "")
                for judge, label in score.part["labels"].items()
            ]
        )
    messages = [TranscriptMessage("prompt", row.message)]
    if row.reply is not None:
        messages.append(TranscriptMessage("answer", row.reply, row.reasoning or ""))
    yield ConversationBlock(messages, title="Prompt and reply")


def _panels(sections: list[Section]) -> Iterator[Block]:
    languages = [section for section in sections if section.name != "all" or len(sections) == 1]
    yield SharesBlock("By language", _PARTS, [(language.name, _parts(language.total)) for language in languages])
    whole = sections[-1]
    groups = [(name or NAMELESS, _parts(tally)) for name, tally in whole.groups.items() if tally != Tally()]
    if groups:
        yield SharesBlock("By group", _PARTS, groups)
    for section in sections:
        curve = section.calibration
        if curve.brier is not None and curve.ece is not None:
            yield ReliabilityBlock(
                f"Confidence against correctness: {section.name}",
                [(group.low, group.high, group.count, group.confidence, group.accuracy) for group in curve.bins],
                f"Brier {curve.brier:.4f}, expected calibration error {curve.ece:.4f}; {curve.count} attempted rows "
                f"with a stated confidence, {curve.left_out} without.",
            )


def _parts(tally: Tally) -> tuple[int, ...]:
    aside = tally.left_out + tally.judge_errors + tally.unanswered + tally.not_judged
    return (tally.correct, tally.incorrect, tally.not_attempted, tally.unscored, aside)
