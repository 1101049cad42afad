"""What an HTML report shows of PromptCBLUE: each line's input, and what of the gold was found, missed or added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.benchmarks.base import ending_blocks
from medagent.benchmarks.promptcblue.data import DataFile, read_data
from medagent.benchmarks.promptcblue.lines import DataLine, DataLines
from medagent.benchmarks.promptcblue.rows import LineRow
from medagent.engine.folder import read_run
from medagent.engine.journals import Run
from medagent.engine.report import Report
from medagent.models.wording import strip_thinking
from medagent.reports.page.blocks import (
    AnswerBlock,
    Block,
    Details,
    DotsBlock,
    ItemDetail,
    PairBlock,
    SetsBlock,
    TextBlock,
)
from refsol.promptcblue.files import read_structured
from refsol.promptcblue.parse import CCKS, Edition, LineError, parse_answer
from refsol.promptcblue.tasks import AnswerKind, specs_of


@dataclass(frozen=True, slots=True)
class _Sources:
    """The lines of the test file and the gold answers by key, as far as the files are still there."""

    lines: DataLines | None
    gold: Mapping[str, Any]
    strips: bool
    edition: Edition = CCKS


def line_details(run: Run, report: Report, data: Path, gold: Path | None) -> Details:
    """See `Benchmark.details`; `data` and `gold` are the run's files, which need not be there any more."""
    sources = _sources(run, data, gold)
    tasks = [line for section in report.table[:1] for line in section.lines]
    panels = [
        DotsBlock(
            "By task",
            [(line.name.split(" ")[0], line.n, line.value, *(line.interval or (None, None))) for line in tasks],
            marks=[(report.overall.name, report.overall.value)] if report.overall and report.overall.value else (),
            group=True,
            figure="F1 or ROUGE-L",
        )
    ]
    return Details(lambda: (_item(row, sources) for row in run.rows(LineRow)), panels if tasks else ())


def _sources(run: Run, data: Path, gold: Path | None) -> _Sources:
    strips = run.settings.get("strip-thinking") is True
    if not data.is_file():
        return _Sources(None, {}, strips)
    whole = read_data(data, read_run(run.path).get("places", {}).get("encoding") or "utf-8")
    answers = _by_key(whole, gold) if gold is not None and gold.is_file() else {}
    return _Sources(whole.lines, answers, strips, whole.edition)


def _by_key(whole: DataFile, path: Path) -> dict[str, Any]:
    """The gold answers: a task's stand in the order of its lines."""
    gold = {task: iter(answers) for task, answers in read_structured(path, whole.edition).value.items()}
    found = {}
    for key, task in zip(whole.lines.line_keys(), whole.lines.tasks, strict=True):
        if (answer := next(gold.get(task, iter(())), None)) is not None:
            found[key] = answer.get("answer")
    return found


def _item(row: LineRow, sources: _Sources) -> ItemDetail:
    task, _, rest = row.unit.partition("#")
    number, _, trial = rest.partition("#")
    key = f"{task}#{number}"
    line = sources.lines.find(key) if sources.lines is not None else None
    asked = line.value["input"] if line is not None else ""
    blocks: list[Block] = [TextBlock("Input", asked)] if asked else []
    kind = ""
    if row.answer is not None:
        reply = strip_thinking(row.answer) if sources.strips else row.answer
        if line is not None and key in sources.gold:
            kind, compared = _compared(line, reply, sources.gold[key], sources.edition)
            blocks += compared
        blocks.append(TextBlock("Raw reply", row.answer, verbatim=True))
    if row.reasoning:
        blocks.append(TextBlock("Reasoning", row.reasoning, folded=True))
    return ItemDetail(key, int(trial or 1), [*blocks, *ending_blocks(row)], row, asked, kind=kind)


def _compared(line: DataLine, reply: str, gold: Any, edition: Edition) -> tuple[str, list[Block]]:
    """The reply as the official parser reads it, beside the gold; what is wrong with it in a word or two."""
    kinds = {spec.name: spec.kind for spec in specs_of(edition)}
    try:
        given = parse_answer(line.task, reply, line.value.get("answer_choices"), edition)
    except LineError as error:
        return "unparsed", [TextBlock("Not parsed", str(error))]
    match kinds[line.task]:
        case AnswerKind.EXTRACTION | AnswerKind.TREE:
            return _sets(gold, given)
        case AnswerKind.CLASSES:
            right = given == gold
            return "" if right else "other label", [AnswerBlock(str(given), [str(gold)], right)]
        case AnswerKind.REPORT:
            sections = dict.fromkeys([*gold, *given])
            return "", [
                PairBlock((f"gold: {name}", str(gold.get(name, ""))), (f"predicted: {name}", str(given.get(name, ""))))
                for name in sections
            ]
        case AnswerKind.TEXT:
            return "", [PairBlock(("gold", str(gold)), ("predicted", str(given)))]


def _sets(gold: Any, given: Any) -> tuple[str, list[Block]]:
    wanted, found = (list(_elements(answer)) for answer in (gold, given))
    columns = list(dict.fromkeys(name for element in [*wanted, *found] for name, _ in element))
    texts = {element: [dict(element).get(name, "") for name in columns] for element in [*wanted, *found]}
    missed = [element for element in dict.fromkeys(wanted) if element not in found]
    extra = [element for element in dict.fromkeys(found) if element not in wanted]
    both = [element for element in dict.fromkeys(wanted) if element in found]
    block = SetsBlock(
        "Gold against prediction",
        columns,
        [
            *(("found", texts[one]) for one in both),
            *(("missed", texts[one]) for one in missed),
            *(("extra", texts[one]) for one in extra),
        ],
    )
    return " and ".join(name for name, part in (("missed", missed), ("extra", extra)) if part), [block]


def _elements(answer: Any) -> Iterator[tuple[tuple[str, str], ...]]:
    """The elements of a parsed answer, each as its keys and values in text."""
    for one in answer if isinstance(answer, list) else ():
        if isinstance(one, dict):
            yield tuple((str(name), _text(value)) for name, value in one.items())


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "，".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
