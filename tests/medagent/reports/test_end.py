"""What a person sees of a report: tables with the columns that it needs, what failed, what it cost, nothing else."""

from __future__ import annotations

import re

import pytest

from medagent.core.number_formats import figure
from medagent.engine.progress import State
from medagent.engine.report import ItemOutcome, ItemView, Report, ShownMessage, TableLine, TableSection
from medagent.engine.rows import FailedUnit, Spent
from medagent.reports.end import print_end, print_findings
from medagent.reports.show import show_item, show_run


def report(**changes: object) -> Report:
    lines = (
        TableLine(name="a", n=4, value=0.5, interval=(0.15, 0.85), counts={"right": 2}),
        TableLine(name="b", n=0, counts={"right": 0}, more={"not graded": 3, "rate of all": None}),
    )
    votes = TableSection(title="Votes", name="judge", lines=(TableLine(name="j", n=2, counts={"yes": 1, "no": 1}),))
    table = (TableSection(lines=lines, title="Bench"), TableSection(lines=lines[:1]), votes)
    values: dict[str, object] = {"benchmark": "bench", "folder": "results/x", "table": table, "files": ("run.json",)}
    return Report.model_validate({**values, **changes})


def said(capsys: pytest.CaptureFixture[str]) -> str:
    out = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", out)
    return "\n".join(" ".join(line.split()) for line in out.splitlines())


def test_the_table_has_the_columns_that_its_lines_need(capsys: pytest.CaptureFixture[str]) -> None:
    print_end(report(), full=True)
    out = said(capsys)
    assert "group right n rate 95% not graded rate of all" in out
    assert "a 2 4 50.0% 15.0–85.0" in out
    assert "b 0 0 – – 3 –" in out
    assert "judge yes no n" in out
    assert out.endswith("Files: results/x/ (run.json)")


def test_failures_are_grouped_and_the_command_that_continues_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [FailedUnit(unit=f"u{n}", status="model_error", error="500: down") for n in range(3)]
    failed.append(FailedUnit(unit="u9", status="fhir_error", error="away"))
    failed.append(FailedUnit(unit="u8", status="agent_error", error="mine"))
    endings = {"completed": 5, "invalid_action": 2, "model_error": 3}
    spent = {"model m": Spent(calls=3, prompt=10, completion=5), "judge j": Spent(calls=1, prompt=2, cost=0.5)}
    owed = ["u0", "u1", "u2", "u8", "u9", "not started"]
    print_end(report(failed=failed, owed=owed, endings=endings, command="medagent run", spending=spent), full=True)
    out = said(capsys)
    assert "Not completed: 2 invalid_action" in out
    assert "Owed and not graded: 6" in out
    assert "3 × model_error: 500: down (first: u0)" in out
    assert "Continue: medagent run" in out
    assert "model m: 3 calls, 10 + 5 tokens, –, 0 retries" in out
    assert "judge j: 1 call, 2 + 0 tokens, $0.5000" in out


def test_what_a_model_said_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    failed = FailedUnit(unit="u\x07", status="model_error", error="\x1b]0;title\x07")
    print_end(report(notes=["\x1b[2Jgone"], failed=[failed], owed=["u\x07"]))
    assert "␛[2Jgone" in said(capsys)
    show_item(ItemView([ShownMessage("agent", "\x1b[31mred\ud800", "\x08thought")], ["answer: \x9b1m"]))
    out = said(capsys)
    assert "␛[31mred" in out
    assert "␈thought" in out


def test_a_run_is_summed_up_by_verdicts_or_by_scores(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = [ItemOutcome(item=str(n), group="g", correct=right) for n, right in enumerate((True, False, None))]
    show_run(report(items=verdicts, endings={"completed": 3}, slowest=3.2))
    out = said(capsys)
    assert "all 1 2 50.0% 1" in out
    assert "Ended: 3 completed" in out
    assert "medagent show results/x 0" in out
    show_run(report(items=[ItemOutcome(item="i", group="g", score=0.25), ItemOutcome(item="k", group="h", score=0.75)]))
    assert "all 2 0.5000" in said(capsys)


def test_figures_are_written_by_their_measure() -> None:
    assert [figure(0.91666, measure) for measure in ("percent", "points", "score")] == ["91.7%", "91.67", "0.9167"]
    assert figure(None, "score") == "–"


def test_the_files_of_many_trials_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    files = [f"results.{trial}.json" for trial in range(1, 68)] + ["episodes.jsonl", "run.json", "report.json"]
    print_end(report().model_copy(update={"files": files}), full=True)
    out = said(capsys)
    assert out.endswith("(results.1.json, results.2.json, 65 more, episodes.jsonl, run.json, report.json)")


def test_the_models_of_the_judges_are_not_those_that_answered(capsys: pytest.CaptureFixture[str]) -> None:
    spending = {"model m": Spent(calls=2, served=["m-2024"]), "judge j": Spent(calls=2, served=["j-2025"])}
    whole = Spent(calls=4, served=["j-2025", "m-2024"])
    print_findings(report(settings={"model": "m", "temperature": 0.0}, spent=whole, spending=spending), full=True)
    assert "Model: m, served as m-2024, temperature 0, max tokens of the endpoint" in said(capsys).splitlines()


def test_the_versions_are_those_of_medagent_and_python(capsys: pytest.CaptureFixture[str]) -> None:
    packages = {f"package{n}": "1.2.3" for n in range(20)}
    print_findings(report(versions={"medagent": "0.1.0", "commit": "abc", "python": "3.11.7", **packages}), full=True)
    assert "Versions: medagent 0.1.0 (commit abc), python 3.11.7" in said(capsys).splitlines()


def test_a_call_that_is_known_by_a_digest_is_shown_by_its_first_digits(capsys: pytest.CaptureFixture[str]) -> None:
    digest = "0123456789abcdef" * 4
    print_end(report(failed=[FailedUnit(unit=digest, status="model_error", error="500: down")], owed=[digest]))
    out = said(capsys)
    assert "1 × model_error: 500: down (first: 01234567…)" in out
    assert digest not in out
    state = State(total=1, done=1, slowest=(2.5, f"{digest}#2"))
    assert "slowest 01234567…#2 2.5 s" in state.figures()
