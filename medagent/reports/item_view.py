"""One unit of a run as text for a terminal, from the same blocks as the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from medagent.core.number_formats import counted, dollars
from medagent.engine.benchmark import Benchmark
from medagent.engine.blocks import (
    AnswerBlock,
    Block,
    ConversationBlock,
    FactsBlock,
    PairBlock,
    RecordBlock,
    SetsBlock,
    TextBlock,
    VotesBlock,
)
from medagent.engine.report import ItemView, ShownMessage
from medagent.engine.rows import FAILED, Row
from medagent.engine.scores import Check, Judgement, Scored
from refsol.failures import kind_name
from refsol.verdict import MISSING, show

_MARKS = {"found": "=", "missed": "-", "extra": "+"}


def item_view(
    benchmark: Benchmark[Any, Any], scored: Scored, row: Row, judged: Judgement | None = None, *, reported: bool = False
) -> ItemView:
    """A unit: its texts and messages, then its outcome as lines, with the judges' labels and replies.

    `reported`: the score is from a report, without the parts that the benchmark's blocks need.
    """
    blocks = list(benchmark.blocks(scored.item, row, None if reported else scored.score))
    if judged is not None and not any(isinstance(block, VotesBlock) for block in blocks):
        blocks.append(VotesBlock(judged.votes))
    conversation = next((block for block in blocks if isinstance(block, ConversationBlock)), ConversationBlock(()))
    messages = [
        ShownMessage(message.role, message.text, message.reasoning) for message in conversation.messages
    ] or list(benchmark.messages(row))
    if not messages or messages[0].role not in ("user", "prompt"):  # a transcript begins with the question
        texts = [block for block in blocks if isinstance(block, TextBlock) and not block.verbatim and not block.folded]
        messages = [*(ShownMessage(block.title.lower(), block.text) for block in texts), *messages]
    lines = list(_lines(benchmark, scored, row, blocks))
    return ItemView(messages, lines, conversation.decides, conversation.injected)


def _lines(benchmark: Benchmark[Any, Any], scored: Scored, row: Row, blocks: Sequence[Block]) -> Iterator[str]:
    yield f"status: {row.status}" + (f" ({row.error})" if row.error else "")
    if (answer := benchmark.answer(row)) is None or "\n" not in answer:
        yield f"answer: {'–' if answer is None else answer}"
    for block in blocks:
        yield from _of_block(block)
    if row.spent.calls:
        yield f"spent: {counted(row.spent.calls, 'calls')}, {row.spent.tokens_text}, {dollars(row.spent.cost)}"
    yield from _verdict(scored, row)
    if any(call.finish_reason for call in row.spent.each):
        yield f"finish reasons: {', '.join(call.finish_reason or 'none' for call in row.spent.each)}"
    if row.traceback:
        yield from row.traceback.rstrip().split("\n")


_GROUNDED = {True: "yes", False: "no", None: "–"}


def _verdict(scored: Scored, row: Row) -> Iterator[str]:
    score = scored.score
    if score is None:
        yield "verdict: none yet"
        return
    failed = "the agent raised an error; " if row.status == FAILED else ""
    words = score.details.get("verdict", score.reason)
    if score.correct is None and score.graded:
        yield f"score: {'–' if score.value is None else f'{score.value:.4f}'}" + (f" ({words})" if words else "")
    else:
        verdict = {True: "right", False: "wrong", None: "not graded"}[score.correct]
        yield f"verdict: {verdict}" + (f" – {failed}{words}" if failed or words else "")
    for order, checks in groupby(score.checks, key=lambda check: check.name.partition(" ")[0]):
        yield from _checks(order, list(checks))
    if score.kind:
        yield f"why: {kind_name(score.kind)}: {score.reason}"
    if score.because:
        yield f"because: {score.because}"
    if score.correct and (score.grounded is not None or score.reading):
        yield f"grounded: {_GROUNDED[score.grounded]}" + (f" ({score.reading})" if score.reading else "")


def _checks(order: str, checks: Sequence[Check]) -> Iterator[str]:
    """A line for each check; one line for all checks of an order that is missing."""
    if len(checks) > 1 and all(check.actual == show(MISSING) for check in checks):
        yield f"  ✗ {order}: this order is missing ({len(checks)} checks)"
        return
    for check in checks:
        mark = "✓" if check.passed else "✗"
        yield f"  {mark} {check.name}" + ("" if check.passed else f": expected {check.expected}, got {check.actual}")


def _of_block(block: Block) -> Iterator[str]:
    """The lines of a block that add to the messages and the verdict."""
    match block:
        case RecordBlock(writes=writes):
            for url, _, refused in writes:
                yield f"POST {url}: {f'not stored: {refused}' if refused else 'stored'}"
        case AnswerBlock(accepted=accepted) if accepted:
            yield f"accepted: {'; '.join(accepted)}"
        case VotesBlock(votes=votes):
            for judge, _, label, reply in votes:
                yield f"judge {judge}: {label}"
                yield from (f"  {line}" for line in reply.splitlines())
        case FactsBlock(title=title, facts=facts) if title != "What decides":
            yield f"{title}: " + "; ".join(f"{name}: {value}" for name, value in facts)
        case SetsBlock(title=title, rows=rows, note=note):
            yield f"{title}" + (f" ({note})" if note else "")
            yield from (f"  {_MARKS[mark]} {' | '.join(cells)}" for mark, cells in rows)
        case PairBlock(left=left, right=right):
            yield from (f"{name}: {text}" for name, text in (left, right))
