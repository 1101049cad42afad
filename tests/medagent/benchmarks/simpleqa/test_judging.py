"""Judging: panels, judging again, failed judges, other prompts and gold, over a real OpenAI-compatible server."""

from __future__ import annotations

from pathlib import Path

import pytest

from medagent.benchmarks.simpleqa._folder import judged_sets
from medagent.benchmarks.simpleqa.benchmark import Simpleqa
from medagent.core.errors import StopRunError, UserError
from medagent.engine.folder import Run
from medagent.engine.settings import RunSettings
from medagent.judging.benchmark import again_plan
from medagent.judging.panel import PanelSettings
from refsol.simpleqa.score import outcome_of, warnings_of
from tests import runs
from tests.loopback import Call, Fault, ModelServer, stall, status
from tests.medagent.benchmarks.simpleqa.oracle import (
    RIGHT,
    SILENT,
    WRONG,
    Oracle,
    bundled_rows,
    calls_by_model,
    judge,
    results,
    run,
    run_folder,
    total,
    write_items,
)


def test_a_panel_decides_by_majority_and_keeps_each_verdict(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        assert run(server, tmp_path, "j", "strict-j", "mute", lang=("hu",)) == 2, "answers without a verdict are left"
        assert calls_by_model(server) == {"m": 40, "j": 40, "strict-j": 40, "mute": 80}, "unreadable: asked once more"
    assert total(tmp_path) == {"correct": RIGHT, "incorrect": WRONG, "unscored": SILENT}
    labels = results(run_folder(tmp_path))["rows"][4]["labels"]
    assert labels == {"j": "not_attempted", "strict-j": "incorrect", "mute": None}


def test_a_judge_of_a_panel_that_fails_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(reply=Oracle(), faults=lambda call: _refused_to("mute", call)) as server:
        run(server, tmp_path, "j", "strict-j", "mute", lang=("hu",), ids=("H01", "H02", "H03"))
    assert total(tmp_path) == {"correct": 2, "incorrect": 1}
    written = results(run_folder(tmp_path))
    assert written["votes"]["mute"] == dict.fromkeys(("correct", "incorrect", "not_attempted", "no label"), 0) | {
        "failed call": 3
    }
    assert [row["failed_judges"] for row in written["rows"]] == [["mute"]] * 3
    table = capsys.readouterr().out.partition("votes of")[2].splitlines()
    assert next(line for line in table if "mute" in line).split() == ["mute", "0", "0", "0", "0", "3", "3"]


def _refused_to(judge: str, call: Call) -> Fault | None:
    return status(400) if call.body["model"] == judge else None


def test_rows_that_no_judge_was_asked_about_are_no_errors(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, lang=("hu",), ids=("H01", "H02", "H03"))
        judge(server, tmp_path, "strict-j", only=("H01",))
    (judged,) = judged_sets(f"{run_folder(tmp_path)}@strict-j")
    assert [outcome_of(row, "robust") for row in judged.rows].count("not_judged") == 2


def test_letter_rules_warn_of_the_judging_that_is_scored(tmp_path: Path) -> None:
    prompt = tmp_path / "letters.toml"
    prompt.write_text('labels = "letters"\nuser = "Grade {question} {gold} {reply}"\n', encoding="utf-8")
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, lang=("hu",), ids=("H01",))
        judge(server, tmp_path, "mute", prompt=prompt)
    for name, warned in (("j", True), ("mute", False)):
        (judged,) = judged_sets(f"{run_folder(tmp_path)}@{name}")
        assert bool(warnings_of(judged, "letter")) == warned


def test_unreadable_replies_are_judged_again_by_themselves(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, "mute", lang=("hu",), ids=("H01", "H02", "H03"))
        assert total(tmp_path) == {"unscored": 3}
        judge(server, tmp_path, "mute", only=("unreadable",))
        assert calls_by_model(server)["mute"] == 12
        judge(server, tmp_path, "j", only=("H02",))
        assert total(tmp_path) == {"correct": 1, "unscored": 2}
        judge(server, tmp_path, "j", only=("unreadable",))
        assert calls_by_model(server) == {"m": 3, "mute": 12, "j": 3}
        judge(server, tmp_path, "j", only=("H01", "H02"))
        assert calls_by_model(server)["j"] == 3, "a verdict that is kept was paid for again"
        assert total(tmp_path) == {"correct": 2, "incorrect": 1}
        with pytest.raises(UserError, match=r"--only H99: .* contains no answer to an item with this id"):
            judge(server, tmp_path, "j", only=("H99",))


def test_judging_the_unreadable_goes_on_where_it_failed(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle(), faults=lambda call: status(500) if len(server.calls) == 11 else None) as server:
        run(server, tmp_path, "mute", lang=("hu",), ids=("H01", "H02", "H03"))
        assert judge(server, tmp_path, "j", only=("unreadable",)) == 2
        assert total(tmp_path)["unscored"] == 1, "a call that failed replaced a reply"
        assert judge(server, tmp_path, "j", only=("unreadable",)) == 0
        assert judge(server, tmp_path, "j", only=("unreadable",)) == 0
        assert calls_by_model(server) == {"m": 3, "mute": 6, "j": 4}
    assert total(tmp_path) == {"correct": 2, "incorrect": 1}


def test_a_corrected_gold_asks_the_judge_anew_where_it_changed(tmp_path: Path) -> None:
    rows = bundled_rows()[:6]
    data = write_items(tmp_path / "data.jsonl", rows)
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, data=data, lang=("en",))
        assert total(tmp_path) == {"correct": 3, "incorrect": 2, "not_attempted": 1}
        rows[0]["answer"] = "rossz"
        write_items(data, rows)
        assert run(server, tmp_path, data=data, lang=("en",)) == 0
        assert calls_by_model(server) == {"m": 6, "j": 7}
        assert total(tmp_path) == {"correct": 4, "incorrect": 1, "not_attempted": 1}


def test_another_judge_prompt_asks_anew(tmp_path: Path) -> None:
    prompt = tmp_path / "judge.toml"
    prompt.write_text(
        'labels = "letters"\nuser = """Grade it: {\n  "question": "{question}", "reference_answer": "{obj_gold}", '
        '"reply": "{reply}"}"""\n[aliases]\nobj_gold = "gold"\n',
        encoding="utf-8",
    )
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, lang=("hu",), ids=("H01", "H02"))
        judge(server, tmp_path, "j", prompt=prompt)
        assert calls_by_model(server) == {"m": 2, "j": 4}
        assert server.calls[-1].body["messages"][-1]["content"].startswith("Grade it: ")


def test_a_judge_that_fails_is_no_grade_and_owed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = True

    def faults(call: Call) -> Fault | None:
        return status(500) if broken and call.body["model"] == "j" and call.number % 2 else None

    with ModelServer(reply=Oracle(), faults=faults) as server:
        assert run(server, tmp_path, lang=("hu",), concurrency=1) == 2
        assert total(tmp_path)["judge_errors"] == 20
        out = capsys.readouterr().out
        assert "judge errors" in out
        assert "Owed and not graded: 20" in out
        broken = False
        assert run(server, tmp_path, lang=("hu",)) == 0
        assert calls_by_model(server) == {"m": 40, "j": 60}
    assert total(tmp_path) == {"correct": RIGHT, "incorrect": WRONG, "not_attempted": SILENT}


def test_only_a_run_can_be_judged(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server, pytest.raises(UserError, match="not a run's folder"):
        judge(server, tmp_path, "j")


def test_a_judge_that_was_never_asked_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, lang=("hu",), ids=("H01", "H02", "H03"))
        assert server.url not in (run_folder(tmp_path) / "judgings.jsonl").read_text()
    monkeypatch.delenv("OPENAI_API_KEY")
    panel = PanelSettings(judge=["K"])
    plan = again_plan(Simpleqa(), Run(run_folder(tmp_path)), panel, RunSettings())
    with pytest.raises(UserError, match="set OPENAI_API_KEY"):
        runs.end(Simpleqa(), plan)
    (judged,) = judged_sets(str(run_folder(tmp_path)))
    assert judged.judges == ("j",)
    assert [outcome_of(row, "robust") for row in judged.rows] == ["incorrect", "correct", "correct"]


def test_a_judge_that_is_refused_decides_nothing(tmp_path: Path) -> None:
    refused = 0

    def faults(call: Call) -> Fault | None:
        nonlocal refused
        if call.body["model"] != "K":
            return None
        refused += 1
        return status(401) if refused > 1 else stall()

    with ModelServer(reply=Oracle(), faults=faults) as server:
        run(server, tmp_path, lang=("hu",), ids=("H01", "H02", "H03"))
        with pytest.raises(StopRunError):
            judge(server, tmp_path, "K")
    assert '"cancelled"' in (run_folder(tmp_path) / "judgements.jsonl").read_text()
    (judged,) = judged_sets(str(run_folder(tmp_path)))
    assert judged.judges == ("j",)
