"""A `Report` in Python and in notebooks: HTML, one line, data frames, a plot. `Report` inherits these methods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args

from medagent.core.errors import UserError
from medagent.core.number_formats import difference, difference_spread, dollars, figure, harm_words, spread
from medagent.core.suggest import check_option
from medagent.core.writing import inside
from refsol.failures import kind_name
from refsol.files import unique

FrameName = Literal["items", "turns", "checks"]
ITEM_COLUMNS = ("item", "trial", "group", "status", "correct", "score", "kind", "reason", "because")
TURN_COLUMNS = ("item", "trial", "turn", "role", "text")
CHECK_COLUMNS = ("item", "trial", "check", "passed", "expected", "actual")
_STYLE = "text-align:right;padding:2px 10px"
_LISTED = 50
"""The most items of a kind of failure that the HTML lists."""


class NotebookViews:
    """The methods of `Report` for Python and notebooks."""

    def __repr__(self: Any) -> str:
        """One line: benchmark, rate with its interval, data, agent and model, folder."""
        settings = self.settings
        who = " with ".join(str(settings[name]) for name in ("agent", "model") if settings.get(name))
        data = " ".join(filter(None, (self.data.name, self.data.version)))
        parts = [self.benchmark, _overall(self), data, who, self.folder]
        return f"<Report {'; '.join(filter(None, parts))}>"

    def _repr_html_(self: Any) -> str:
        """The score, the commonest fault, the tables with intervals, and the wrong items by kind of failure, folded."""
        lines = [f"<p><b>{escape(self.benchmark)}</b>: {escape(_overall(self))}; {escape(self.data.name)} "]
        lines += [f"{escape(self.data.version)}; cost {dollars(self.spent.cost) if self.spent.calls else '–'}</p>"]
        lines += _read_and_harm(self)
        lines += _commonest(self)
        lines += [_table(self, section) for section in self.table]
        lines += [_fault(fault, number) for number, fault in enumerate(self.failure_groups)]
        lines += [f"<p>{escape(note)}</p>" for note in self.notes]
        return "\n".join(lines)

    def to_pandas(self: Any, table: FrameName = "items") -> Any:
        """A data frame with one row per item (`items`), message (`turns`) or check of a verdict (`checks`).

        `turns` and `checks` are read from the run's folder. Needs the extra `notebook`. Raises UserError.
        """
        check_option("table", table, get_args(FrameName))
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise UserError("to_pandas needs pandas: pip install 'medagent[notebook]'") from None
        if table == "items":
            rows = [[getattr(item, name) for name in ITEM_COLUMNS] for item in self.items]
            return pd.DataFrame(rows, columns=ITEM_COLUMNS)
        if table == "turns":
            return pd.DataFrame(list(_turns(Path(self.folder) / "episodes.jsonl")), columns=TURN_COLUMNS)
        return pd.DataFrame(list(_checks(Path(self.folder) / "scores.jsonl")), columns=CHECK_COLUMNS)

    def plot(self: Any, *others: Any) -> Any:
        """A matplotlib figure: the rate of each group with its 95% interval, and the cost and overall rate of this
        report and of `others`. Needs the extra `notebook`. Raises UserError.
        """
        try:
            import matplotlib.pyplot as plt
        except ModuleNotFoundError:
            raise UserError("plot needs matplotlib: pip install 'medagent[notebook]'") from None
        lines = [line for section in self.table[:1] for line in section.lines if line.value is not None]
        if self.overall is not None and self.overall.value is not None:
            lines.append(self.overall)
        drawn, (rates, costs) = plt.subplots(1, 2, figsize=(11, 1.5 + 0.3 * max(len(lines), 4)))
        for place, line in enumerate(reversed(lines)):
            low, high = line.interval or (line.value, line.value)
            errors = [[max(line.value - low, 0)], [max(high - line.value, 0)]]
            rates.errorbar(line.value, place, xerr=errors, fmt="o", color="tab:blue", capsize=3)
        rates.set_yticks(range(len(lines)), [line.name for line in reversed(lines)])
        rates.set(xlabel=f"{self.figure}, 95% interval", title=self.benchmark)
        for report in (self, *others):
            if report.overall is not None and report.overall.value is not None and report.spent.cost is not None:
                costs.plot(report.spent.cost, report.overall.value, "o")
                costs.annotate(Path(report.folder).name, (report.spent.cost, report.overall.value))
        costs.set(xlabel="cost in US dollars", ylabel=self.figure, title="cost and score")
        if not costs.lines:
            costs.text(0.5, 0.5, "cost unknown", ha="center", transform=costs.transAxes)
        drawn.tight_layout()
        plt.close(drawn)  # otherwise a notebook shows the returned figure twice
        return drawn


def _overall(report: Any) -> str:
    """`29 of 30 right, 96.7% (95% interval 83.3–99.4)`."""
    line = report.overall
    if line is None or line.value is None:
        return "not graded"
    right = f"{line.counts['right']} of {line.n} right, " if "right" in line.counts else f"{line.n} items, "
    interval = spread(line.interval, report.measure) if line.interval else ""
    return right + figure(line.value, report.measure) + (f" (95% interval {interval})" if interval else "")


def _read_and_harm(report: Any) -> list[str]:
    """The difference from the blind baseline, whether the agent read the deciding data, and what its orders would have
    done, as far as it is known.
    """
    margin = report.details.get("above_blind")
    blind = ""
    if margin:
        blind = (
            f"compared with blind: {difference(margin['difference'])} (95% {difference_spread(margin['interval_95'])})"
        )
    grounded = report.overall.grounded if report.overall else None
    read = f"data read for {grounded.right} of {grounded.n}" if grounded and grounded.n else ""
    harm = harm_words(report.details.get("harm"))
    words = "; ".join(filter(None, [blind, read, f"harm: {harm}" if harm else ""]))
    return [f"<p>{escape(words)}</p>"] if words else []


def _commonest(report: Any) -> list[str]:
    """The most frequent kind of failure, how often it occurs, and a typical item."""
    faults = report.failure_groups
    if not faults:
        return []
    count, wrong = len(faults[0].items), sum(len(fault.items) for fault in faults)
    name = f"<b>{escape(kind_name(faults[0].kind))}</b> ({count} of {wrong} wrong)"
    item = faults[0].items[0]
    return [f"<p>Commonest fault: {name}. Example: <b>{escape(item.item)}</b> {escape(item.reason)}</p>"]


def _table(report: Any, section: Any) -> str:
    head = (section.name or "group", section.count or report.count, section.figure or report.figure, "95%")
    rows = [_row("th", head)]
    for line in section.lines:
        interval = spread(line.interval, report.measure) if line.interval else "–"
        rows.append(_row("td", (report.named(line.name), str(line.n), figure(line.value, report.measure), interval)))
    caption = f"<caption>{escape(section.title)}</caption>" if section.title else ""
    return f"<table>{caption}{''.join(rows)}</table>"


def _row(tag: str, cells: tuple[str, ...]) -> str:
    first, *others = (escape(cell) for cell in cells)
    figures = "".join(f'<{tag} style="{_STYLE}">{cell}</{tag}>' for cell in others)
    return f'<tr><{tag} style="text-align:left">{first}</{tag}>{figures}</tr>'


def _fault(fault: Any, number: int) -> str:
    """A kind of failure with its items, folded; its typical item is shown. The most frequent kind is open."""
    count, (typical, *others) = len(fault.items), fault.items[:_LISTED]
    more = f"<p>The first {_LISTED} of {count} are listed.</p>" if count > _LISTED else ""
    folded = f"<details><summary>{len(others)} more</summary>{''.join(map(_item, others))}{more}</details>"
    opened = " open" if number == 0 else ""
    summary = f"<summary><b>{escape(kind_name(fault.kind))}</b> {count}</summary>"
    return f"<details{opened}>{summary}{_item(typical)}{folded if others else ''}</details>"


def _item(item: Any) -> str:
    name = f"{item.item}#{item.trial}" if item.trial > 1 else item.item
    because = f"<br>{escape(item.because)}" if item.because not in item.reason else ""
    return f"<p style='margin-left:1em'><b>{escape(name)}</b> {escape(item.reason)}{because}</p>"


def _turns(journal: Path) -> Iterator[tuple[Any, ...]]:
    for unit, row in _last_lines(journal).items():
        messages = row.get("transcript") or [{"role": "answer", "content": row.get("reply")}]
        for number, turn in enumerate(messages, 1):
            yield (*_named(unit), number, turn["role"], turn["content"])


def _checks(scores: Path) -> Iterator[tuple[Any, ...]]:
    for unit, row in _last_lines(scores).items():
        for check in (row.get("score") or {}).get("checks", ()):
            yield (*_named(unit), check["name"], check["passed"], check["expected"], check["actual"])


def _last_lines(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each unit. Raises UserError if the file cannot be read."""
    last: dict[str, dict[str, Any]] = {}
    try:
        for line in inside(path).read_text(encoding="utf-8").splitlines():
            if line.strip():
                row = json.loads(line, object_pairs_hook=unique)
                last[row["unit"]] = row
    except (OSError, ValueError, LookupError) as error:
        raise UserError(f"{path}: cannot be read: {error}; the run's folder is needed") from None
    return last


def _named(unit: str) -> tuple[str, int]:
    """The item and the trial of a unit's key."""
    item, _, trial = unit.rpartition("#")
    return (item, int(trial)) if item and trial.isdigit() else (unit, 1)
