"""Logs of Inspect, Harbor and lm-evaluation-harness, recorded from these tools, compared as our own runs are."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.command import medagent
from tests.medagent.reports.coins import BENCHMARK, coins
from tests.medagent.reports.test_leaderboard import rows
from tests.medagent.reports.test_report import items
from tests.shared_data import DATA

JSON_A, JSON_B, TWO = "inspect/a.json", "inspect/b.json", "inspect/two.json"


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded logs in the current folder. `tests/data/logs/README.md` says how they were made."""
    monkeypatch.chdir(tmp_path)
    with tarfile.open(fileobj=io.BytesIO((DATA / "logs" / "logs.tar.xz").read_bytes()), mode="r:xz") as archive:
        archive.extractall(filter="data")


def compared(*words: object) -> dict[str, Any]:
    ran = medagent("compare", *words, "--json")
    assert (ran.code, ran.err) == (0, "")
    document: dict[str, Any] = json.loads(ran.out)
    return document


def refused(*words: object) -> str:
    """The one line of a command that fails."""
    ran = medagent(*words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1), ran
    return ran.err


def archive(log: str, path: str, *, summaries: bool = False) -> str:
    """The `.eval` file of a `.json` log, without zstandard."""
    document = json.loads(Path(log).read_text())
    samples = document.pop("samples")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", json.dumps(document))
        for one in samples:
            file.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        if summaries:
            kept = ("id", "epoch", "input", "target", "scores")
            lines = [
                {name: one.get(name) for name in kept} | {"error": (one.get("error") or {}).get("message")}
                for one in samples
            ]
            file.writestr("summaries.json", json.dumps(lines))
    return path


def test_values_of_inspect_are_those_of_inspect() -> None:
    """A has C C I P N C: its own accuracy is 0.5833. B's fifth sample failed, its sixth was not scored."""
    for log, accuracy, n in ((JSON_A, 0.5833, 6), (JSON_B, 1.0, 4)):
        own = json.loads(Path(log).read_text())["results"]["scores"][0]["metrics"]["accuracy"]["value"]
        report = json.loads(medagent("grade", log, "--json").out)
        assert report["overall"]["value"] == pytest.approx(own) == pytest.approx(accuracy, abs=1e-4)
        assert report["overall"]["n"] == n
    found = compared(JSON_A, JSON_B)
    assert found["means"] == pytest.approx([(1 + 1 + 0 + 0.5) / 4, 1])
    assert (found["higher"], found["lower"]) == (["q2", "q3"], [])
    assert found["uncompared"] == ["q4", "q5"], "errors and unscored samples are not wrong answers"


WRITES = """
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import solver

@scorer(metrics=[accuracy()])
def letter():
    async def score(state, target):
        return Score(value="CIPNC"[int(state.sample_id)])
    return score

@solver
def nothing():
    async def solve(state, generate):
        return state
    return solve

samples = [Sample(id=str(n), input=f"{n}?", target="yes") for n in range(5)]
eval(Task(dataset=samples, solver=nothing(), scorer=letter()), model="mockllm/model", log_dir="logs",
     log_format="json", display="none")
"""


def test_a_log_that_inspect_writes_now() -> None:
    if importlib.util.find_spec("inspect_ai") is None:
        pytest.skip("needs pip install 'medagent[inspect]'")
    subprocess.run([sys.executable, "-c", WRITES], check=True, capture_output=True)
    (file,) = Path("logs").glob("*.json")
    own = json.loads(file.read_text())["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    assert compared(file, file)["means"] == pytest.approx([own, own]) == [0.5, 0.5]


def test_inspect_zip_files_with_epochs() -> None:
    """Two epochs: A's first sample is right in the first and wrong in the second one."""
    pytest.importorskip("zipfile_zstd", reason="Python before 3.14 reads zstandard with zipfile-zstd")
    found = compared("inspect/a.eval", "inspect/b.eval")
    assert found["means"] == pytest.approx([(0.5 + 1 + 0 + 0.5) / 4, (0.5 + 1 + 1 + 1) / 4])


@pytest.mark.parametrize("summaries", [False, True])
def test_a_zip_file_says_the_same_as_the_document(summaries: bool) -> None:
    zipped = archive(JSON_B, "b.eval", summaries=summaries)
    assert compared(JSON_A, zipped) == compared(JSON_A, JSON_B)


def test_one_of_several_scorers_is_chosen() -> None:
    assert "it contains several scorers; choose one with --scorer: letter, length" in refused("compare", JSON_A, TWO)
    assert compared(JSON_A, TWO, "--scorer", "letter")["difference"] == 0
    said = refused("compare", TWO, TWO, "--scorer", "size")
    assert "unknown scorer 'size'; choose one with --scorer: letter, length" in said
    own = json.loads(medagent("grade", TWO, "--scorer", "length", "--json").out)
    assert own["overall"]["value"] == pytest.approx(0.3)
    first = coins("0-9")
    assert "--scorer chooses a score of another tool's log" in refused(
        "compare", first, first, "--scorer", "x", *BENCHMARK
    )


def test_trials_of_harbor_are_attempts_and_its_errors_are_no_wrong_answers() -> None:
    """fix-d's second attempt in A got no container; fix-e and fix-f are in one job only. A timeout has its reward."""
    found = compared("harbor/a", "harbor/b")
    assert found["means"] == pytest.approx([(0.5 + 1 + 0 + 1) / 4, (1 + 1 + 0.5 + 0.5) / 4])
    assert found["uncompared"] == ["fix-e", "fix-f"]
    report = json.loads(medagent("grade", "harbor/a", "--json").out)
    assert report["owed"] == ["fix-d#2"]
    assert "EnvironmentStartTimeoutError" in report["failed"][0]
    assert report["overall"]["value"] == pytest.approx(5 / 9)


def test_logged_samples_of_lm_eval_by_metric_and_filter() -> None:
    """Two filters of one metric. The means are those of lm-eval's own results file."""
    said = refused("compare", "lm-eval/a", "lm-eval/b")
    assert "choose one with --scorer: exact_match,strict-match, exact_match,flexible-extract" in said
    for scorer in ("exact_match,strict-match", "exact_match,flexible-extract"):
        found = compared("lm-eval/a", "lm-eval/b", "--scorer", scorer)
        own = []
        for side in "ab":
            (file,) = Path("lm-eval", side).rglob("results_*.json")
            own.append(json.loads(file.read_text())["results"]["sums"][scorer])
        assert found["both_right"]
        assert found["difference"] == pytest.approx(own[1] - own[0])
    assert [*found["gained"], *found["lost"]][0].startswith("sums/")


def test_a_log_and_a_run_over_the_same_items() -> None:
    """Our run has q0 to q59; the log has six of them."""
    run = coins("0-2")
    found = compared(run, JSON_A, *BENCHMARK)
    assert found["items"] == 6
    assert found["means"] == pytest.approx([0.5, 3.5 / 6])
    out = medagent("compare", run, JSON_A, *BENCHMARK, "--full").out
    assert "Not compared: 54 of 60: q6, " in out
    assert "q59" in out.splitlines()[-1]


def test_boards_and_pages_take_logs() -> None:
    ranked, partial = rows(medagent("leaderboard", JSON_A, JSON_B).out)
    assert (ranked["place"], ranked["who"], ranked["rate"]) == ("1", "mockllm/model", "0.5833")
    assert partial["reason"] == "2 units owed"
    assert medagent("report", JSON_A, JSON_B, "-o", "page.html").code == 0
    shown = items(Path("page.html"))
    assert len(shown) == 6
    assert any("What is 0?" in json.dumps(blocks) for _, blocks in shown.values())


def test_what_cannot_be_compared_is_one_line() -> None:
    document = json.loads(Path(JSON_A).read_text())
    other = {**document, "eval": {**document["eval"], "task": "shapes"}}
    Path("other.json").write_text(json.dumps(other))
    assert f"{JSON_A} is a log of colours, and other.json one of shapes" in refused("compare", JSON_A, "other.json")
    Path("none.json").write_text(
        json.dumps({**document, "samples": [{**one, "id": f"x{one['id']}"} for one in document["samples"]]})
    )
    assert "do not share a graded task" in refused("compare", JSON_A, "none.json")
    changed = [{**one, "input": "Another question?"} for one in document["samples"]]
    Path("changed.json").write_text(json.dumps({**document, "samples": changed}))
    assert "different items under the same names: 6 of 6 differ" in refused("compare", JSON_A, "changed.json")
    odd = json.loads(Path(JSON_A).read_text())
    odd["samples"][0]["scores"]["letter"]["value"] = "good"
    Path("odd.json").write_text(json.dumps(odd))
    assert 'samples[0]: the score letter is "good", which is not a number, C, I, P or N' in refused(
        "compare", JSON_A, "odd.json"
    )


@pytest.mark.parametrize("cut", [60, 3000])
def test_a_damaged_log_is_one_line(cut: int) -> None:
    whole = archive(JSON_A, "whole.eval")
    Path("cut.eval").write_bytes(Path(whole).read_bytes()[:cut])
    Path("cut.json").write_bytes(Path(JSON_A).read_bytes()[: cut * 10])
    trial = next(Path("harbor/b").glob("*/result.json"))
    trial.write_bytes(trial.read_bytes()[:cut])
    (samples,) = Path("lm-eval/b").rglob("samples_*.jsonl")
    samples.write_bytes(samples.read_bytes()[:cut])
    for whole, damaged in (
        (JSON_A, "cut.eval"),
        (JSON_A, "cut.json"),
        ("harbor/a", "harbor/b"),
        ("lm-eval/a", "lm-eval/b"),
    ):
        assert damaged in refused("compare", damaged, whole)


def test_the_names_of_a_log_are_texts() -> None:
    """A task name with a path leads nowhere."""
    job = Path("harbor/a")
    for file in job.glob("*/result.json"):
        trial = json.loads(file.read_text())
        trial["task_name"] = f"../../{trial['task_name']}"
        file.write_text(json.dumps(trial))
    found = compared(job, job)
    assert [*found["higher"], *found["lower"], *found["same"]][0] == "../../fix-a"
