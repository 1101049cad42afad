"""The readers of facts agree with each other, and say what they cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from refsol.errors import FactsError
from refsol.medagentbench import (
    NdjsonEhr,
    SearchEhr,
    grade_item,
)
from tests.refsol.medagentbench.items import MRN

PATIENT = {"resourceType": "Patient", "id": "1", "identifier": [{"value": MRN}], "birthDate": "1963-11-13"}


def observation(time: str | None, value: Any, code: str = "MG", subject: str = f"Patient/{MRN}") -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "code": {"coding": [{"system": "http://loinc.org", "code": code}]},
        "subject": {"reference": subject},
        "effectiveDateTime": time,
        "valueQuantity": {"value": value},
    }


def ndjson(tmp_path: Path, *resources: Any) -> NdjsonEhr:
    path = tmp_path / "ehr.ndjson"
    path.write_text("".join(f"{json.dumps(resource)}\n" for resource in resources), encoding="utf-8")
    return NdjsonEhr(path)


def test_a_file_is_searched_as_a_server_would(tmp_path: Path) -> None:
    ehr = ndjson(
        tmp_path,
        PATIENT,
        {**PATIENT, "birthDate": "2000-01-01"},
        observation("2023-01-02", 2),
        observation("2023-01-01", 1.5, subject=f"http://server/fhir/Patient/{MRN}"),
        observation("2023-01-03", 9, code="K"),
        observation("2023-01-03", 9, subject="Patient/other"),
        observation("2023-01-03", 9, subject=f"Group/{MRN}"),
        {
            "resourceType": "Observation",
            "code": {"coding": [{"code": "MG"}]},
            "subject": {"reference": f"Patient/{MRN}"},
        },
        {"resourceType": "Observation", "code": {"coding": {"code": "MG"}}, "subject": "x"},
        {"resourceType": "Encounter"},
    )
    assert [patient["birthDate"] for patient in ehr.search("Patient", identifier=MRN)] == ["1963-11-13", "2000-01-01"]
    assert list(ehr.search("Patient", identifier="1")) == []
    found = ehr.search("Observation", patient=MRN, code="MG")
    assert [reading.get("effectiveDateTime") for reading in found] == ["2023-01-02", "2023-01-01", None]
    assert list(ehr.search("Observation", patient=MRN, code="GLU")) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", ":2: is not JSON"),
        (b"[]", ":2: is not a JSON object"),
        (b"\xff", ":2: is not UTF-8"),
        (b"[" * 100_000, ":2: is nested too deeply"),
    ],
)
def test_a_damaged_file_fails_every_question_naming_the_line(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "ehr.ndjson"
    path.write_bytes(json.dumps(PATIENT).encode() + b"\n" + line + b"\n")
    ehr = NdjsonEhr(path)
    for _ in range(2):
        with pytest.raises(FactsError, match=problem):
            ehr.search("Patient", identifier=MRN)
    assert grade_item({"id": "task4_1", "eval_MRN": MRN}, "[-1]", [], ehr).correct is None


def test_a_missing_file_fails_every_question(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match="cannot be read: No such file"):
        NdjsonEhr(tmp_path / "nowhere").search("Observation", patient=MRN, code="MG")


def bundle(*resources: Any) -> dict[str, Any]:
    return {"resourceType": "Bundle", "entry": [{"resource": resource} for resource in resources]}


def test_a_server_is_asked_once_a_question_for_one_page() -> None:
    asked: list[str] = []

    def ask(url: str) -> tuple[int, str]:
        asked.append(url)
        found = [PATIENT] if "/Patient?" in url else [{"resourceType": "OperationOutcome"}, observation("t", 1)]
        return 200, json.dumps(bundle(*found))

    facts = SearchEhr("http://fhir.test/base", ask)
    for _ in range(2):
        assert facts.search("Patient", identifier=MRN) == [PATIENT]
        assert facts.search("Observation", patient=MRN, code="MG") == [observation("t", 1)]
    assert asked == [
        f"http://fhir.test/base/Patient?identifier={MRN}&_format=json",
        f"http://fhir.test/base/Observation?patient={MRN}&code=MG&_count=5000&_format=json",
    ]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((500, ""), "status 500"),
        ((302, ""), "status 302"),
        ((200, "<html>"), "not a FHIR Bundle"),
        ((200, b"\xff"), "not a FHIR Bundle"),
        ((200, "[1]"), "not a FHIR Bundle"),
        ((200, '{"resourceType": "OperationOutcome"}'), "not a FHIR Bundle"),
        ((200, "[" * 100_000), "not a FHIR Bundle"),
    ],
)
def test_an_answer_that_is_no_bundle_is_a_facts_error(answer: tuple[int, str | bytes], problem: str) -> None:
    facts = SearchEhr("http://fhir.test/", lambda _: answer)
    with pytest.raises(FactsError, match=rf"http://fhir\.test/Patient.*: .*{problem}"):
        facts.search("Patient", identifier=MRN)


def test_a_server_that_does_not_answer_is_not_asked_again() -> None:
    calls = 0

    def refuse(url: str) -> tuple[int, str]:
        nonlocal calls
        calls += 1
        raise FactsError(f"{url}: no answer: refused")

    facts = SearchEhr("http://fhir.test/", refuse)
    for _ in range(3):
        with pytest.raises(FactsError, match=r"http://fhir\.test/Patient.*: no answer: refused"):
            facts.search("Patient", identifier=MRN)
    assert calls == 1
