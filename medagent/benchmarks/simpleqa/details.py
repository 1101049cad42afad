"""What an HTML report shows of SimpleQA: outcomes by group and language, calibration, each judge's vote and words."""

from __future__ import annotations

from collections.abc import Iterator

from medagent.benchmarks.base import ending_blocks
from medagent.benchmarks.simpleqa.folder import Question, RunFiles
from medagent.engine.journals import Run
from medagent.judging.rows import ExchangeRow
from medagent.reports.page.blocks import (
    AnswerBlock,
    Block,
    ConversationBlock,
    Details,
    ItemDetail,
    Message,
    ReliabilityBlock,
    SharesBlock,
    TextBlock,
    VotesBlock,
)
from refsol.simpleqa.export import NAMELESS
from refsol.simpleqa.metrics import Tally
from refsol.simpleqa.replies import last_object
from refsol.simpleqa.score import JudgedAnswer, Section, label_of, outcome_of, score

_PARTS = ("correct", "incorrect", "not attempted", "no label", "not graded")
_KINDS = {
    "incorrect": "another answer than the gold one",
    "not attempted": "no answer was given",
    "unscored": "the judges gave no label, or none that most of them share",
    "judge errors": "every judge's call failed",
    "unanswered": "the model's call failed",
    "not judged": "no judge was asked yet",
}


def question_details(run: Run) -> Details:
    """See `Benchmark.details`."""
    files = RunFiles(run.path)
    sections = score(files.judged_set().rows)
    return Details(lambda: _items(run, files), list(_panels(sections)), _KINDS)


def _panels(sections: list[Section]) -> Iterator[Block]:
    languages = [section for section in sections if section.name != "all" or len(sections) == 1]
    yield SharesBlock("By language", _PARTS, [(one.name, _parts(one.total)) for one in languages])
    whole = sections[-1]
    groups = [(name or NAMELESS, _parts(tally)) for name, tally in whole.groups.items() if tally != Tally()]
    if groups:
        yield SharesBlock("By group", _PARTS, groups)
    for section in sections:
        found = section.calibration
        if found.brier is not None and found.ece is not None:
            yield ReliabilityBlock(
                f"Confidence against correctness: {section.name}",
                [(one.low, one.high, one.count, one.confidence, one.accuracy) for one in found.bins],
                f"Brier {found.brier:.4f}, expected calibration error {found.ece:.4f}; {found.count} attempted rows "
                f"with a stated confidence, {found.left_out} without.",
            )


def _parts(tally: Tally) -> tuple[int, ...]:
    aside = tally.left_out + tally.judge_errors + tally.unanswered + tally.not_judged
    return (tally.correct, tally.incorrect, tally.not_attempted, tally.unscored, aside)


def _items(run: Run, files: RunFiles) -> Iterator[ItemDetail]:
    rows = {row.unit: row for row in run.rows(ExchangeRow)}
    for question, judged in zip(files.questions(), files.judged_set().rows, strict=True):
        yield _item(question, judged, rows.get(question.unit))


def _item(question: Question, judged: JudgedAnswer, row: ExchangeRow | None) -> ItemDetail:
    outcome = outcome_of(judged, "robust").replace("_", " ")
    decided = outcome in ("correct", "incorrect", "not attempted")
    blocks: list[Block] = [TextBlock("Question", question.question)]
    if judged.prediction is not None:
        said = last_object(judged.prediction)
        given = said.get("answer") if said else None
        text = given if isinstance(given, str) else judged.prediction
        blocks.append(AnswerBlock(text, [question.gold], outcome == "correct" if decided else None))
    votes = [(judge, _label(reply), reply or "(the call failed)") for judge, reply in judged.judged.items()]
    if votes:
        blocks.append(VotesBlock(votes))
    if row is not None:
        said_by = [Message("prompt", row.message)]
        if row.reply is not None:
            said_by.append(Message("answer", row.reply, row.reasoning or ""))
        blocks += [ConversationBlock(said_by, title="Prompt and reply"), *ending_blocks(row)]
    item = question.unit.removesuffix(f"#{question.trial}") if question.trial > 1 else question.unit
    kind = "" if outcome == "correct" else outcome
    return ItemDetail(item, question.trial, blocks, row, question.question, kind=kind)


def _label(reply: str | None) -> str:
    if reply is None:
        return "call failed"
    return (label_of(reply, "robust") or "no label").replace("_", " ")
