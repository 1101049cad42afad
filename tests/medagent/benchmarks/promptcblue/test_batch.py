"""`--batch`: a run through a provider's batch API on the loopback interface, stopped and found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.promptcblue.benchmark import Promptcblue
from medagent.benchmarks.promptcblue.settings import MINI, PromptcblueSettings
from medagent.core.errors import StopRunError, UserError
from medagent.models import batch
from tests import runs
from tests.batches import BatchServer
from tests.command import medagent

LINES = [json.loads(line) for line in (MINI / "test.jsonl").read_text("utf-8").splitlines()]
ANSWERS = {line["input"]: line["target"] for line in LINES}
FIRST = tuple(f"{line['task_dataset']}#{number}" for number, line in enumerate(LINES[:8], 1))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "QUIET_S", 0.05)
    monkeypatch.setattr(batch, "POLL_S", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


def asked(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def run(server: Any, folder: Path, **changes: Any) -> int:
    options = {
        "model": "gpt-4o-mini",
        "base_url": [server.url],
        "results_dir": folder,
        "batch": True,
        "concurrency": 64,
    }
    options |= changes
    return runs.run(Promptcblue(), runs.impatient(PromptcblueSettings)(**options))


@pytest.mark.parametrize("api", ["chat", "anthropic"])
def test_a_run_is_one_batch_at_half_the_price(tmp_path: Path, api: str) -> None:
    with BatchServer(lambda body: ANSWERS[asked(body)], polls=3) as server:
        assert run(server, tmp_path, api=api, limit=8) == 0
        assert [len(requests) for requests in server.batches.values()] == [8]
        assert server.looks == {"batch1": 3}
    report = json.loads((tmp_path / "promptcblue_r1_gpt-4o-mini" / "report.json").read_text("utf-8"))
    assert report["overall"]["value"] == pytest.approx(1)
    assert report["spent"]["cost"] == pytest.approx(8 * (10 * 0.15 + 2 * 0.6) / 1e6 / 2)


def test_a_stopped_run_finds_its_batch_and_submits_only_what_was_lost(tmp_path: Path) -> None:
    lost = {LINES[0]["input"], LINES[5]["input"]}
    with BatchServer(lambda body: None if asked(body) in lost else ANSWERS[asked(body)]) as server:
        assert run(server, tmp_path, ids=FIRST) == 2
        journal = tmp_path / "promptcblue_r1_gpt-4o-mini" / "episodes.jsonl"
        rows = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        assert sorted(row["status"] for row in rows) == ["completed"] * 6 + ["model_error"] * 2
        lost.clear()
        # As if the process had died before the answers came: the batch is asked for again, not submitted.
        journal.unlink()
        assert run(server, tmp_path, ids=FIRST) == 0
        assert [len(requests) for requests in server.batches.values()] == [8, 2]


def test_an_endpoint_without_batches_is_one_line(tmp_path: Path) -> None:
    with BatchServer(lambda body: "") as server:
        elsewhere = [server.url.replace("/v1", "/v2")]
        with pytest.raises(StopRunError, match="of a batch: it has no batches; leave --batch out"):
            run(server, tmp_path, base_url=elsewhere)


def test_what_has_no_batches_is_refused(tmp_path: Path) -> None:
    with BatchServer(lambda body: "") as server:
        for changes, words in (
            ({"workers": 2}, "leave --workers and --cluster out"),
            ({"api": "responses"}, "goes with --api chat and anthropic"),
            ({"model": None, "agent": "gold"}, "is for a model alone"),
            ({"model": "scripted:x.json"}, "is behind no batch API"),
        ):
            with pytest.raises(UserError, match=words):
                run(server, tmp_path, **changes)
    refused = medagent("run", "imapscore", "--model", "m", "--batch")
    assert (refused.code, "no such option" in refused.err.lower()) == (1, True)
