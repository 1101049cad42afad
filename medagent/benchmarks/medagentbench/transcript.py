"""A run, or one of its episodes, for reading: colours and folded bodies in a terminal, plain and whole in a pipe."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.results.paths import results_path
from medagent.benchmarks.medagentbench.results.verdicts import ItemEntry, read_verdicts
from medagent.engine.folder import run_command
from medagent.engine.journal import last_rows
from medagent.engine.progress import dollars, duration
from medagent.engine.rows import Spent
from medagent.errors import UserError
from medagent.reports.tables import percent, print_table

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_LINES = 24
_DECODER = json.JSONDecoder()
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
# What an agent said must not reach a terminal as commands: control characters and half surrogates are shown as escapes.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def show_run(folder: Path) -> None:
    """Print how a run's episodes ended, how many were right, and what it cost. Raises UserError."""
    endings: Counter[str] = Counter()
    types: dict[str, Counter[str]] = {}
    spent, seconds = Spent(), 0.0
    verdicts: dict[int, dict[str, ItemEntry]] = {}
    example = ""
    for row in _rows(folder):
        example = example or row.task_id
        endings[row.status] += 1
        spent.merge(row.spent)
        seconds = max(seconds, row.seconds)
        if row.trial not in verdicts:
            verdicts[row.trial] = _verdicts(folder, row.trial)
        verdict = verdicts[row.trial].get(row.task_id)
        correct = verdict.correct if verdict else None
        types.setdefault(row.task_id.partition("_")[0], Counter())[str(correct)] += 1
    table = [[name, *_figures(tally)] for name, tally in types.items()]
    whole: Counter[str] = sum(types.values(), Counter())
    print_table(str(folder), ["task", "right", "graded", "rate", "not graded"], [*table, [], ["all", *_figures(whole)]])
    print("Ended: " + ", ".join(f"{count} {status}" for status, count in endings.most_common()))
    if spent.calls:
        print(f"Spent: {spent.calls:,} calls, {spent.usage.total:,} tokens, {dollars(spent.cost)}")
    print(f"Slowest episode: {duration(seconds)}. One episode: medagent show {folder} {example}")


def _figures(tally: Counter[str]) -> list[str]:
    right, graded = tally["True"], tally["True"] + tally["False"]
    return [str(right), str(graded), percent(right / graded if graded else None), str(tally["None"])]


def show_episode(folder: Path, name: str) -> None:
    """Print one episode; `name` is a task id, or `task5_7#2` for another trial. Raises UserError for an unknown one."""
    from rich.console import Console

    task_id, _, trial = name.partition("#")
    unit = f"{task_id}#{trial or 1}"
    row = next((row for row in _rows(folder) if row.unit == unit), None)
    if row is None:
        raise UserError(f"{folder}: holds no episode {name}")
    verdict = _verdicts(folder, row.trial).get(task_id)
    console = Console(highlight=False, soft_wrap=True)
    for turn in row.transcript:
        console.rule(turn.role, align="left", style="cyan" if turn.role == "agent" else "dim", characters="─")
        if turn.reasoning:
            _print(console, turn.reasoning, style="dim italic")
        _print(console, turn.content, style="bold" if turn.role == "agent" else "")
    console.rule("outcome", align="left", characters="─")
    for line in _outcome(row, verdict):
        console.print(line, markup=False)


def _outcome(row: EpisodeRow, verdict: ItemEntry | None) -> Iterator[str]:
    yield f"status: {row.status}" + (f" ({row.error})" if row.error else "")
    yield f"answer: {row.answer if row.answer is not None else '–'}"
    for write in row.created:
        stored = "stored" if write.resource is not None else f"not stored: {write.refused}"
        yield f"POST {write.url}: {stored}"
    if row.spent.calls:
        yield f"spent: {row.spent.calls} calls, {row.spent.usage.total:,} tokens, {dollars(row.spent.cost)}"
    if verdict is None:
        yield "verdict: none yet"
        return
    yield "verdict: " + {True: "right", False: "wrong", None: "not graded"}[verdict.correct] + f" – {verdict.reason}"
    for check in verdict.checks:
        mark = "✓" if check.passed else "✗"
        yield f"  {mark} {check.name}" + ("" if check.passed else f": expected {check.expected}, got {check.actual}")


def _print(console: Console, text: str, style: str) -> None:
    """A message: plain and whole in a pipe; in a terminal JSON is laid out and coloured, and what is long is folded."""
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    if not console.is_terminal:
        console.print(_visible(text), style=style or None, markup=False)
        return
    for part, is_json in _parts(text):
        lines = _visible(part).split("\n")
        shown = Text("\n".join(lines[:_SHOWN_LINES]), style)
        if is_json:
            JSONHighlighter().highlight(shown)
        console.print(shown)
        if len(lines) > _SHOWN_LINES:
            console.print(f"… {len(lines) - _SHOWN_LINES} more lines (a pipe shows all: … | less)", style="dim")


def _visible(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """A message's JSON values that fill whole lines, laid out, and the lines between them; whether each is JSON."""
    start = position = 0
    while position < len(text):
        if text[position] in "[{":
            try:
                _, end = _DECODER.raw_decode(text, position)
            except (ValueError, RecursionError):
                end = -1
            if end == len(text) or text[end : end + 1] == "\n":
                if start < position:
                    yield text[start : position - 1], False
                yield _laid_out(text[position:end]), True
                start = position = end + 1
                continue
        newline = text.find("\n", position)
        position = len(text) if newline < 0 else newline + 1
    if start < len(text):
        yield text[start:], False


def _laid_out(value: str) -> str:
    """JSON in lines of its own, every token as it was said."""
    lines, line, depth, before = [], "", 0, ""
    for token in _TOKEN.findall(value):
        depth -= token in "]}"
        closes, opened = token in "]}", before in ("[", "{")
        if (closes and not opened) or (not closes and (opened or before == ",")):
            lines.append(line)
            line = "  " * depth
        line += ": " if token == ":" else token
        depth += token in "[{"
        before = token
    return "\n".join([*lines, line])


def _rows(folder: Path) -> Iterator[EpisodeRow]:
    command = run_command(folder)
    if command is not None and command.startswith("medagent run "):
        benchmark = command.rpartition(" ")[2]
        raise UserError(f"{folder}: is a run of `{command}`; see `medagent {benchmark} --help` for what reads it")
    path = folder / "episodes.jsonl"
    if not path.is_file():
        raise UserError(f"{folder}: is no run's folder (it has no episodes.jsonl)")
    return last_rows(path, EpisodeRow)


def _verdicts(folder: Path, trial: int) -> dict[str, ItemEntry]:
    results = results_path(folder, trial)
    return {item.task_id: item for item in read_verdicts(results).items} if results.is_file() else {}
