"""Runs over made sets: the reference agent solves them, recall does not, and every command takes the folder."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import medagent as api
from medagent.benchmarks.medagentbench.generator.write import MabGenerator
from medagent.benchmarks.medagentbench.tasks.dataset import constants_of
from medagent.core.paths import cache_dir
from medagent.engine.data_sets import SetOptions
from refsol.medagentbench import PUBLISHED
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.generator.made import (
    blind_total,
    both,
    constants_right,
    nothing_right,
    small,
    too_frequent,
)
from tests.shared_data import ROOT

RECALL = """
from dataclasses import replace
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent


class Recall(ReferenceAgent):
    '''Knows the published numbers by heart and reads no context.'''

    def start(self, task, *, key, seed):
        return super().start(replace(task, context=""), key=key, seed=seed)
"""


def overall(*words: object) -> dict[str, int]:
    """The counts of a run."""
    ran = medagent("run", *words, "--quiet", "--json")
    assert ran.code == 0, ran.err
    counts: dict[str, int] = json.loads(ran.out)["overall"]["counts"]
    return counts


def test_reading_solves_a_shift_set_and_recall_does_not(
    shift: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recall.py").write_text(RECALL, encoding="utf-8")
    assert overall("--dataset", shift, "--agent", "reference") == {"right": 60}
    right = overall("--dataset", shift, "--agent", "recall.py:Recall")["right"]
    assert right <= 12  # found patients and no more: codes, clock and thresholds are others
    report = json.loads(Path("results/v2_r1_reference/report.json").read_text())
    assert report["data"]["name"].startswith("shift-")
    assert report["settings"]["seed-digest"] == api.load_run("results/v2_r1_reference").settings["seed-digest"]


def test_grading_by_every_rule_from_anywhere(shift: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shift.parent)
    run = ("run", "--dataset", shift.name, "--version", "v1", "--agent", "reference", "--quiet")
    assert medagent(*run, "--results-dir", tmp_path).code == 0
    monkeypatch.chdir(tmp_path)
    ran = medagent("grade", "v1_r1_reference", "--side-by-side", "--rules", "fair", "--json")
    grade = json.loads(ran.out)
    assert (grade["overall"]["right"], grade["others"]["official"]["right"]) == (20, 20)
    assert medagent("show", "v1_r1_reference", "task5_1").code == 0
    results = tmp_path / "alone.json"
    results.write_bytes(Path("v1_r1_reference/results.json").read_bytes())
    assert "belongs to another task set" in medagent("grade", results).err
    assert json.loads(medagent("grade", results, "--dataset", shift, "--json").out)["overall"]["right"] == 20
    key = medagent("data", "key", tmp_path / "key.json", "--dataset", shift, "--ehr", shift / "hospital.ndjson")
    assert key.code == 0
    assert (tmp_path / "key.json").read_bytes() == (shift / "reads.jsonl").read_bytes()


def test_an_episode_over_a_made_set(shift: Path) -> None:
    task = next(task for task in api.tasks(dataset=str(shift)) if task.type == "task3")
    constants = constants_of(both(shift)[1])
    with api.episode(task, dataset=str(shift)) as e:
        assert constants.now_text in e.reset()
        reply = e.act(f"GET {PUBLISHED.base}Patient?identifier={task.patient}")
        assert str(task.patient) in reply
        category = {
            "system": "http://hl7.org/fhir/observation-category",
            "code": "vital-signs",
            "display": "Vital Signs",
        }
        resource = {
            "resourceType": "Observation",
            "category": [{"coding": [category]}],
            "code": {"text": constants.blood_pressure_code},
            "effectiveDateTime": constants.now_text,
            "status": "final",
            "valueString": constants.blood_pressure,
            "subject": {"reference": f"Patient/{task.patient}"},
        }
        e.act(f"POST {PUBLISHED.base}Observation\n{json.dumps(resource)}")
        e.act("FINISH([])")
        assert e.verdict().correct


def test_a_set_has_patients_for_own_types(shift: Path, tmp_path: Path) -> None:
    types = ROOT / "tests" / "own_types.py"
    run = ("run", types, "--dataset", shift, "--agent", "reference", "--per-type", 4, "--quiet", "--json")
    report = json.loads(medagent(*run, "--results-dir", tmp_path).out)
    assert report["overall"]["counts"]["right"] == report["overall"]["n"] > 0
    tasks = [
        json.loads(line)
        for line in (tmp_path / "own_types_r1_reference" / "tasks.jsonl").read_text("utf-8").splitlines()
    ]
    patients = (shift / "hospital.ndjson").read_text("utf-8")
    assert all(f'{{"resourceType":"Patient","id":"{task["patient"]}"' in patients for task in tasks)
    (tmp_path / "dataset.json").write_text((shift / "dataset.json").read_text("utf-8"), "utf-8")
    alone = medagent("run", types, "--dataset", tmp_path, "--agent", "nop")
    assert (alone.code, alone.err.count("\n")) == (1, 1)
    assert "hospital.ndjson: cannot be read: No such file or directory" in alone.err


def test_sibling_sets_are_compared_by_type(shift: Path, tmp_path: Path) -> None:
    run = ("run", "--version", "v1", "--quiet", "--results-dir", tmp_path)
    assert medagent(*run, "--dataset", shift, "--agent", "reference").code == 0
    assert medagent(*run, "--agent", "nop").code == 0
    ran = medagent("compare", tmp_path / "v1_r1_reference", tmp_path / "v1_r1_nop")
    assert (ran.code, "sibling sets" in ran.out) == (0, True)
    assert "  task5   replace magnesium  " in ran.out
    last = next(line for line in ran.out.splitlines() if line.strip().startswith("overall")).split()
    assert last[:5] == ["overall", "20", "of", "20", "8"]
    found = json.loads(medagent("compare", tmp_path / "v1_r1_reference", tmp_path / "v1_r1_nop", "--json").out)
    assert set(found["groups"]) == {f"task{n}" for n in range(1, 11)}
    assert found["overall"]["difference"] == pytest.approx(0.08 - 1)


@pytest.mark.long
def test_an_agent_that_learnt_the_bundled_set_scores_like_doing_nothing_on_a_made_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(__file__).with_name("by_heart.py"), "by_heart.py")
    fresh = small(tmp_path / "fresh", "bundled")
    assert overall("--version", "v1", "--agent", "reference") == {"right": 100}
    by_heart = ("--version", "v1", "--agent", "by_heart.py:ByHeart")
    assert overall(*by_heart) == {"right": 100}
    nothing = sum(nothing_right(both(fresh)[0]).values())
    assert overall(*by_heart, "--dataset", fresh, "--round", "fresh") == {"right": nothing}


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_what_is_no_data_set(tmp_path: Path, name: str) -> None:
    ran = medagent("run", "--agent", "nop", "--dataset", tmp_path / name, "--results-dir", tmp_path / "r")
    assert (ran.code, "folders made by `medagent data new`" in ran.err) == (1, True)
    (tmp_path / "dataset.json").write_text("{}")
    ran = medagent("run", "--agent", "nop", "--dataset", tmp_path, "--results-dir", tmp_path / "r")
    assert (ran.code, str(tmp_path / "dataset.json") in ran.err) == (1, True)


@pytest.mark.long
@pytest.mark.parametrize("like", ["bundled", "shift", "full"])
def test_ten_seeds_of_each_kind(like: str, tmp_path: Path) -> None:
    """Solvable, balanced, and strangers to each other; three seeds of the full size."""
    mrns: Counter[str] = Counter()
    said: Counter[str] = Counter()
    levels: Counter[tuple[object, ...]] = Counter()
    for seed in range(3 if like == "full" else 10):
        folder = tmp_path / "set"
        MabGenerator().make(folder, SetOptions(like, seed=f"long {seed}"))
        v1, v2 = both(folder)
        assert all(task in v2.tasks for task in v1.tasks)
        assert (sum(nothing_right(v1).values()), sum(nothing_right(v2).values())) == (8, 27)
        assert too_frequent(v2) == {}
        for dataset in (v1, v2):
            right, count = blind_total(dataset)
            assert right <= 0.22 * count
        assert constants_right(v1) <= 20
        assert constants_right(v2) <= 60
        run = ("--dataset", folder, "--agent", "reference", "--results-dir", tmp_path, "--overwrite")
        assert overall(*run) == {"right": 300}
        fair = json.loads(medagent("grade", tmp_path / "v2_r1_reference", "--rules", "fair", "--json").out)
        assert fair["overall"]["right"] == 300
        mrns.update({str(task.patient) for task in v2.tasks if task.patient})
        said.update({task.text for task in v2.tasks})
        levels.update([_levels(folder)])
        for file in (*folder.iterdir(), *cache_dir().glob("ehr-*")):  # a hundred megabytes a seed
            file.unlink()
        folder.rmdir()
    assert max(said.values()) == 1
    assert sum(count > 1 for count in mrns.values()) <= 2  # by chance: 1,000 numbers of some million
    assert max(levels.values()) == 1


def _levels(folder: Path) -> tuple[object, ...]:
    """The deciding magnesium levels of a set, in order."""
    code = constants_of(both(folder)[1]).magnesium.code
    results = map(json.loads, (folder / "reads.jsonl").read_text(encoding="utf-8").splitlines())
    searched = [result for result in results if result.get("search", "").endswith(f"code={code}")]
    readings = [reading for result in searched for reading in result["resources"]]
    return tuple(sorted(reading["valueQuantity"]["value"] for reading in readings))
