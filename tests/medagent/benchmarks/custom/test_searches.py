"""What a rule finds: the same on a FHIR server, in a session and in `check`, for every type and every code."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medagent import clinical as c
from medagent import episode
from tests.command import medagent

SOURCE = '''
"""Types that ask whether something is in the record."""

from medagent import clinical as c

FLU = c.Code("150", "http://hl7.org/fhir/sid/cvx", "influenza vaccine")
PENICILLIN = c.Code("7980", c.RXNORM, "penicillin")
PRESSURE = c.Code("I10", "http://hl7.org/fhir/sid/icd-10-cm", "hypertension")


class Asked(c.TaskType):
    """The base of the types."""

    def rule(self, chart):
        return c.answer([1 if self.found(chart) else 0])


class Vaccinated(Asked):
    """An immunization."""

    name, text = "vaccinated", "Was {mrn} vaccinated (CVX 150)? 1 or 0."

    def found(self, chart):
        return chart.last_done(FLU, kind="Immunization")


class Allergic(Asked):
    """An active allergy."""

    name, text = "allergic", "Has {mrn} an active allergy (RxNorm 7980)? 1 or 0."

    def found(self, chart):
        return chart.first("AllergyIntolerance", PENICILLIN, status="active")


class Hypertensive(Asked):
    """An active condition."""

    name, text = "hypertensive", "Is hypertension (I10) of {mrn} active? 1 or 0."

    def found(self, chart):
        return chart.first("Condition", PRESSURE, status="active")


class Ordered(Asked):
    """A drug order by its code."""

    name, text = "ordered", "Was penicillin (RxNorm 7980) ordered for {mrn}? 1 or 0."

    def found(self, chart):
        return chart.first("MedicationRequest", PENICILLIN, status="active")


class Odd(Asked):
    """Codes with characters that have a meaning in URLs and searches."""

    name, text = "odd", "Has {mrn} readings of A&B, a+b, C#1, x,y, v|w and grün 5%25? 1 or 0."

    def found(self, chart):
        codes = ("A&B", "a+b", "C#1", "x,y", "v|w", "grün 5%25")
        return all([chart.latest(c.Lab(code, c.LOINC, unit="u")) for code in codes])
'''
NOW = "2024-05-02T09:30:00+00:00"
CODES = ("A&B", "a+b", "C#1", "x,y", "v|w", "grün 5%25")
ACTIVE = {"coding": [{"code": "active"}]}
KINDS = ("vaccinated", "allergic", "hypertensive", "ordered", "odd")


def concept(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code}]}


def resources(patient: str, *, has: bool) -> Iterator[dict[str, Any]]:
    """A patient with what the types ask for, or something like it."""
    of = {"subject": {"reference": f"Patient/{patient}"}}
    by = {"patient": {"reference": f"Patient/{patient}"}}
    icd, status = "http://hl7.org/fhir/sid/icd-10-cm", "active" if has else "resolved"
    yield {"resourceType": "Patient", "id": patient}
    yield {
        "resourceType": "Immunization",
        "id": f"i{patient}",
        "status": "completed",
        "vaccineCode": concept("http://hl7.org/fhir/sid/cvx", "150" if has else "115"),
        "occurrenceDateTime": NOW,
        **by,
    }
    clinical = {"clinicalStatus": {"coding": [{"code": status}]}}
    allergy, condition = concept(c.RXNORM, "7980"), concept(icd, "I10")
    yield {"resourceType": "AllergyIntolerance", "id": f"a{patient}", "code": allergy, **clinical, **by}
    yield {"resourceType": "Condition", "id": f"c{patient}", "code": condition, **clinical, **of}
    yield {
        "resourceType": "MedicationRequest",
        "id": f"m{patient}",
        "status": "active" if has else "stopped",
        "intent": "order",
        "medicationCodeableConcept": allergy,
        **of,
    }
    for place, code in enumerate(CODES if has else [code.upper() + "." for code in CODES]):
        yield {
            "resourceType": "Observation",
            "id": f"o{place}{patient}",
            "status": "final",
            "code": concept(c.LOINC, code),
            "effectiveDateTime": NOW,
            "valueQuantity": {"value": 1, "unit": "u"},
            **of,
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ward")
    (path / "asked.py").write_text(SOURCE, "utf-8")
    lines = [json.dumps(resource) for name in ("P1", "P2") for resource in resources(name, has=name == "P1")]
    (path / "patients.ndjson").write_text("\n".join(lines), "utf-8")
    return path


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("asked", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_a_run_and_check_find_the_same(folder: Path) -> None:
    words = ("--ehr", folder / "patients.ndjson", "--results-dir", folder, "--quiet", "--json")
    ran = medagent("run", folder / "asked.py", "--agent", "reference", *words)
    report = json.loads(ran.out)
    assert {(item["item"][:-2], item["correct"], item["grounded"]) for item in report["items"]} == {
        (kind, True, True) for kind in KINDS
    }, ran.err
    assert len(report["items"]) == 2 * len(KINDS)
    right: dict[str, set[str]] = {}
    for row in map(json.loads, next(folder.glob("*/episodes.jsonl")).read_text("utf-8").splitlines()):
        right.setdefault(row["task_id"][:-2], set()).add(row["answer"])
    assert right == {kind: {"[0]", "[1]"} for kind in KINDS}
    rules = module(folder / "asked.py")
    for kind in ("Vaccinated", "Allergic", "Hypertensive", "Ordered", "Odd"):
        for patient, has in (("P1", True), ("P2", False)):
            chart = list(resources(patient, has=has))
            found = c.check(getattr(rules, kind), chart, patient=patient, now=datetime.fromisoformat(NOW))
            assert found.answer == [int(has)], kind
            assert found.twin is not None or kind == "Odd", kind


@pytest.mark.parametrize(
    ("search", "grounded"),
    [
        ("clinical-status=active", True),
        ("clinical-status=http://terminology.hl7.org/CodeSystem/condition-clinical|active", True),
        ("", True),
        ("code=I10&clinical-status=active", True),
        ("clinical-status=resolved", False),
        ("clinical-status=http://terminology.hl7.org/CodeSystem/condition-ver-status|active", False),
        ("code=E78.5", False),
    ],
)
def test_a_search_that_shows_that_no_condition_is_active(folder: Path, search: str, grounded: bool) -> None:
    for item in ("hypertensive_1", "hypertensive_2"):
        with episode(item, benchmark=str(folder / "asked.py"), ehr=folder / "patients.ndjson") as acting:
            patient = "P2" if "P2" in acting.reset() else "P1"
            acting.act(f"GET http://localhost:8080/fhir/Condition?patient={patient}&{search}")
            acting.act("FINISH([0])")
            score = acting.verdict()
        if patient == "P2":
            assert (score.correct, score.grounded) == (True, grounded)
