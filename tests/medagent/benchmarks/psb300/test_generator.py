"""Task sets of our own: the bundled one, and sets from a seed. The reference agent is right in them by both rules."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.generated_sets import SetRequest
from medagent.benchmarks.psb300.generator._sampling import candidates, hospital_of, tasks
from medagent.benchmarks.psb300.tasks import folder_of, load_tasks
from medagent.core.errors import UserError
from medagent.engine.data_sets import SetOptions
from refsol.psb300 import TYPES
from tests.command import medagent
from tests.medagent.benchmarks.psb300 import made
from tests.medagent.sandbox.trying import working
from tests.shared_data import hospital_lines

SMALL = ("--like", "psb-300", "--patients", 24, "--per-type", 2)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small set of the seed `one`."""
    folder = tmp_path_factory.mktemp("sets") / "small"
    ran = medagent("data", "new", folder, *SMALL, "--seed", "one")
    assert ran.code == 0, ran.err
    assert "Not private" in ran.out
    return folder


def rates(out: str, line: str) -> list[str]:
    """The first two figures of a line of a table."""
    return out.split(f"  {line} ")[1].split()[:2]


def test_the_bundled_set_needs_nothing(tmp_path: Path) -> None:
    ran = medagent("run", "psb-300", "--agent", "reference", "--results-dir", tmp_path, "--quiet", "--full")
    assert ran.code == 0, ran.err
    assert rates(ran.out, "overall") == rates(ran.out, "grounded") == ["300", "300"]
    path = tmp_path / "psb-300_r1_reference"
    assert rates(medagent("grade", path, "--rules", "fair", "--full").out, "overall") == ["300", "300"]
    report = json.loads((path / "report.json").read_text())
    assert report["floors"]["nop"] <= 0.5
    lines = {line["name"]: line for section in report["table"] for line in section["lines"]}
    assert lines["something is due"]["more"]["constant"] <= 0.2
    assert lines["something is due"]["n"] == lines["nothing is due"]["n"] == 135


@pytest.mark.long
def test_every_branch_is_in_the_bundled_set() -> None:
    from fhir_server.synthetic.bundled import PROFILE

    bundled = load_tasks("synthetic")
    assert Counter(task.type for task in bundled.tasks) == dict.fromkeys(TYPES, 30)
    assert all(len({task.patient for task in bundled.tasks if task.type == kind}) == 30 for kind in TYPES)
    hospital = hospital_of(hospital_lines())
    for kind in TYPES:
        known = {(candidate.mrn, candidate.now): candidate for candidate in candidates(kind, hospital, PROFILE.now)}
        chosen = [
            known[task.patient, datetime.fromisoformat(task.context[5:30])]
            for task in bundled.tasks
            if task.type == kind
        ]
        assert {candidate.branch for candidate in chosen} == {candidate.branch for candidate in known.values()}, kind
        assert kind == "task3" or Counter(candidate.rare for candidate in chosen) == {True: 15, False: 15}
        last_stored = Counter(
            candidate.rare for candidate in chosen if "the last stored is another" in candidate.branch
        )
        assert kind != "task7" or min(last_stored[True], last_stored[False]) >= 3


def test_the_same_seed_makes_the_same_bytes_and_another_one_others(small: Path, tmp_path: Path) -> None:
    same = medagent("data", "verify", small, "--seed", "one")
    assert (same.code, "every byte follows from the seed" in same.out) == (0, True)
    refused = medagent("data", "verify", small, "--seed", "two")
    assert (refused.code, "the seed: its SHA-256" in refused.out) == (1, True)
    changed = tmp_path / "changed"
    changed.mkdir()
    for file in small.iterdir():
        (changed / file.name).write_bytes(file.read_bytes())
    (changed / "tasks.jsonl").write_text("")
    found = medagent("data", "verify", changed, "--seed", "one")
    assert (found.code, "tasks.jsonl: its bytes differ" in found.out) == (1, True)


def test_a_set_of_a_seed_is_run_and_exported(small: Path, tmp_path: Path) -> None:
    words = ("--dataset", small, "--results-dir", tmp_path, "--quiet")
    ran = medagent("run", "psb-300", "--agent", "reference", *words, "--full")
    assert rates(ran.out, "overall") == ["20", "20"], ran.err
    assert "seed-digest" in json.loads((tmp_path / "psb-300_r1_reference" / "run.json").read_text())["settings"]
    assert "clock 2023-11-13T10:15:00+00:00" in ran.out
    harbor = medagent(
        "export",
        "harbor",
        "psb-300",
        tmp_path / "harbor",
        "--dataset",
        small,
        "--ids",
        "task9_1",
    )
    assert (harbor.code, ": 1 task." in harbor.out) == (0, True), harbor.err
    assert (tmp_path / "harbor" / "task9_1" / "solution" / "acts.json").is_file()
    refused = medagent("run", "psb-300", "--agent", "nop", "--split", "dev", *words)
    assert (refused.code, "cannot be split: task1 contains 2 tasks" in refused.err) == (1, True)


@pytest.mark.long
def test_a_birth_date_of_another_patient_costs_no_tumour(tmp_path: Path) -> None:
    """In this hospital two patients with a tumour get the birth dates of younger ones."""
    ran = medagent("data", "new", tmp_path / "set", "--like", "psb-300", "--seed", "fresh-18-2026")
    assert ran.code == 0, ran.err


def test_the_environment_for_training_has_the_tools_of_the_benchmark() -> None:
    from medagent.rl import Environment

    environment = Environment(benchmark="psb-300")
    names = {tool.name for tool in environment.tools}
    assert {"fhir_procedure_search", "calculator", "finish"} <= names
    assert not hasattr(environment, "get_patient") or environment.get_patient is None
    prompt = environment.reset(task=0)
    assert "S" in prompt
    assert environment.calculator(expression="2 * 3") == "6"
    environment.finish(value=[])
    assert environment.get_reward() in (0.0, 1.0)
    assert {tool.name for tool in Environment().tools} & {"get_patient"}


def test_bad_orders_are_refused_in_a_line(tmp_path: Path) -> None:
    for words, problem in (
        (("--split", "train"), "--split is not available with --like psb-300"),
        (("--per-type", 1), "--per-type: 1 is too low; at least 2"),
        (("--seed", " "), "--seed is empty"),
        (("--patients", 20, "--per-type", 30), "raise --patients or lower --per-type"),
    ):
        ran = medagent("data", "new", tmp_path / "set", "--like", "psb-300", *words)
        assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
        assert problem in ran.err
        assert not any((tmp_path / "set").iterdir()) if (tmp_path / "set").exists() else True


def test_a_chart_on_which_the_rule_sets_disagree_is_no_candidate() -> None:
    now = made.SCENARIO
    patients = [resource for resource in made.resources() if resource["resourceType"] == "Patient"][:2]
    resources = list(patients)
    for place, mrn in enumerate(patient["id"] for patient in patients):
        drug = {"resourceType": "MedicationRequest", "id": f"m{place}", "status": "active", "intent": "order",
                "authoredOn": now.isoformat(), "subject": {"reference": f"Patient/{mrn}"},
                "medicationCodeableConcept": {"text": "ondansetron 4 mg"}}  # fmt: skip
        resources.append(drug)
        for value, hours, stored in ((530, 5, 1), (450 if place else 515, 3, 0)):
            reading = {"resourceType": "Observation", "id": f"q{place}{stored}", "status": "final",
                       "meta": {"lastUpdated": (now + timedelta(hours=stored)).isoformat()},
                       "subject": {"reference": f"Patient/{mrn}"},
                       "code": {"coding": [{"code": "QTCINTERVAL"}]},
                       "effectiveDateTime": (now - timedelta(hours=hours)).isoformat(),
                       "valueQuantity": {"value": value}}  # fmt: skip
            resources.append(reading)
    lines = [json.dumps(resource, separators=(",", ":")) for resource in resources]
    (candidate,) = candidates("task7", hospital_of(lines), now)
    assert (candidate.mrn, candidate.rare) == (made.mrn(0), False)
    assert candidate.branch.endswith("the last stored is another")
    with pytest.raises(UserError, match=r"task1: .*raise --patients or lower --per-type"):
        list(tasks(hospital_of([]), now, SeededRandom(1), 2))


@pytest.mark.long
@pytest.mark.parametrize("words", [("tools",), ("code", "--sandbox", "bwrap"), ("code", "--sandbox", "monty")])
def test_the_reference_agent_is_right_in_all_300_by_every_protocol(words: tuple[str, ...], tmp_path: Path) -> None:
    if "--sandbox" in words:
        working(words[-1])
    ran = medagent("run", "psb-300", "--agent", "reference", "--results-dir", tmp_path, "--quiet", "--protocol", *words)
    assert "(300 of 300; " in ran.out, ran.err


@pytest.mark.long
@pytest.mark.parametrize("seed", ["a", "b", "c", "d", "e"])
def test_sets_of_other_seeds_have_the_same_floors(seed: str, tmp_path: Path) -> None:
    assert medagent("data", "new", tmp_path / "set", "--like", "psb-300", "--seed", seed).code == 0
    words = ("--dataset", tmp_path / "set", "--results-dir", tmp_path, "--quiet", "--agent", "reference")
    ran = medagent("run", "psb-300", *words)
    assert "(300 of 300; " in ran.out, ran.err
    fair = medagent("grade", tmp_path / "psb-300_r1_reference", "--rules", "fair")
    assert "(300 of 300; " in fair.out
    report = json.loads((tmp_path / "psb-300_r1_reference" / "report.json").read_text())
    assert report["floors"]["nop"] <= 0.5


@pytest.mark.long
def test_the_bundled_set_is_what_its_seed_gives(tmp_path: Path) -> None:
    from tools.bundled_tasks import sets

    generator, seed = sets()[folder_of("synthetic")]
    generator.write(tmp_path, SetRequest(SetOptions(seed=seed), seed, bundled="synthetic"))
    folder = load_tasks("synthetic").folder
    for file in ("tasks.jsonl", "reads.jsonl", "dataset.json"):
        assert (tmp_path / file).read_bytes() == (folder / file).read_bytes()
