"""An agent that opens one page of each search: how often it is right, what sets store of it, and where it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.clinical.sets import load_set
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.medagentbench.tasks.dataset import dataset_folder
from refsol.clinical.one_page import is_right_by_one_page
from refsol.clinical.sources import Resources, Source
from refsol.medagentbench import TYPES
from refsol.medagentbench.constants import PUBLISHED
from refsol.medagentbench.rules import OFFICIAL, TaskChart
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import episodes, run
from tests.shared_data import hospital_lines

AGENTS = "tests.medagent.benchmarks.medagentbench.page_agents"
PAGE = Path(__file__).parents[4] / "docs" / "read-results.md"


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return load_set(dataset_folder("synthetic")).tasks


@pytest.fixture(scope="module")
def hospital() -> Resources:
    return read(hospital_lines())


def read(texts: Any) -> Resources:
    """The patients of a hospital and their readings of the four tests that decide tasks."""
    marks = ('"resourceType":"Patient"', *(f'"text":"{code}"' for code in ("MG", "K", "GLU", "A1C")))
    return Resources([json.loads(text) for text in texts if any(mark in text for mark in marks)])


def right(tasks: Any, hospital: Source, size: int = 20) -> dict[str, bool]:
    """Whether the agent is right, by task."""

    def chart(task: Task, source: Source) -> TaskChart:
        return TaskChart(source, task.patient, PUBLISHED.now, OFFICIAL, task=dict(task.fields))

    return {
        task.id: is_right_by_one_page(TYPES[task.type](PUBLISHED), partial(chart, task), hospital, size)
        for task in tasks
        if task.type not in ("task1", "task3", "task8")
    }


def newest_is_hidden(task: Task, hospital: Resources) -> bool:
    """Whether the newest glucose of a task7 is not among the first 20 unsorted matches."""
    readings = hospital.search("Observation", patient=task.patient, code="GLU")
    times = [str(reading["effectiveDateTime"]) for reading in readings]
    return len(times) > 20 and max(times) not in times[:20]


def judged(folder: Path) -> Mapping[str, bool]:
    """The verdicts of a run, by task."""
    scores = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
    return {row["unit"].partition("#")[0]: row["score"]["correct"] for row in scores if "unit" in row}


def test_at_least_eleven_of_thirty_need_another_page(tasks: tuple[Task, ...], hospital: Resources) -> None:
    last_glucose = [task for task in tasks if task.type == "task7"]
    assert sum(newest_is_hidden(task, hospital) for task in last_glucose) >= 11
    assert sum(right(last_glucose, hospital).values()) <= 0.65 * 30


def test_a_set_stores_what_the_agent_gets(tasks: tuple[Task, ...], hospital: Resources) -> None:
    assert all(task.one_page is not None for task in tasks)
    computed = right(tasks, hospital)
    assert computed == {task.id: task.one_page for task in tasks if task.id in computed}


def outcomes(tmp_path: Path, agent: str, *words: object) -> tuple[dict[str, Any], Mapping[str, bool]]:
    """The report of a run of v2, and the verdict of each task."""
    ran = run(tmp_path, "--agent", f"{AGENTS}:{agent}", "--json", *words)
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    return report, {item["item"]: item["correct"] for item in report["items"]}


@pytest.mark.parametrize("words", [("--per-type", 8), pytest.param((), marks=pytest.mark.long)])
def test_a_run_of_the_agent_gets_what_the_set_stores(
    tmp_path: Path, tasks: tuple[Task, ...], words: tuple[object, ...]
) -> None:
    report, verdicts = outcomes(tmp_path, "OnePage", *words)
    assert len(verdicts) == (80 if words else 300)
    assert verdicts == {task.id: task.one_page for task in tasks if task.id in verdicts}
    assert report["baselines"]["one-page"] == pytest.approx(sum(verdicts.values()) / len(verdicts))
    folder = next(tmp_path.glob("v2_r1_*"))
    shown = medagent("grade", folder, "--full").out
    line = next(line for line in shown.splitlines() if line.strip().startswith("One page of each search"))
    assert str(sum(verdicts.values())) in line.split()
    assert re.search(r"^One page of each search \d\d\.\d", medagent("grade", folder).out, re.MULTILINE)
    assert len(episodes(folder)) == len(verdicts)


@pytest.mark.parametrize("agent", ["Paging", "Sorting"])
def test_an_agent_that_pages_or_sorts_gets_all(tmp_path: Path, agent: str) -> None:
    _, verdicts = outcomes(tmp_path, agent, "--types", "task7")
    assert list(verdicts.values()) == [True] * 30


@pytest.mark.parametrize("words", [("--page-size", 10), ("--order", "shuffled")])
def test_it_is_not_shown_for_other_pages(tmp_path: Path, words: tuple[object, ...]) -> None:
    report, _ = outcomes(tmp_path, "OnePage", "--limit", 20, *words)
    assert "one-page" not in report["baselines"]
    assert "One page" not in medagent("grade", next(tmp_path.glob("v2_r1_*")), "--full").out


def test_the_page_about_results_has_the_agent_at_four_sizes(tasks: tuple[Task, ...], hospital: Resources) -> None:
    """`docs/read-results.md`: of 300 tasks and of the 30 of task7, at 5, 10, 20 and 50."""
    rows = re.findall(r"^\| (\d+) \| ([\d.]+)% \| (\d+) of 30 \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    computed = []
    for size in (5, 10, 20, 50):
        verdicts = right(tasks, hospital, size)
        total = 300 - list(verdicts.values()).count(False)
        last_glucose = sum(verdict for name, verdict in verdicts.items() if name.startswith("task7_"))
        computed.append((str(size), f"{total / 3:.1f}", str(last_glucose)))
    assert rows == computed


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_fresh_sets_need_other_pages_as_well(tmp_path: Path, seed: int) -> None:
    assert medagent("data", "new", tmp_path / "set", "--seed", f"pages {seed}").code == 0
    last_glucose = [task for task in load_set(tmp_path / "set").tasks if task.type == "task7"]
    hospital = read((tmp_path / "set" / "hospital.ndjson").read_text("utf-8").splitlines())
    assert sum(newest_is_hidden(task, hospital) for task in last_glucose) >= 11
    assert sum(bool(task.one_page) for task in last_glucose) <= 0.65 * 30


def test_a_small_set_is_made_where_few_charts_are_long(tmp_path: Path) -> None:
    made = medagent("data", "new", tmp_path / "set", "--seed", "small", "--patients", 20, "--per-type", 3)
    assert made.code == 0, made.err
    assert len(load_set(tmp_path / "set").tasks) == 30
