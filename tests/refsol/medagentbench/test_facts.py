"""The readers of facts agree with each other, and say what they cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from refsol.errors import FactsError, InputError
from refsol.medagentbench import (
    KeyEhr,
    NdjsonEhr,
    SearchEhr,
    build_key,
    grade_item,
    read_key,
    write_key,
)
from tests.refsol.medagentbench.items import MRN, MadeUpEhr, lab

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
    assert [one["birthDate"] for one in ehr.search("Patient", identifier=MRN)] == ["1963-11-13", "2000-01-01"]
    assert list(ehr.search("Patient", identifier="1")) == []
    found = ehr.search("Observation", patient=MRN, code="MG")
    assert [one.get("effectiveDateTime") for one in found] == ["2023-01-02", "2023-01-01", None]
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


def test_a_key_gives_the_verdicts_of_the_ehr_it_was_built_from(
    tmp_path: Path,
    vector_cases: list[dict[str, Any]],
    vector_tasks: dict[str, dict[str, Any]],
    vector_ehr: NdjsonEhr,
) -> None:
    path = tmp_path / "key.json"
    built = build_key(list(vector_tasks.values()), vector_ehr)
    write_key(path, built)
    assert read_key(path) == built
    ehr = KeyEhr(path)
    for case in vector_cases:
        task = vector_tasks[case["task_id"]]
        for rules in ("official", "fair"):
            verdicts = [
                grade_item(task, case["answer"], case["post_history"], source, rules=rules)
                for source in (vector_ehr, ehr)
            ]
            assert verdicts[0] == verdicts[1], case["case"]


def test_a_key_keeps_only_what_can_decide(tmp_path: Path) -> None:
    old, recent, later = "2020-01-01T00:00:00Z", "2023-11-13T00:00:00Z", "2023-12-01T00:00:00Z"
    ehr = lab("GLU", (old, 1), ("2019-01-01T00:00:00Z", 2), (recent, 3), (later, 4))
    task = {"id": "task7_1", "eval_MRN": MRN}
    assert build_key([task], ehr).readings[f"{MRN} GLU"] == [(recent, 3), (later, 4)]
    unreadable = lab("GLU", (old, 1), (None, 2))
    assert len(build_key([task], unreadable).readings[f"{MRN} GLU"]) == 2


def test_what_a_key_does_not_hold_is_a_facts_error(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    task = {"id": "task2_1", "eval_MRN": "S0"}
    write_key(path, build_key([task], MadeUpEhr()))
    ehr = KeyEhr(path)
    assert list(ehr.search("Patient", identifier="S0")) == []
    with pytest.raises(FactsError, match=f"does not have the patient {MRN}"):
        ehr.search("Patient", identifier=MRN)
    with pytest.raises(FactsError, match="does not have the readings of MG of S0"):
        ehr.search("Observation", patient="S0", code="MG")
    ehr.check([task])
    with pytest.raises(InputError, match="answer key of another task set"):
        ehr.check([{"id": "task2_1", "eval_MRN": MRN}])


def test_a_key_is_not_built_from_an_ehr_that_is_away() -> None:
    with pytest.raises(FactsError, match="no answer"):
        build_key([{"id": "task2_1", "eval_MRN": MRN}], MadeUpEhr(away=True))
    with pytest.raises(FactsError, match="no answer"):
        build_key([{"id": "task4_1", "eval_MRN": MRN}], MadeUpEhr(away=True))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"tasks": 1, "patients": {}, "readings": {}}', "[" * 100_000, '{"a": 1}']
)
def test_a_file_that_is_no_key_is_said(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"key\.json:1: .*an answer key is expected$"):
        KeyEhr(path)


def test_a_missing_key_and_an_unwritable_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        KeyEhr(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be written"):
        write_key(tmp_path / "no" / "key.json", build_key([], MadeUpEhr()))
