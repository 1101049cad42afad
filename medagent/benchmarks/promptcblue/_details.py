"""PromptCBLUE in an HTML report: each line's input, and which parts of the gold were found, missed or added."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from medagent.benchmarks.promptcblue._grader import answer_text
from medagent.benchmarks.promptcblue._items import DataLine, LineItem, LineRow, data_of, gold_of
from medagent.engine.blocks import AnswerBlock, Block, DotsBlock, PairBlock, SetsBlock, TextBlock
from medagent.engine.report import Report
from refsol.promptcblue.parse import Edition, LineError, parse_answer
from refsol.promptcblue.tasks import AnswerKind, specs_of


def task_panels(report: Report) -> Iterator[Block]:
    """The scores of the tasks."""
    tasks = [line for section in report.table[:1] for line in section.lines]
    if not tasks:
        return
    yield DotsBlock(
        "By task",
        [line.dot(line.name.split(" ")[0]) for line in tasks],
        marks=[(report.overall.name, report.overall.value)] if report.overall and report.overall.value else (),
        group=True,
        figure="F1 or ROUGE-L",
    )


def line_blocks(item: LineItem, row: LineRow) -> Iterator[Block]:
    """A line's input, its parsed reply next to the gold, and the reply itself."""
    yield TextBlock("Input", item.question)
    if row.answer is not None:
        gold = gold_of(item.source)
        if gold is not None and item.id in gold:
            edition = data_of(item.source).edition
            yield from _compared(item.line, answer_text(row, item.source), gold[item.id], edition)
        yield TextBlock("Raw reply", row.answer, verbatim=True)
    if row.reasoning:
        yield TextBlock("Reasoning", row.reasoning, folded=True)


def _compared(line: DataLine, reply: str, gold: Any, edition: Edition) -> list[Block]:
    """The reply as the official parser reads it, next to the gold."""
    kinds = {spec.name: spec.kind for spec in specs_of(edition)}
    try:
        prediction = parse_answer(line.task, reply, line.value.get("answer_choices"), edition)
    except LineError as error:
        return [TextBlock("Not parsed", str(error))]
    match kinds[line.task]:
        case AnswerKind.EXTRACTION | AnswerKind.TREE:
            return _sets(gold, prediction)
        case AnswerKind.CLASSES:
            return [AnswerBlock(str(prediction), [str(gold)], prediction == gold)]
        case AnswerKind.REPORT:
            sections = dict.fromkeys([*gold, *prediction])
            return [
                PairBlock(
                    (f"gold: {name}", str(gold.get(name, ""))), (f"predicted: {name}", str(prediction.get(name, "")))
                )
                for name in sections
            ]
        case AnswerKind.TEXT:
            return [PairBlock(("gold", str(gold)), ("predicted", str(prediction)))]


def _sets(gold: Any, prediction: Any) -> list[Block]:
    expected, predicted = (list(_elements(answer)) for answer in (gold, prediction))
    columns = list(dict.fromkeys(name for element in [*expected, *predicted] for name, _ in element))
    texts = {element: [dict(element).get(name, "") for name in columns] for element in [*expected, *predicted]}
    missed = [element for element in dict.fromkeys(expected) if element not in predicted]
    extra = [element for element in dict.fromkeys(predicted) if element not in expected]
    both = [element for element in dict.fromkeys(expected) if element in predicted]
    block = SetsBlock(
        "Gold against prediction",
        columns,
        [
            *(("found", texts[element]) for element in both),
            *(("missed", texts[element]) for element in missed),
            *(("extra", texts[element]) for element in extra),
        ],
    )
    return [block]


def _elements(answer: Any) -> Iterator[tuple[tuple[str, str], ...]]:
    """The elements of a parsed answer, each as keys and values in text."""
    for element in answer if isinstance(answer, list) else ():
        if isinstance(element, dict):
            yield tuple((str(name), _text(value)) for name, value in element.items())


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "，".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
