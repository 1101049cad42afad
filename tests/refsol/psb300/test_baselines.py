"""Baselines of psb-300, and what has to be read."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.psb300 import BASELINES, Resources, RuleName, baselines
from refsol.reads import Read
from tests.refsol.psb300.charts import CLOCK, FINISH, MRN, grade, medication, procedure, reading, task

Json = dict[str, Any]


def outcomes(tasks: list[Json], chart: list[Json], rules: RuleName = "official") -> dict[str, dict[str, bool | None]]:
    """By baseline, whether it is right in each task."""
    found = baselines(tasks, Resources(chart), clock=CLOCK, rules=rules)
    return {name: {one["id"]: found.outcomes(one["id"])[name] for one in tasks} for name in BASELINES}


@pytest.mark.parametrize("rules", ["official", "fair"])
def test_blind_orders_what_the_text_spells_out(rules: RuleName) -> None:
    tasks = [task(kind, instruction=f"Do what is due for {MRN}.") for kind in range(1, 11)]
    due = [
        procedure("NUR1373", 5),
        {**procedure("X", 5), "resourceType": "Condition", "code": {"coding": [{"code": "C64.2"}]}},
        reading("TSH", 12, 60),
        reading("TSH", 15, 5),
        reading("FT4", 1, 5),
        reading("QTCINTERVAL", 530, 1),
        medication("ondansetron 4 mg"),
        medication("morphine 5 mg"),
        reading("HEARTRATE", 80, 0.1),
    ]
    found = outcomes(tasks, due, rules)
    assert not any(found["nop"].values())
    assert [name for name, right in found["constant"].items() if right] == ["task3_1"]
    assert all(found["blind"].values())


def test_a_baseline_is_the_best_single_behaviour_of_a_type() -> None:
    tasks = [
        task(9, id=f"task9_{number}", eval_MRN=f"S{number}", instruction=f"A vaccine for S{number}?")
        for number in range(3)
    ]
    recent = {**procedure("90686", 10), "subject": {"reference": "Patient/S0"}}
    found = outcomes(tasks, [recent])
    assert found["nop"] == {"task9_0": True, "task9_1": False, "task9_2": False}
    assert found["blind"] == {"task9_0": False, "task9_1": True, "task9_2": True}


def test_a_text_without_the_patient_allows_no_order() -> None:
    assert outcomes([task(9)], [])["blind"] == {"task9_1": False}
    assert outcomes([task(9, instruction=f"A vaccine for {MRN}?")], [])["blind"] == {"task9_1": True}


def test_nothing_is_known_about_a_chart_that_cannot_be_read_or_an_unknown_type() -> None:
    broken = {**procedure("90686", 10), "performedDateTime": "soon"}
    tasks = [task(9), {**task(9), "id": "task99_1"}]
    assert outcomes(tasks, [broken])["blind"] == {"task9_1": None, "task99_1": None}


def _bundle(*resources: Any, following: str | None = None) -> dict[str, Any]:
    links = [{"relation": "next", "url": following}] if following else []
    return {"resourceType": "Bundle", "entry": [{"resource": one} for one in resources], "link": links}


class TestUnread:
    vaccine = procedure("90686", 400)

    def missing(self, kind: int, chart: list[Any], *reads: Read) -> list[str]:
        verdict = grade(kind, chart, [FINISH])
        return [text for needed in verdict.needed or () for text in needed.unread(reads)]

    def test_a_resource_counts_wherever_it_was_read(self) -> None:
        assert self.missing(9, [self.vaccine]) == ["Procedure/1"]
        assert self.missing(9, [self.vaccine], Read("http://x/Procedure/1", self.vaccine)) == []
        assert self.missing(9, [self.vaccine], Read("http://x/Procedure?patient=S1", _bundle(self.vaccine))) == []

    @pytest.mark.parametrize(
        ("url", "complete"),
        [
            (f"http://x/Procedure?patient={MRN}&code=90686", True),
            (f"http://x/Procedure?subject=Patient/{MRN}", True),
            (f"http://x/Procedure?patient={MRN}&code=http://www.ama-assn.org/go/cpt|90686&_count=5", True),
            (f"http://x/Patient/{MRN}/$everything", True),
            (f"http://x/Patient?_id={MRN}&_revinclude=Procedure:patient", True),
            (f"http://x/Procedure?patient={MRN}&code=http://loinc.org|90686", False),
            (f"http://x/Procedure?patient={MRN}&code=90687", False),
            (f"http://x/Procedure?patient={MRN}&date=ge2023-01-01", False),
            ("http://x/Procedure?patient=S7654321&code=90686", False),
            ("http://x/Procedure?code=90686", False),
            (f"http://x/Observation?patient={MRN}", False),
        ],
    )
    def test_an_absence_needs_a_complete_search(self, url: str, complete: bool) -> None:
        assert (self.missing(9, [], Read(url, _bundle())) == []) is complete

    def test_a_search_is_complete_with_its_last_page(self) -> None:
        first = Read(f"http://x/fhir/Procedure?patient={MRN}", _bundle(following="http://x/fhir?page=2"))
        second = Read("http://x/fhir?page=2", _bundle())
        assert self.missing(9, [], first) == ["a complete search of 90686"]
        assert self.missing(9, [], first, second) == []

    def test_two_codes_need_both(self) -> None:
        one = Read(f"http://x/Procedure?patient={MRN}&code=IMGCT0491", _bundle())
        other = Read(f"http://x/Procedure?patient={MRN}&code=IMGIL0001", _bundle())
        assert self.missing(1, [], one) == ["a complete search of IMGIL0001"]
        assert self.missing(1, [], one, other) == []

    def test_a_window_may_be_searched_alone(self) -> None:
        url = f"http://x/Observation?patient={MRN}&code=HEARTRATE&category=vital-signs"
        assert self.missing(3, [], Read(f"{url}&date=ge2023-11-07T00:00:00Z", _bundle())) == []
        other = url.replace("vital-signs", "laboratory")
        late = f"{url}&date=ge2023-11-07T20:00:00Z"
        for missed in (other, late):
            assert self.missing(3, [], Read(missed, _bundle())) == ["a complete search of HEARTRATE"]

    def test_an_absent_drug_needs_all_active_orders(self) -> None:
        opioid = medication("morphine 5 mg")
        active = Read(f"http://x/MedicationRequest?patient={MRN}&status=active", _bundle(opioid))
        stopped = Read(f"http://x/MedicationRequest?patient={MRN}&status=stopped", _bundle(opioid))
        assert self.missing(8, [opioid], active) == []
        assert self.missing(8, [opioid], stopped) == ["a complete search of MedicationRequest"]
