"""Every patient is accounted for: a task type's patients got a ruling, or were left out for a reason of a kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.benchmarks.clinical.generation import sample_type
from medagent.benchmarks.custom.benchmark import custom_named
from medagent.core.errors import UserError
from refsol.clinical.sources import Resources
from refsol.errors import FaultKind
from tests.command import Ran, medagent
from tests.refsol.clinical.wards import NOW
from tests.shared_data import ROOT

EXAMPLE = ROOT / "examples" / "own_types"
CODE, CHARTS = EXAMPLE / "ward_types.py", EXAMPLE / "charts.ndjson"
CLOCK = "2024-03-05T14:00:00Z"
DUE = {
    "hold_vancomycin": {"v1"},
    "overdue_mammography": {"v1", "v8"},
    "amoxicillin_allergy": {"v4"},
    "repeat_potassium": {"v1", "v3", "v6"},
}
LEFT_OUT = {
    "hold_vancomycin": {
        "v3": "no unit",
        "v4": "no time",
        "v5": "several values at once",
        "v7": "no drug's name",
    },
    "overdue_mammography": {"v3": "day too coarse", "v6": "no sex", "v7": "day too coarse"},
    "amoxicillin_allergy": {},
    "repeat_potassium": {},
}
"""The table of the example's README, written by hand."""

POTASSIUM = """
from medagent import clinical as c

POTASSIUM = c.Lab("2823-3", c.LOINC, "potassium", unit="mmol/L"OPTIONS)


class RepeatPotassium(c.TaskType):
    name = "repeat_potassium"
    text = "Repeat a low potassium of patient {mrn}."

    def rule(self, chart):
        last = chart.latest(POTASSIUM)
        return c.order(c.lab_test(POTASSIUM)) if last is not None and last < 3.5 else c.nothing()


class Always(c.TaskType):
    name = "always"
    text = "Order the test for patient {mrn}."

    def rule(self, chart):
        return c.order(c.lab_test(POTASSIUM))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def patient(name: str) -> dict[str, Any]:
    return {"resourceType": "Patient", "id": name, "birthDate": "1965-01-01"}


def potassium(name: str, unit: str, value: float = 3.1, time: str | None = "2024-03-05T08:00:00Z") -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": f"k-{name}",
        "status": "final",
        "subject": {"reference": f"Patient/{name}"},
        "code": {"coding": [{"system": "http://loinc.org", "code": "2823-3"}]},
        **({"effectiveDateTime": time} if time else {}),
        "valueQuantity": {"value": value, "unit": unit},
    }


def ward(*resources: dict[str, Any], options: str = "") -> tuple[str, ...]:
    """The words of a command that names the types of `POTASSIUM` and these patients, whose files are written."""
    Path("ward.py").write_text(POTASSIUM.replace("OPTIONS", options), "utf-8")
    Path("charts.ndjson").write_text("".join(f"{json.dumps(resource)}\n" for resource in resources), "utf-8")
    return "--ehr", str(Path("charts.ndjson").resolve())  # absolute: a process keeps the sets that it has sampled


def run(*words: object) -> Ran:
    return medagent("run", *words, "--agent", "reference", "--now", CLOCK, "--results-dir", "results", "--json")


def test_the_examples_charts_have_the_table_of_its_page() -> None:
    ran = medagent("data", "new", "set", "--from", CODE, "--ehr", CHARTS, "--per-type", 8)
    assert ran.code == 0, ran.err
    assert "hold_vancomycin: 4 tasks from 4 of 8 patients; 4 left out: 1 no drug's name, 1 no time, " in ran.out
    assert "overdue_mammography: 5 tasks from 5 of 8 patients; 3 left out: 2 day too coarse, 1 no sex\n" in ran.out
    assert "amoxicillin_allergy: " in ran.out
    assert " tasks from 8 of 8 patients\n" in ran.out
    checked = medagent("data", "check", "set", "--from", CODE)
    assert "overdue_mammography: 5 tasks from 5 of 8 patients; 3 left out: 2 day too coarse, 1 no sex\n" in checked.out
    assert "warning: hold_vancomycin: 4 of 8 patients are left out, more than a tenth" in checked.out
    listed = medagent("data", "check", "set", "--left-out").out
    for kind, patients in LEFT_OUT.items():
        for name, reason in patients.items():
            assert f"{kind}: {name}: {reason}\n" in listed
    assert sum(": v" in line for line in listed.splitlines()) == sum(map(len, LEFT_OUT.values()))
    report = json.loads(run(CODE, "--ehr", CHARTS, "--per-type", 16).out)
    assert report["overall"]["value"] == 1.0
    patients = {task["id"]: task["patient"] for task in map(json.loads, own_tasks(report).splitlines())}
    for kind, due in DUE.items():
        reasons = {patients[name]: reason for name, reason in reasons_of(report).items() if name.startswith(kind)}
        assert {name for name, reason in reasons.items() if "nothing to order" not in reason} == due
        assert LEFT_OUT[kind].keys().isdisjoint(reasons)


def reasons_of(report: dict[str, Any]) -> dict[str, str]:
    """By item why its right reply is right."""
    lines = (Path("results") / Path(report["folder"]).name / "items.jsonl").read_text("utf-8").splitlines()
    return {item["item"]: item["because"] for item in map(json.loads, lines)}


def own_tasks(report: dict[str, Any]) -> str:
    return (Path("results") / Path(report["folder"]).name / "tasks.jsonl").read_text("utf-8")


def test_a_patient_in_another_unit_is_not_left_out_silently() -> None:
    words = ward(patient("a"), potassium("a", "mEq/L"), patient("b"))
    ran = run("ward.py:RepeatPotassium", *words)
    line = "repeat_potassium: 1 task from 1 of 2 patients; 1 left out: 1 another unit (mEq/L: state valence= in c.Lab)"
    assert line in ran.err
    assert "1 of 2 patients are left out, more than a tenth" in ran.err
    assert "nobody has anything due" in ran.err
    report = json.loads(ran.out)
    reason = "another unit (mEq/L: state valence= in c.Lab)"
    assert report["data"]["accounts"] == {
        "repeat_potassium": {"items": 1, "patients": 2, "left_out": {reason: 1}, "due": 0}
    }
    assert line in report["notes"]
    graded = medagent("grade", report["folder"], "--benchmark", "ward.py:RepeatPotassium")
    assert "left out 1 of 2 patients" in graded.out
    assert "no better than blind" not in graded.out


def test_patients_are_not_counted_once_for_each_type() -> None:
    report = json.loads(run(CODE, "--ehr", CHARTS, "--per-type", 16).out)
    counts = [sum(account["left_out"].values()) for account in report["data"]["accounts"].values()]
    assert sorted(counts) == [0, 0, 3, 4], "of the eight patients of the file"
    assert "left out up to 4 of 8 patients per type" in medagent("grade", report["folder"], "--benchmark", CODE).out


def test_with_the_valence_nobody_is_left_out() -> None:
    words = ward(patient("a"), potassium("a", "mEq/L"), patient("b"), options=", valence=1")
    ran = run("ward.py:RepeatPotassium", *words)
    assert "repeat_potassium: 2 tasks from 2 of 2 patients\n" in ran.err
    assert any("3.1 mEq/L = 3.1 mmol/L" in reason for reason in reasons_of(json.loads(ran.out)).values())


def test_a_type_of_which_all_patients_are_left_out_is_an_error() -> None:
    words = ward(patient("a"), potassium("a", "mEq/kg"), patient("b"), potassium("b", "mmol/L", time=None))
    error = "repeat_potassium: all 2 patients are left out: 1 another unit (mEq/kg, wanted mmol/L), 1 no time"
    for command in (("run", "ward.py", "--agent", "nop", "--now", CLOCK), ("data", "new", "set", "--from", "ward.py")):
        ran = medagent(*command, *words)
        assert (ran.code, ran.out) == (1, "")
        assert error in ran.err
        assert "FILE.py:Name runs one type alone" in ran.err
    assert run("ward.py:Always", *words).code == 0


def test_a_tenth_of_the_patients_may_be_left_out_without_a_warning() -> None:
    units = ["mg/dL", *["mmol/L"] * 9]
    for unreadable, is_warned in ((1, False), (2, True)):
        units[unreadable - 1] = "mg/dL"
        charts = [(patient(f"p{n}"), potassium(f"p{n}", unit, 3 + n / 10)) for n, unit in enumerate(units)]
        words = ward(*(part for chart in charts for part in chart))
        ran = run("ward.py:RepeatPotassium", *words, "--round", unreadable, "--results-dir", f"results{unreadable}")
        assert (f"{unreadable} of 10 patients are left out, more than a tenth" in ran.err) is is_warned


def test_a_text_of_a_chart_is_in_no_message_or_file() -> None:
    words = ward(patient("a"), potassium("a", "Anna Smith 4711"), patient("b"))
    ran = medagent("data", "new", "set", "--from", "ward.py:RepeatPotassium", *words)
    assert "another unit (unknown, wanted mmol/L)" in ran.out
    manifest = Path("set/dataset.json").read_text("utf-8")
    assert "Anna" not in ran.out + ran.err + manifest
    assert json.loads(manifest)["accounts"]["repeat_potassium"]["patients"] == 2


def test_ids_of_a_hospitals_own_patients_need_an_option(tmp_path: Path) -> None:
    words = ward(patient("a"), potassium("a", "mEq/kg"), patient("b"))
    assert medagent("data", "new", "set", "--from", "ward.py:RepeatPotassium", *words).code == 0
    manifest = json.loads(Path("set/dataset.json").read_text("utf-8"))
    manifest["generated"]["server"] = "0" * 64
    Path("set/dataset.json").write_text(json.dumps(manifest), "utf-8")
    refused = medagent("data", "check", "set", "--left-out")
    assert (refused.code, refused.out) == (1, "")
    assert "pass --with-patient-data" in refused.err
    listed = medagent("data", "check", "set", "--left-out", "--with-patient-data").out
    assert listed == "repeat_potassium: a: another unit (mEq/kg, wanted mmol/L)\n"


QUERIES = """
from medagent import clinical as c

POTASSIUM = c.Lab("2823-3", c.LOINC, "potassium", unit="mmol/L")


class Sex(c.TaskType):
    name = "sex"
    text = "What is the sex of patient {mrn}?"

    def rule(self, chart):
        return c.answer([chart.sex])


class Last(c.TaskType):
    name = "last"
    text = "What is the last potassium of patient {mrn}? Answer with the value, or -1 if there is none."

    def rule(self, chart):
        last = chart.latest(POTASSIUM)
        return c.answer([-1] if last is None else [last.value])


class Repeat(c.TaskType):
    name = "repeat"
    text = "Repeat a low potassium of patient {mrn}. Answer with the last value, or -1 if there is none."

    def rule(self, chart):
        last = chart.latest(POTASSIUM)
        if last is None:
            return c.nothing([-1])
        return c.order(c.lab_test(POTASSIUM)) if last < 3.5 else c.nothing([last.value])
"""
IDLE = "to do nothing is always right"
ALIKE = "the same answer, without an order, is right for everybody, so it measures nothing"


def queries(count: int, *resources: dict[str, Any]) -> tuple[str, ...]:
    """As `ward`, with the types of `QUERIES` and this many patients, half of them men."""
    people = [{**patient(f"p{n}"), "gender": ("male", "female")[n % 2]} for n in range(count)]
    sodium = {**potassium("p0", "mmol/L"), "id": "sodium", "code": {"text": "sodium"}}  # states a time
    words = ward(*people, sodium, *resources)
    Path("ward.py").write_text(QUERIES, "utf-8")
    return words


def test_a_query_that_everybody_has_an_answer_to_gets_all_tasks() -> None:
    words = queries(6)
    ran = run("ward.py:Sex", *words, "--per-type", 4)
    assert "sex: 4 tasks from 6 of 6 patients\n" in ran.err
    assert "wanted" not in ran.err
    assert "warning" not in ran.err
    assert json.loads(ran.out)["overall"]["counts"]["right"] == 4
    new = medagent("data", "new", "set", "--from", "ward.py:Sex", *words, "--per-type", 4)
    assert "sex: 4 tasks from 6 of 6 patients\n" in new.out
    assert "wanted" not in new.out


def test_what_is_missing_of_a_type_is_what_its_outcomes_are_called() -> None:
    words = queries(6)
    last, repeat = (run(f"ward.py:{name}", *words, "--per-type", 4).err for name in ("Last", "Repeat"))
    assert "last: wanted 2 patients with data for the answer; the data have 0" in last
    assert "repeat: wanted 2 patients with something due; the data have 0" in repeat
    readings = [potassium(f"p{n}", "mmol/L", 4 + n / 10) for n in range(6)]
    full = run("ward.py:Last", *queries(6, *readings), "--per-type", 4, "--round", "full")
    assert "last: 4 tasks from 6 of 6 patients\n" in full.err
    assert "wanted" not in full.err


def test_to_do_nothing_is_said_to_be_right_only_if_it_is() -> None:
    words = queries(4)
    for name in ("Last", "Repeat"):  # everybody's answer is -1, which an agent that does nothing does not give
        ran = run(f"ward.py:{name}", *words)
        assert IDLE not in ran.err
        assert f"warning: {name.lower()}: {ALIKE}\n" in ran.err
        nop = medagent("run", f"ward.py:{name}", *words, "--agent", "nop", "--now", CLOCK, "--json", "--quiet")
        assert json.loads(nop.out)["overall"]["value"] == 0
        new = medagent("data", "new", name, "--from", f"ward.py:{name}", *words)
        assert f"warning: {name.lower()}: {ALIKE}\n" in new.out
        assert f"warning: {name.lower()}: {ALIKE}\n" in medagent("data", "check", name, "--from", "ward.py").out


@pytest.mark.parametrize("more", [(), ("--triples",)])
def test_the_account_of_twins_is_about_the_twins(more: tuple[str, ...]) -> None:
    people = [patient(f"p{n}") for n in range(8)]
    last = [potassium(f"p{n}", "mmol/L", 3.5 + n / 10) for n in range(8)]
    low = [potassium(f"p{n}", "mmol/L", 3.1, "2024-03-04T08:00:00Z") | {"id": f"low-{n}"} for n in range(8)]
    words = ward(*people, *last, *low)
    named, source, twins = ("--from", "ward.py:RepeatPotassium"), Path("set").resolve(), Path("twins").resolve()
    assert IDLE in medagent("data", "new", source, *named, *words, "--per-type", 4).out
    assert IDLE in medagent("data", "check", source, *named).out
    assert medagent("data", "twins", source, *named, "--out", twins, *more).code == 0
    count = len((twins / "tasks.jsonl").read_text("utf-8").splitlines())
    assert count > len((source / "tasks.jsonl").read_text("utf-8").splitlines())
    checked = medagent("data", "check", twins, *named)
    ran = run("ward.py:RepeatPotassium", "--dataset", twins)
    for text in (checked.out, ran.err):
        assert f"repeat_potassium: {count} tasks from 8 of 8 patients\n" in text
        assert "measures nothing" not in text
    assert not any("measures nothing" in note for note in json.loads(ran.out)["notes"])
    manifest = json.loads((twins / "dataset.json").read_text("utf-8"))
    assert manifest["accounts"]["repeat_potassium"]["items"] == count


@pytest.mark.parametrize("more", [(), ("--quiet",), ("--full",), ("--quiet", "--full")])
def test_a_run_prints_an_account_and_a_warning_once(more: tuple[str, ...]) -> None:
    words = ward(patient("a"), potassium("a", "mEq/kg"), patient("b"))
    ran = medagent("run", "ward.py:RepeatPotassium", *words, "--agent", "nop", "--now", CLOCK, *more)
    everything = " ".join(f"{ran.out}\n{ran.err}".split())
    assert everything.count("repeat_potassium: 1 task from 1 of 2 patients; 1 left out") == 1
    assert everything.count("1 of 2 patients are left out, more than a tenth") == 1
    assert everything.count(IDLE) == 1
    assert ("1 task from" in ran.out) is ("--quiet" in more)
    assert f"warning: repeat_potassium: nobody has anything due, so it measures nothing: {IDLE}\n" in ran.err
    (folder,) = Path("results").iterdir()
    graded = " ".join(medagent("grade", folder, "--benchmark", "ward.py:RepeatPotassium").out.split())
    assert graded.count("1 task from") == graded.count(IDLE) == 1


def test_a_set_of_which_nobody_is_left_out_says_so() -> None:
    words = ward(patient("a"), potassium("a", "mmol/L"), patient("b"))
    assert medagent("data", "new", "set", "--from", "ward.py", *words).code == 0
    assert medagent("data", "check", "set", "--left-out") == (0, "set: no patient is left out\n", "")
    manifest = json.loads(Path("set/dataset.json").read_text("utf-8"))
    del manifest["accounts"]
    Path("set/dataset.json").write_text(json.dumps(manifest), "utf-8")
    unknown = "set: the set does not record which patients are left out\n"
    assert medagent("data", "check", "set", "--left-out") == (0, unknown, "")


UNITS = st.sampled_from(["mmol/L", "mEq/L", "mg/dL", "mEq/kg", "", "umol/mL", "no unit that anybody knows"])
TIMES = st.sampled_from(["2024-03-05T08:00:00Z", "2024-03-04", "2024-03-05", "2024", "2024-03-05T08:00:00", None, "?"])
READINGS = st.lists(st.tuples(UNITS, TIMES, st.sampled_from([2.9, 3.5, 4.1])), max_size=3)


@given(st.lists(READINGS, min_size=1, max_size=8))
def test_rulings_and_left_out_patients_are_all_patients(charts: list[list[tuple[str, str | None, float]]]) -> None:
    kind = next(kind for kind in custom_named(str(CODE)).types if kind.name == "repeat_potassium")
    resources = [
        {**potassium(f"p{number}", unit, value, time), "id": f"{number}-{place}"}
        for number, readings in enumerate(charts)
        for place, (unit, time, value) in enumerate(readings)
    ]
    ids = [f"p{number}" for number in range(len(charts))]
    try:
        sampled = sample_type(kind, ids, Resources(resources), NOW, 6, "seed")
    except UserError:  # all are left out
        return
    left_out = [name for names in sampled.left_out.values() for name in names]
    assert sampled.account.patients == len(charts) == sampled.account.ruled + len(left_out)
    assert len(set(left_out)) == len(left_out)
    assert {task.mrn for task in sampled.tasks.chosen} <= set(ids) - set(left_out)
    assert sum(sampled.tasks.branches.values()) == sampled.account.ruled
    assert all(reason.partition(" (")[0] in get_args(FaultKind) for reason in sampled.left_out)
