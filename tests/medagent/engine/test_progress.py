"""What a person sees of a run: whole figures in a terminal of any width, plain lines elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from medagent.engine.progress import Progress
from medagent.engine.rows import Row, Spent
from medagent.engine.scores import Item, Score, Scored
from medagent.models.limiter import EndpointStats


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch, width: int = 80) -> str:
    """What eleven task types leave on the screen, without escape codes."""
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    spent = Spent(calls=22, prompt=1_234_567, completion=1, cost=0.25)
    with Progress() as progress:
        progress.begin(22, 0)
        progress.watch([EndpointStats(limit=4, retries=3, waited_s=7)])
        for number in range(11, 0, -1):
            row = Row(unit=f"task{number}_1#1", status="completed", started="", timestamp="", seconds=number)
            item = Item(id=f"task{number}_1", group=f"task{number}")
            progress.add(row, spent, Scored(item, 1, row.unit, "completed", Score(correct=number != 2)))
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n")


@pytest.mark.parametrize("width", [40, 80, 110, 200])
def test_the_panel_cuts_no_figure_off(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = [line.rstrip() for line in show(Terminal(), monkeypatch, width).split("\n")]
    assert max(map(len, lines)) <= width
    last = lines[-next(i for i, line in enumerate(reversed(lines), 1) if "━" in line) :]
    assert set(last[0]) <= set("━╸╺")
    figures = [part for line in last[1:] for part in re.split(" · |  ", line) if part]
    assert figures[:4] == ["11/22", "right 91%", "1,234,568 tokens", "$0.2500"]
    assert figures[6:8] == ["3 retries, 7 s waited", "slowest task11_1#1 11.0 s"]
    assert figures[8:] == [f"task{n} {0 if n == 2 else 100}% of 1" for n in range(1, 12)]


def test_elsewhere_it_is_a_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    first, last, end = show(io.StringIO(), monkeypatch).split("\n")
    assert (first, end) == ("22 units", "")
    assert last.startswith("11/22 · right 91% · 1,234,568 tokens · $0.2500 · ")
    assert last.endswith("3 retries, 7 s waited · slowest task11_1#1 11.0 s")
