"""docs/notebook.ipynb: its cells are executed, and its stored outputs are those of this version."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent.core.errors import UserError
from medagent.engine import ItemOutcome, Spent, TableLine
from medagent.engine.report import Report
from tests.shared_data import ROOT

CELLS = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]


def executed(source: str, names: dict[str, Any]) -> Any:
    """The value of a cell's last expression, None if it ends otherwise."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "notebook", "exec"), names)
    return eval(compile(ast.Expression(last.value), "notebook", "eval"), names) if isinstance(last, ast.Expr) else None


def stored(cell: dict[str, Any], kind: str) -> str:
    """What a cell's outputs hold of a type."""
    shown = [out for out in cell["outputs"] if out.get("name") != "stderr"]
    return "".join("".join(out.get("data", {}).get(kind, out.get("text", ""))) for out in shown)


def test_the_notebook_runs_and_its_outputs_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": "notebook"}
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    values = [executed("".join(cell["source"]), names) for cell in code]
    assert not [out for cell in code for out in cell["outputs"] if out["output_type"] == "error"]
    shown = values[0]._repr_html_()
    assert "<table>" in shown
    assert "<details><summary>" in shown
    assert "95% interval " in shown
    head = shown.partition("<table>")[0]
    for words in ("compared with blind: ", "data read for ", "harm: ", "Commonest fault: ", "Example: <b>task"):
        assert words in head
    assert "reading-missed" not in shown
    assert shown == stored(code[0], "text/html")
    assert stored(code[0], "text/plain").startswith("30/30 · ")  # the progress
    assert repr(values[0]) in stored(code[1], "text/plain")
    assert list(values[2].columns) == ["item", "kind", "reason"]
    assert set(values[4].role) == {"agent"}
    assert "image/png" in {kind for out in code[5]["outputs"] for kind in out.get("data", {})}
    rates, costs = values[5].axes
    assert rates.get_yticklabels()[0].get_text() == "overall"
    assert costs.get_xlabel() == "cost in US dollars"
    assert values[6].overall.n == 10


def test_a_report_shows_what_models_wrote_as_text() -> None:
    item = ItemOutcome(item="<i>", correct=False, reason="<script>alert(1)</script>", kind="wrong-value")
    report = Report(
        benchmark="b", folder="f", items=(item,), overall=TableLine(name="overall", n=1, value=0.0), notes=("<b>",)
    )
    assert "<script>" not in report._repr_html_()
    assert "&lt;script&gt;" in report._repr_html_()
    assert repr(report) == "<Report b; 1 items, 0.0%; f>"
    assert repr(Report(benchmark="b", folder="f")) == "<Report b; not graded; f>"
    with pytest.raises(UserError, match=r"use 'items', 'turns' or 'checks'"):
        report.to_pandas("rows")  # type: ignore[arg-type]  # the error is tested
    with pytest.raises(UserError, match=r"episodes\.jsonl: cannot be read"):
        report.to_pandas("turns")


def test_cost_is_drawn_against_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    line = TableLine(name="overall", n=4, value=0.5, interval=(0.2, 0.8))
    cheap, dear = (
        Report(benchmark="b", folder=f"results/{name}", overall=line, spent=Spent(cost=cost, calls=1))
        for name, cost in (("cheap", 0.5), ("dear", 2.0))
    )
    _, costs = cheap.plot(dear).axes
    assert [tuple(drawn.get_xdata()) + tuple(drawn.get_ydata()) for drawn in costs.lines] == [(0.5, 0.5), (2.0, 0.5)]
    assert [text.get_text() for text in costs.texts] == ["cheap", "dear"]


def test_a_grader_without_an_overall_line_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sums.py").write_text(BENCHMARK)
    report = medagent.run_sync("sums.py:Sums", agent="sums.py:Two")
    assert report.overall is not None
    assert (report.overall.value, report.overall.n) == (0.5, 2)
    assert medagent.grade(report.folder, benchmark="sums.py:Sums").overall == report.overall


BENCHMARK = """
import medagent
from medagent.engine import Metrics


class Grader(medagent.Grader):
    def score(self, item, row, judged=None):
        return medagent.Score(correct=row.reply == item.target)

    def metrics(self, scores):
        return Metrics()


class Sums(medagent.Benchmark):
    name = "sums"
    Settings = medagent.RunSettings
    row = medagent.ReplyRow

    def items(self, source):
        return [medagent.Item(id="a", question="1+1?", target="2"), medagent.Item(id="b", question="1+2?", target="3")]

    async def plan(self, settings, say):
        return medagent.single_turn(self, settings)

    def grader(self, source, rules):
        return Grader()


class Two(medagent.Agent):
    def play(self, task, prompt):
        yield "2"
"""
