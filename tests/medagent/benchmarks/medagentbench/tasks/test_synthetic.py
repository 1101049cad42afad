"""The bundled task set: rebuilt byte for byte, every branch dealt evenly, little to win by doing nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fhir_server.hospital import generate
from medagent.benchmarks.medagentbench.tasks import load_dataset
from medagent.benchmarks.medagentbench.tasks.synthetic import FOLDER, NOT_FOUND, PER_TYPE, build
from medagent.benchmarks.medagentbench.tasks.wording import BLOOD_PRESSURE, CONTEXTS, REFERRAL
from refsol.medagentbench import PUBLISHED, NdjsonEhr, Observation, grade_item
from refsol.medagentbench.baselines import NOP_ANSWER, constant_answers
from tests.shared_data import SHARED, need

TODAY = date(2023, 11, 13)
DAY_AGO, YEAR_AGO = "2023-11-12T10:15:00+00:00", "2022-11-13T10:15:00+00:00"
Item = dict[str, Any]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return list(generate())


@pytest.fixture(scope="module")
def ehr(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> NdjsonEhr:
    path: Path = tmp_path_factory.mktemp("hospital") / "hospital.ndjson"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return NdjsonEhr(path)


def items(version: str, kind: str | None = None) -> list[Item]:
    found: list[Item] = json.loads((FOLDER / f"test_data_{version}.json").read_text(encoding="utf-8"))
    return [item for item in found if kind is None or item["id"].startswith(kind + "_")]


def last(ehr: NdjsonEhr, item: Item, code: str) -> Observation | None:
    readings = ehr.observations(item["eval_MRN"], code)
    return max(readings, key=lambda reading: str(reading.time), default=None)


def branch(ehr: NdjsonEhr, item: Item, people: dict[tuple[str, str], list[str]]) -> str:
    """The branch of a task, told by rules of this test's own (all times of the hospital end in +00:00)."""
    kind = item["id"].partition("_")[0]
    code = {"task4": "MG", "task5": "MG", "task6": "GLU", "task7": "GLU", "task9": "K", "task10": "A1C"}.get(kind)
    if kind == "task1":
        return "found" if item["sol"] != [NOT_FOUND] else "near miss" if _nearly(item, people) else "unknown"
    if kind == "task2":
        birthday = str(ehr.patient(item["eval_MRN"]).birth_date)[5:]
        return "on" if birthday == "11-13" else "before" if birthday < "11-13" else "after"
    if code is None:
        return "any"
    level = last(ehr, item, code)
    if kind in {"task4", "task5", "task6"} and level and str(level.time) < DAY_AGO:
        level = None
    if level is None:
        return "none"
    value = level.value or 0
    if kind == "task5":
        return "normal" if value > 1.9 else "mild" if value >= 1.5 else "moderate" if value >= 1 else "severe"
    if kind == "task9":
        return "low" if value < 3.5 else "normal"
    if kind == "task10":
        return "old" if str(level.time) < YEAR_AGO else "recent"
    return "some"


def _nearly(item: Item, people: dict[tuple[str, str], list[str]]) -> bool:
    given, family, birth = asked(item)
    same_name = (given, family) in people
    same_birth = any(birth in births for (_, other), births in people.items() if other == family)
    return same_name or same_birth


def asked(item: Item) -> tuple[str, str, str]:
    """Given name, family name and birth date in a task1 instruction."""
    text = item["instruction"]
    birth = re.search(r"\d{4}-\d\d-\d\d", text)
    turned = re.search(r"MRN for ([\w-]+), ([\w-]+) \(", text)
    straight = re.search(r"(?:MRN of|named) ([\w-]+) ([\w-]+?)(?:,| whose)", text)
    assert birth
    if turned:
        return turned[2], turned[1], birth[0]
    assert straight
    return straight[1], straight[2], birth[0]


@pytest.fixture(scope="module")
def people(lines: list[str]) -> dict[tuple[str, str], list[str]]:
    out: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.startswith('{"resourceType":"Patient"'):
            patient = json.loads(line)
            name = patient["name"][0]
            out.setdefault((name["given"][0], name["family"]), []).append(patient["birthDate"])
    return out


def test_a_rebuild_gives_the_committed_files_and_answer_keys(tmp_path: Path) -> None:
    build(tmp_path)
    for version in PER_TYPE:
        for name in (f"test_data_{version}.json", f"key_{version}.json"):
            assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_the_data_set_reads_and_v1_is_the_first_ten_of_each_type() -> None:
    assert [task.id for task in load_dataset("synthetic", "v1").tasks] == [
        f"task{kind}_{n}" for kind in range(1, 11) for n in range(1, 11)
    ]
    assert len(load_dataset("synthetic", "v2").tasks) == 300
    by_id = {item["id"]: item for item in items("v2")}
    assert all(by_id[item["id"]] == item for item in items("v1"))


EVEN = {
    "task1": {"found": 18, "near miss": 8, "unknown": 4},
    "task2": {"on": 10, "before": 10, "after": 10},
    "task4": {"some": 15, "none": 15},
    "task5": {"none": 6, "normal": 6, "mild": 6, "moderate": 6, "severe": 6},
    "task6": {"some": 15, "none": 15},
    "task7": {"some": 26, "none": 4},
    "task9": {"none": 10, "normal": 10, "low": 10},
    "task10": {"none": 10, "old": 10, "recent": 10},
}


@pytest.mark.parametrize("kind", EVEN)
def test_branches_are_dealt_evenly(kind: str, ehr: NdjsonEhr, people: dict[tuple[str, str], list[str]]) -> None:
    counts = {version: Counter(branch(ehr, i, people) for i in items(version, kind)) for version in PER_TYPE}
    assert counts["v2"] == EVEN[kind]
    for name, wanted in EVEN[kind].items():
        assert abs(counts["v1"][name] - wanted / 3) <= 1, (name, counts["v1"])


@pytest.mark.parametrize("kind", [f"task{n}" for n in range(2, 11)])
def test_no_patient_comes_up_twice_in_a_type(kind: str) -> None:
    mrns = [item["eval_MRN"] for item in items("v2", kind)]
    assert len(set(mrns)) == len(mrns) == 30


def test_levels_just_inside_and_just_outside_24_hours_are_among_the_tasks(ehr: NdjsonEhr) -> None:
    times = {str(level.time) for item in items("v2", "task4") if (level := last(ehr, item, "MG"))}
    assert DAY_AGO in times
    assert "2023-11-12T10:14:00+00:00" in times


def test_task1_names_who_it_says(people: dict[tuple[str, str], list[str]]) -> None:
    for item in items("v2", "task1"):
        given, family, birth = asked(item)
        there = birth in people.get((given, family), [])
        assert there == (item["sol"] != [NOT_FOUND])
        assert item.get("eval_MRN") == (item["sol"][0] if there else None)


def test_some_found_patients_share_a_name_with_another(people: dict[tuple[str, str], list[str]]) -> None:
    found = [item for item in items("v2", "task1") if item["sol"] != [NOT_FOUND]]
    assert sum(len(people[asked(item)[:2]]) > 1 for item in found) >= 2


def test_every_item_says_clock_codes_and_the_two_quoted_texts() -> None:
    for item in items("v2"):
        kind = item["id"].partition("_")[0]
        assert item["context"] == CONTEXTS[kind]
        assert kind == "task1" or (PUBLISHED.now_text in item["context"] and item["eval_MRN"] in item["instruction"])
        assert (BLOOD_PRESSURE in item["instruction"]) == (kind == "task3")
        assert (REFERRAL in item["instruction"]) == (kind == "task8")


def test_the_wording_is_the_projects_own_but_for_the_quoted_texts() -> None:
    published = json.loads(need(SHARED / "medagentbench/official/test_data_v2.json").read_text(encoding="utf-8"))
    assert all(REFERRAL in item["instruction"] for item in published if item["id"].startswith("task8_"))

    def runs(item: Item) -> set[tuple[str, ...]]:
        text = (item["instruction"] + " " + item["context"]).replace(REFERRAL, "").replace(BLOOD_PRESSURE, "")
        words = re.findall(r"[\w.<+:-]+", text)
        return {tuple(words[n : n + 10]) for n in range(len(words) - 9)}

    theirs = set().union(*(runs(item) for item in published))
    assert not [item["id"] for item in items("v2") if runs(item) & theirs]


@pytest.mark.parametrize("version", list(PER_TYPE))
def test_doing_nothing_scores_under_15_percent(version: str, ehr: NdjsonEhr) -> None:
    everything = items(version)
    verdicts = [grade_item(item, NOP_ANSWER, [], ehr).correct for item in everything]
    assert None not in verdicts
    assert 0.05 < sum(map(bool, verdicts)) / len(everything) < 0.15


def test_no_constant_answer_wins_more_than_half_of_a_reading_type(ehr: NdjsonEhr) -> None:
    everything = items("v2")
    answers = constant_answers(everything, ehr)
    right = Counter(
        kind for item in everything if grade_item(item, answers[kind := item["id"].partition("_")[0]], [], ehr).correct
    )
    assert max(right[kind] for kind in ("task1", "task4", "task6")) <= 15
    assert max(right[kind] for kind in ("task2", "task3", "task7", "task8")) <= 4
