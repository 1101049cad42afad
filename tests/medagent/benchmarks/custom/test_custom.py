"""A file of task types, run from the command line: agents, protocols, wrong fields, lucky guesses, views, sets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Server
from fhir_server.app import create_app
from medagent import episode
from tests.command import Ran, medagent
from tests.medagent.benchmarks.custom.ward3 import NOW, resources, write
from tests.medagent.reports.test_report import block, items, unpacked
from tests.serving import serving


class Ward:
    """The files of the ward in a folder, and runs of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code, self.patients = write(folder)

    def run(self, agent: object, *words: object, types: object = None) -> dict[str, Any]:
        """The report of a run."""
        ran = medagent(
            *("run", types or self.code, "--agent", agent, "--ehr", self.patients),
            *("--results-dir", self.folder / "results", "--quiet", "--json", *words),
        )
        assert ran.code == 0, ran.err
        report: dict[str, Any] = json.loads(ran.out)
        return report

    def folder_of(self, report: dict[str, Any]) -> Path:
        return self.folder / "results" / Path(report["folder"]).name


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    monkeypatch.chdir(tmp_path)
    return Ward(tmp_path)


def rates(report: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """By line of the table, how many are right of how many."""
    lines = [line for section in report["table"] for line in section["lines"]]
    return {line["name"]: (line["counts"].get("right", 0), line["n"]) for line in lines}


@pytest.mark.parametrize("protocol", ["text", "tools", "code"])
def test_the_reference_agent_is_right_and_grounded(ward: Ward, protocol: str) -> None:
    report = ward.run("reference", "--protocol", protocol)
    assert report["settings"]["protocol"] == (None if protocol == "text" else protocol)
    table = rates(report)
    assert table["sodium_again"] == (10, 10)
    assert table["stop_gentamicin"] == (9, 9), "4 patients with something due, and half of ten others"
    assert table["colonoscopy"] == (10, 10)
    assert table["an order was due"] == (14, 14)
    assert table["overall"] == (29, 29)
    assert table["grounded"] == (28, 28), "the reply to one item is right whatever the record says"


WHOLE = """
import json

from medagent import clinical as c


class Orders(c.TaskType):
    name = "orders"
    text = "Copy the orders of gentamicin of patient {mrn}."

    def rule(self, chart):
        return c.answer([json.dumps(one, sort_keys=True) for one in chart.orders("gentamicin")])
"""


def test_the_reference_agent_reads_whole_resources_by_programs(ward: Ward) -> None:
    drug: dict[str, Any] = {"resourceType": "MedicationRequest", "subject": {"reference": "Patient/W1"}}
    drug |= {"status": "active", "medicationCodeableConcept": {"text": "gentamicin 80 mg"}}
    more = [{**drug, "priority": "urgent", "note": [{"text": "“é” ⟦1⟧"}]}, drug, {**drug, "priority": "stat"}]
    with ward.patients.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps({**order, 'id': f'x{place}'})}\n" for place, order in enumerate(more))
    ward.code.write_text(WHOLE, "utf-8")
    assert rates(ward.run("reference", "--protocol", "code"))["overall"] == (10, 10)


def test_agents_that_read_nothing_have_their_floor(ward: Ward) -> None:
    nop = rates(ward.run("nop"))
    assert nop["overall"] == nop["baseline nop"] == (10, 29)
    assert nop["grounded"] == (0, 28), "the reply to one item is right whatever the record says"
    constant = rates(ward.run("constant"))
    assert constant["overall"] == constant["baseline constant"]
    assert constant["baseline blind"][0] >= constant["overall"][0]


def test_the_prompt_states_the_clock_and_the_patient(ward: Ward) -> None:
    folder = ward.folder_of(ward.run("nop", "--per-type", 2))
    row = json.loads((folder / "episodes.jsonl").read_text("utf-8").splitlines()[0])
    assert f"Context: The current time is {NOW}. Doses are for adults.\n" in row["transcript"][0]["content"]
    later = ward.run("nop", "--now", "2024-06-01T00:00:00Z", "--round", "later")
    assert later["settings"]["now"] == "2024-06-01T00:00:00+00:00"
    assert rates(later)["an order was due"] == (0, 14 - 5), "no sodium of the last 2 days"


def agent_messages(folder: Path) -> dict[str, list[str]]:
    """The messages of a run's agent, by item."""
    rows = map(json.loads, (folder / "episodes.jsonl").read_text("utf-8").splitlines())
    return {
        row["task_id"]: [message["content"] for message in row["transcript"] if message["role"] == "agent"]
        for row in rows
    }


@pytest.fixture(scope="module")
def solutions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The messages of the reference agent, by item. They are the same in every folder."""
    ward = Ward(tmp_path_factory.mktemp("solutions"))
    return agent_messages(ward.folder_of(ward.run("reference")))


def scored(ward: Ward, item: str, messages: list[str], **options: Any) -> Any:
    """The score of an episode in which an agent sends these messages."""
    with episode(item, benchmark=str(ward.code), ehr=ward.patients, **options) as acting:
        acting.reset()
        for message in messages:
            acting.act(message)
        return acting.verdict()


def leaves(value: Any, steps: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The steps to each leaf of a JSON value."""
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*steps, step))
    else:
        yield steps


def with_other(body: str, steps: tuple[str | int, ...]) -> str:
    """The JSON of an order with another leaf."""
    order = json.loads(body)
    *path, last = steps
    inner = order
    for step in path:
        inner = inner[step]
    inner[last] = inner[last] + 7 if isinstance(inner[last], int | float) else "other"
    return json.dumps(order)


WORDS_ONLY = ("code.coding[0].display", "code.text", "medicationCodeableConcept.coding[0].display")
"""Leaves that do not count."""


@pytest.mark.parametrize("kind", ["sodium_again", "stop_gentamicin", "colonoscopy"])
def test_a_wrong_field_of_each_order_is_wrong_and_named(ward: Ward, solutions: dict[str, list[str]], kind: str) -> None:
    sent = next((item, texts) for item, texts in solutions.items() if item.startswith(kind) and posts(texts))
    item, texts = sent
    assert scored(ward, item, texts).correct
    for place in posts(texts):
        line, _, body = texts[place].partition("\n")
        for steps in leaves(json.loads(body)):
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
            score = scored(ward, item, [*texts[:place], f"{line}\n{with_other(body, steps)}", *texts[place + 1 :]])
            named = any(path.startswith(name.partition(" ")[2]) and " " in name for name in score.failed)
            free = path in WORDS_ONLY or (path == "medicationCodeableConcept.text" and kind == "sodium_again")
            assert (score.correct, named) == ((True, False) if free else (False, True)), (path, score.failed)
            assert free or score.kind == "order-wrong", (path, score.kind)
        missing = scored(ward, item, [*texts[:place], *texts[place + 1 :]])
        assert (missing.correct, missing.kind) == (False, "order-missing")
        twice = scored(ward, item, [*texts[:place], texts[place], *texts[place:]])
        assert (twice.correct, twice.kind) == (False, "order-not-due")


def posts(texts: list[str]) -> list[int]:
    return [place for place, text in enumerate(texts) if text.startswith("POST")]


def test_a_wrong_answer_and_an_order_that_is_not_due_are_wrong(ward: Ward, solutions: dict[str, list[str]]) -> None:
    for item, texts in solutions.items():
        if not item.startswith("sodium_again"):
            continue
        wrong = scored(ward, item, [*texts[:-1], "FINISH([77])"])
        assert (wrong.correct, wrong.failed, wrong.kind) == (False, ["answer"], "wrong-value")
        if not posts(texts):
            order = 'POST http://localhost:8080/fhir/ServiceRequest\n{"resourceType": "ServiceRequest"}'
            extra = scored(ward, item, [*texts[:-1], order, texts[-1]])
            assert (extra.correct, extra.failed, extra.kind) == (False, ["no POST"], "order-not-due")


def test_an_executed_end_of_the_active_order_stops_a_drug(ward: Ward, solutions: dict[str, list[str]]) -> None:
    item, texts = next(
        solution for solution in solutions.items() if solution[0].startswith("stop_gentamicin") and posts(solution[1])
    )
    [place] = posts(texts)
    patient = json.loads(texts[place].partition("\n")[2])["subject"]["reference"].removeprefix("Patient/W")
    drug = next(resource for resource in resources() if resource["id"] == f"m{patient}")
    ended = f"PUT http://localhost:8080/fhir/MedicationRequest/m{patient}\n{json.dumps({**drug, 'status': 'stopped'})}"
    assert scored(ward, item, [*texts[:place], ended, texts[-1]], writes="execute").correct
    assert not scored(ward, item, [*texts[:place], texts[-1]], writes="execute").correct
    idle_item, idle = next(
        solution
        for solution in solutions.items()
        if solution[0].startswith("stop_gentamicin") and len(solution[1]) == 3
    )
    assert scored(ward, idle_item, idle, writes="execute").correct, "gentamicin is active, and nothing is due"
    patient = idle[1].partition("patient=W")[2].partition("&")[0]
    body = json.dumps([{"op": "replace", "path": "/status", "value": "stopped"}])
    stopped = f"PATCH http://localhost:8080/fhir/MedicationRequest/m{patient}\n{body}"
    score = scored(ward, idle_item, [*idle[:-1], stopped, idle[-1]], writes="execute")
    assert (score.correct, score.kind) == (False, "order-not-due")
    assert "status active → stopped, where nothing else was due" in score.reason


def test_a_right_guess_without_reading_is_not_grounded(ward: Ward, solutions: dict[str, list[str]]) -> None:
    for item, texts in solutions.items():
        score = scored(ward, item, [text for text in texts if not text.startswith("GET")])
        assert score.correct, item
        assert (score.grounded, score.reading.partition(":")[0]) in (
            (False, "read nothing"),
            (None, "needs no reading"),
        )
    low = next(item for item, texts in solutions.items() if item.startswith("sodium_again") and posts(texts))
    assert "Observation/o" in scored(ward, low, solutions[low][1:]).reading


def test_runs_can_be_shown_graded_compared_and_reported(ward: Ward) -> None:
    nop, right = ward.run("nop"), ward.run("reference")
    assert nop["group_names"] == {
        "sodium_again": "sodium again",
        "stop_gentamicin": "stop gentamicin",
        "colonoscopy": "colonoscopy within ten years",
    }
    first, second, code = ward.folder_of(nop), ward.folder_of(right), ("--benchmark", str(ward.code))
    solved = agent_messages(second).items()
    low = next(item for item, texts in solved if item.startswith("sodium_again") and posts(texts))
    shown = medagent("show", second, low, *code).out
    assert "because: last sodium 124 mmol/L" in shown or "below 130 → order 500 mL of sodium chloride" in shown
    for words in (("show", first), ("grade", first), ("grade", first, "--full")):
        table = medagent(*words, *code).out
        assert re.search(r"^ *colonoscopy +colonoscopy within ten years  ", table, re.MULTILINE)
        assert re.search(r"^ *sodium_again  ", table, re.MULTILINE), "its words say the same"
    assert (
        "order missing" in medagent("show", first, *code).out or "data never read" in medagent("show", first, *code).out
    )
    graded = medagent("grade", first, *code, "--json")
    assert json.loads(graded.out)["overall"] == nop["overall"], graded.err
    compared = medagent("compare", first, second, *code)
    assert "only B right" in compared.out, compared.err
    page = ward.folder / "page.html"
    assert medagent("report", second, *code, "--output", page).code == 0
    blocks = items(page)[f"{low}.1"][1]
    index = unpacked(page)[0]
    types = next(panel for panel in index["runs"][0]["panels"] if panel.get("title") == "By task type")
    assert {line[0] for line in types["lines"]} == nop["group_names"].keys() == index["groups"].keys()
    drawn = block(blocks, "chart")
    assert (drawn["title"][:15], drawn["unit"], len(drawn["readings"])) == ("sodium (2951-2)", "mmol/L", 2)
    placed = block(blocks, "orders")["orders"]
    assert [(order["title"], order["is_placed"], order["is_due"]) for order in placed] == [
        ("MedicationRequest", True, True),
        ("ServiceRequest", True, True),
    ]
    refused = medagent("show", first)
    assert f"is of the benchmark {ward.code}; to read it with that code: --benchmark" in refused.err


def test_a_corrected_rule_grades_the_same_items_again(ward: Ward) -> None:
    nop = ward.run("nop")
    ward.code.write_text(ward.code.read_text("utf-8").replace("last >= 130", "last >= 120"), "utf-8")
    graded = json.loads(medagent("grade", ward.folder_of(nop), "--benchmark", ward.code, "--json").out)
    assert (nop["overall"]["n"], graded["overall"]["n"]) == (29, 29)
    assert rates(graded)["an order was due"][1] < rates(nop)["an order was due"][1]


def test_a_broken_rule_grades_nothing_and_is_one_line(ward: Ward) -> None:
    nop, source = ward.run("nop"), ward.code.read_text("utf-8")
    ward.code.write_text(source.replace("if last >= 130", "if last >= low"), "utf-8")
    broken = medagent("grade", ward.folder_of(nop), "--benchmark", ward.code)
    assert (broken.code, broken.out) == (1, "")
    assert re.fullmatch(r"medagent: .*ward3.py:\d+: the rule of sodium_again failed: NameError\(.*\n", broken.err)
    ward.code.write_text(f"{source}\n\nFormer = Colonoscopy\n", "utf-8")
    again = medagent("grade", ward.folder_of(nop), "--benchmark", ward.code, "--json")
    assert json.loads(again.out)["overall"] == nop["overall"], again.err


def test_one_type_of_a_file(ward: Ward) -> None:
    report = ward.run("reference", "--per-type", 4, types=f"{ward.code}:Colonoscopy")
    assert rates(report)["overall"] == (4, 4)
    assert report["benchmark"] == "ward3-colonoscopy"


def made(ward: Ward, *words: object) -> Ran:
    return medagent("data", "new", ward.folder / "set", "--from", ward.code, "--ehr", ward.patients, *words)


def test_a_set_has_patients_and_no_code(ward: Ward) -> None:
    ran = made(ward, "--per-type", 12, "--seed", "one")
    assert ran.code == 0, ran.err
    assert "stop_gentamicin: wanted 6 patients with 'not below 0.5'; the data have 4" in ran.out
    assert "sodium_again: 11 tasks from 12 of 12 patients\n" in ran.out
    assert "sodium_again: patients: 5 below 130, 1 no sodium, 6 not below 130\n" in ran.out
    assert "seed" not in ran.out, "the patients are the user's own"
    folder = ward.folder / "set"
    assert {file.name for file in folder.iterdir()} == {"dataset.json", "hospital.ndjson", "reads.jsonl", "tasks.jsonl"}
    assert "ward3" not in "".join(file.read_text("utf-8") for file in folder.iterdir())
    run = medagent(
        *("run", ward.code, "--dataset", folder, "--agent", "reference", "--json", "--quiet", "--results-dir", "made"),
    )
    assert json.loads(run.out)["overall"]["value"] == 1.0, run.err
    verified = medagent("data", "verify", folder, "--seed", "one", "--from", ward.code, "--ehr", ward.patients)
    assert (verified.code, verified.out) == (0, f"{folder}: every byte follows from the seed\n")
    (folder / "tasks.jsonl").write_text("", "utf-8")
    changed = medagent("run", ward.code, "--dataset", folder, "--agent", "nop")
    assert "is not the file that dataset.json next to it lists" in changed.err


def test_one_type_of_a_file_runs_its_tasks_of_a_set(ward: Ward) -> None:
    assert made(ward, "--per-type", 4).code == 0
    run = ("--dataset", ward.folder / "set", "--agent", "reference", "--results-dir", ward.folder, "--quiet")
    ran = medagent("run", f"{ward.code}:Colonoscopy", *run, "--json")
    assert rates(json.loads(ran.out))["overall"] == (4, 4), ran.err
    ward.code.write_text(ward.code.read_text("utf-8").replace('"sodium_again"', '"other"'), "utf-8")
    unknown = medagent("run", f"{ward.code}:Colonoscopy", *run, "--round", "unknown").err
    assert "sodium_again_1: the file does not contain the task type 'sodium_again'; its types: colonoscopy" in unknown


def test_a_set_without_a_task_is_not_made(ward: Ward) -> None:
    for number in (0, -3):
        words = f"medagent: --per-type: {number} is too low; at least 1 task of each type is needed\n"
        assert made(ward, "--per-type", number).err == words
    source = ward.code.read_text("utf-8")
    ward.code.write_text(source.replace("chart):\n", "chart):\n        raise c.DataFault('no data')\n"), "utf-8")
    none = made(ward)
    assert (none.code, none.out) == (1, "")
    assert "sodium_again: all 12 patients are left out: 12 the rule's own reason" in none.err
    assert not any((ward.folder / "set").iterdir())


def test_the_number_of_patients_is_that_of_the_file(ward: Ward, tmp_path: Path) -> None:
    ran = made(ward, "--patients", 5)
    assert (ran.code, ran.err) == (1, "medagent: --patients and --ehr exclude each other: leave one of them out\n")
    lines = ward.patients.read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "one.ndjson").write_text(
        "".join(line for line in lines if re.search(r'"(Patient/)?W1"', line)), "utf-8"
    )
    words = ("--from", ward.code, "--ehr", tmp_path / "one.ndjson", "--per-type", 2)
    ran = medagent("data", "new", tmp_path / "set", *words)
    assert ran.code == 0, ran.err
    assert ": 1 patients, " in ran.out


FAULTS = {
    "return c.nothing([-1])": [
        ("return c.nothing([chart.nope])", "the rule of sodium_again failed: AttributeError"),
        ("return 5", "the rule of sodium_again returned int; return nothing(…), answer(…) or order(…)"),
        ("import time; return c.nothing([time.time()])", "the rule of sodium_again reads the clock (time)"),
        (
            "import random; return c.nothing([random.random()])",
            "the rule of sodium_again reads random numbers (random)",
        ),
        (
            "import uuid; return c.nothing([str(uuid.uuid4())])",
            "the rule of sodium_again reads random numbers (urandom)",
        ),
    ],
    "patient {mrn} within": [
        ("patient {name} within", "the text of sodium_again contains the unknown placeholder {name}; use {mrn}"),
        ("patient {mrn:d} within", "the text of sodium_again contains the unknown placeholder {mrn:d}; use {mrn}"),
        ("patient {mrn!x} within", "the text of sodium_again contains the unknown placeholder {mrn!x}; use {mrn}"),
        ("patient {mrn:{w}} within", "the text of sodium_again contains the unknown placeholder {mrn:{w}}; use {mrn}"),
        ("the patient within", "the text of sodium_again must name the patient: {mrn}"),
        ("patient {mrn within", "the text of sodium_again: "),
    ],
    'name = "colonoscopy"': [('name = "sodium_again"', "SodiumAgain uses the name 'sodium_again' too")],
    'title = "colonoscopy within ten years"': [
        ("name = 5", "Colonoscopy needs a name of letters, digits and _"),
        ("context = [1]", "the context of colonoscopy must be a text in quotes"),
        ("__init__ = lambda self, ward: None", "a task type is created without arguments"),
    ],
    "def rule(self, chart):": [("async def rule(self, chart):", "SodiumAgain needs a function rule(self, chart)")],
    '"""Ward 3\'s protocols."""': [
        ("1 / 0", "ward3.py: cannot be imported: ZeroDivisionError: division by zero (ward3.py:2)"),
        ("x = (", "ward3.py: cannot be imported: SyntaxError: '(' was never closed (ward3.py:2)"),
    ],
}


@pytest.mark.parametrize(("old", "new", "words"), [(old, *fault) for old, faults in FAULTS.items() for fault in faults])
def test_a_fault_in_a_file_is_one_line_with_its_place(ward: Ward, old: str, new: str, words: str) -> None:
    source = ward.code.read_text("utf-8").replace(old, new, 1)
    ward.code.write_text(source, "utf-8")
    for command in (("run", ward.code, "--agent", "nop"), ("data", "new", "made", "--from", ward.code)):
        ran = medagent(*command, "--ehr", ward.patients)
        assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
        assert words in ran.err
        assert "ward3.py:" in ran.err
    place = re.search(r"ward3\.py:(\d+)", ran.err)
    assert place is not None, ran.err
    line = source.splitlines()[int(place[1]) - 1]
    assert new.splitlines()[0] in line or line.lstrip().startswith(("def rule", "text = ", "class ")), line


def test_a_file_without_task_types_is_an_error(ward: Ward) -> None:
    ward.code.write_text("x = 1\n", "utf-8")
    assert "ward3.py: lacks the name of a class after the colon" in medagent("run", f"{ward.code}:").err
    assert "ward3.py: contains no task types; write a subclass of" in medagent("run", ward.code, "--agent", "nop").err
    assert "is not a file of task types" in medagent("data", "new", "made", "--from", "ward").err


def test_a_harbor_task_is_graded_by_the_file_beside_it(ward: Ward) -> None:
    out = ward.folder / "harbor"
    assert made(ward, "--per-type", 2).code == 0
    ran = medagent("export", "harbor", ward.code, out, "--dataset", ward.folder / "set")
    assert ran.code == 0, ran.err
    task = out / "sodium_again_1"
    script = (task / "tests" / "test.sh").read_text("utf-8")
    assert '--benchmark "$(dirname "$0")"/ward3.py ' in script
    ward.code.unlink()
    log = ward.folder / "episode.jsonl"
    log.write_text("", "utf-8")
    graded = medagent("harbor", "verify", task / "tests", log, ward.folder, "--benchmark", task / "tests" / "ward3.py")
    assert "sodium_again_1: wrong: completed: expected an answer" in graded.out, graded.err


def test_over_a_fhir_server_its_patients_must_be_named_again(ward: Ward) -> None:
    with Server.open(None) as server:
        server.load(ward.patients.read_text("utf-8").splitlines())
        with serving(create_app(server)) as url:
            ran = medagent(
                *("run", ward.code, "--agent", "nop", "--fhir", f"{url}/fhir", "--per-type", 2),
                *("--results-dir", ward.folder / "results", "--quiet", "--json"),
            )
            assert json.loads(ran.out)["overall"]["n"] == 6, ran.err
            [folder] = (ward.folder / "results").iterdir()
            graded = medagent("grade", folder, "--benchmark", ward.code)
            assert "the run used a FHIR server; name its patients with --fhir URL or --ehr FILE" in graded.err
            again = medagent("grade", folder, "--benchmark", ward.code, "--ehr", ward.patients, "--json")
            assert json.loads(again.out)["overall"] == json.loads(ran.out)["overall"], again.err


def test_the_command_that_is_printed_for_a_set_runs(ward: Ward, tmp_path: Path) -> None:
    ran = medagent("data", "new", tmp_path / "set", "--from", ward.code, "--per-type", 2, "--patients", 12)
    assert ran.code == 0, ran.err
    printed = ran.out.splitlines()[-1].removeprefix("Run it: medagent ").split()
    assert medagent(*printed, "--quiet", "--results-dir", tmp_path / "results").code == 0


def test_a_name_without_its_ending_and_a_file_without_its_class_are_told(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ward.code.parent)
    name = ward.code.stem
    assert f"For the file {name}.py, write {name}.py." in medagent("run", name, "--agent", "nop").err
    code = "import medagent\n\n\nclass Quiz(medagent.Benchmark):\n    name = 'quiz'\n"
    Path("quiz.py").write_text(code, "utf-8")
    ran = medagent("run", "quiz.py", "--agent", "nop")
    assert ran.err == "medagent: quiz.py: defines a benchmark, not task types; name its class: quiz.py:Quiz\n"
    assert "does not define Quizz; its classes: Quiz\n" in medagent("run", "quiz.py:Quizz", "--agent", "nop").err
