"""Assertions on episodes and runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent.core.errors import UserError
from medagent.testing import assert_grade, assert_no_regression


def test_a_wrong_episode_says_why(medagent_episode: Callable[..., Any]) -> None:
    episode = medagent_episode("task5_1")
    episode.act("FINISH([])")
    with pytest.raises(AssertionError, match=r"task5_1: never read the magnesium of 2023-11-13 05:57") as caught:
        assert_grade(episode)
    assert "posts: expected 1 accepted" in str(caught.value)
    assert "because: last magnesium 1.0 mg/dL" in str(caught.value)
    assert "its answer" in str(caught.value)


@pytest.mark.fhir(writes="execute")
def test_the_mark_executes_an_episodes_writes(medagent_episode: Callable[..., Any]) -> None:
    episode = medagent_episode("task5_1")
    episode.act('POST http://localhost:8080/fhir/Patient\n{"resourceType": "Patient"}')
    assert [write.url for write in episode.outcome.writes if write.resource]


def test_task(medagent_task: Callable[..., Any]) -> None:
    assert medagent_task("task5_1").patient
    with pytest.raises(UserError, match="task99_1: the data set does not contain this task"):
        medagent_task("task99_1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for agent in ("reference", "nop"):
        options: dict[str, Any] = {"types": ("task2",), "limit": 10, "results_dir": folder / agent}
        medagent.run_sync("medagentbench", agent=agent, **options)
    good, bad = (next((folder / agent).rglob("run.json")).parent for agent in ("reference", "nop"))
    return good, bad


def test_regression(runs: tuple[Path, Path]) -> None:
    good, bad = runs
    assert_no_regression(good, bad)
    assert_no_regression(good, good, alpha=1)
    with pytest.raises(AssertionError, match="10 lost, 0 gained of 10") as caught:
        assert_no_regression(bad, good)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 + 10
    assert all(re.match(r"  task2_\d+: .+ years old on 2023-11-13$", line) for line in lines[1:])


def test_regression_by_type(runs: tuple[Path, Path]) -> None:
    good, bad = runs
    assert_no_regression(good, bad, by="type")
    assert_no_regression(good, good, by="type", alpha=1)
    with pytest.raises(AssertionError, match="in task2: 10 lost, 0 gained of 10"):
        assert_no_regression(bad, good, by="type")
    wrong: Any = "kind"
    with pytest.raises(UserError, match="by='kind': use 'task' or 'type'"):
        assert_no_regression(good, bad, by=wrong)
