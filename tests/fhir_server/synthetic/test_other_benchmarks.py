"""What psb-300 and FHIR-AgentBench ask of the bundled hospital is there, with every branch often enough."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from fhir_server.synthetic.bundled import PROFILE
from refsol.psb300 import Resources, RuleName, Verdict, grade_item
from tests.shared_data import hospital_lines

Resource = dict[str, Any]
NOW = PROFILE.now
CONTEXT = f"It's {NOW.isoformat()} now."


@pytest.fixture(scope="module")
def resources() -> list[Resource]:
    return [json.loads(line) for line in hospital_lines()]


def verdict_of(kind: str, mrn: str, facts: Resources, rules: RuleName = "official") -> Verdict:
    """The verdict on a reply that does nothing."""
    finish = [{"role": "agent", "content": "FINISH([])"}]
    task = {"id": f"{kind}_1", "eval_MRN": mrn, "context": CONTEXT}
    return grade_item(task, finish, "[]", facts, clock=NOW, rules=rules)


def living(resources: list[Resource]) -> list[str]:
    return [
        resource["id"]
        for resource in resources
        if resource["resourceType"] == "Patient" and "deceasedDateTime" not in resource
    ]


@pytest.mark.parametrize("rules", ["official", "fair"])
def test_orders_of_psb_300_are_due_and_not_due_in_fifteen_patients_each(resources: list[Resource], rules: Any) -> None:
    facts = Resources(resources)
    for number in (1, 2, 4, 5, 6, 7, 8, 9, 10):
        branches = Counter(verdict_of(f"task{number}", mrn, facts, rules).branch for mrn in living(resources))
        assert min(branches["order"], branches["no order"]) >= 15, (number, branches)


def test_both_arms_of_anticoagulants_and_thyroid_tests_and_every_kind_of_mean(resources: list[Resource]) -> None:
    facts = Resources(resources)
    words, means, thyroid = Counter[str](), Counter[tuple[bool, ...]](), Counter[bool]()
    for mrn in living(resources):
        because = verdict_of("task2", mrn, facts).because
        assert because is not None
        words.update(part for part in ("order heparin", "stop ") if part in because.sentence)
        means[tuple(mean is None for mean in verdict_of("task3", mrn, facts).accepted[0])] += 1
        if verdict_of("task6", mrn, facts).branch == "order":
            highs = [
                reading["valueQuantity"]["value"] for reading in facts.search("Observation", patient=mrn, code="TSH")
            ]
            thyroid[sum(value > 10 for value in highs) > 1] += 1
    assert min(words.values()) >= 10
    assert means.keys() == {(False, False), (True, False), (True, True)}
    assert min(thyroid.values()) >= 15


def test_the_last_qtc_stored_is_not_always_the_last_one_taken(resources: list[Resource]) -> None:
    facts = Resources(resources)
    sides = Counter[tuple[bool, bool]]()
    for mrn in living(resources):
        found = facts.search("Observation", patient=mrn, code="QTCINTERVAL")
        if found:
            stored = max(found, key=lambda reading: str(reading["meta"]["lastUpdated"]))
            taken = max(found, key=lambda reading: str(reading["effectiveDateTime"]))
            if stored is not taken:
                assert stored["valueQuantity"] != taken["valueQuantity"]
                sides[stored["valueQuantity"]["value"] > 500, taken["valueQuantity"]["value"] > 500] += 1
    assert min(sides[True, True], sides[False, False]) >= 3
    assert min(sides[True, False], sides[False, True]) >= 1


def test_all_stamps_lie_before_2025(resources: list[Resource]) -> None:
    stamps = {resource["meta"]["lastUpdated"] for resource in resources}
    assert max(stamps) < "2025"
    assert len(stamps) > 100


def test_what_fhir_agent_bench_asks_about_is_there(resources: list[Resource]) -> None:
    by_type: dict[str, list[Resource]] = {}
    for resource in resources:
        by_type.setdefault(resource["resourceType"], []).append(resource)
    observations, encounters = by_type["Observation"], by_type["Encounter"]
    classes = Counter(encounter["class"]["code"] for encounter in encounters)
    assert min(classes[code] for code in ("IMP", "EMER", "ACUTE", "AMB")) >= 20
    assert all("partOf" in encounter for encounter in encounters if encounter["class"]["code"] in ("EMER", "ACUTE"))
    stays = [encounter for encounter in encounters if encounter["class"]["code"] == "IMP"]
    assert all(stay["location"] and stay["priority"] and stay["hospitalization"]["admitSource"] for stay in stays)
    assert {stay["status"] for stay in stays} == {"finished", "in-progress"}
    assert len(by_type["Location"]) >= 6
    assert sum("ingredient" in medication for medication in by_type["Medication"]) >= 10
    assert sum("medicationReference" in order for order in by_type["MedicationRequest"]) >= 10
    assert all(
        "request" in administration and "context" in administration
        for administration in by_type["MedicationAdministration"]
    )
    routes = Counter(order["dosageInstruction"][0]["route"]["text"] for order in by_type["MedicationRequest"])
    assert min(routes["Oral"], routes["Intravenous"], routes["Subcutaneous"]) >= 50
    tests = [observation for observation in observations if "specimen" in observation]
    organisms = {member["reference"] for test in tests for member in test.get("hasMember", [])}
    grown = [observation for observation in observations if f"Observation/{observation['id']}" in organisms]
    assert len(by_type["Specimen"]) == len(tests) >= 40
    assert len(grown) >= 10
    assert all(organism["hasMember"] for organism in grown)
    codes = Counter(observation["code"]["text"] for observation in observations)
    for code in ("URINE FOLEY", "URINE VOID", "DRAIN JP", "HT", "WT", "HEARTRATE", "RR", "SPO2", "TEMP", "BP"):
        assert codes[code] >= 20, code
    assert all(patient["maritalStatus"] and patient["gender"] for patient in by_type["Patient"])
    assert len(by_type["Coverage"]) == len(by_type["Patient"])
    assert sum("performedPeriod" in procedure for procedure in by_type["Procedure"]) >= 10
