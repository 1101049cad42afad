"""`medagent report` without a browser: what the file holds, the real results file's 25, secrets, and bad input."""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from tests.command import medagent
from tests.journal_lines import checked_line
from tests.medagent.benchmarks.medagentbench.runs import run
from tests.shared_data import DATA, ROOT, SHARED, need, read_xz

ERRING = ROOT / "tests" / "medagent" / "reports" / "erring.py"
LABELS = json.loads((DATA / "medagentbench" / "real_kinds.json").read_text(encoding="utf-8"))["items"]


def unpacked(file: Path) -> tuple[dict[str, Any], list[list[Any]]]:
    """The index of a report and its parts."""
    scripts = re.findall(r'<script type="text/plain" (.*)>([^<]*)</script>', file.read_text(encoding="utf-8"))
    values = [(name, json.loads(zlib.decompress(b64decode(packed), -15))) for name, packed in scripts]
    index = next(value for name, value in values if name == 'id="index"')
    pieces = [value for name, value in values if name == 'class="items"']
    return {**index, "items": [item for piece in pieces for item in piece]}, [
        value for name, value in values if name == 'class="part"'
    ]


def items(file: Path, run: int = 0) -> dict[str, tuple[list[Any], list[dict[str, Any]]]]:
    """Each item's outcome and blocks, by its id and trial."""
    index, parts = unpacked(file)
    found = {}
    for name, trial, _, _, outcomes in index["items"]:
        if outcomes[run] is not None:
            part = outcomes[run][10]
            found[f"{name}.{trial}"] = (outcomes[run], parts[part[0]][part[1]] if part else [])
    return found


def block(blocks: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(part for part in blocks if part["name"] == name)


@pytest.fixture(scope="module")
def erring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run with every kind of failure."""
    folder = tmp_path_factory.mktemp("erring")
    ids = ",".join(f"{kind}_{number}" for kind in ("task4", "task5", "task9") for number in range(1, 17))
    with contextlib.chdir(folder):  # elsewhere, so that the agent's file has an absolute path in this process
        run = medagent("run", "--agent", f"{ERRING}:ErringAgent", "--results-dir", folder, "--ids", ids, "--quiet")
    assert run.code == 2, run.err
    done = medagent("report", folder / "v2_r1_ErringAgent", "-o", folder / "report.html")
    assert done.code == 0, done.err
    return folder / "report.html"


def test_every_kind_is_there_with_its_words_and_its_chart(erring: Path) -> None:
    index, _ = unpacked(erring)
    found = items(erring)
    kinds = {outcome[3] for outcome, _ in found.values()} - {""}
    assert kinds == {
        *("order-wrong", "order-missing", "order-not-due", "wrong-value", "wrong-form", "reading-missed"),
        *("invalid-action", "empty-reply", "round-limit", "agent-error", "infrastructure"),
    }
    assert kinds <= set(index["kinds"])
    for name, (outcome, blocks) in found.items():
        if outcome[0] is None:
            continue
        drawn = block(blocks, "chart")
        ringed = [reading for reading in drawn["readings"] if reading["decides"]]
        assert bool(ringed) == outcome[5].startswith("last "), name
        if outcome[3] == "reading-missed":
            assert not any(reading["seen"] for reading in ringed)
        elif outcome[0]:
            assert all(reading["seen"] for reading in ringed)


def wrong_order(file: Path) -> str:
    """An item of task9 with a wrong order."""
    wrong = [name for name, (outcome, _) in items(file).items() if outcome[3] == "order-wrong"]
    return next(name.partition(".")[0] for name in wrong if name.startswith("task9"))


def test_a_wrong_order_shows_the_leaf_that_differs(erring: Path) -> None:
    _, blocks = items(erring)[f"{wrong_order(erring)}.1"]
    fields = [field for order in block(blocks, "orders")["orders"] for field in order["fields"]]
    wrong = [(field["path"], field["required"], field["placed"]) for field in fields if not field["passed"]]
    assert wrong == [("dosageInstruction[0].route", "oral", "IV"), ("priority", "stat", "routine")]
    assert all(field["required"] for field in fields)


def test_an_order_that_was_not_due_or_is_missing(erring: Path) -> None:
    found = items(erring)
    undue = next(blocks for outcome, blocks in found.values() if outcome[3] == "order-not-due")
    [order] = [entry for entry in block(undue, "orders")["orders"] if not entry["is_due"]]
    assert ("status", "active") in map(tuple, order["others"])
    missing = next(blocks for outcome, blocks in found.values() if outcome[3] == "order-missing")
    assert any(entry["is_due"] and not entry["is_placed"] for entry in block(missing, "orders")["orders"])


def test_the_real_results_files_25_wrong_items(tmp_path: Path) -> None:
    folder = SHARED / "medagentbench"
    results = need(folder / "results_v2_r2_20251127_000553.json")
    patients = tmp_path / "ehr.ndjson"
    patients.write_text(read_xz(DATA / "medagentbench" / "rebuilt_ehr.ndjson.xz"))
    tasks = need(folder / "official" / "test_data_v2.json")
    done = medagent("report", results, "--tasks", tasks, "--ehr", patients, "-o", tmp_path / "real.html")
    assert done.code == 0, done.err
    found = {name.removesuffix(".1"): shown for name, shown in items(tmp_path / "real.html").items()}
    wrong = {name: outcome[3] for name, (outcome, _) in found.items() if outcome[0] is False}
    assert wrong == {label["id"]: label["kind"] for label in LABELS}
    for name in wrong:
        outcome, blocks = found[name]
        drawn = block(blocks, "chart")
        assert len([reading for reading in drawn["readings"] if reading["decides"]]) == 1
        assert outcome[5].startswith("last ")
        assert block(blocks, "answer")["passed"] is False
        if name.startswith("task10"):
            assert drawn["denied"]
            assert [order["is_placed"] for order in block(blocks, "orders")["orders"]] == [True]


def test_no_key_or_password_is_in_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret0123456789")
    assert medagent("run", "--agent", "nop", "--results-dir", tmp_path, "--ids", "task2_1", "--quiet").code == 0
    folder = tmp_path / "v2_r1_nop"
    journal = folder / "episodes.jsonl"
    spoken = journal.read_text().replace("FINISH([])", "FINISH([]) sk-verysecret0123456789")
    journal.write_text("".join(f"{checked_line(line)}\n" for line in spoken.splitlines()))
    run = json.loads((folder / "run.json").read_text())
    run["settings"]["agent"] = "http://user:hunter2222@host/?api_key=letmein99"
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "report.json").unlink()
    done = medagent("report", folder, "-o", tmp_path / "report.html")
    assert done.code == 0, done.err
    whole = (tmp_path / "report.html").read_text() + json.dumps(unpacked(tmp_path / "report.html"))
    for secret in ("sk-verysecret0123456789", "hunter2222", "letmein99"):
        assert secret not in whole
    assert "FINISH([]) ***" in whole


def test_each_trial_shows_its_own_conversation(tmp_path: Path) -> None:
    words = ("--ids", "task3_1,task4_1,task5_1,task9_15", "--trials", 3, "--results-dir", tmp_path, "--quiet")
    assert medagent("run", "--agent", "reference", *words).code == 0
    folder = tmp_path / "v2_r1_reference"
    assert medagent("report", folder, "-o", tmp_path / "report.html").code == 0
    shown, ids = items(tmp_path / "report.html"), set()
    for line in (folder / "episodes.jsonl").read_text().splitlines():
        row = json.loads(line)
        _, blocks = shown[f"{row['task_id']}.{row['trial']}"]
        replies = [
            message["text"] for message in block(blocks, "conversation")["messages"] if message["role"] == "user"
        ]
        assert replies[1:] == [turn["content"] for turn in row["transcript"] if turn["role"] == "user"][1:]
        if row["created"]:
            writes = block(blocks, "record")["writes"]
            assert [write[1] for write in writes] == [created["resource"] for created in row["created"]]
        ids.update(re.findall(r'"resourceType": "Bundle",\s+"id": "([^"]+)"', "".join(replies)))
    assert len(ids) >= 9


def test_markup_in_names_is_escaped(tmp_path: Path) -> None:
    name = '<img src=x onerror=alert(1)>"&'
    assert medagent("run", "--agent", "nop", "--results-dir", tmp_path / name, "--limit", 1, "--quiet").code == 0
    assert medagent("report", tmp_path / name / "v2_r1_nop", "-o", tmp_path / "report.html").code == 0
    text = (tmp_path / "report.html").read_text()
    assert "<img" not in text
    assert "&lt;img src=x" in text


def test_a_run_that_goes_on_is_graded_as_far_as_it_is(tmp_path: Path) -> None:
    assert medagent("run", "--agent", "reference", "--results-dir", tmp_path, "--limit", 3, "--quiet").code == 0
    folder = tmp_path / "v2_r1_reference"
    for made in ("results.json", "grade.json", "report.json"):
        (folder / made).unlink()
    before = sorted(file.name for file in folder.iterdir())
    assert medagent("report", folder, "-o", tmp_path / "report.html").code == 0
    assert [outcome[0] for outcome, _ in items(tmp_path / "report.html").values()] == [True] * 3
    assert sorted(file.name for file in folder.iterdir()) == before


def test_several_runs_are_paired_and_their_p_values_adjusted(tmp_path: Path) -> None:
    for agent in ("nop", "constant", "reference"):
        run = ["run", "--agent", agent, "--results-dir", tmp_path, "--types", "task1,task4", "--version", "v1"]
        assert medagent(*run, "--quiet").code == 0
    folders = [tmp_path / f"v1_r1_{agent}" for agent in ("nop", "constant", "reference")]
    assert medagent("report", *folders, "-o", tmp_path / "report.html").code == 0
    pairs = unpacked(tmp_path / "report.html")[0]["comparison"]["pairs"]
    assert [(pair["first"], pair["second"]) for pair in pairs] == [(0, 1), (0, 2), (1, 2)]
    smallest = min(pairs, key=lambda pair: pair["p"])
    assert smallest["holm"] == pytest.approx(3 * smallest["p"])
    assert [group["name"] for group in pairs[0]["groups"]] == ["task1", "task4"]


def test_what_cannot_be_reported_is_one_line(tmp_path: Path, erring: Path) -> None:
    run = erring.parent / "v2_r1_ErringAgent"
    for words, said in (
        ([tmp_path / "none"], "no such file"),
        ([run, "-o", tmp_path / "none" / "report.html"], "cannot be written"),
        ([run, "--key", tmp_path / "no.json"], "no.json"),
    ):
        done = medagent("report", *words)
        assert done.code == 1
        assert said in done.err
        assert done.err.count("\n") == 1


WAITING = """
import asyncio, pathlib
from medagent import Agent

class WaitingAgent(Agent):
    async def play(self, task, prompt):
        for _ in range(600):
            if pathlib.Path("live.html").exists():
                yield "FINISH([])"
            await asyncio.sleep(0.05)
        raise TimeoutError("no report was written during the run")
"""


def test_a_report_is_written_again_while_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("medagent.reports.runs.REWRITTEN_EVERY_S", 0.05)
    Path("waiting.py").write_text(WAITING)
    run = medagent("run", "--agent", "waiting.py:WaitingAgent", "--limit", 2, "--quiet", "--report", "live.html")
    assert run.code == 0, run.err
    assert [outcome[2] for outcome, _ in items(Path("live.html")).values()] == ["completed"] * 2
    refused = medagent("run", "--agent", "nop", "--limit", 1, "--quiet", "--report", "none/live.html")
    assert (refused.code, refused.err) == (1, "medagent: --report none/live.html: the folder none does not exist\n")
    assert not Path("results/v2_r1_nop").exists()


def test_show_folds_the_prompt_and_bundles_and_marks_what_decides(erring: Path) -> None:
    run = erring.parent / "v2_r1_ErringAgent"
    name = wrong_order(erring)
    shown = medagent("show", run, name).out
    assert "You work for a hospital" not in shown
    task = next(candidate for candidate in load_dataset("synthetic", "v2").tasks if candidate.id == name)
    assert f"Question: {task.text[:40]}" in shown
    [decisive] = [line for line in shown.splitlines() if line.endswith("◀ decides")]
    assert re.search(r"2023-\d\d-\d\dT\d\d:\d\d:00\+00:00  K  [23]\.\d mmol/L", decisive)
    assert '"resourceType": "Bundle"' not in shown
    assert "\x1b" not in shown
    whole = medagent("show", run, name, "--full").out
    assert "You work for a hospital" in whole
    assert '"resourceType": "Bundle"' in whole
    assert len(whole) > 3 * len(shown)  # what stays are two orders, whole


FAILING = """
from pathlib import Path

import medagent


class Own(medagent.Agent):
    def play(self, task, prompt):
        if Path(__file__).with_name("busy").read_text():
            raise medagent.ModelError("busy")
        yield "What?"
"""


def test_repeated_attempts_are_stated_wherever_the_score_is(tmp_path: Path) -> None:
    """Repeated are two invalid actions; an attempt that failed because of the endpoint is not counted."""
    (tmp_path / "own.py").write_text(FAILING)
    agent = f"{tmp_path / 'own.py'}:Own"
    for busy in (True, False, False, False):
        (tmp_path / "busy").write_text("1" if busy else "")
        ran = run(tmp_path, "--agent", agent, "--ids", "task1_1", "--retry", "invalid_action")
    folder = next(tmp_path.glob("v2_*"))
    commands = ("show", folder), ("grade", folder), ("grade", folder, "--full"), ("leaderboard", folder)
    for out in (ran.out, *(medagent(*command).out for command in commands)):
        assert out.count("Repeated attempts: 2 invalid_action\n") == 1
    assert medagent("report", folder, "-o", tmp_path / "page.html").code == 0
    assert unpacked(tmp_path / "page.html")[0]["runs"][0]["facts"]["Repeated attempts"] == "2 invalid_action"
