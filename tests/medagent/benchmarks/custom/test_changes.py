"""Task types that demand a state difference: exactly these changes of the chart, or these at least."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from medagent import episode
from tests.command import medagent

SOURCE = '''
"""Ward 9's protocols, for agents that may write."""

from medagent import clinical as c

POTASSIUM = c.Lab("2823-3", c.LOINC, "potassium", unit="mmol/L")
MAGNESIUM = c.Code("2601-3", c.LOINC, "magnesium")


class Hold(c.TaskType):
    """Hold potassium chloride if potassium is high."""

    name = "hold"
    text = """If the last potassium (LOINC 2823-3) of patient {mrn} is above 5 mmol/L: put the active order of potassium
    chloride on hold, delete the open order of magnesium (LOINC 2601-3), and order potassium (LOINC 2823-3) for 6 pm
    tomorrow. Change nothing else. Answer with the last potassium."""
    only = True

    def rule(self, chart):
        last = chart.latest(POTASSIUM)
        drug = chart.active_order("potassium chloride")
        pending = chart.first("ServiceRequest", MAGNESIUM, status="active")
        if last is None or last <= 5 or drug is None or pending is None:
            return c.nothing([-1 if last is None else last.value], only=self.only)
        edits = [c.update(drug, status="on-hold"), c.delete(pending)]
        again = c.lab_test(POTASSIUM, at=chart.tomorrow(18))
        return c.order(again, answers=[[last.value]], edits=edits, only=self.only)


class HoldAtLeast(Hold):
    """The same, and whatever else the agent finds necessary."""

    name = "hold_at_least"
    text = Hold.text.replace("Change nothing else.", "Change what else is necessary.")
    only = False
'''
BASE = "http://localhost:8080/fhir"
NOW = "2024-05-02T09:30:00+00:00"
Json = dict[str, Any]


def resources() -> Iterator[Json]:
    for number in range(8):
        about = {"subject": {"reference": f"Patient/K{number}"}}
        yield {"resourceType": "Patient", "id": f"K{number}"}
        yield {
            "resourceType": "Observation",
            "id": f"o{number}",
            "status": "final",
            "code": {"coding": [{"system": "http://loinc.org", "code": "2823-3"}]},
            "effectiveDateTime": NOW if number == 0 else "2024-05-01T08:00:00+00:00",
            "valueQuantity": {"value": 4.2 + number / 4, "unit": "mmol/L"},
            **about,
        }
        yield drug(number)
        yield {
            "resourceType": "ServiceRequest",
            "id": f"s{number}",
            "status": "active",
            "intent": "order",
            "code": {"coding": [{"system": "http://loinc.org", "code": "2601-3"}]},
            **about,
        }


def drug(number: int) -> Json:
    return {
        "resourceType": "MedicationRequest",
        "id": f"m{number}",
        "status": "active",
        "intent": "order",
        "medicationCodeableConcept": {"text": "potassium chloride 20 mmol"},
        "subject": {"reference": f"Patient/K{number}"},
    }


class Ward:
    """The file of types, its patients, and runs and episodes over them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.code, self.patients = folder, folder / "ward9.py", folder / "patients.ndjson"
        self.code.write_text(SOURCE, "utf-8")
        self.patients.write_text("".join(f"{json.dumps(resource)}\n" for resource in resources()), "utf-8")

    def run(self, *words: object) -> Json:
        arguments = ("run", self.code, "--agent", "reference", "--ehr", self.patients, "--results-dir", self.folder)
        ran = medagent(*arguments, "--quiet", "--json", *words)
        assert ran.out, ran.err
        report: Json = json.loads(ran.out)
        return report

    def scored(self, kind: str, *messages: str) -> Any:
        """The score of an episode about patient K7, whose potassium is 5.95, in which an agent sends these messages."""
        with episode(items_of_k7()[kind], benchmark=str(self.code), ehr=self.patients, writes="execute") as acting:
            acting.reset()
            reads = [f"GET {BASE}/{kind}?patient=K7" for kind in ("Observation", "MedicationRequest", "ServiceRequest")]
            for message in (*reads, *messages, "FINISH([5.95])"):
                acting.act(message)
            return acting.verdict()


def is_k7(result: Json) -> bool:
    return "5.95" in result["because"]


@cache
def items_of_k7() -> dict[str, str]:
    """By task type, the item about patient K7: a run says which one it is, and it is the same in every folder."""
    with tempfile.TemporaryDirectory() as folder:
        report = Ward(Path(folder)).run("--writes", "execute")
    return {result["item"].rpartition("_")[0]: result["item"] for result in report["items"] if is_k7(result)}


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    return Ward(tmp_path)


def message(method: str, target: str, body: object = None) -> str:
    text = f"{method} {BASE}{target}"
    return text if body is None else f"{text}\n{json.dumps(body)}"


AGAIN = {
    "resourceType": "ServiceRequest",
    "status": "active",
    "intent": "order",
    "code": {"coding": [{"system": "http://loinc.org", "code": "2823-3"}]},
    "occurrenceDateTime": "2024-05-03T18:00:00+00:00",
    "subject": {"reference": "Patient/K7"},
}
ON_HOLD = {**drug(7), "status": "on-hold"}
HOLD = message("PATCH", "/MedicationRequest/m7", [{"op": "replace", "path": "/status", "value": "on-hold"}])
DELETE = message("DELETE", "/ServiceRequest/s7")
ORDER = message("POST", "/ServiceRequest", AGAIN)
RIGHT = {
    "patch": (HOLD, DELETE, ORDER),
    "update": (ORDER, message("PUT", "/MedicationRequest/m7", ON_HOLD), DELETE),
    "order by update": (HOLD, DELETE, message("PUT", "/ServiceRequest/mine", {**AGAIN, "id": "mine"})),
    "transaction": (
        message(
            "POST",
            "",
            {
                "resourceType": "Bundle",
                "type": "transaction",
                "entry": [
                    {"resource": ON_HOLD, "request": {"method": "PUT", "url": "MedicationRequest/m7"}},
                    {"resource": AGAIN, "request": {"method": "POST", "url": "ServiceRequest"}},
                    {"request": {"method": "DELETE", "url": "ServiceRequest/s7"}},
                ],
            },
        ),
    ),
}


@pytest.mark.parametrize("kind", ["hold", "hold_at_least"])
@pytest.mark.parametrize("way", RIGHT)
def test_all_writes_that_leave_the_same_chart_are_right(ward: Ward, kind: str, way: str) -> None:
    score = ward.scored(kind, *RIGHT[way])
    assert score.correct, score.reason


STOPPED = message("PATCH", "/MedicationRequest/m7", [{"op": "replace", "path": "/status", "value": "stopped"}])
MORE = message("PATCH", "/MedicationRequest/m6", [{"op": "replace", "path": "/status", "value": "stopped"}])
NOTE = message("PUT", "/Communication/mine", {"resourceType": "Communication", "id": "mine", "status": "completed"})


@pytest.mark.parametrize(
    ("sent", "kind", "reason"),
    [
        ((DELETE, ORDER), "order-missing", 'did not change MedicationRequest/m7: status "on-hold"'),
        ((HOLD, ORDER), "order-missing", "did not delete ServiceRequest/s7"),
        ((HOLD, DELETE), "order-missing", "1 order was due, none was placed"),
        (
            (STOPPED, DELETE, ORDER),
            "order-wrong",
            'MedicationRequest/m7: status active → stopped for change MedicationRequest/m7: status "on-hold"',
        ),
        (
            (message("DELETE", "/MedicationRequest/m7"), DELETE, ORDER),
            "order-wrong",
            "MedicationRequest/m7: deleted (active, potassium chloride 20 mmol) for change",
        ),
    ],
)
@pytest.mark.parametrize("type_", ["hold", "hold_at_least"])
def test_a_missing_or_other_change_is_wrong(
    ward: Ward, type_: str, sent: tuple[str, ...], kind: str, reason: str
) -> None:
    score = ward.scored(type_, *sent)
    assert (score.correct, score.kind) == (False, kind)
    assert score.reason.startswith(reason), score.reason


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (MORE, "MedicationRequest m6: status active → stopped"),
        (NOTE, "Communication mine: created (completed)"),
        (ORDER, "created (active, 2823-3)"),
    ],
)
def test_only_the_due_changes_may_be_made(ward: Ward, more: str, words: str) -> None:
    score = ward.scored("hold", HOLD, DELETE, ORDER, more)
    assert (score.correct, score.kind) == (False, "order-not-due")
    assert f"{words}, where nothing else was due" in score.reason
    assert ward.scored("hold_at_least", HOLD, DELETE, ORDER, more).correct


@pytest.mark.parametrize("protocol", ["text", "code"])
def test_the_reference_agent_makes_the_changes(ward: Ward, protocol: str) -> None:
    report = ward.run("--writes", "execute", "--protocol", protocol)
    assert [result["reason"] for result in report["items"] if not result["correct"]] == []
    assert len(report["items"]) == 16
    folder = ward.folder / Path(report["folder"]).name
    item = next(result["item"] for result in report["items"] if is_k7(result))
    shown = medagent("show", folder, item, "--benchmark", ward.code).out
    assert (
        "MedicationRequest m7  status active → on-hold" in " ".join(shown.split()) or "status active → on-hold" in shown
    )
    assert "deleted (active, 2601-3)" in shown


@pytest.mark.parametrize("words", [(), ("--writes", "ack")])
def test_a_run_that_could_not_be_graded_is_refused_in_a_line(ward: Ward, words: tuple[str, ...]) -> None:
    results = ward.folder / "results"
    ran = medagent("run", ward.code, "--agent", "nop", "--ehr", ward.patients, "--results-dir", results, *words)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-1] == (
        "medagent: 12 of 16 items are graded by how the chart has changed (8 hold, 4 hold_at_least), so agents must be "
        "able to change it: pass --writes execute"
    )
    assert not results.exists(), "no episode was played"


def test_items_that_demand_no_changes_run_without_writes(ward: Ward) -> None:
    every = ward.run("--writes", "execute")["items"]
    low = next(
        item["item"] for item in every if item["item"].startswith("hold_at_least") and "4.2 m" in item["because"]
    )
    report = ward.run("--ids", low, "--round", "low")
    assert (report["overall"]["n"], report["overall"]["counts"]["right"]) == (1, 1)


def test_a_run_from_before_the_rule_demanded_changes_is_graded_without_them(ward: Ward) -> None:
    ward.code.write_text(SOURCE.replace("only=self.only", "only=False").replace("edits=edits, ", ""), "utf-8")
    folder = ward.folder / Path(ward.run()["folder"]).name
    ward.code.write_text(SOURCE, "utf-8")
    ran = medagent("grade", folder, "--benchmark", ward.code, "--ehr", ward.patients, "--json")
    report = json.loads(ran.out)
    assert report["overall"]["n"] == 4, "hold_at_least demands no changes of those"
    reasons = {result["reason"] for result in report["items"] if result["correct"] is None}
    assert reasons == {"the data, not the agent: the changes of the chart are not known: run with --writes execute"}


def test_the_commands_that_are_printed_for_sets_and_twins_run(ward: Ward) -> None:
    made, twins = ward.folder / "a set", ward.folder / "its twins"
    words = ("data", "new", made, "--from", ward.code, "--ehr", ward.patients, "--per-type", 2)
    for ran in (medagent(*words), medagent("data", "twins", made, "--from", ward.code, "--out", twins)):
        assert ran.code == 0, ran.err
        printed = shlex.split(ran.out.splitlines()[-1].removeprefix("Run it: medagent "))
        assert printed[2] == "--dataset"
        again = medagent(
            *printed, "--quiet", "--json", "--results-dir", ward.folder / f"runs of {Path(printed[3]).name}"
        )
        assert again.code == 0, again.err
        report = json.loads(again.out)
        assert report["overall"]["counts"]["right"] == report["overall"]["n"] > 0


def test_agents_that_change_nothing_have_their_floor(ward: Ward) -> None:
    report = ward.run("--writes", "execute", "--agent", "nop")
    lines = {line["name"]: line for section in report["table"] for line in section["lines"]}
    assert lines["baseline nop"]["counts"]["right"] == lines["overall"]["counts"]["right"] == 0
    assert 0 < lines["baseline constant"]["counts"]["right"] < 16


def test_twins_of_types_with_changes(ward: Ward) -> None:
    ran = medagent("data", "twins", "--from", ward.code, "--ehr", ward.patients, "--out", ward.folder / "twins")
    assert ran.code == 0, ran.err
    words = ("--dataset", ward.folder / "twins", "--results-dir", ward.folder, "--quiet", "--json")
    ran = medagent("run", ward.code, *words, "--agent", "reference", "--writes", "execute")
    assert ran.code == 0, ran.err
    both = json.loads(ran.out)["twins"]["right_and_read"]
    assert both["right"] == both["of"] > 0
