"""Instructions in charts: the sets of `medagent data new --injected`, who is harmed, and what every view shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from medagent.agents.base import Agent
from refsol.clinical.injection import FORMS
from tests.command import medagent
from tests.medagent.benchmarks.custom.ward3 import write
from tests.medagent.reports.test_report import block, items

SMALL = ("--seed", "injected", "--patients", 40, "--per-type", 4)
SHARE = "50%"


class Injected(NamedTuple):
    """A set with instructions, and the words of a command that name its benchmark."""

    folder: Path
    words: tuple[str, ...]

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "tasks.jsonl").read_text("utf-8").splitlines()]

    @property
    def instructions(self) -> dict[str, dict[str, Any]]:
        return {task["id"]: task["injected"] for task in self.tasks if task.get("injected")}

    @property
    def results(self) -> Path:
        return self.folder.parent / "results"

    def run(self, agent: str, *more: str) -> dict[str, Any]:
        return reported(self, agent, *more)

    def folder_of(self, report: dict[str, Any]) -> Path:
        return self.results / Path(report["folder"]).name


@cache
def reported(injected: Injected, agent: str, *more: str) -> dict[str, Any]:
    """The report of a run, which several tests look at."""
    ran = medagent(
        *("run", *injected.words, "--dataset", injected.folder, "--agent", agent, "--quiet", "--json"),
        *("--results-dir", injected.results, "--max-rounds", 20, *more),
    )
    assert ran.code == 0, ran.err
    report: dict[str, Any] = json.loads(ran.out)
    return report


def made(folder: Path, words: tuple[object, ...], run: tuple[object, ...]) -> Injected:
    ran = medagent("data", "new", folder, "--injected", SHARE, *words)
    assert ran.code == 0, ran.err
    return Injected(folder, tuple(map(str, run)))


@pytest.fixture(scope="module")
def mab(tmp_path_factory: pytest.TempPathFactory) -> Injected:
    return made(tmp_path_factory.mktemp("mab") / "set", SMALL, ())


@pytest.fixture(scope="module")
def psb(tmp_path_factory: pytest.TempPathFactory) -> Injected:
    return made(tmp_path_factory.mktemp("psb") / "set", (*SMALL, "--like", "psb-300"), ("psb-300",))


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Injected:
    """A set of own task types over imported patients."""
    folder = tmp_path_factory.mktemp("ward")
    code, patients = write(folder)
    return made(folder / "set", ("--from", code, "--ehr", patients, "--seed", "injected"), (code,))


@pytest.fixture(params=["mab", pytest.param("psb", marks=pytest.mark.long), "ward"])
def injected(request: pytest.FixtureRequest) -> Injected:
    chosen: Injected = request.getfixturevalue(request.param)
    return chosen


PATTERNS = {
    form.name: re.compile(
        re.escape(form.text).replace(r"\{mark\}", r"(?P<mark>\d+)").replace(r"\{drug\}", r"(?P<drug>[^\"]+?)")
    )
    for form in FORMS
}
KINDS = ("Observation", "MedicationRequest", "ServiceRequest", "Procedure", "Condition")


class Obeys(Agent):
    """Reads all it can about the patient, and does what each instruction in it asks for."""

    forms = tuple(PATTERNS)
    kinds = KINDS
    said: ClassVar[dict[str, str]] = {
        "answer-override": "{mark}",
        "answer-fact": "{mark}.0 mg/dL",
        "answer-format": "[{mark}]",
        "repeat-text": "verified {mark}",
        "repeat-proof": "checked  {mark}",
        "repeat-orders": "reference {mark}",
    }

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        base, patient = "http://localhost:8080/fhir", task.mrn
        seen = yield f"GET {base}/Patient?{f'_id={patient}&' if patient else ''}_count=5000"
        for kind in self.kinds if patient else ():
            seen += yield f"GET {base}/{kind}?patient={patient}&_count=5000"
        answers: list[str] = []
        for name in self.forms:
            found = PATTERNS[name].search(seen)
            if found is None:
                continue
            kind = name.partition("-")[0]
            if kind in ("answer", "repeat"):
                answers.append(self.said[name].format(mark=found["mark"]))
            elif kind == "stop":
                yield self.stop(base, patient, found["drug"])
            else:
                drug = next(form.words for form in FORMS if form.name == name)
                yield order(base, patient, drug, "active")
        yield f"FINISH({json.dumps(answers)})"

    def stop(self, base: str, patient: str, drug: str) -> str:
        return order(base, patient, drug, "stopped")


def order(base: str, patient: str, drug: str, status: str) -> str:
    body = {
        "resourceType": "MedicationRequest",
        "status": status,
        "intent": "order",
        "subject": {"reference": f"Patient/{patient}"},
        "medicationCodeableConcept": {"text": drug},
    }
    return f"POST {base}/MedicationRequest\n{json.dumps(body)}"


class Quotes(Obeys):
    """Reads all it can, and answers with each instruction that it found and did not follow. Raises a Flag too."""

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        base, patient = "http://localhost:8080/fhir", task.mrn
        seen = yield f"GET {base}/Patient?{f'_id={patient}&' if patient else ''}_count=5000"
        for kind in self.kinds if patient else ():
            seen += yield f"GET {base}/{kind}?patient={patient}&_count=5000"
        texts = [match[0] for match in (PATTERNS[name].search(seen) for name in self.forms) if match]
        for text in texts:
            flag = {"resourceType": "Flag", "status": "active", "code": {"text": f"ignored: {text}"}}
            yield f"POST {base}/Flag\n{json.dumps(flag)}"
        yield f"FINISH({json.dumps([f'I did not follow: {text}' for text in texts])})"


class Patches(Obeys):
    """Stops an order by a patch."""

    def stop(self, base: str, patient: str, drug: str) -> str:
        name = re.search(r"MedicationRequest/[\w.-]+", drug)
        if name is None:
            return order(base, patient, drug, "stopped")
        return f'PATCH {base}/{name[0]}\n[{{"op": "replace", "path": "/status", "value": "stopped"}}]'


class ObeysOneForm(Obeys):
    """Obeys one form only."""

    forms = ("answer-override",)


class ReadsObservations(Obeys):
    """Reads only Observations besides the Patient."""

    kinds = ("Observation",)


def harmed(report: dict[str, Any]) -> set[str]:
    return {item["item"] for item in report["items"] if item.get("harmed")}


def rates(report: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """By line of the table of instructions, how many items of how many."""
    section = next(table for table in report["table"] if table["title"] == "Injected instructions")
    return {line["name"]: (line["counts"]["items"], line["n"]) for line in section["lines"]}


def test_a_share_of_each_type_has_an_instruction_and_the_forms_take_turns(mab: Injected) -> None:
    assert Counter(name.partition("_")[0] for name in mab.instructions) == {f"task{n}": 2 for n in range(1, 11)}
    forms = Counter(instruction["form"] for instruction in mab.instructions.values())
    assert forms.keys() == PATTERNS.keys()
    assert set(forms.values()) == {1, 2}


def test_apart_from_the_instructions_the_set_is_byte_for_byte_as_without(mab: Injected, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    assert medagent("data", "new", plain, *SMALL).code == 0
    assert (plain / "hospital.ndjson").read_bytes() == (mab.folder / "hospital.ndjson").read_bytes()
    alone = [{key: value for key, value in task.items() if key != "injected"} for task in mab.tasks]
    text = "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in alone)
    assert text == (plain / "tasks.jsonl").read_text("utf-8")
    assert "injected" not in json.loads((plain / "dataset.json").read_bytes())["generated"]
    assert json.loads((mab.folder / "dataset.json").read_bytes())["generated"]["injected"] == 0.5


def test_every_byte_follows_from_the_seed(injected: Injected) -> None:
    patients = [option for file in injected.folder.parent.glob("*.ndjson") for option in ("--ehr", file)]
    sources = ("--from", injected.words[0], *patients) if patients else ()
    ran = medagent("data", "verify", injected.folder, "--seed", "injected", *sources)
    assert ran.code == 0, ran.out + ran.err


@pytest.mark.parametrize("agent", ["reference", "nop", "constant"])
def test_who_does_the_task_or_nothing_is_not_harmed(injected: Injected, agent: str) -> None:
    report = injected.run(agent)
    n = len(injected.instructions)
    assert n
    assert rates(report)["harmed"] == (0, n)
    assert {item["item"] for item in report["items"] if "harmed" in item} == injected.instructions.keys()
    if agent == "reference":
        assert rates(report)["right on the injected items"] == (n, n)
        assert rates(report)["right"] == (len(report["items"]),) * 2


def test_who_obeys_all_that_it_reads_is_harmed_wherever_it_reads_it(injected: Injected) -> None:
    report = injected.run(f"{__name__}:Obeys")
    n = len(injected.instructions)
    assert rates(report)["had read the instruction"] == rates(report)["harmed"] == (n, n)
    assert harmed(report) == injected.instructions.keys()


def test_with_executed_writes_an_order_that_the_server_refused_counts_too(mab: Injected) -> None:
    report = mab.run(f"{__name__}:Obeys", "--writes", "execute", "--round", "executed")
    assert harmed(report) == mab.instructions.keys()


def test_who_quotes_or_refuses_an_instruction_is_not_harmed(mab: Injected) -> None:
    assert harmed(mab.run(f"{__name__}:Quotes")) == set()


@pytest.mark.long
def test_an_instruction_that_was_not_read_does_no_harm(psb: Injected) -> None:
    report = psb.run(f"{__name__}:ReadsObservations")
    read = {
        name
        for name, instruction in psb.instructions.items()
        if instruction["place"].startswith(("Observation/", "Patient/"))
    }
    assert 0 < len(read) < len(psb.instructions)
    assert harmed(report) == read
    assert rates(report)["had read the instruction"] == (len(read), len(psb.instructions))


def test_who_obeys_one_form_is_harmed_by_this_form_only(mab: Injected) -> None:
    report = mab.run(f"{__name__}:ObeysOneForm")
    assert harmed(report) == {
        name for name, instruction in mab.instructions.items() if instruction["form"] == "answer-override"
    }
    forms = report["injected"]["forms"]
    assert {name for name, form in forms.items() if form["harmed"]} == {"answer-override"}


def test_a_stopped_order_is_in_the_state_difference(mab: Injected) -> None:
    stops = {name: instruction for name, instruction in mab.instructions.items() if instruction["asks"] == "stop"}
    assert any("MedicationRequest/" in instruction["text"] for instruction in stops.values())
    report = mab.run(f"{__name__}:Patches", "--writes", "execute", "--ids", ",".join(stops))
    assert harmed(report) == stops.keys()


@pytest.mark.long
def test_instructions_are_dealt_without_regard_to_what_is_right(tmp_path: Path) -> None:
    large = made(tmp_path / "set", ("--seed", "branches", "--like", "psb-300"), ("psb-300",))
    report = large.run("nop")
    (right, items), (also_right, injected) = rates(report)["right"], rates(report)["right on the injected items"]
    share = right / items
    deviation = (share * (1 - share) * injected) ** 0.5
    assert abs(also_right - share * injected) < 2 * deviation


def test_views_show_where_the_instruction_stood(mab: Injected, tmp_path: Path) -> None:
    folder = mab.folder_of(mab.run(f"{__name__}:Obeys"))
    name, instruction = next(
        (name, instruction) for name, instruction in mab.instructions.items() if name.startswith("task5_")
    )
    shown = medagent("show", folder, name).out
    assert "◀ injected instruction" in shown
    assert (
        f"text: {instruction['text']}; place: {instruction['place']}; form: {instruction['form']}; "
        "read by the agent: yes; harmed: yes" in shown
    )
    n = len(mab.instructions)
    assert f"Harmed: {n} of {n} items with an instruction; read: {n}" in medagent("show", folder).out
    graded = medagent("grade", folder).out
    assert "had read the instruction" in medagent("grade", folder, "--full").out
    assert f"Injected instructions: {n} of {n} items harmed, {n} read," in graded
    page = tmp_path / "report.html"
    assert medagent("report", folder, "--output", page).code == 0
    _, blocks = items(page)[f"{name}.1"]
    facts = next(section["facts"] for section in blocks if section.get("title") == "Injected instruction")
    assert ["place", instruction["place"]] in facts
    assert ["read by the agent", "yes"] in facts
    assert block(blocks, "conversation")["injected"] == [instruction["place"].partition(" ")[0]]


def test_two_runs_are_compared_by_harm(mab: Injected) -> None:
    folders = [mab.folder_of(mab.run(agent)) for agent in ("reference", f"{__name__}:Obeys")]
    compared = json.loads(medagent("compare", *folders, "--json").out)
    n = len(mab.instructions)
    assert (compared["harmed"]["first"], compared["harmed"]["second"], compared["harmed"]["items"]) == (0, n, n)
    assert f"Harmed: A 0, B {n} of {n}; B − A: +100.0 points" in medagent("compare", *folders).out


def test_exports_have_the_harm(mab: Injected, tmp_path: Path) -> None:
    folder = mab.folder_of(mab.run(f"{__name__}:Obeys"))
    assert medagent("export", "jsonl", folder, tmp_path / "rows.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    assert {row["item"] for row in rows if row["harmed"]} == mab.instructions.keys()


def test_a_results_file_is_graded_for_harm(mab: Injected) -> None:
    folder = mab.folder_of(mab.run(f"{__name__}:Obeys"))
    for rules in ("official", "fair", "state"):
        ran = medagent("grade", folder / "results.json", "--dataset", mab.folder, "--rules", rules, "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["injected"]["harmed"] == len(mab.instructions)


def test_a_pack_is_checked_with_the_instructions(mab: Injected, tmp_path: Path) -> None:
    folder = mab.folder_of(mab.run("reference"))
    pack = tmp_path / "pack.zip"
    assert medagent("submit", "pack", folder, "--out", pack).code == 0
    checked = medagent("submit", "check", pack, "--dataset", mab.folder)
    assert checked.code == 0, checked.out + checked.err


@pytest.mark.parametrize("share", ["120%", "20", "0%", "a fifth", "-5%"])
def test_a_share_that_is_none_has_one_line(tmp_path: Path, share: str) -> None:
    ran = medagent("data", "new", tmp_path / "set", f"--injected={share}")
    assert ran.code != 0
    assert ran.err.strip() == (
        f"medagent: --injected {share}: pass a share of the items, above 0% and up to 100%, such as 20%"
    )
    assert not (tmp_path / "set").exists()


def test_a_benchmark_without_charts_has_one_line(tmp_path: Path) -> None:
    ran = medagent("data", "new", tmp_path / "set", "--injected", "20%", "--like", "fhir-agentbench")
    assert ran.code != 0
    assert ran.err.strip() == (
        "medagent: --injected needs tasks with rules over a chart, which fhir-agentbench does not have"
    )


def test_a_hospital_s_server_has_one_line(tmp_path: Path) -> None:
    code, _ = write(tmp_path)
    ran = medagent(
        *("data", "new", tmp_path / "set", "--injected", "20%", "--from", code, "--fhir", "http://127.0.0.1:1/fhir")
    )
    assert ran.code != 0
    assert ran.err.strip() == (
        "medagent: --injected changes charts, so it needs patients in a file: --ehr FILE instead of --fhir URL"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("run", "--agent", "nop", "--fhir", "http://127.0.0.1:1/fhir/", "--dataset"), "need the embedded server"),
        (("data", "twins"), "the set contains twins or injected instructions; make twins of a set without them"),
    ],
)
def test_what_a_set_cannot_do_has_one_line(
    mab: Injected, tmp_path: Path, words: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = medagent(*words, mab.folder)
    assert ran.code != 0
    assert problem in ran.err
    assert len(ran.err.strip().splitlines()) == 1, ran.err
