"""The commands as a person types them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.simpleqa.oracle import (
    ITEMS,
    RIGHT,
    SILENT,
    WRONG,
    Oracle,
    calls_by_model,
    run_folder,
    write_items,
)


def _opencompass(folder: Path, judged: list[str | None], judge: str = "J") -> Path:
    for name, texts in (("predictions/M", ["?"] * len(judged)), (f"results/M_judged-by--{judge}", judged)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        rows = {str(n): {"origin_prompt": "?", "prediction": t, "gold": "g"} for n, t in enumerate(texts)}
        (folder / name / "hu.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


def test_run_judge_score_and_agree(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with ModelServer(reply=Oracle()) as server:
        run = ["run", "simpleqa", "--model", "m", "--base-url", server.url, "--results-dir", tmp_path, "-q"]
        code, out, _ = medagent(*run, "--judge", "j", "--lang", "en,hu", "--full")
        assert code == 0
        assert "husimpleqa: hu, judged by j" in out
        code, out, _ = medagent("judge", "again", folder, "--judge", "strict-j", "--judge-base-url", server.url, "-q")
        assert code == 0
        assert "judged by strict-j" in out
        assert calls_by_model(server) == {"m": 80, "j": 80, "strict-j": 80}
    code, out, err = medagent("simpleqa", "score", folder, "--json")
    total = json.loads(out)[0]["sections"][-1]["total"]
    assert (code, err, total["rows"]["incorrect"]) == (0, "", 2 * (WRONG + SILENT))
    code, out, err = medagent("simpleqa", "score", f"{folder}@j", "--rules", "letter", "--csv")
    table = list(csv.DictReader(io.StringIO(out)))
    assert [(row["model"], row["language"], row["judge"]) for row in table] == [
        ("m", name, "j") for name in ("en", "hu", "all")
    ]
    assert table[0]["total correct"] == f"{SILENT / 40:.4f}"
    assert "the judge was asked for JSON labels" in err
    code, out, _ = medagent("judge", "agree", f"{folder}@j", f"{folder}@strict-j")
    assert code == 0
    assert f"agreement {(RIGHT + WRONG) / 40:.4f} (68 of the 80 rows that both labelled)" in out
    assert "Cohen's kappa" in out
    assert "H05/en: not_attempted / incorrect" in out


def test_a_csv_cell_that_a_spreadsheet_would_run_is_text(tmp_path: Path) -> None:
    folder = _opencompass(tmp_path / "oc", ["A", "B"], "=J")
    _, out, _ = medagent("simpleqa", "score", folder, "--csv")
    assert {row["judge"] for row in csv.DictReader(io.StringIO(out))} == {"'=J"}


def test_a_judge_and_people(tmp_path: Path) -> None:
    folder = _opencompass(tmp_path / "oc", ["A", "B", "C", "?"])
    labels = write_items(tmp_path / "labels.jsonl", [{"id": n, "label": "correct"} for n in (0, 1, 3, 9)])
    code, out, _ = medagent("judge", "agree", folder, labels, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["labelled"], found["agreement"]) == (2, 0.5)
    assert found["differ"] == [
        {"unit": "1/hu", "first": "incorrect", "second": "correct"},
        {"unit": "3/hu", "first": "unscored", "second": "correct"},
    ]
    assert (found["only_first"], found["only_second"]) == (["2/hu"], ["9"])


def test_agreement_that_is_not_defined_is_null(tmp_path: Path) -> None:
    folder = _opencompass(tmp_path, ["A", "A"])
    _, out, _ = medagent("judge", "agree", folder, folder, "--json")
    assert json.loads(out)["kappa"] is None
    _, out, _ = medagent("judge", "agree", folder, folder)
    assert "Cohen's kappa – (95% – to –); not defined: both gave one label throughout" in out


def test_scores_of_opencompass_as_a_table(tmp_path: Path) -> None:
    folder = _opencompass(tmp_path, ["A", "B", "C", "?", None])
    code, out, err = medagent("simpleqa", "score", folder)
    assert code == 0
    assert "completeness is not proved" in err
    assert "1 unscored rows, counted in three ways" in out
    assert "judge errors" in out
    assert "no calibration: 2 attempted rows, none of them with a confidence" in out


def test_groups_come_from_the_questions(tmp_path: Path) -> None:
    folder = _opencompass(tmp_path / "oc", ["A", "B"])
    rows = [{"question": "K?", "answer": "g", "hu_specific_dim": dim} for dim in ("figure", "saját")]
    data = write_items(tmp_path / "data.jsonl", rows)
    code, out, err = medagent("simpleqa", "score", folder, "--data", data, "--rules", "husimpleqa-v1")
    assert (code, err) == (0, "")
    assert "saját" in out
    assert "counted in three ways" not in out
    data = write_items(tmp_path / "data.jsonl", rows[:1])
    code, _, err = medagent("simpleqa", "score", folder, "--data", data)
    assert code == 1
    assert err.count("\n") == 1
    assert "2 rows of the 1 that --data holds" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simpleqa", "score", "nowhere"], "nowhere: no such file or folder"),
        (
            ["simpleqa", "score", "plain"],
            "neither a run of `medagent run simpleqa` nor an output folder of OpenCompass",
        ),
        (["simpleqa", "score", "oc@X"], "unknown judge X"),
        (["simpleqa", "score", "oc", "--json", "--csv"], "choose one"),
        (["judge", "agree", "oc", "oc@J"], "contains several judges; name one as oc@JUDGE: J, K"),
        (["judge", "agree", "oc@J", "oc@K", "--rules", "x"], "--rules x: unknown; replies can be read by robust, "),
        (["judge", "agree", "plain", "plain"], "neither a judged run, nor another tool's judged output, nor a file"),
        (["judge", "again", "oc", "--judge", "J"], "oc: not a run's folder"),
        (["judge", "check", "simpleqa", "--judge", "J", "--judge", "J"], "named twice"),
        (["judge", "check", "promptcblue", "--judge", "J"], "promptcblue: its answers are not judged by models"),
    ],
)
def test_what_a_person_can_mend_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").mkdir()
    _opencompass(tmp_path / "oc", ["A"], "J")
    _opencompass(tmp_path / "oc", ["A"], "K")
    code, out, err = medagent(*words)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no model is given"),
        (["--model", "m", "--variant", "simpleqa"], "pass the questions with --data FILE"),
        (["--model", "m", "--lang", "de"], "--lang de: the prompt exists in en, hu"),
        (["--model", "m", "--data", "nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["--model", "m", "--judge-prompt", "nowhere.toml"], "nowhere.toml: cannot be read"),
    ],
)
def test_a_run_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = medagent("run", "simpleqa", "--judge", "j", *words)
    assert code == 1
    assert message in err
    assert not (tmp_path / "results").exists()


def test_compare_names_what_it_leaves_out_and_takes_a_question_in_two_languages_as_one(tmp_path: Path) -> None:
    """Of 40 questions in two languages the second judge reads half: what it does not read is not compared."""

    class Half(Oracle):
        def __call__(self, body: dict[str, Any]) -> str:
            number = next((n for n, item in enumerate(ITEMS) if item.question in body["messages"][-1]["content"]), 0)
            return "Hm." if body["model"] == "half" and number % 2 else super().__call__(body)

    with ModelServer(reply=Half()) as server:
        words = ("--model", "m", "--base-url", server.url, "--results-dir", tmp_path, "-q")
        assert medagent("run", "simpleqa", *words, "--judge", "j").code == 0
        assert medagent("run", "simpleqa", *words, "--judge", "half", "--round", "r2").code == 2
    ran = medagent("compare", run_folder(tmp_path), run_folder(tmp_path, "r2"))
    assert ran.code == 0, ran.err
    assert "Not compared: 40 of 80: H02/en, H02/hu, H04/en, " in ran.out
    assert ran.out.rstrip().endswith(" and 20 more")
    assert "p = 1 (paired score test over 20 clusters of dependent items)" in ran.out
