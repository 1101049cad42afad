"""Prints a run or one of its items. Long texts are folded; only a terminal gets colours and a pager."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medagent.core.errors import UserError
from medagent.core.scrub import printable
from medagent.engine.figures import dollars, duration, natural, percent
from medagent.engine.grounded import LUCKY
from medagent.engine.report import REQUESTS, ItemOutcome, ItemView, Report, ShownMessage, by_trial
from medagent.engine.rows import FAILED
from medagent.reports._fhir_lines import DECIDES, bundle_lines
from medagent.reports._measured import measured_on
from medagent.reports.tables import grounded_words as rate_words
from medagent.reports.tables import print_section, print_table, put
from medagent.reports.trials import flip_notes, trial_section
from refsol.trials import reliability

if TYPE_CHECKING:
    from rich.console import Console

_LONG_PROMPT = 1000
"""Prompts with more characters than this are folded."""
_NAMED = 5
_DECODER = json.JSONDecoder()
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """A filter of items: not right, of these kinds of failure, of these groups, with one of these finish reasons."""

    wrong: bool = False
    kinds: Sequence[str] = ()
    groups: Sequence[str] = ()
    finish_reasons: Sequence[str] = ()

    @property
    def all(self) -> bool:
        """Whether nothing is filtered."""
        return not (self.wrong or self.kinds or self.groups or self.finish_reasons)

    def __call__(self, item: ItemOutcome) -> bool:
        """Whether an item is listed."""
        return (
            (not self.wrong or item.correct is False)
            and (not self.kinds or item.kind in self.kinds or (LUCKY in self.kinds and item.is_lucky))
            and (not self.groups or item.group in self.groups)
            and (not self.finish_reasons or not set(self.finish_reasons).isdisjoint(item.finish_reasons))
        )


def list_items(report: Report, selection: ItemFilter) -> None:
    """Print a run's items, one per line: whether it is right, in which share of its trials, and why not.

    Raises UserError for a kind, a group or a finish reason that no item of the run has.
    """
    for option, names, known in (
        ("kind", selection.kinds, {LUCKY, *(item.kind for item in report.items if item.kind)}),
        ("type", selection.groups, {item.group for item in report.items if item.group}),
        ("finish-reason", selection.finish_reasons, {one for item in report.items for one in item.finish_reasons}),
    ):
        if unknown := [one for one in names if one not in known]:
            there = ", ".join(sorted(known, key=natural)) or "none"
            raise UserError(f"--{option} {unknown[0]}: no item of {report.folder} has it; there are {there}")
    shares = reliability(by_trial(report.items))
    several = any(item.trial > 1 for item in report.items)
    listed = [item for item in report.items if selection(item)]
    for item in sorted(listed, key=lambda one: (natural(one.item), one.trial)):
        name = f"{item.item}#{item.trial}" if several else item.item
        score = "–" if item.score is None else f"{item.score:.4f}"
        outcome = {True: "right", False: "wrong", None: score}[item.correct]
        share = [percent(shares.get(item.item)).rjust(7)] if several else []
        why = f"{item.reason}" if item.kind or item.correct is not True else item.because
        kind = item.kind
        if item.is_lucky:
            kind, why = LUCKY, f"{item.reading}; {why}"
        if error := report.error_of(item) if item.status == FAILED else "":
            why = f"{why}: {error}"
        put("  ".join([name.ljust(12), outcome.ljust(6), *share, kind.ljust(15), why]).rstrip())
    head = "item, outcome, " + ("share of its trials that are right, " if several else "") + "kind, why"
    put(f"{len(listed)} of {len(report.items)} ({head})")


def show_run(report: Report) -> None:
    """Print how a run's items ended, how many are right, the figures of several trials, and the cost."""
    groups: dict[str, Counter[str]] = {}
    scores: dict[str, list[float]] = {}
    for item in report.items:
        groups.setdefault(item.group, Counter())[str(item.correct)] += 1
        if item.score is not None:
            scores.setdefault(item.group, []).append(item.score)
    whole: Counter[str] = sum(groups.values(), Counter())
    if any(item.correct is not None for item in report.items) or not scores:
        columns = ["group", "right", "graded", "rate", "not graded"]
        lines = [[name or "(none)", *_figures(tally)] for name, tally in groups.items()]
        last = ["all", *_figures(whole)]
    else:
        columns = ["group", "items", "mean score"]
        every = [score for group in scores.values() for score in group]
        lines = [
            [name or "(none)", str(len(group)), f"{sum(group) / len(group):.4f}"] for name, group in scores.items()
        ]
        last = ["all", str(len(every)), f"{sum(every) / len(every):.4f}"]
    print_table(report.folder, columns, [*lines, [], last])
    graded = by_trial(report.items)
    if graded and any(item.trial > 1 for item in report.items):
        print_section(report, trial_section(graded, {item.item: item.group or "all" for item in report.items}))
        for note in flip_notes(graded):
            put(note)
    if report.overall is not None and report.overall.grounded is not None:
        put(f"Grounded: {rate_words(report.overall.grounded)}")
    for line in (*_kinds(report), *measured_on(report)):
        put(line)
    if report.finish_reasons:
        put("Not ended by the model: " + ", ".join(f"{n} {reason}" for reason, n in report.finish_reasons.items()))
    put("Ended: " + ", ".join(f"{count} {status}" for status, count in report.endings.items()))
    if report.spent.calls:
        spent = report.spent
        put(f"Spent: {spent.calls:,} calls, {spent.usage.total:,} tokens, {dollars(spent.cost)}")
    example = report.items[0].item if report.items else "ITEM"
    put(f"Slowest item: {duration(report.slowest)}. One item: medagent show {report.folder} {example}")


def _kinds(report: Report) -> Iterator[str]:
    """The wrong and lucky items by kind, the most frequent kind first, with the first few items of each."""
    items_by_kind: dict[str, list[str]] = {}
    for item in report.items:
        if kind := LUCKY if item.is_lucky else item.kind:
            items_by_kind.setdefault(kind, []).append(item.item if item.trial == 1 else f"{item.item}#{item.trial}")
    for kind, names in sorted(items_by_kind.items(), key=lambda one: -len(one[1])):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{len(names)} {kind}: {', '.join(names[:_NAMED])}{more}"


def _figures(tally: Counter[str]) -> list[str]:
    right, graded = tally["True"], tally["True"] + tally["False"]
    return [str(right), str(graded), percent(right / graded if graded else None), str(tally["None"])]


def show_item(view: ItemView, *, full: bool = False) -> None:
    """Print one item: its messages, then its outcome; in a terminal with a pager.

    The prompt and FHIR Bundles are folded unless `full`: the last paragraph of the prompt and one line per resource of
    a Bundle are shown.
    """
    import os

    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        _print_item(console, view, full)
        return
    os.environ.setdefault("LESS", "-RFX")  # allow colours; do not page what fits on the screen
    with console.pager(styles=True):
        _print_item(console, view, full)


def _print_item(console: Console, view: ItemView, full: bool) -> None:
    for place, message in enumerate(view.messages):
        role = " ".join(printable(message.role).split())
        console.rule(role, align="left", style="cyan" if role == "agent" else "dim", characters="─")
        if message.reasoning:
            _print(console, message.reasoning, style="dim italic")
        if not full and message.role == REQUESTS:
            console.print(f"{message.text.partition(chr(10))[0]} (--full shows them)", style="dim")
        elif not full and place == 0 and message.role != "agent" and len(message.text) > _LONG_PROMPT:
            console.print(f"… {len(message.text):,} characters (--full shows them); the last of them:", style="dim")
            _print(console, message.text.rstrip().rpartition("\n\n")[2][-_LONG_PROMPT:], style="")
        else:
            _print_parts(console, message, view.decides, full)
    if view.messages:
        console.rule("outcome", align="left", characters="─")
    for line in view.lines:
        style = "bold" if line.startswith(("verdict:", "why:", "because:")) else "red" if "✗" in line else None
        console.print(printable(line), markup=False, style=style)


def _print_parts(console: Console, message: ShownMessage, decides: Sequence[str], full: bool) -> None:
    style = "bold" if message.role == "agent" else ""
    if full:
        _print(console, message.text, style=style)
        return
    for part, is_json in _parts(message.text):
        lines = bundle_lines(part, decides) if is_json else None
        if lines is None:
            _print(console, part, style=style)
            continue
        for line in lines:
            console.print(printable(line), markup=False, style="bold yellow" if line.endswith(DECIDES) else None)


def _print(console: Console, text: str, style: str) -> None:
    """A text: plain in a pipe; in a terminal its JSON is coloured."""
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    if not console.is_terminal:
        console.print(printable(text), style=style or None, markup=False)
        return
    for part, is_json in _parts(text):
        shown = Text(printable(part), style)
        if is_json:
            JSONHighlighter().highlight(shown)
        console.print(shown)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a message: formatted JSON values that fill whole lines (True), and other lines (False)."""
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
    """JSON with line breaks. The tokens are unchanged."""
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
