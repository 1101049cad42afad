"""The import, the check of the published expressions, and the verdicts, over two made-up patients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import medagent
from tests.command import medagent as command
from tests.shared_data import SHARED, need

PATIENTS = [
    {"resourceType": "Patient", "id": "a", "identifier": [{"value": "100"}], "birthDate": "2128-05-06"},
    {"resourceType": "Patient", "id": "b", "identifier": [{"value": "200"}], "birthDate": "2130-01-01"},
    {
        "resourceType": "Medication",
        "id": "m",
        "identifier": [{"system": "http://mimic.mit.edu/fhir/mimic/identifier/drug", "value": "Zolpidem"}],
    },
    *(
        {
            "resourceType": "MedicationRequest",
            "id": f"r{place}",
            "status": "completed",
            "intent": "order",
            "subject": {"reference": "Patient/a"},
            "medicationReference": {"reference": "Medication/m"},
            "authoredOn": f"2180-0{month}-01T08:00:00-05:00",
        }
        for place, month in enumerate((7, 3))
    ),
    *(
        {
            "resourceType": "Observation",
            "id": f"o{place}",
            "status": "final",
            "subject": {"reference": f"Patient/{patient}"},
            "code": {"coding": [{"system": "http://mimic.mit.edu/fhir/mimic/CodeSystem/mimic-lab", "code": "K"}]},
            "valueQuantity": {"value": value},
        }
        for place, (patient, value) in enumerate([("a", 4.5), ("a", 5.0), ("b", 3.9)])
    ),
]
OF_TYPE = "Bundle.entry.resource.where(resourceType='{}')"
LABS = OF_TYPE.format("Observation' and code.coding.system='http://fhir.mimic.mit.edu/CodeSystem/lab")
DRUGS = OF_TYPE.format("MedicationRequest")


def question(name: str, query: str, answer: str, **more: str) -> dict[str, Any]:
    return {
        "id": f"{name:_<64}",
        "patient_id": "100",
        "question": f"What about {name}?",
        "query": query,
        "answer": answer,
        "now": "2180-08-10T22:48:00",
        "perspective": "clinical",
        "question_template_id": name,
        "question_template": "not imported",
        **more,
    }


QUESTION_LIST = [
    question("birth", OF_TYPE.format("Patient") + ".birthDate", '["2128-05-06"]'),
    question("labs", f"{LABS}.count()", "[2]"),
    question("labs-of-b", f"{LABS}.valueQuantity.value", "[3.9]", patient_id="200", perspective="patient"),
    question(
        "first-drug",
        f"{DRUGS}.sort(authoredOn).first().select(medicationReference.resolve().identifier.value | authoredOn)",
        '["Zolpidem", "2180-03-01T08:00:00-05:00"]',
    ),
    question("context", f"%context.{DRUGS}.exists()", "[true]"),
    question("has-organism-found", f"{LABS}.where(code.coding.code = 'E').exists()", "[false]"),
    question("elsewhere", f"{LABS}.count()", "[2]", patient_id="300"),
    question("unreadable", f"{LABS}.count(", "[2]"),
    question("other-answer", f"{LABS}.count()", "[3]"),
    question("nothing", f"{LABS}.where(valueQuantity.value > 9).id", '["o0"]'),
]
LEFT_OUT = {
    "elsewhere": "the patient is not in the data",
    "unreadable": "the expression cannot be evaluated",
    "other-answer": "the expression gives another answer",
    "nothing": "the expression finds nothing, which is not the answer",
}
AGENT = """
import medagent

class Agent(medagent.Agent):
    def play(self, task, prompt):
        yield "FINISH([false])" if "organism" in task.instruction else "FINISH([2.0])"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "published"
    made.mkdir()
    lines = [json.dumps(line) for line in QUESTION_LIST]
    (made / "questions.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (made / "other.jsonl").write_text('{"a": 1}\n', "utf-8")
    Path("patients.ndjson").write_text("\n".join(map(json.dumps, PATIENTS)), "utf-8")
    Path("agent.py").write_text(AGENT, "utf-8")
    return made


def run(*words: object) -> Any:
    return command("run", "fhirpath-qa", "--ehr", "patients.ndjson", *words)


def test_questions_whose_expression_does_not_give_the_answer_are_left_out(folder: Path) -> None:
    done = command("data", "import", folder)
    assert done.code == 0, done.err
    assert done.out.startswith("10 questions of FHIRPath-QA imported.")
    done = run("--agent", "reference")
    assert done.code == 0, done.err
    for reason in LEFT_OUT.values():
        assert f"left out: 1 of 10 questions: {reason}" in done.err
    assert "Score 100.0% (5 of 5" in done.out
    assert ["clinical", "4", "/", "4", "100.0%"] in [line.split() for line in done.out.splitlines()]
    assert ["answer", "always", "false", "1", "/", "1", "100.0%"] in [line.split() for line in done.out.splitlines()]
    report = medagent.load_run("results/fhirpath-qa_r1_reference").report
    assert {name[:12].rstrip("_") for name in report.data.left_out} == {name[:12] for name in LEFT_OUT}
    assert "checking 10 published expressions" in done.err
    assert "checking" not in run("--agent", "reference", "--round", "again").err


def test_the_import_says_it_if_the_folder_has_the_patients(folder: Path) -> None:
    assert command("ehr", "import", "patients.ndjson", "--data", folder / "demo.sqlite").code == 0
    done = command("data", "import", folder)
    assert done.code == 0, done.err
    for reason in LEFT_OUT.values():
        assert f"left out: 1 of 10 questions: {reason}" in done.out


def test_an_agent_is_graded_by_values_and_not_by_always_false(folder: Path) -> None:
    command("data", "import", folder / "questions.jsonl")
    done = run("--agent", "agent.py:Agent", "--perspective", "clinical")
    assert "Score 25.0% (1 of 4" in done.out
    assert ["answer", "always", "false", "1", "/", "1", "100.0%"] in [line.split() for line in done.out.splitlines()]


@pytest.mark.parametrize(
    ("name", "answer", "correct"),
    [
        ("labs", "[2]", True),
        ("labs", '["2"]', False),
        ("labs", "[2, 2]", False),
        ("labs", "2", False),
        ("first-drug", '["2180-03-01T08:00:00-05:00", "Zolpidem"]', True),
        ("first-drug", '["Zolpidem"]', False),
        ("context", "[true]", True),
        ("context", "[1]", False),
        ("context", '["true"]', False),
        ("context", "yes", False),
    ],
)
def test_an_answer_has_exactly_the_published_values(name: str, answer: str, correct: bool, folder: Path) -> None:
    command("data", "import", folder)
    item = f"{name:_<64}"[:16]
    with medagent.episode(item, benchmark="fhirpath-qa", ehr=Path("patients.ndjson")) as episode:
        prompt = episode.reset()
        assert "the patient with the identifier 100. It is 2180-08-10T22:48:00." in prompt
        assert "Bundle.entry" not in prompt
        episode.act(f"FINISH({answer})")
        assert episode.verdict().correct is correct


def test_missing_questions_and_patients_are_errors(folder: Path) -> None:
    done = run("--agent", "reference")
    assert (done.code, "medagent data import FOLDER" in done.err) == (1, True)
    command("data", "import", folder)
    done = command("run", "fhirpath-qa", "--agent", "reference")
    assert (done.code, "pass --ehr mimic.sqlite" in done.err) == (1, True)
    Path("patients.ndjson").write_text(json.dumps({"resourceType": "Patient", "id": "z"}), "utf-8")
    done = run("--agent", "reference")
    assert (done.code, "contains none of the patients of FHIRPath-QA" in done.err) == (1, True)


def test_other_files_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"question": "?"}\n', "utf-8")
    done = command("data", "import", tmp_path / "other.jsonl")
    assert done.code == 1
    assert "the questions of FHIRPath-QA" in done.err


def test_the_published_questions_are_imported() -> None:
    done = command("data", "import", need(SHARED / "fhirpath_qa"))
    assert done.out.startswith("1,059 questions of FHIRPath-QA imported.")
