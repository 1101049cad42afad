"""Logs of Inspect, Harbor and lm-evaluation-harness, recorded from these tools, compared as our own runs are."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from copy import deepcopy
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
        for sample in samples:
            file.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        if summaries:
            kept = ("id", "epoch", "input", "target", "scores")
            lines = [
                {name: sample.get(name) for name in kept} | {"error": (sample.get("error") or {}).get("message")}
                for sample in samples
            ]
            file.writestr("summaries.json", json.dumps(lines))
    return path


def variant(log: str, name: str, change: Callable[[dict[str, Any]], object], **options: Any) -> str:
    """A changed copy of a log."""
    document = json.loads(Path(log).read_text())
    change(document)
    Path(name).write_text(json.dumps(document, **options))
    return name


def each_sample(change: Callable[[int, dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda document: [change(number, sample) for number, sample in enumerate(document["samples"])]


def values_of(name: str, values: list[Any]) -> Callable[[dict[str, Any]], object]:
    """Adds a scorer to a log."""
    return each_sample(lambda number, sample: sample["scores"].update({name: {"value": values[number % len(values)]}}))


def job(name: str, trials: list[tuple[str, dict[str, Any]]]) -> Path:
    """A Harbor job of these tasks, in the order of their start."""
    whole = json.loads(next(Path("harbor/a").glob("fix-a__x1/result.json")).read_text())
    for number, (task, fields) in enumerate(trials):
        trial = {**deepcopy(whole), "task_name": task, "trial_name": f"t{number}", "task_checksum": f"c-{task}"}
        trial |= {"started_at": f"2026-11-26T10:00:{number:02}Z"} | fields
        file = Path(name, trial["trial_name"], "result.json")
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({key: value for key, value in trial.items() if value is not ...}))
    return Path(name)


def reward(value: float, exception: str = "", **fields: Any) -> dict[str, Any]:
    """The fields of a trial that Harbor 0.25 wrote: it does not store whether the reward is valid."""
    ended = {"exception_type": exception, "exception_message": "m"} if exception else None
    return {
        "verifier_result": {"rewards": {"reward": value}},
        "exception_info": ended,
        "reward_valid": ...,
        **fields,
    }


def graded(*words: object) -> dict[str, Any]:
    ran = medagent("grade", *words, "--json")
    assert ran.code == 0, ran.err
    report: dict[str, Any] = json.loads(ran.out)
    return report


def test_values_of_inspect_are_those_of_inspect() -> None:
    """A has C C I P N C: its own accuracy is 0.5833. B's fifth sample failed, its sixth was not scored."""
    for log, accuracy, n in ((JSON_A, 0.5833, 6), (JSON_B, 1.0, 4)):
        logged = json.loads(Path(log).read_text())["results"]["scores"][0]["metrics"]["accuracy"]["value"]
        report = json.loads(medagent("grade", log, "--json").out)
        assert report["overall"]["value"] == pytest.approx(logged) == pytest.approx(accuracy, abs=1e-4)
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
    logged = json.loads(file.read_text())["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    assert compared(file, file)["means"] == pytest.approx([logged, logged]) == [0.5, 0.5]


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
    by_length = json.loads(medagent("grade", TWO, "--scorer", "length", "--json").out)
    assert by_length["overall"]["value"] == pytest.approx(0.3)
    first = coins("0-9")
    assert "--scorer chooses a score of another tool's log" in refused(
        "compare", first, first, "--scorer", "x", *BENCHMARK
    )


def test_questions_of_chats_are_their_texts() -> None:
    """Inspect gives each message a random id; a summary has 5,120 characters of a text and the type of an image."""

    def chat(ids: str, *, cut: bool = False, ends: str = "?") -> Callable[[dict[str, Any]], object]:
        end = "...\n(content truncated)" if cut else "x" * 900
        image = {"type": "text", "text": "(Image)"} if cut else {"type": "image", "image": f"data:{ids}"}

        def ask(number: int, sample: dict[str, Any]) -> None:
            long = f"{number}{ends}".ljust(5120, "x") + end
            parts = [{"type": "text", "text": long}, image]
            first = {"id": f"{ids}{number}", "role": "system", "content": "Be brief."}
            sample["input"] = [first, {"id": f"{number}{ids}", "role": "user", "content": parts}]

        return each_sample(ask)

    whole = variant(JSON_A, "whole.json", chat("a"))
    zipped = archive(variant(JSON_A, "cut.json", chat("b", cut=True)), "cut.eval", summaries=True)
    assert compared(whole, zipped)["items"] == 6
    altered = variant(JSON_A, "other.json", chat("b", ends="!"))
    assert "different items under the same names: 6 of 6 differ" in refused("compare", whole, altered)


def test_a_scorer_without_numbers_hides_no_other() -> None:
    numbers = compared(JSON_A, JSON_A)
    labels = variant(JSON_A, "labels.json", values_of("category", ["refusal", [1, 0]]))
    assert compared(JSON_A, labels) == compared(JSON_A, labels, "--scorer", "letter") == numbers
    said = refused("compare", JSON_A, labels, "--scorer", "category")
    assert 'samples[0]: the score category is "refusal", which is not a number, C, I, P or N' in said
    parts = variant(JSON_A, "parts.json", values_of("parts", [{"a": 1, "b": [1]}]))
    assert compared(JSON_A, parts, "--scorer", "letter") == numbers
    assert "choose one with --scorer: letter, parts/a\n" in refused("compare", parts, JSON_A)
    assert "samples[0]: the score parts/b is [1]" in refused("grade", parts, "--scorer", "parts/b")


def test_the_only_scorer_of_a_log_needs_no_name() -> None:
    jobs = [job(name, [(f"q{number}", reward(value)) for number in range(6)]) for name, value in (("x", 1), ("y", 0.5))]
    assert compared(TWO, jobs[0], "--scorer", "letter")["means"][1] == 1
    ran = medagent("compare", *jobs, TWO, "--scorer", "length", "--markdown")
    assert ran.code == 0, ran.err
    assert medagent("leaderboard", *jobs, TWO, "--scorer", "length").code == 0
    assert "unknown scorer 'size'" in refused("compare", *jobs, TWO, "--scorer", "size")
    assert "several scorers; choose one with --scorer: letter, length" in refused(
        "compare", TWO, jobs[0], "--scorer", "reward"
    )


def test_one_log_is_one_model() -> None:
    """lm-eval writes each model's samples to a folder of its own below --output_path."""
    for side in "ab":
        (folder,) = Path("lm-eval", side).iterdir()
        folder.rename(Path("lm-eval", folder.name))
        Path("lm-eval", side).rmdir()
    names = "lm-eval/made-up__model-a, lm-eval/made-up__model-b"
    said = refused("compare", "lm-eval", "lm-eval", "--scorer", "exact_match")
    assert f"lm-eval: contains samples of several models; pass one of these folders: {names}" in said
    agents = [("x", {"agent_info": {"name": name, "version": "1", "model_info": {"name": "m"}}}) for name in ("p", "q")]
    assert "contains trials of several agents: p with m, q with m; move" in refused("grade", job("two", agents))


def test_a_task_of_two_data_sets_is_two_items() -> None:
    folder = job("sets", [("t", reward(value, source=f"d{value}")) for value in (1, 0)])
    assert [(item["item"], item["trial"]) for item in graded(folder)["items"]] == [("d1/t", 1), ("d0/t", 1)]


@pytest.mark.parametrize(
    ("fields", "mean", "failed"),
    [
        (reward(0, "ApiRateLimitError"), 1, "ApiRateLimitError"),
        (reward(0, "AgentTimeoutError"), 0.5, None),
        (reward(0, "SomebodysError"), 0.5, None),
        (reward(0, step_results=[{"exception_info": {"exception_type": "HealthcheckError"}}]), 1, "HealthcheckError"),
        (reward(0, "ApiRateLimitError", reward_valid=True), 0.5, None),
        (reward(float("nan")), 1, "no reward"),
    ],
)
def test_exceptions_of_earlier_versions_of_harbor(fields: dict[str, Any], mean: float, failed: str | None) -> None:
    """Harbor 0.26 stores whether a reward counts; the names of the exceptions say the same."""
    report = graded(job("old", [("a", fields), ("b", reward(1))]))
    assert report["overall"]["value"] == mean
    assert [failure["error"] for failure in report["failed"]] == [failed][: failed is not None]


def test_the_headline_of_epochs_is_inspects_mean_of_samples() -> None:
    """The first sample fails in three of its four epochs. Inspect's accuracy is 0.5."""

    def epochs(document: dict[str, Any]) -> None:
        samples = document["samples"][:2]
        document["samples"] = [{**sample, "epoch": epoch} for epoch in range(1, 5) for sample in samples]
        for sample in document["samples"]:
            first = sample["id"] == "q0"
            sample["scores"] = {} if first and sample["epoch"] > 1 else {"letter": {"value": "C" if first else "I"}}

    assert graded(variant(JSON_A, "epochs.json", epochs))["overall"]["value"] == 0.5


def test_samples_that_are_there_twice_count_once() -> None:
    def again(document: dict[str, Any]) -> None:
        before = [{**sample, "scores": {"letter": {"value": "I"}}} for sample in document["samples"]]
        document["samples"] = [*before, *document["samples"]]

    whole = graded(JSON_A)["overall"]
    assert graded(variant(JSON_A, "twice.json", again))["overall"] == whole
    zipped = archive(JSON_A, "twice.eval")
    with zipfile.ZipFile(zipped, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("samples/q0_epoch_1.json", file.read("samples/q0_epoch_1.json"))
    assert graded(zipped)["overall"] == whole


@pytest.mark.parametrize("value", [None, float("nan"), {"right": None}, {"right": float("nan")}])
def test_a_null_is_an_unscored_sample_of_inspect(value: Any) -> None:
    def unscored(number: int, sample: dict[str, Any]) -> None:
        right = {"right": 1} if isinstance(value, dict) else 1
        sample["scores"] = {"letter": {"value": value if number == 0 else right}}

    ran = medagent("grade", variant(JSON_A, "null.json", each_sample(unscored)), "--json")
    report = json.loads(ran.out)
    assert (report["overall"]["value"], report["owed"]) == (1.0, ["q0#1"])


def test_a_score_that_is_null_is_an_unscored_sample_of_inspect() -> None:
    def unscored(number: int, sample: dict[str, Any]) -> None:
        sample["scores"] = {"letter": None if number == 0 else {"value": "C"}}

    report = json.loads(medagent("grade", variant(JSON_A, "null.json", each_sample(unscored)), "--json").out)
    assert (report["overall"]["value"], report["owed"]) == (1.0, ["q0#1"])


def lm_eval(name: str, *rows: dict[str, Any]) -> Path:
    path = Path(name, "samples_sums_2026-11-26T10-00-00.000000.jsonl")
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps({'filter': 'none', 'metrics': ['acc'], **row})}\n" for row in rows))
    return path


def test_two_samples_of_lm_eval_that_nothing_tells_apart_are_refused() -> None:
    path = lm_eval("twice", {"doc_id": 0, "acc": 1.0}, {"doc_id": 1, "acc": 1.0}, {"doc_id": 0, "acc": 0.0})
    assert "contains two values of acc,none for doc_id 0, and nothing says which one counts" in refused("grade", path)
    assert "keep one line of each doc_id and filter" in refused("grade", path.parent)
    path = lm_eval("filters", {"doc_id": 0, "acc": 1.0}, {"doc_id": 0, "acc": 0.0, "filter": "strict"})
    assert graded(path, "--scorer", "acc,strict")["overall"]["value"] == 0.0
    path = lm_eval("metrics", {"doc_id": 0, "acc": 1.0}, {"doc_id": 0, "f1": 0.5, "metrics": ["f1"]})
    assert graded(path, "--scorer", "f1")["overall"]["value"] == 0.5


@pytest.mark.parametrize("value", [{"acc": None}, {"acc": float("nan")}, {"metrics": ["bypass"], "bypass": 999}])
def test_what_lm_eval_did_not_measure_is_no_value(value: dict[str, Any]) -> None:
    path = lm_eval("unmeasured", {"doc_id": 0, "acc": 1.0}, {"doc_id": 1, **value})
    ran = medagent("grade", path, "--json")
    report = json.loads(ran.out)
    assert (report["overall"]["value"], report["owed"]) == (1.0, ["sums/1#1"])


@pytest.mark.parametrize("rewards", [{"reward": None}, {"reward": float("nan")}, {}])
def test_a_reward_that_is_null_is_no_value(rewards: dict[str, Any]) -> None:
    unmeasured = reward(1.0, verifier_result={"rewards": rewards})
    folder = job("job", [("a", reward(1.0)), ("b", unmeasured), ("c", reward(0.0, reward_valid=None))])
    report = json.loads(medagent("grade", folder, "--json").out)
    assert (report["overall"]["value"], report["owed"]) == (0.5, ["b#1"])


def test_older_and_sorted_logs_of_inspect() -> None:
    def old(document: dict[str, Any]) -> None:
        for sample in document["samples"]:
            sample["score"] = sample.pop("scores").get("letter")

    for changed in (variant(JSON_A, "old.json", old), variant(JSON_A, "sorted.json", old, sort_keys=True)):
        assert compared(JSON_A, changed, "--scorer", "letter") == compared(JSON_A, JSON_A)


def test_a_log_whose_size_is_a_text_is_shown() -> None:
    log = variant(JSON_A, "text.json", lambda document: document["eval"]["dataset"].update(samples="4"))
    (ranked,) = rows(medagent("leaderboard", log).out)
    assert ranked["rate"] == "0.5833"


def test_trials_of_harbor_are_attempts_and_its_errors_are_no_wrong_answers() -> None:
    """fix-d's second attempt in A got no container; fix-e and fix-f are in one job only. A timeout has its reward."""
    found = compared("harbor/a", "harbor/b")
    assert found["means"] == pytest.approx([(0.5 + 1 + 0 + 1) / 4, (1 + 1 + 0.5 + 0.5) / 4])
    assert found["uncompared"] == ["fix-e", "fix-f"]
    report = json.loads(medagent("grade", "harbor/a", "--json").out)
    assert report["owed"] == ["fix-d#2"]
    assert "EnvironmentStartTimeoutError" in report["failed"][0]["error"]
    assert report["overall"]["value"] == pytest.approx(5 / 9)


def test_logged_samples_of_lm_eval_by_metric_and_filter() -> None:
    """Two filters of one metric. The means are those of lm-eval's own results file."""
    said = refused("compare", "lm-eval/a", "lm-eval/b")
    assert "choose one with --scorer: exact_match,strict-match, exact_match,flexible-extract" in said
    for scorer in ("exact_match,strict-match", "exact_match,flexible-extract"):
        found = compared("lm-eval/a", "lm-eval/b", "--scorer", scorer)
        logged = []
        for side in "ab":
            (file,) = Path("lm-eval", side).rglob("results_*.json")
            logged.append(json.loads(file.read_text())["results"]["sums"][scorer])
        assert found["both_right"]
        assert found["difference"] == pytest.approx(logged[1] - logged[0])
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
    altered = variant(JSON_A, "other.json", each_sample(lambda _, sample: sample.update(input="Who is it?")))
    assert "different items under the same names: 6 of 6 differ" in refused("compare", run, altered, *BENCHMARK)


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
    shapes = {**document, "eval": {**document["eval"], "task": "shapes"}}
    Path("other.json").write_text(json.dumps(shapes))
    assert f"{JSON_A} is a log of colours, and other.json one of shapes" in refused("compare", JSON_A, "other.json")
    Path("none.json").write_text(
        json.dumps({**document, "samples": [{**sample, "id": f"x{sample['id']}"} for sample in document["samples"]]})
    )
    assert "do not share a graded task" in refused("compare", JSON_A, "none.json")
    changed = [{**sample, "input": "Another question?"} for sample in document["samples"]]
    Path("changed.json").write_text(json.dumps({**document, "samples": changed}))
    assert "different items under the same names: 6 of 6 differ" in refused("compare", JSON_A, "changed.json")
    odd = json.loads(Path(JSON_A).read_text())
    odd["samples"][0]["scores"]["letter"]["value"] = "good"
    Path("odd.json").write_text(json.dumps(odd))
    assert 'samples[0]: the score letter is "good", which is not a number, C, I, P or N' in refused(
        "compare", JSON_A, "odd.json"
    )


def test_a_number_that_is_too_large_is_one_line() -> None:
    assert "huge: does not match the format of its tool" in refused("grade", job("huge", [("a", reward(10**400))]))
    log = variant(JSON_A, "huge.json", values_of("letter", [10**400]))
    assert "samples[0]: the score letter is 1000" in refused("grade", log)


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
