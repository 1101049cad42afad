"""The default table of a run: at most 25 lines and 78 columns, whatever the width of the terminal and the benchmark.

A benchmark's grader says which lines belong to it (`TableSection.detail`, `Metrics.background`). Everything else is
printed with `--full` (`end.py`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from pathlib import Path

from medagent.core.number_formats import bare, counted, dollars, duration, figure, harm_words, percent, spread
from medagent.core.plugins import is_import_path, is_whole_file
from medagent.core.scrub import printable
from medagent.engine.accounts import most_left_out
from medagent.engine.folder import read_run
from medagent.engine.pairs import counting
from medagent.engine.report import MISSING, Report, TableLine, TableSection, by_trial, places
from medagent.reports._measured import repeated, title
from medagent.reports.tables import DOING_NOTHING, MOST_LINES, put, sorted_lines
from refsol.clinical.one_page import ONE_PAGE
from refsol.failures import kind_name
from refsol.trials import rates

LINES, COLUMNS = 25, 78
_FEWEST_NOTES = 2
"""The lines of notes that many rows leave room for."""
_GAP = 3
_KINDS = 6
_CUT = 10
"""The lines that are shown of a section with more than `MOST_LINES`."""
CONTINUE = "Continue: "
_NEXT = "Next: "
_UNBROKEN = "\xa0"
_VALUE = re.compile(r"(?<= )(--\S+) (?!--)")
"""An option before its value."""
_SPACE = "\0"
"""A space at which a command is not broken: no command contains this character."""
_WORDS = {"nop": DOING_NOTHING, "yes": "always yes"}


def print_summary(report: Report, closing: Iterable[str] = (), command: str = "") -> None:
    """Print the table. `closing` are lines about the end of a run, `command` continues it."""
    for line in summary(report, closing, command, min(COLUMNS, shutil.get_terminal_size((COLUMNS, LINES)).columns)):
        put(line)


def summary(report: Report, closing: Iterable[str], command: str, width: int) -> list[str]:
    """The lines. Rows matter more than notes, and notes more than further commands. What does not fit is counted, not
    cut silently.
    """
    head = _wrapped([title(report), *_score(report)], width)
    rows = list(_rows(report, width))
    wrong, notes_of_run = list(_wrong(report)), _notes(report)
    # With instructions in the charts, how often the agent followed them is what the run measures.
    ordered = [*notes_of_run, *wrong] if report.details.get("injected") else [*wrong, *notes_of_run]
    notes = _wrapped([*closing, *ordered], width)
    last = _wrapped(_cost(report), width)
    if command:
        last += _command(CONTINUE, command, width)
    following = _next(report, width)
    used = len(head) + len(rows) + len(notes) + len(last)
    last += chain.from_iterable(following if used + sum(map(len, following)) <= LINES else following[:1])
    gap = [""] if len(head) + len(rows) + len(notes) + len(last) + 2 <= LINES else []
    room = max(LINES - len(head) - len(last) - 2 * len(gap), _FEWEST_NOTES + 1)
    rows = _shortened(rows, room - min(len(notes), _FEWEST_NOTES))
    notes = _shortened(notes, room - len(rows))
    return [*head, *(gap if rows else []), *rows, *gap, *notes, *last]


def _score(report: Report) -> Iterator[str]:
    """The score with its interval and the grounded items; the baselines; why it is not a measurement."""
    overall = report.overall
    if overall is not None and overall.value is not None and report.table:  # no table: nothing was graded
        n = f"{overall.counts['right']} of {overall.n:,}" if "right" in overall.counts else f"{overall.n:,} items"
        if missing := report.details.get(MISSING):
            n += f"; {missing['missing']:,} of {missing['of']:,} missing"
        if 0 < report.patients < len({item.item for item in report.items}):
            n += f"; {counted(report.patients, 'patients')}"
        parts = [f"Score {figure(overall.value, report.measure)} ({n})"]
        if overall.interval:
            parts.append(f"95% interval {spread(overall.interval, report.measure)}")
        if overall.grounded is not None and overall.grounded.n:
            parts.append(f"data read for {overall.grounded.right} of {overall.grounded.n}")
        if harm := harm_words(report.details.get("harm")):
            parts.append(f"harm {harm}")
        if words := most_left_out(report.data.accounts):
            parts.append(words)
        yield _beside(parts)
        yield from _baselines(report, overall.value)
    yield from _trials(report)
    if attempts := repeated(report):
        yield f"Repeated attempts: {attempts}"
    if report.unusable:
        yield f"Not a measurement: {report.unusable}"


def _trials(report: Report) -> Iterator[str]:
    """pass@k and pass^k of all trials, if there are several."""
    items = counting(report.items)
    outcomes, trials = by_trial(items), max((item.trial for item in items), default=1)
    if outcomes and trials > 1:
        figures = rates(outcomes, *places(items))
        numbers = {"pass@1": figures.at[0], f"pass@{trials}": figures.at[-1], f"pass^{trials}": figures.hat[-1]}
        yield _beside([f"Mean of {trials} trials", *(f"{name} {percent(value)}" for name, value in numbers.items())])


def _baselines(report: Report, score: float) -> Iterator[str]:
    """The agents that read nothing in one line, and whether the run is above the best of them; the agent that opens one
    page of each search in another.
    """
    known = {_WORDS.get(name, name): value for name, value in report.baselines.items() if value is not None}
    one_page = known.pop(ONE_PAGE, None)
    if known:
        best = max(reversed(known), key=lambda name: known[name])
        if report.settings.get("agent") == "reference" and known[best] == 1:
            yield "Nobody needs a chart for these items: an agent that reads nothing is right on all of them."
            return
        relation = "no better than"
        if score != known[best]:
            relation = "below" if score < known[best] else "above"
        *others, last = (f"{name} {bare(value, report.measure)}" for name, value in known.items())
        text = _beside([*others, f"{last}: this run is {relation} {best}"])
        yield f"{text[:1].upper()}{text[1:]}"
    if one_page is not None and not report.owed:  # otherwise, what is owed needs this row
        yield f"One page of each search {bare(one_page, report.measure)}"


def _rows(report: Report, width: int) -> Iterator[str]:
    """The lines of the table. The title of the first section stands above the names."""
    sections = [section for section in report.table if section.lines and not section.detail]
    shown = [_shown_lines(section) for section in sections]
    lines = list(chain.from_iterable(shown))
    if not any(line.n for line in lines):
        return
    right = any("right" in line.counts for line in lines)
    columns = {"right" if right else sections[0].count or report.count: [_n(line) for line in lines]}
    if any(line.value is not None for line in lines):
        columns[sections[0].figure or report.figure] = [figure(line.value, report.measure) for line in lines]
    if any(map(_read, lines)):
        columns["data read"] = list(map(_read, lines))
    names = [printable(report.named(line.name)) for line in lines]
    rows = iter(_aligned([sections[0].title, *names], columns, width))
    yield next(rows)
    for number, (section, of_section) in enumerate(zip(sections, shown, strict=True)):
        if number and section.title:
            yield section.title
        yield from islice(rows, len(of_section))
        if cut := len(section.lines) - len(of_section):
            yield f"… and {counted(cut, 'groups')} more: --full"


def _shown_lines(section: TableSection) -> Sequence[TableLine]:
    """The lines of a section, or the first of many."""
    return sorted_lines(section)[: _CUT if len(section.lines) > MOST_LINES else None]


def _n(line: TableLine) -> str:
    """The number of right items and of all, or the number of items."""
    return f"{line.counts['right']:,} / {line.n:,}" if "right" in line.counts else f"{line.n:,}"


def _read(line: TableLine) -> str:
    """The number of items whose data were read, of those that need it; empty if none does."""
    rate = line.grounded
    return f"{rate.right:,} / {rate.n:,}" if rate is not None and rate.n else ""


def _aligned(names: Sequence[str], columns: Mapping[str, Sequence[str]], width: int) -> Iterator[str]:
    """A row per name, the first with the columns' headings. Names that are too long for the width are cut."""
    from rich.cells import cell_len, set_cell_size

    texts = [[head, *cells] for head, cells in columns.items()]
    texts = [[cell.rjust(max(map(len, column)) + _GAP) for cell in column] for column in texts]
    room = min(max(map(cell_len, names)), width - sum(len(column[0]) for column in texts))
    for name, *cells in zip(names, *texts, strict=True):
        shown = name if cell_len(name) <= room else f"{set_cell_size(name, room - 1)}…"
        yield (set_cell_size(shown, room) + "".join(cells)).rstrip()


def _wrong(report: Report) -> Iterator[str]:
    """How often each kind of failure occurs in graded items, the most frequent kinds first."""
    faults = report.failure_groups
    if faults:
        words = [f"{len(fault.items):,} {kind_name(fault.kind)}" for fault in faults[:_KINDS]]
        more = sum(len(fault.items) for fault in faults[_KINDS:])
        yield "Wrong: " + ", ".join([*words, *([f"{more:,} other"] if more else [])])


def _notes(report: Report) -> list[str]:
    """The notes, without those that only `--full` shows."""
    return [note for note in report.notes if note not in report.background]


def _cost(report: Report) -> Iterator[str]:
    """What the run cost, and what its score may be compared with."""
    spent, note = report.spent, report.data.note
    if spent.calls:
        cost = f"Cost {dollars(spent.cost)}" if spent.cost is not None else "Cost unknown"
        unanswered = spent.unanswered or 0
        tokens = f"{_short(spent.usage.total - unanswered)} tokens"
        if unanswered:
            tokens += f" and up to {_short(unanswered)} of requests without a reply"
        yield ", ".join(filter(None, [cost, tokens, _time(report)])) + "."
    if note:
        yield f"{note[:1].upper()}{note[1:]}."


def _time(report: Report) -> str:
    """The time from the first unit to the last; empty for a run that was continued, which may have paused for days."""
    if not (report.started and report.ended) or report.reused:
        return ""
    return duration((datetime.fromisoformat(report.ended) - datetime.fromisoformat(report.started)).total_seconds())


def _short(tokens: int) -> str:
    """A number of tokens: `950`, `812k`, `1.2M`."""
    if tokens < 1000:
        return f"{tokens}"
    return f"{tokens / 1000:.0f}k" if tokens < 999_500 else f"{tokens / 1e6:.1f}M"


def _next(report: Report, width: int) -> list[list[str]]:
    """The commands to read more about a run's folder: on one line if they fit, otherwise each on lines of its own."""
    folder = Path(report.folder)
    if not (folder / "run.json").is_file():
        return []
    benchmark = str(read_run(folder)["benchmark"]).removeprefix(os.path.join(os.getcwd(), ""))
    is_own_code = is_import_path(benchmark) or is_whole_file(benchmark)
    code = f" --benchmark {shlex.quote(benchmark)}" if is_own_code else ""
    wrong = any(item.correct is False for item in report.items)
    what = [("show", "--wrong"), ("report", "--open"), ("grade", "--full")][not wrong :]
    following = [f"medagent {name} {shlex.quote(str(folder))} {option}{code}" for name, option in what]
    if len(line := _NEXT + " · ".join(following)) <= width:
        return [[line]]
    margins = [_NEXT, *[" " * len(_NEXT)] * (len(following) - 1)]
    return [_command(margin, command, width) for margin, command in zip(margins, following, strict=True)]


def _command(before: str, command: str, width: int) -> list[str]:
    """A command, with the text before it, on lines of this width, as a shell reads them."""
    whole = " ".join(shlex.quote(word).replace(" ", _SPACE) for word in shlex.split(command))
    lines = _wrapper(width - 2, " " * (len(_NEXT) + 2)).wrap(before + _VALUE.sub(rf"\1{_SPACE}", whole))
    return [line.replace(_SPACE, " ") for line in " \\\n".join(lines).split("\n")]


def _beside(parts: Iterable[str]) -> str:
    """Parts on one line. A line that is too long breaks between two of them."""
    return (" " * _GAP).join(part.replace(" ", _UNBROKEN) for part in parts)


def _wrapped(texts: Iterable[str], width: int) -> list[str]:
    """The texts on lines of this width."""
    wrap = _wrapper(width, "  ").wrap
    return [line.replace(_UNBROKEN, " ") for text in texts for line in wrap(printable(text))]


def _wrapper(width: int, indent: str) -> textwrap.TextWrapper:
    return textwrap.TextWrapper(width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _shortened(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as there is room for; the last one then counts the others."""
    if len(lines) <= room:
        return list(lines)
    return [*lines[: room - 1], f"… and {counted(len(lines) - room + 1, 'lines')} more: --full"]
