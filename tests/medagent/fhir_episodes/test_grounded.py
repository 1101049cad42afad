"""Right for the right reason, in runs: who had read what decides, beside the blind floor, in every view."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent.engine.report import Report
from medagent.engine.scores import GROUNDED, Item, Score, Scored, mean_by_group
from tests.command import medagent as command
from tests.shared_data import ROOT, SHARED, need

LABS = ("task4", "task5", "task6", "task7", "task9", "task10")
ANSWERS = {"task1": '["Patient not found"]', "task4": "[-1]", "task6": "[-1]", "task7": "[-1]"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of all tasks of v1 by the reference agent and by the blind example."""
    place = tmp_path_factory.mktemp("grounded")
    for agent in ("reference", f"{ROOT / 'examples' / 'blind.py'}:Blind"):
        words = ["run", "--version", "v1", "--agent", agent, "--results-dir", place, "--quiet"]
        assert command(*words).code == 0
    return place


def report(path: Path) -> Report:
    return medagent.load_run(path).report


def test_the_reference_agent_had_read_what_decides(folder: Path) -> None:
    found = report(folder / "v1_r1_reference")
    assert found.overall is not None
    assert found.overall.grounded is not None
    rate = found.overall.grounded
    assert (rate.right, rate.n, rate.lucky, rate.value) == (80, 80, 0, 1)
    unread = {item.group for item in found.items if item.grounded is None}
    assert unread == {"task3", "task8"}
    assert {item.reading for item in found.items if item.grounded is None} == {"needs no reading"}


def test_a_blind_agent_is_lucky_at_best(folder: Path) -> None:
    found = report(folder / "v1_r1_Blind")
    assert found.overall is not None
    assert found.overall.grounded is not None
    rate = found.overall.grounded
    needed = [item for item in found.items if item.correct and item.group not in ("task3", "task8")]
    assert (rate.right, rate.n, rate.lucky) == (0, 80, len(needed))
    assert needed
    assert all(item.is_lucky and item.reading.startswith("read nothing: ") for item in needed)


def test_the_table_has_the_floor_and_what_is_grounded(folder: Path) -> None:
    table = command("grade", folder / "v1_r1_Blind", "--full").out
    blind = re.search(r"baseline blind +(\d+) +100 ", table)
    overall = re.search(r"overall +(\d+) +100 ", table)
    assert blind is not None
    assert overall is not None
    assert int(overall[1]) <= int(blind[1]), "the floor is the best blind behaviour of this data set"
    assert re.search(r"grounded +0 +80 +0\.0% +0\.0–\d", table)
    assert re.search(r"task3 +record blood pressure +10 +10 +100\.0% .* needs no reading\n", table)
    assert re.search(r"Score: \d+\.\d%; compared with blind: −\d+\.\d points \(95% −\d+\.\d to [−+]\d", table)
    reference = command("grade", folder / "v1_r1_reference", "--full").out
    assert re.search(r"grounded +80 +80 +100\.0%", reference)
    assert re.search(r"compared with blind: \+\d\d\.\d points", reference)


def test_programs_get_the_same(folder: Path) -> None:
    document = json.loads(command("grade", folder / "v1_r1_Blind", "--json").out)
    assert document["overall"]["grounded"]["right"] == 0
    assert document["by_type"]["task3"]["grounded"]["note"] == "needs no reading"
    assert document["baselines"].keys() == {"nop", "constant", "blind", "one-page"}
    low, high = document["above_blind"]["interval_95"]
    assert low <= document["above_blind"]["difference"] <= min(high, 0)
    items = {item["task_id"]: item for item in json.loads((folder / "v1_r1_Blind" / "grade.json").read_text())["items"]}
    lucky = next(item for item in items.values() if item["correct"] and item["grounded"] is False)
    assert lucky["reading"].startswith("read nothing: ")
    stored = json.loads((folder / "v1_r1_Blind" / "report.json").read_text())
    assert stored["overall"]["grounded"]["n"] == 80
    lines = (folder / "v1_r1_Blind" / "items.jsonl").read_text().splitlines()
    patients = {json.loads(line).get("patient") for line in lines} - {None}  # a patient who was not found has no number
    assert stored["patients"] == len(patients) > 20


def test_lucky_items_are_listed_and_shown(folder: Path) -> None:
    run = folder / "v1_r1_Blind"
    listed = command("show", run, "--kind", "lucky").out.splitlines()
    assert command("show", run, "--kind", "right without reading").out.splitlines() == listed
    count = sum(item.is_lucky for item in report(run).items)
    assert listed[-1].startswith(f"{count} of 100 ")
    assert all(re.search(r" right +right without reading +read nothing: ", line) for line in listed[:-1])
    shown = command("show", run, listed[0].split()[0]).out
    assert "\ngrounded: no (read nothing: " in shown
    assert command("show", folder / "v1_r1_reference", "--kind", "lucky").out.startswith("0 of 100 ")
    assert re.search(r"Grounded: 0 of 80, 95% 0\.0–\d", command("show", run).out)


def test_comparisons_boards_and_exports_have_it(folder: Path, tmp_path: Path) -> None:
    blind, reference = folder / "v1_r1_Blind", folder / "v1_r1_reference"
    compared = command("compare", blind, reference).out
    assert "Grounded: A 0, B 80 of 80; B − A: +100.0 points (95% " in compared
    assert "Grounded: A 0, B 80 of 80" in command("compare", blind, reference, "--markdown").out
    assert json.loads(command("compare", blind, reference, "--json").out)["grounded"]["second"] == 80
    assert "| 80 of 80, " in command("leaderboard", blind, reference).out
    command("export", "jsonl", blind, tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["grounded"] for row in rows} == {None, False}
    command("report", blind, "-o", tmp_path / "page.html")
    assert "data read: 0 of 80, 95% 0.0–" in (tmp_path / "page.html").read_text()


class Route(medagent.Agent):
    """Reads the record by one route, whatever the task, then gives a constant answer."""

    def __init__(self, context: Any = None, url: str = "") -> None:
        super().__init__(context)
        self.url = url

    def play(self, task: Any, prompt: str) -> Iterator[str]:
        url = f"{self.context.base}{self.url.format(mrn=task.mrn)}"
        while url:
            reply = yield f"GET {url}"
            following = re.search(r'"relation": *"next",\s*"url": *"([^"]+)"', str(reply))
            url = following[1] if following else ""
        yield f"FINISH({ANSWERS.get(task.type, '[]')})"


@pytest.mark.parametrize(
    "url",
    [
        "Observation?patient={mrn}&_count=5000",
        "Observation?subject=Patient/{mrn}&category=laboratory&_count=200",
        "Observation?patient={mrn}&_format=xml&_count=5000",
        "Patient/{mrn}/$everything?_count=5000",
        "Patient?identifier={mrn}&_revinclude=Observation:patient&_count=5000",
    ],
)
def test_agents_that_read_by_other_routes_are_grounded(url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"version": "v1", "types": LABS, "per_type": 2, "results_dir": tmp_path, "max_rounds": 30}
    found = medagent.run_sync(agent=Route(url=url), **options)
    right = [item for item in found.items if item.correct]
    assert right
    assert [item for item in right if not item.grounded] == []


@pytest.mark.parametrize("url", ["Patient?identifier={mrn}", "Observation?patient=S0000000"])
def test_agents_that_read_something_else_are_not(url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"version": "v1", "types": LABS, "per_type": 4, "results_dir": tmp_path}
    found = medagent.run_sync(agent=Route(url=url), **options)
    assert any(item.correct for item in found.items)
    assert not any(item.grounded for item in found.items)


@pytest.mark.long
def test_the_agents_that_are_right_by_luck(tmp_path: Path) -> None:
    """The relations of `lucky_agents.py`; its figures are those of one hospital."""
    probes = need(SHARED / "probes" / "lucky_agents.py")
    names = ("Blind", "Patient", "Other", "After", "Window", "Today", "FirstPage")
    readers = ("All", "ByInclude", "Everything", "Newest")
    found = {}
    for name in (*names, *readers):
        command("run", "--agent", f"{probes}:{name}", "--results-dir", tmp_path, "--quiet")
        items = [
            item for item in report(tmp_path / f"v2_r1_{name}").items if item.correct and item.grounded is not None
        ]
        found[name] = (sum(bool(item.grounded) for item in items), {item.group for item in items if item.is_lucky})
    assert [found[name][0] for name in names[:3]] == [0, 0, 0]
    most = found["All"][0]
    assert found["FirstPage"][0] < most / 5 > found["Today"][0]
    assert 0 < found["After"][0] < most > found["Window"][0] > 0
    assert [found[name] for name in readers] == [(most, {"task1"})] * 4


class Shows(medagent.Agent):
    def play(self, task: Any, prompt: str) -> Iterator[str]:
        yield f"FINISH({json.dumps(vars(task))})"


def test_an_agent_is_told_no_answer(tmp_path: Path) -> None:
    found = medagent.run_sync(agent=Shows, per_type=2, results_dir=tmp_path)
    tasks = {task.id: task for task in medagent.tasks()}
    for row in medagent.load_run(found.folder).rows():
        seen = json.loads(row.answer)  # type: ignore[attr-defined]  # rows are typed as their base
        assert seen.keys() == {"id", "type", "instruction", "context", "mrn", "now"}
        task = tasks[seen["id"]]
        assert seen["mrn"] in task.text
        assert task.fields.get("sol") in (None, ["Patient not found"]) or task.fields.get("sol")[0] not in json.dumps(
            seen
        )


def test_a_replay_of_posts_alone_says_nothing_of_reads(folder: Path, tmp_path: Path) -> None:
    results = folder / "v1_r1_reference" / "results.json"
    words = ["run", "--version", "v1", "--types", "task4,task9", "--results-dir", tmp_path, "--quiet"]
    assert command(*words, "--agent", "replay", results).code == 0
    found = report(tmp_path / "v1_r1_replay")
    assert {(item.grounded, item.reading) for item in found.items if item.correct} == {(None, "unknown")}
    assert command("grade", tmp_path / "v1_r1_replay", "--full").out.count("unknown") > 2


def test_other_benchmarks_have_the_column_and_the_line_too() -> None:
    verdicts = {f"{kind}{number}": Score(correct=True, grounded=number > 0) for kind in "abcde" for number in range(4)}
    scores = [Scored(Item(id=key, group=key[0]), 1, key, "completed", score) for key, score in verdicts.items()]
    metrics = mean_by_group(scores)
    assert metrics.overall is not None
    assert metrics.overall.grounded is not None
    assert (metrics.overall.grounded.right, metrics.overall.grounded.lucky) == (15, 5)
    assert metrics.table[-1].lines[-1].name == GROUNDED
