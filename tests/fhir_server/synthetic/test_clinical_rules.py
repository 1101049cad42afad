"""The clinical rules: none is broken in the bundled hospital, and each notices a chart that breaks it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from tests.shared_data import hospital_lines
from tools.clinical_rules import audit
from tools.hospital_chart import charts as prepared_charts
from tools.hospital_figures import Counted, auc, figures

Resource = dict[str, Any]
SEEDS = range(101, 106)


def made(patients: int) -> Iterator[Resource]:
    """A hospital without a violation."""
    return (json.loads(line) for line in lines(replace(PROFILE, seed=11, patients=patients)))


def charts(resources: Iterable[Resource]) -> Iterator[list[Resource]]:
    """What all patients share, then the resources of each: a chart begins with its Patient."""
    chart: list[Resource] = []
    for one in resources:
        if one["resourceType"] == "Patient":
            yield chart
            chart = []
        chart.append(one)
    yield chart


@pytest.fixture(scope="module")
def small() -> list[Resource]:
    """A hospital of six patients."""
    return list(made(6))


@pytest.fixture(scope="module")
def death() -> list[Resource]:
    """A hospital of the patient who dies: one of twenty does."""
    shared, *others = charts(made(20))
    return [*shared, *next(chart for chart in others if "deceasedDateTime" in chart[0])]


@pytest.fixture(scope="module")
def bundled() -> list[str]:
    return hospital_lines()


def broken(resources: list[Resource]) -> set[str]:
    """The rules that resources break."""
    tallies = audit(json.dumps(one) for one in resources)
    return {name for name, tally in tallies.items() if tally.violations}


def test_the_bundled_hospital_breaks_no_rule(bundled: list[str]) -> None:
    for name, tally in audit(bundled).items():
        assert tally.violations == [], name
        assert tally.checked > 20, name


def test_the_bundled_hospital_keeps_the_bounds_of_a_real_one(bundled: list[str]) -> None:
    assert [one for one in figures(bundled) if not one.kept] == []


@pytest.mark.long
def test_five_seeds_together_keep_the_bounds_of_a_real_one() -> None:
    assert [one for one in figures(chain.from_iterable(map(hospital, SEEDS))) if not one.kept] == []


@pytest.mark.long
def test_the_size_of_a_change_does_not_tell_that_a_value_decides() -> None:
    counted = Counted(PROFILE.now)
    for chart in prepared_charts(chain.from_iterable(map(hospital, SEEDS))):
        chart.prepare()
        counted.add(chart)
    for code, (deciding, others) in counted.changes.items():
        assert len(deciding) > 100, code
        assert 0.45 < auc(deciding, others) < 0.55, code


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_breaks_a_rule(seed: int) -> None:
    for name, tally in audit(hospital(seed)).items():
        assert tally.violations == [], (seed, name)


def test_a_small_hospital_breaks_no_rule(small: list[Resource]) -> None:
    assert broken(small) == set()


def first(resources: list[Resource], kind: str, fits: Callable[[Resource], bool]) -> Resource:
    return next(one for one in resources if one["resourceType"] == kind and fits(one))


def text_of(one: Resource) -> str:
    return str(one.get("medicationCodeableConcept", {}).get("text", ""))


def _untreated(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda one: text_of(one).startswith("acetaminophen"))
    order["medicationCodeableConcept"]["text"] = "warfarin sodium 5 MG Oral Tablet"


def _allergic(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda one: one["status"] == "active" and bool(text_of(one)))
    allergy = first(resources, "AllergyIntolerance", lambda one: True)
    order["medicationCodeableConcept"]["text"] = "aspirin 81 MG Oral Tablet"
    resources.remove(allergy)
    allergy["patient"], allergy["code"]["text"] = order["subject"], "aspirin"
    resources.insert(resources.index(order), allergy)


def _overdosed(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda one: text_of(one).startswith("acetaminophen"))
    order["dosageInstruction"] = json.loads(json.dumps(order["dosageInstruction"]))
    order["dosageInstruction"][0]["doseAndRate"][0]["doseQuantity"]["value"] = 5000


def _endless(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda one: one["status"] == "completed")
    del order["dispenseRequest"]["validityPeriod"]["end"]


def _in_failing_kidneys(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda one: text_of(one).startswith("acetaminophen"))
    order["medicationCodeableConcept"]["text"] = "metformin 500 MG Oral Tablet"
    for one in resources:
        if one["resourceType"] == "Observation" and one["code"].get("text") == "CREA" and "valueQuantity" in one:
            one["valueQuantity"]["value"] = 9


def _twice(resources: list[Resource]) -> None:
    problem = first(resources, "Condition", lambda one: one["category"][0]["coding"][0]["code"] == "problem-list-item")
    other = json.loads(json.dumps(problem)) | {"id": "again"}
    other["clinicalStatus"]["coding"][0]["code"] = "resolved"
    resources.insert(resources.index(problem), other)


def _recorded_early(resources: list[Resource]) -> None:
    first(resources, "Condition", lambda one: True)["recordedDate"] = "1999-01-01T10:00:00+00:00"


def _too_young(resources: list[Resource]) -> None:
    first(resources, "Patient", lambda one: "deceasedDateTime" not in one)["birthDate"] = "2012-01-01"
    for one in resources:
        if one["resourceType"] == "Condition":
            one["code"]["coding"][0]["code"] = "I50.9"


def _at_night(resources: list[Resource]) -> None:
    visit = first(resources, "Encounter", lambda one: one["class"]["code"] == "AMB")
    visit["period"]["start"] = visit["period"]["start"][:11] + "03:00:00+00:00"


def _outside(resources: list[Resource]) -> None:
    vital = first(resources, "Observation", lambda one: "encounter" in one and one["code"]["text"] == "HEARTRATE")
    vital["effectiveDateTime"] = "2001-01-01T10:00:00+00:00"


def _without_encounter(resources: list[Resource]) -> None:
    stay = first(resources, "Encounter", lambda one: one["class"]["code"] == "IMP")
    reference = f"Encounter/{stay['id']}"
    order = first(resources, "MedicationRequest", lambda one: one.get("encounter", {}).get("reference") == reference)
    del order["encounter"]


def _overlapping(resources: list[Resource]) -> None:
    visit = first(resources, "Encounter", lambda one: one["class"]["code"] == "AMB")
    resources.insert(resources.index(visit) + 1, json.loads(json.dumps(visit)) | {"id": "again"})


def _gap(resources: list[Resource]) -> None:
    stay = first(resources, "Encounter", lambda one: len(one.get("location", [])) > 1)
    stay["location"][0]["period"]["end"] = stay["location"][0]["period"]["start"]


def _after_death(resources: list[Resource]) -> None:
    first(resources, "Patient", lambda one: "deceasedDateTime" in one)["deceasedDateTime"] = "2000-01-01T00:00:00+00:00"


def _flagged(resources: list[Resource]) -> None:
    lab = first(resources, "Observation", lambda one: "interpretation" in one)
    lab["interpretation"][0]["coding"][0]["code"] = "HH"


def _unit(resources: list[Resource]) -> None:
    first(resources, "Observation", lambda one: "valueQuantity" in one)["valueQuantity"]["code"] = "beats"


def _mute_note(resources: list[Resource]) -> None:
    note = first(resources, "DocumentReference", lambda one: "History" in one["type"]["text"])
    note["content"][0]["attachment"]["data"] = "V2VsbC4="


def _other_signs(resources: list[Resource]) -> None:
    for one in resources:
        if one["resourceType"] == "Observation" and one["code"].get("text") == "TEMP":
            one["valueQuantity"]["value"] = 41.5


def _early_stamp(resources: list[Resource]) -> None:
    first(resources, "Observation", lambda one: True)["meta"]["lastUpdated"] = "1999-01-01T00:00:00.000+00:00"


def _hot(resources: list[Resource]) -> None:
    for one in resources:
        if one["resourceType"] == "Encounter" and "priority" in one:
            one["priority"]["coding"][0]["code"] = "EL"
        if one["resourceType"] == "Observation" and one["code"].get("text") == "HEARTRATE":
            one["valueQuantity"]["value"] = 130


def _never_tested(resources: list[Resource]) -> None:
    isolate = first(resources, "Observation", lambda one: "hasMember" in one and "valueString" not in one)
    isolate["code"]["text"] = "METHICILLIN RESISTANT STAPHYLOCOCCUS AUREUS"
    member = isolate["hasMember"][0]["reference"].partition("/")[2]
    first(resources, "Observation", lambda one: one["id"] == member)["code"]["text"] = "MEROPENEM"


def _again_that_day(resources: list[Resource]) -> None:
    once = first(resources, "MedicationRequest", lambda one: text_of(one).startswith("simethicone"))
    resources.insert(resources.index(once), json.loads(json.dumps(once)) | {"id": "again"})


def _uncalled_for(resources: list[Resource]) -> None:
    for one in resources:
        if text_of(one).startswith("heparin"):
            one["medicationCodeableConcept"]["text"] = "guaifenesin 200 MG Oral Tablet"


def _unnoticed(resources: list[Resource]) -> None:
    lab = first(resources, "Observation", lambda one: "issued" in one and one["code"]["text"] == "K")
    lab["valueQuantity"]["value"] = 6.9


def _healthy_kidneys(resources: list[Resource]) -> None:
    for one in resources:
        if one["resourceType"] == "Encounter" and "reasonCode" in one and "partOf" not in one:
            one["reasonCode"][0]["text"] = "Acute kidney failure, unspecified"
        if one["resourceType"] == "Observation" and one["code"].get("text") == "CREA" and "valueQuantity" in one:
            one["valueQuantity"]["value"] = 0.8


def _clotting(resources: list[Resource]) -> None:
    for one in resources:
        if one["resourceType"] == "Encounter" and one["class"]["code"] == "IMP":
            one["reasonCode"][0]["text"] = "Non-ST elevation (NSTEMI) myocardial infarction"
        if text_of(one).startswith(("heparin", "enoxaparin", "apixaban")):
            one["medicationCodeableConcept"]["text"] = "acetaminophen 325 MG Oral Tablet"


@pytest.mark.parametrize(
    ("rule", "harm"),
    [
        ("problems", _uncalled_for),
        ("reactions", _unnoticed),
        ("shown", _healthy_kidneys),
        ("shown", _clotting),
        ("problems", _untreated),
        ("allergies", _allergic),
        ("doses", _overdosed),
        ("kidneys", _in_failing_kidneys),
        ("ends", _endless),
        ("once", _twice),
        ("onsets", _recorded_early),
        ("persons", _too_young),
        ("hours", _at_night),
        ("contained", _outside),
        ("contained", _without_encounter),
        ("apart", _overlapping),
        ("ways", _gap),
        ("deaths", _after_death),
        ("laboratory", _flagged),
        ("laboratory", _unit),
        ("isolates", _never_tested),
        ("once_a_day", _again_that_day),
        ("notes", _mute_note),
        ("notes", _other_signs),
        ("stamps", _early_stamp),
        ("fever", _hot),
    ],
)
def test_each_rule_notices_a_fault(
    small: list[Resource], death: list[Resource], rule: str, harm: Callable[[list[Resource]], None]
) -> None:
    before = death if rule == "deaths" else small
    resources: list[Resource] = pickle.loads(pickle.dumps(before))  # a copy, quickly
    harm(resources)
    shared, *others = charts(resources)
    changed = [new for old, new in zip(list(charts(before))[1:], others, strict=True) if old != new]
    assert any(rule in broken([*shared, *chart]) for chart in changed)
