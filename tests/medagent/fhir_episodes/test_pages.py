"""`--page-size` and `--order`: what agents see, what a run stores, and who reads it later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import medagent as public
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import episodes, run
from tests.medagent.fhir_episodes.http_agent import play

TASK = "task5_1"
READER = """
from medagent import Agent


class Reader(Agent):
    async def play(self, task, prompt):
        yield f"GET {self.context.base}/Observation?code=GLU"
        yield "FINISH([1])"
"""


def search(task: Any) -> str:
    return f"Observation?patient={task.mrn}"


def entries(**options: object) -> list[str]:
    """The ids that the first page of a search shows in an episode."""
    with public.episode(TASK, **options) as episode:
        episode.reset()
        reply = episode.act(f"GET http://localhost:8080/fhir/{search(episode.task)}")
    bundle = json.loads(reply[reply.index("{") : reply.rindex("}") + 1])
    return [entry["resource"]["id"] for entry in bundle["entry"]]


def test_the_default_page_has_twenty_results_in_the_stored_order() -> None:
    first = entries()
    assert len(first) == 20
    assert entries(page_size=20, order="stored") == first
    assert entries(page_size=50)[:20] == first


def test_a_page_size_and_an_order_hold_in_an_episode() -> None:
    first, shuffled = entries(page_size=5), entries(page_size=5, order="shuffled")
    assert len(first) == len(shuffled) == 5
    assert first == entries()[:5]
    assert shuffled == entries(order="shuffled")[:5] != first


def test_they_hold_over_http() -> None:
    with public.serve_episodes(page_size=5, order="shuffled") as server, server.open(TASK) as episode:
        reply = httpx.get(f"{episode.base}/{search(episode.task)}", headers=episode.headers).json()
        assert [entry["resource"]["id"] for entry in reply["entry"]] == entries(page_size=5, order="shuffled")
        episode.finish(play(episode.task, episode.base, episode.headers))
        assert episode.verdict().correct is True


@pytest.mark.parametrize("option", [("--page-size", 5), ("--order", "shuffled")])
def test_they_are_refused_with_a_server_of_others(tmp_path: Path, option: tuple[str, object]) -> None:
    ran = run(tmp_path, "--agent", "nop", "--fhir", "http://localhost:1/fhir", *option)
    assert ran.code == 1
    assert f"{option[0]} and --fhir exclude each other" in ran.err


@pytest.mark.parametrize("option", [("--page-size", 0), ("--page-size", "many"), ("--order", "random")])
def test_other_values_are_refused(tmp_path: Path, option: tuple[str, object]) -> None:
    ran = run(tmp_path, "--agent", "nop", *option)
    assert ran.code == 1
    assert option[0] in ran.err


def test_a_run_stores_and_names_them(tmp_path: Path) -> None:
    words = ("--version", "v1", "--agent", "reference", "--limit", 10)
    assert run(tmp_path, *words, "--round", "default").code == 0
    ran = run(tmp_path, *words, "--round", "other", "--page-size", 5, "--order", "shuffled")
    assert ran.code == 0, ran.err
    assert "pages of 5, shuffled order" in " ".join(ran.out.split())
    folders = [tmp_path / f"v1_{name}_reference" for name in ("default", "other")]
    settings = [json.loads((folder / "run.json").read_text())["settings"] for folder in folders]
    assert [(run_settings["page-size"], run_settings["order"]) for run_settings in settings] == [
        (None, None),
        (5, "shuffled"),
    ]
    ran = run(tmp_path, *words, "--round", "other", "--page-size", 10)
    assert ran.code == 1
    assert "page-size" in ran.err
    compared = medagent("compare", *folders)
    assert compared.code == 0, compared.err
    assert "A: default pages; B: pages of 5, shuffled order" in " ".join(compared.out.split())
    assert json.loads(medagent("compare", *folders, "--json").out)["pages"] == [
        "default pages",
        "pages of 5, shuffled order",
    ]
    board = medagent("leaderboard", *folders).out
    assert "page-size 5, order shuffled" in board


def test_a_pack_is_replayed_with_them(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(READER)
    ran = run(tmp_path, "--version", "v1", "--agent", f"{tmp_path}/reader.py:Reader", "--limit", 3, "--page-size", 3)
    assert ran.code == 0, ran.err
    (folder,) = tmp_path.glob("v1_r1_*")
    replies = [
        turn["content"] for row in episodes(folder).values() for turn in row["transcript"] if turn["role"] == "user"
    ]
    assert any(reply.count('"fullUrl"') == 3 for reply in replies)
    assert medagent("submit", "pack", folder, "--out", tmp_path / "pack.zip", "--partial").code == 0
    checked = medagent("submit", "check", tmp_path / "pack.zip")
    assert checked.code == 0, checked.out + checked.err
    assert "verified by replay: prompts, replies" in checked.out
