"""The clinical rules: none is broken in the bundled hospital, and each notices a chart that breaks it."""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from statistics import mean
from typing import Any

import pytest

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE, hospital
from tests.shared_data import hospital_lines
from tools.clinical_rules import audit
from tools.hospital_chart import charts as prepared_charts
from tools.hospital_figures import Counted, auc, figures
from tools.hospital_tails import Tail, TailShare, tail_shares

Resource = dict[str, Any]
SEEDS = range(101, 106)


def made(patients: int) -> Iterator[Resource]:
    """A hospital without a violation."""
    return (json.loads(line) for line in lines(replace(PROFILE, seed=11, patients=patients)))


def charts(resources: Iterable[Resource]) -> Iterator[list[Resource]]:
    """What all patients share, then the resources of each: a chart begins with its Patient."""
    chart: list[Resource] = []
    for resource in resources:
        if resource["resourceType"] == "Patient":
            yield chart
            chart = []
        chart.append(resource)
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
def small_pickled(small: list[Resource]) -> bytes:
    """From this, a test gets its own copy to spoil, quickly."""
    return pickle.dumps(small)


@pytest.fixture(scope="module")
def death_pickled(death: list[Resource]) -> bytes:
    return pickle.dumps(death)


@pytest.fixture(scope="module")
def bundled() -> list[str]:
    return hospital_lines()


def broken(resources: list[Resource]) -> set[str]:
    """The rules that resources break."""
    tallies = audit(json.dumps(resource) for resource in resources)
    return {name for name, tally in tallies.items() if tally.violations}


def test_the_bundled_hospital_breaks_no_rule(bundled: list[str]) -> None:
    for name, tally in audit(bundled).items():
        assert tally.violations == [], name
        assert tally.checked > 10, name


def test_the_bundled_hospital_keeps_the_bounds_of_a_real_one(bundled: list[str]) -> None:
    assert [figure for figure in figures(bundled) if not figure.kept] == []


@pytest.mark.long
def test_five_seeds_together_keep_the_bounds_of_a_real_one() -> None:
    assert [figure for figure in figures(chain.from_iterable(map(hospital, SEEDS))) if not figure.kept] == []


@pytest.mark.long
def test_the_size_of_a_change_does_not_tell_that_a_value_decides() -> None:
    """Compared in each chart, since some patients have more readings than others, and larger changes."""
    areas: dict[str, list[float]] = {}
    for chart in prepared_charts(chain.from_iterable(map(hospital, SEEDS))):
        chart.prepare()
        counted = Counted(PROFILE.now)
        counted.add(chart)
        for code, (deciding, before) in counted.changes.items():
            if deciding and before:
                areas.setdefault(code, []).extend([auc(deciding, before)] * len(deciding))
    for code, of_readings in areas.items():
        assert len(of_readings) > 100, code
        few = code == "A1C"  # a reading or two in each of 119 charts; two standard errors
        assert abs(mean(of_readings) - 0.5) < (1 / math.sqrt(len(of_readings)) if few else 0.05), code


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_no_hospital_of_a_thousand_patients_breaks_a_rule(seed: int) -> None:
    for name, tally in audit(thousand(seed)).items():
        assert tally.violations == [], (seed, name)
        assert tally.checked > 50, name


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_abnormal_results_are_about_as_frequent_as_published() -> None:
    """In each of ten hospitals, and in all together, which alone says something of a tail that few stays can have."""
    stays, beyond, rows = Counter[Tail](), Counter[Tail](), list[TailShare]()
    for seed in range(1, 11):
        rows = tail_shares(thousand(seed))
        assert [row for row in rows if row.stays >= 50 and not row.kept] == [], seed
        stays.update({row.tail: row.stays for row in rows})
        beyond.update({row.tail: row.beyond for row in rows})
    together = [row._replace(stays=stays[row.tail], beyond=beyond[row.tail]) for row in rows]
    assert [row for row in together if not row.kept] == []
    assert min(row.stays for row in together) > 100


def test_the_bundled_hospital_has_what_every_ward_sees(bundled: list[str]) -> None:
    shares = {row.tail.name: row.share for row in tail_shares(bundled)}
    named = ("TBIL above 1.3", "ALT above 100", "SPO2 below 88", "NA below 130", "LACT above 4", "PLT below 140")
    assert {name: shares[name] for name in named if shares[name] < 0.01} == {}


def thousand(seed: int) -> Iterator[str]:
    """A fresh hospital of 1,000 patients."""
    return lines(replace(PROFILE, seed=seed, patients=1000))


def test_another_hospital_breaks_no_rule() -> None:
    assert broken(list(made(40))) == set()


def test_a_small_hospital_breaks_no_rule(small: list[Resource]) -> None:
    assert broken(small) == set()


def first(resources: list[Resource], kind: str, fits: Callable[[Resource], bool]) -> Resource:
    return next(resource for resource in resources if resource["resourceType"] == kind and fits(resource))


def text_of(resource: Resource) -> str:
    return str(resource.get("medicationCodeableConcept", {}).get("text", ""))


def _untreated(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda resource: text_of(resource).startswith("acetaminophen"))
    order["medicationCodeableConcept"]["text"] = "warfarin sodium 5 MG Oral Tablet"


def _allergic(resources: list[Resource]) -> None:
    order = first(
        resources, "MedicationRequest", lambda resource: resource["status"] == "active" and bool(text_of(resource))
    )
    allergy = first(resources, "AllergyIntolerance", lambda resource: True)
    order["medicationCodeableConcept"]["text"] = "aspirin 81 MG Oral Tablet"
    resources.remove(allergy)
    allergy["patient"], allergy["code"]["text"] = order["subject"], "aspirin"
    resources.insert(resources.index(order), allergy)


def _overdosed(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda resource: text_of(resource).startswith("acetaminophen"))
    order["dosageInstruction"] = json.loads(json.dumps(order["dosageInstruction"]))
    order["dosageInstruction"][0]["doseAndRate"][0]["doseQuantity"]["value"] = 5000


def _endless(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda resource: resource["status"] == "completed")
    del order["dispenseRequest"]["validityPeriod"]["end"]


def _in_failing_kidneys(resources: list[Resource]) -> None:
    order = first(resources, "MedicationRequest", lambda drug: text_of(drug).startswith("acetaminophen"))
    order["medicationCodeableConcept"]["text"] = "metformin 500 MG Oral Tablet"
    for resource in resources:
        if (
            resource["resourceType"] == "Observation"
            and resource["code"].get("text") == "CREA"
            and "valueQuantity" in resource
        ):
            resource["valueQuantity"]["value"] = 9


def _twice(resources: list[Resource]) -> None:
    problem = first(
        resources, "Condition", lambda resource: resource["category"][0]["coding"][0]["code"] == "problem-list-item"
    )
    copied = json.loads(json.dumps(problem)) | {"id": "again"}
    copied["clinicalStatus"]["coding"][0]["code"] = "resolved"
    resources.insert(resources.index(problem), copied)


def _recorded_early(resources: list[Resource]) -> None:
    first(resources, "Condition", lambda resource: True)["recordedDate"] = "1999-01-01T10:00:00+00:00"


def _too_young(resources: list[Resource]) -> None:
    first(resources, "Patient", lambda person: "deceasedDateTime" not in person)["birthDate"] = "2012-01-01"
    for resource in resources:
        if resource["resourceType"] == "Condition":
            resource["code"]["coding"][0]["code"] = "I50.9"


def _at_night(resources: list[Resource]) -> None:
    visit = first(resources, "Encounter", lambda resource: resource["class"]["code"] == "AMB")
    visit["period"]["start"] = visit["period"]["start"][:11] + "03:00:00+00:00"


def _outside(resources: list[Resource]) -> None:
    vital = first(
        resources, "Observation", lambda resource: "encounter" in resource and resource["code"]["text"] == "HEARTRATE"
    )
    vital["effectiveDateTime"] = "2001-01-01T10:00:00+00:00"


def _without_encounter(resources: list[Resource]) -> None:
    stay = first(resources, "Encounter", lambda resource: resource["class"]["code"] == "IMP")
    reference = f"Encounter/{stay['id']}"
    order = first(
        resources, "MedicationRequest", lambda resource: resource.get("encounter", {}).get("reference") == reference
    )
    del order["encounter"]


def _overlapping(resources: list[Resource]) -> None:
    visit = first(resources, "Encounter", lambda resource: resource["class"]["code"] == "AMB")
    resources.insert(resources.index(visit) + 1, json.loads(json.dumps(visit)) | {"id": "again"})


def _gap(resources: list[Resource]) -> None:
    stay = first(resources, "Encounter", lambda resource: len(resource.get("location", [])) > 1)
    stay["location"][0]["period"]["end"] = stay["location"][0]["period"]["start"]


def _after_death(resources: list[Resource]) -> None:
    first(resources, "Patient", lambda resource: "deceasedDateTime" in resource)["deceasedDateTime"] = (
        "2000-01-01T00:00:00+00:00"
    )


def _flagged(resources: list[Resource]) -> None:
    lab = first(resources, "Observation", lambda resource: "interpretation" in resource)
    lab["interpretation"][0]["coding"][0]["code"] = "HH"


def _unit(resources: list[Resource]) -> None:
    first(resources, "Observation", lambda resource: "valueQuantity" in resource)["valueQuantity"]["code"] = "beats"


def _mute_note(resources: list[Resource]) -> None:
    note = first(resources, "DocumentReference", lambda resource: "History" in resource["type"]["text"])
    note["content"][0]["attachment"]["data"] = "V2VsbC4="


def _other_signs(resources: list[Resource]) -> None:
    for resource in resources:
        if resource["resourceType"] == "Observation" and resource["code"].get("text") == "TEMP":
            resource["valueQuantity"]["value"] = 41.5


def _early_stamp(resources: list[Resource]) -> None:
    first(resources, "Observation", lambda resource: True)["meta"]["lastUpdated"] = "1999-01-01T00:00:00.000+00:00"


def _hot(resources: list[Resource]) -> None:
    for resource in resources:
        if resource["resourceType"] == "Encounter" and "priority" in resource:
            resource["priority"]["coding"][0]["code"] = "EL"
        if resource["resourceType"] == "Observation" and resource["code"].get("text") == "HEARTRATE":
            resource["valueQuantity"]["value"] = 130


def _never_tested(resources: list[Resource]) -> None:
    isolate = first(
        resources, "Observation", lambda resource: "hasMember" in resource and "valueString" not in resource
    )
    isolate["code"]["text"] = "METHICILLIN RESISTANT STAPHYLOCOCCUS AUREUS"
    member = isolate["hasMember"][0]["reference"].partition("/")[2]
    first(resources, "Observation", lambda resource: resource["id"] == member)["code"]["text"] = "MEROPENEM"


def _again_that_day(resources: list[Resource]) -> None:
    once = first(resources, "MedicationRequest", lambda resource: text_of(resource).startswith("simethicone"))
    resources.insert(resources.index(once), json.loads(json.dumps(once)) | {"id": "again"})


def _uncalled_for(resources: list[Resource]) -> None:
    for resource in resources:
        if text_of(resource).startswith("heparin"):
            resource["medicationCodeableConcept"]["text"] = "guaifenesin 200 MG Oral Tablet"


def _unnoticed(resources: list[Resource]) -> None:
    lab = first(resources, "Observation", lambda resource: "issued" in resource and resource["code"]["text"] == "K")
    lab["valueQuantity"]["value"] = 6.9


def _healthy_kidneys(resources: list[Resource]) -> None:
    for resource in resources:
        if resource["resourceType"] == "Encounter" and "reasonCode" in resource and "partOf" not in resource:
            resource["reasonCode"][0]["text"] = "Acute kidney failure, unspecified"
        if (
            resource["resourceType"] == "Observation"
            and resource["code"].get("text") == "CREA"
            and "valueQuantity" in resource
        ):
            resource["valueQuantity"]["value"] = 0.8


def _clotting(resources: list[Resource]) -> None:
    for resource in resources:
        if resource["resourceType"] == "Encounter" and resource["class"]["code"] == "IMP":
            resource["reasonCode"][0]["text"] = "Non-ST elevation (NSTEMI) myocardial infarction"
        if text_of(resource).startswith(("heparin", "enoxaparin", "apixaban")):
            resource["medicationCodeableConcept"]["text"] = "acetaminophen 325 MG Oral Tablet"


def readings(resources: list[Resource], code: str) -> list[Resource]:
    return [
        resource
        for resource in resources
        if resource["resourceType"] == "Observation" and resource["code"].get("text") == code
    ]


def _ignored(resources: list[Resource]) -> None:
    """The last potassium of a stay that ended; no note is about its sample."""
    stay = first(
        resources, "Encounter", lambda resource: resource["class"]["code"] == "IMP" and "end" in resource["period"]
    )
    inside = [
        reading
        for reading in readings(resources, "K")
        if reading["encounter"]["reference"] == f"Encounter/{stay['id']}"
    ]
    max(inside, key=lambda reading: str(reading["effectiveDateTime"]))["valueQuantity"]["value"] = 2.4


def _breathless(resources: list[Resource]) -> None:
    for reading in readings(resources, "SPO2"):
        reading["valueQuantity"]["value"] = 80


def _again_in_the_same_minute(resources: list[Resource], code: str) -> None:
    original = next(reading for reading in readings(resources, code) if "valueQuantity" in reading)
    copied = json.loads(json.dumps(original)) | {"id": "again"}
    copied["valueQuantity"]["value"] += 3
    resources.insert(resources.index(original) + 1, copied)


def _sodium_again(resources: list[Resource]) -> None:
    _again_in_the_same_minute(resources, "NA")


def _glucose_again(resources: list[Resource]) -> None:
    _again_in_the_same_minute(resources, "GLU")


def _pulse_again(resources: list[Resource]) -> None:
    _again_in_the_same_minute(resources, "HEARTRATE")


def _sodium_soon_after(resources: list[Resource]) -> None:
    _again_in_the_same_minute(resources, "NA")
    again = next(resource for resource in resources if resource["id"] == "again")
    time = datetime.fromisoformat(again["effectiveDateTime"]) + timedelta(minutes=5)
    again["effectiveDateTime"] = time.isoformat()


def _ordered_again(resources: list[Resource]) -> None:
    order = first(
        resources, "MedicationRequest", lambda resource: resource["status"] == "active" and bool(text_of(resource))
    )
    resources.insert(resources.index(order), json.loads(json.dumps(order)) | {"id": "again"})


def _two_of_a_group(resources: list[Resource]) -> None:
    order = first(
        resources, "MedicationRequest", lambda resource: resource["status"] == "active" and bool(text_of(resource))
    )
    second = json.loads(json.dumps(order)) | {"id": "again"}
    order["medicationCodeableConcept"]["text"] = "omeprazole 20 MG Delayed Release Oral Capsule"
    second["medicationCodeableConcept"]["text"] = "pantoprazole 40 MG Injection"
    resources.insert(resources.index(order), second)


def _thinned(resources: list[Resource], text: str) -> Resource:
    """The longest order for home of a living patient, for another drug."""
    orders = [
        resource
        for resource in resources
        if resource["resourceType"] == "MedicationRequest"
        and resource["category"][0]["coding"][0]["code"] != "inpatient"
        and resource["status"] in ("active", "on-hold")
        and text_of(resource)
    ]
    order = min(orders, key=lambda candidate: str(candidate["authoredOn"]))
    order["medicationCodeableConcept"] = {"text": text}
    return order


def _never_measured(resources: list[Resource]) -> None:
    _thinned(resources, "warfarin sodium 5 MG Oral Tablet")


def _without_effect(resources: list[Resource]) -> None:
    """Warfarin, and an INR of 1 every other month."""
    order = _thinned(resources, "warfarin sodium 5 MG Oral Tablet")
    like = next(reading for reading in readings(resources, "HGB") if "valueQuantity" in reading)
    time = datetime.fromisoformat(order["authoredOn"])
    while time.year < 2024:
        inr = json.loads(json.dumps(like)) | {"id": f"inr{time:%y%m}", "subject": order["subject"]}
        inr["code"]["text"], inr["effectiveDateTime"], inr["valueQuantity"]["value"] = "INR", time.isoformat(), 1.0
        inr.pop("encounter", None)
        resources.insert(resources.index(order) + 1, inr)
        time += timedelta(days=60)


@pytest.mark.parametrize(
    ("rule", "harm"),
    [
        ("reactions", _ignored),
        ("oxygen", _breathless),
        ("doubled", _sodium_again),
        ("doubled", _glucose_again),
        ("doubled", _pulse_again),
        ("doubled", _sodium_soon_after),
        ("alone", _ordered_again),
        ("alone", _two_of_a_group),
        ("monitored", _never_measured),
        ("monitored", _without_effect),
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
    request: pytest.FixtureRequest, rule: str, harm: Callable[[list[Resource]], None]
) -> None:
    name = "death" if rule == "deaths" else "small"
    before: list[Resource] = request.getfixturevalue(name)
    resources: list[Resource] = pickle.loads(request.getfixturevalue(f"{name}_pickled"))
    harm(resources)
    shared, *others = charts(resources)
    changed = [new for old, new in zip(list(charts(before))[1:], others, strict=True) if old != new]
    assert any(rule in broken([*shared, *chart]) for chart in changed)
