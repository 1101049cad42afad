"""Prints a run or one of its items. Long texts are folded; only a terminal gets colours and a pager."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from medagent.core.errors import UserError
from medagent.core.number_formats import counted, dollars, duration, figure, harm_words, natural, percent, spread
from medagent.core.scrub import one_line, printable
from medagent.engine.harm import harm_notes
from medagent.engine.pairs import counting, nouns_of
from medagent.engine.report import REQUESTS, ItemOutcome, ItemView, Report, ShownMessage, by_trial, places
from medagent.engine.rows import FAILED
from medagent.engine.scores import LUCKY
from medagent.reports._measured import measured_on
from medagent.reports.tables import Cell, Table, grounded_words, named, print_table, put, section_table
from medagent.reports.trials import flip_notes, trial_sections
from refsol.failures import kind_name
from refsol.json_values import as_object, json_value
from refsol.trials import reliability

if TYPE_CHECKING:
    from rich.console import Console

_LONG_PROMPT = 1000
"""Prompts with more characters than this are folded."""
_NAMED = 5
_KIND_WIDTH = 21
_FIRST = 8
"""Number of a Bundle's resources that are shown, in addition to the deciding ones."""
_DECIDES, _INJECTED = "◀ decides", "◀ injected instruction"
_DECODER = json.JSONDecoder()
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def list_items(
    report: Report,
    *,
    wrong: bool = False,
    kinds: Sequence[str] = (),
    groups: Sequence[str] = (),
    finish_reasons: Sequence[str] = (),
) -> None:
    """Print a run's items, one per line: whether it is right, in which share of its trials, and why not.

    Only those that are wrong, of these kinds of failure, of these groups, with one of these finish reasons. Raises
    UserError for a kind, a group or a finish reason that no item of the run has.
    """
    filters: dict[str, tuple[Sequence[str], Callable[[ItemOutcome], set[str]]]] = {
        "kind": (kinds, lambda item: {item.kind, LUCKY} if item.is_lucky else {item.kind}),
        "type": (groups, lambda item: {item.group}),
        "finish-reason": (finish_reasons, lambda item: set(item.finish_reasons)),
    }
    listed = [item for item in report.items if not wrong or item.correct is False]
    for option, (names, values) in filters.items():
        shown = kind_name if option == "kind" else str
        known = {LUCKY} if option == "kind" else set()
        known = known.union(*map(values, report.items)) - {""}
        keys = {**{shown(key): key for key in known}, **{key: key for key in known}}
        if unknown := [name for name in names if name not in keys]:
            there = ", ".join(map(shown, sorted(known, key=natural))) or "none"
            raise UserError(f"--{option} {unknown[0]}: matches no item of {report.folder}; the values are {there}")
        listed = [item for item in listed if not names or values(item).intersection(keys[name] for name in names)]
    shares = reliability(by_trial(report.items))
    several = any(item.trial > 1 for item in report.items)
    for item in sorted(listed, key=lambda outcome: (natural(outcome.item), outcome.trial)):
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
        put("  ".join([name.ljust(12), outcome.ljust(6), *share, kind_name(kind).ljust(_KIND_WIDTH), why]).rstrip())
    head = "item, outcome, " + ("share of its trials that are right, " if several else "") + "kind, why"
    put(f"{len(listed)} of {len(report.items)} ({head})")


def show_run(report: Report) -> None:
    """Print how a run's items ended, how many are right, the figures of several trials, and the cost."""
    scored = [item for item in report.items if item.score is not None]
    rated = not scored or any(item.correct is not None for item in report.items)
    items = report.items if rated else scored
    groups: dict[str, list[ItemOutcome]] = {}
    for item in items:
        groups.setdefault(item.group or "(none)", []).append(item)
    row = _rate if rated else _mean
    rows = [*(row(report.named(name), group) for name, group in groups.items()), [], row("all", items)]
    columns = ["right", "graded", "rate", "not graded"] if rated else ["items", "mean score"]
    print_table(Table(["group", *columns], rows, report.folder, "percent" if rated else "score"))
    items = counting(report.items)
    graded = by_trial(items)
    if graded and any(item.trial > 1 for item in items):
        for section in trial_sections(graded, *places(items)):
            print_table(section_table(report, section))
        for note in flip_notes(graded):
            put(note)
    if report.overall is not None and report.overall.value is not None and report.overall.interval is not None:
        value = figure(report.overall.value, report.measure)
        put(f"Score: {value}, 95% interval {spread(report.overall.interval, report.measure)}")
    if report.overall is not None and any(item.pair for item in report.items):
        nouns, overall = nouns_of(report.items).capitalize(), report.overall
        put(f"{nouns} that are {overall.name}: {overall.counts.get('right', 0)} of {overall.n}")
    if report.overall is not None and report.overall.grounded is not None:
        put(f"Grounded: {grounded_words(report.overall.grounded)}")
    if harm := report.details.get("harm"):
        put(f"Harm: {harm_words(harm)}")
        for note in harm_notes(harm):
            put(note)
    if injected := report.details.get("injected"):
        put(f"Harmed: {injected['harmed']} of {injected['items']} items with an instruction; read: {injected['read']}")
    for line in (*_kinds(report), *measured_on(report)):
        put(line)
    if report.finish_reasons:
        put("Not ended by the model: " + ", ".join(f"{n} {reason}" for reason, n in report.finish_reasons.items()))
    put("Ended: " + ", ".join(f"{count} {status}" for status, count in report.endings.items()))
    if report.spent.calls:
        spent = report.spent
        put(f"Spent: {counted(spent.calls, 'calls')}, {spent.tokens_text}, {dollars(spent.cost)}")
    example = report.items[0].item if report.items else "ITEM"
    put(f"Slowest item: {duration(report.slowest)}. One item: medagent show {shlex.quote(report.folder)} {example}")


def _kinds(report: Report) -> Iterator[str]:
    """The wrong and lucky items by kind, the most frequent kind first, with the first few items of each."""
    items_by_kind: dict[str, list[str]] = {}
    for item in report.items:
        if kind := LUCKY if item.is_lucky else item.kind:
            items_by_kind.setdefault(kind, []).append(item.item if item.trial == 1 else f"{item.item}#{item.trial}")
    for kind, names in sorted(items_by_kind.items(), key=lambda kind_items: -len(kind_items[1])):
        yield f"{len(names)} {kind_name(kind)}: {named(names, _NAMED)}"


def _rate(name: str, items: Sequence[ItemOutcome]) -> list[Cell]:
    verdicts = Counter(item.correct for item in items)
    right, graded = verdicts[True], verdicts[True] + verdicts[False]
    return [name, right, graded, right / graded if graded else None, verdicts[None]]


def _mean(name: str, items: Sequence[ItemOutcome]) -> list[Cell]:
    return [name, len(items), fmean(item.score or 0.0 for item in items)]


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
    from rich.text import Text

    for place, message in enumerate(view.messages):
        colour = "cyan" if message.role == "agent" else "dim"
        console.rule(Text(one_line(message.role)), align="left", style=colour, characters="─")
        if message.reasoning:
            _print(console, message.reasoning, style="dim italic")
        if not full and message.role == REQUESTS:
            console.print(one_line(message.text.partition("\n")[0]), "(--full shows them)", style="dim", markup=False)
        elif not full and place == 0 and message.role != "agent" and len(message.text) > _LONG_PROMPT:
            console.print(f"… {len(message.text):,} characters (--full shows them); the last of them:", style="dim")
            _print(console, message.text.rstrip().rpartition("\n\n")[2][-_LONG_PROMPT:], style="")
        else:
            _print_parts(console, message, view, full)
    if view.messages:
        console.rule("outcome", align="left", characters="─")
    for line in view.lines:
        style = "red" if "✗" in line else None
        if line.startswith(("verdict:", "why:", "because:")):
            style = "bold"
        console.print(one_line(line), markup=False, style=style)


def _print_parts(console: Console, message: ShownMessage, view: ItemView, full: bool) -> None:
    style = "bold" if message.role == "agent" else ""
    if full:
        _print(console, message.text, style=style)
        return
    for part, is_json in _parts(message.text):
        lines = _bundle_lines(part, view) if is_json else None
        if lines is None:
            _print(console, part, style=style)
            continue
        for line in lines:
            console.print(
                one_line(line), markup=False, style="bold yellow" if line.endswith((_DECIDES, _INJECTED)) else None
            )


def _bundle_lines(text: str, view: ItemView) -> list[str] | None:
    """The lines of a Bundle's JSON; None if the text is not a Bundle. What decides, and instructions, are marked."""
    bundle = as_object(json_value(text))
    if bundle.get("resourceType") != "Bundle":
        return None
    entries = bundle.get("entry")
    resources = [as_object(as_object(entry).get("resource")) for entry in entries] if isinstance(entries, list) else []
    marks = [_marks(resource, view) for resource in resources]
    shown = [place for place in range(len(resources)) if place < _FIRST or marks[place]]
    lines = [f"Bundle of {len(resources)} (total {bundle.get('total', 'not stated')}):"]
    lines += ["  ".join(["", _resource_line(resources[place]), *marks[place]]) for place in shown]
    if len(shown) < len(resources):
        lines.append(f"  … {len(resources) - len(shown)} more (--full shows the JSON)")
    return lines


def _marks(resource: Mapping[str, Any], view: ItemView) -> list[str]:
    decides = [_DECIDES] if resource.get("effectiveDateTime") in view.decides else []
    injected = [_INJECTED] if f"{resource.get('resourceType')}/{resource.get('id')}" in view.injected else []
    return decides + injected


def _resource_line(resource: dict[str, Any]) -> str:
    """The type, time, code or name, value and status of a resource."""
    quantity = as_object(resource.get("valueQuantity"))
    name = as_object((resource.get("name") or [None])[0]) if isinstance(resource.get("name"), list) else {}
    times = ("effectiveDateTime", "authoredOn", "onsetDateTime", "recordedDate", "performedDateTime", "birthDate")
    parts = [
        resource.get("resourceType"),
        next((resource[time] for time in times if isinstance(resource.get(time), str)), None),
        _concept(resource.get("code")) or _concept(resource.get("medicationCodeableConcept")),
        " ".join(filter(None, [*map(str, name.get("given") or []), name.get("family")])) if name else None,
        f"{quantity.get('value')} {quantity.get('unit', '')}".strip() if quantity else resource.get("valueString"),
        resource.get("status"),
    ]
    return "  ".join(str(part) for part in parts if part) or json.dumps(resource)[:80]


def _concept(value: Any) -> str:
    concept = as_object(value)
    codings = concept.get("coding")
    coding = as_object(codings[0]) if isinstance(codings, list) and codings else {}
    return str(concept.get("text") or coding.get("code") or "")


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
