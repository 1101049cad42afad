"""Our own questions: a set from a seed and the bundled one, the truth beside a plain reading, the reference agent."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.fhiragentbench.benchmark import FhirAgentBench
from medagent.benchmarks.fhiragentbench.generator.wording import read, templates
from medagent.benchmarks.fhiragentbench.sets import bundled_folder, questions_of
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.benchmarks.generated_sets import SetRequest
from medagent.engine.data_sets import SetOptions
from medagent.fhir_episodes.episode import EpisodeRow
from refsol.fhiragentbench import FAMILIES, Question, compare, family_of, read_questions
from tests.command import Ran, medagent
from tests.medagent.sandbox.trying import working
from tests.shared_data import SHARED, need

SEED = "ward"
Json = dict[str, Any]
bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with a question of each template."""
    folder = tmp_path_factory.mktemp("own") / "set"
    words = ("--like", "fhir-agentbench", "--seed", SEED, "--patients", 20, "--per-type", 8)
    ran = medagent("data", "new", folder, *words)
    assert ran.code == 0, ran.err
    assert f"Run it: medagent run fhir-agentbench --dataset {folder} --agent reference" in ran.out
    return folder


@pytest.fixture(scope="module")
def results(made: Path) -> Path:
    """The results of the reference agent over it, by text."""
    assert run(made, "reference").code == 0
    return made.parent / "fhir-agentbench_r1_reference"


def run(folder: Path, agent: str, *words: object) -> Ran:
    data = ("--dataset", folder, "--results-dir", folder.parent, "--quiet", "--json")
    return medagent("run", "fhir-agentbench", "--agent", agent, *data, *words)


def overall(report: Json) -> Json:
    lines = (line for section in report["table"] for line in section["lines"])
    found: Json = next(line for line in lines if line["name"] == "all")
    return found


def assert_all_right(report: Json) -> None:
    line = overall(report)
    assert line["counts"]["right"] == line["counts"]["questions"] == line["n"]
    answerable = next(row for row in report["table"][0]["lines"] if row["name"] == "with true ids")
    assert line["more"]["grounded"] == answerable["n"]


def test_a_seed_makes_the_same_bytes_and_a_changed_file_is_named(made: Path, tmp_path: Path) -> None:
    verified = medagent("data", "verify", made, "--seed", SEED)
    assert (verified.code, verified.out) == (0, f"{made}: every byte follows from the seed\n")
    reseeded = medagent("data", "verify", made, "--seed", "other")
    assert (reseeded.code, "its SHA-256 is not the one" in reseeded.out) == (1, True)
    copy = shutil.copytree(made, tmp_path / "copy")
    with (copy / "questions.csv").open("a", encoding="utf-8") as file:
        file.write("\n")
    refused = run(copy, "nop")
    assert (refused.code, "is not the file that dataset.json next to it lists" in refused.err) == (1, True)
    assert "questions.csv: its bytes differ" in medagent("data", "verify", copy, "--seed", SEED).out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--split", "train"], "--split is not available with --like fhir-agentbench"),
        (["--seed", " "], "--seed is empty"),
        (["--per-type", 0], "--per-type: 0 is too low; at least 1"),
        (["--patients", 1], "--patients: 1 is too low; at least 2"),
        (["--seed", "x", "--patients", 2], "raise --patients"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(words: list[Any], problem: str, tmp_path: Path) -> None:
    ran = medagent("data", "new", tmp_path / "set", "--like", "fhir-agentbench", *words)
    assert (ran.code, problem in ran.err) == (1, True), ran.err
    assert not list(tmp_path.glob("set/*"))


def test_the_reference_agent_is_right_and_grounded(made: Path, results: Path) -> None:
    report = json.loads((results / "report.json").read_text())
    assert_all_right(report)
    assert overall(report)["counts"]["questions"] == 80
    assert report["data"]["note"].startswith("not the published questions")
    tools = run(made, "reference", "--protocol", "tools", "--round", "tools")
    assert_all_right(json.loads(tools.out))


@bwrap
def test_the_reference_agent_is_right_by_programs(made: Path) -> None:
    words = ("--protocol", "code", "--sandbox", "bwrap", "--round", "code", "--limit", 24)
    assert_all_right(json.loads(run(made, "reference", *words).out))


def test_baselines_and_a_whole_chart(made: Path) -> None:
    questions = read_questions(made / "questions.csv")
    empty = sum(not question.true_ids for question in questions)
    assert overall(json.loads(run(made, "nop").out))["counts"]["right"] == empty > 10
    ran = json.loads(run(made, "fetch-all", "--limit", 24).out)
    assert overall(ran)["more"]["recall"] == 1.0


def test_a_packed_question_is_graded_alone(made: Path, results: Path, tmp_path: Path) -> None:
    benchmark, source = FhirAgentBench(), FhirAgentBenchSettings(dataset=str(made))
    rows = map(EpisodeRow.model_validate_json, (results / "episodes.jsonl").read_text().splitlines())
    row = next(row for row in rows if row.answer not in ("[]", None))
    item = next(question for question in benchmark.items(source) if question.id == row.task_id)
    for name, content in benchmark.pack(source, item).items():
        (tmp_path / name).write_bytes(content)
    alone, grader = benchmark.unpack(tmp_path)
    assert (alone.id, grader.score(alone, row).correct) == (item.id, True)
    assert grader.score(alone, row.model_copy(update={"answer": '["12345"]'})).correct is not True


def test_an_output_file_about_own_questions_needs_no_data_set(tmp_path: Path) -> None:
    output = [{"question_id": "demographics-1", "agent_answer": "?", "agent_fhir_resources": {}, "error": None}]
    (tmp_path / "outputs.json").write_text(json.dumps(output))
    ran = medagent("grade", "--benchmark", "fhir-agentbench", tmp_path / "outputs.json", "--json")
    assert json.loads(ran.out)["data"]["version"] == "synthetic", ran.err


def test_the_bundled_set_has_300_questions_of_76_templates() -> None:
    questions = questions_of("synthetic")
    assert len(questions) == 300
    assert {question.template for question in questions} == {template.template for template in templates()}
    assert {question.family for question in questions} == set(FAMILIES)
    assert (bundled_folder() / "questions.csv").stat().st_size < 150_000
    assert sum(bool(question.true_ids) for question in questions) > 200
    assert all(read(question.question) for question in questions)
    assert not any(compare(question, "No answer was found.") for question in questions if question.true_ids)


def test_templates_stand_for_published_ones_in_other_words() -> None:
    published = read_questions(need(SHARED / "fhiragentbench" / "questions.csv"))
    names = {hashlib.sha256(question.template.encode()).hexdigest()[:8]: question.template for question in published}
    assert {template.published for template in templates()} == set(names)
    assert all(family_of(template.template) == family_of(names[template.published]) for template in templates())
    theirs = {question.question for question in published} | set(names.values())
    assert theirs.isdisjoint(question.question for question in questions_of("synthetic"))
    assert theirs.isdisjoint(template.template for template in templates())


def test_truth_agrees_with_a_plain_reading_of_the_chart(made: Path) -> None:
    """Some templates once more, straight from the patients' lines."""
    resources = [json.loads(line) for line in (made / "hospital.ndjson").read_text(encoding="utf-8").splitlines()]
    questions = read_questions(made / "questions.csv")
    checked = Counter[str]()
    for question in questions:
        expected = PLAIN.get(question.template)
        if expected is not None:
            chart = [resource for resource in resources if belongs(resource, question.patient)]
            assert compare(question, expected(question, chart)), question
            checked[question.template] += 1
    assert set(checked) == set(PLAIN)


def belongs(resource: Json, patient: str) -> bool:
    reference = resource.get("subject", {}).get("reference", f"{resource['resourceType']}/{resource['id']}")
    return bool(reference == f"Patient/{patient}")


def stays(chart: Iterable[Json], kind: str) -> list[Json]:
    found = [
        resource for resource in chart if resource["resourceType"] == "Encounter" and resource["class"]["code"] == kind
    ]
    return sorted(found, key=lambda stay: str(stay["period"]["start"]))


def place(question: Question, entries: list[Any]) -> Any:
    lookup = read(question.question)
    assert lookup is not None
    words = ["first", "second", "second-to-last", "last"]
    index = [0, 1, -2, -1][words.index(lookup["exact"])]
    return entries[index] if -len(entries) <= index < len(entries) else None


def gender(_: Question, chart: list[Json]) -> str:
    return str(next(resource["gender"] for resource in chart if resource["resourceType"] == "Patient"))


def admission(question: Question, chart: list[Json]) -> str:
    stay = place(question, stays(chart, "IMP"))
    return str(stay["period"]["start"][:19].replace("T", " ")) if stay else "No answer was found."


def admissions(question: Question, chart: list[Json]) -> str:
    lookup = read(question.question)
    assert lookup is not None
    begun = [stay["period"]["start"] for stay in stays(chart, "IMP")]
    form, *when = lookup["window"]
    if form == "year":
        begun = [start for start in begun if start.startswith(when[0])]
    elif form == "since":
        begun = [start for start in begun if start >= when[0]]
    return str(len(begun))


def icu_days(question: Question, chart: list[Json]) -> str:
    stay = place(question, stays(chart, "ACUTE"))
    if stay is None:
        return "No answer was found."
    start, end = (datetime.fromisoformat(stay["period"][name]) for name in ("start", "end"))
    return str((end - start).total_seconds() / 86400)


PLAIN: dict[str, Callable[[Question, list[Json]], str]] = {
    "What is the gender of {patient_id}?": gender,
    "When was the [exact] hospital admission of {patient_id}?": admission,
    "How many hospital stays did {patient_id} have [window]?": admissions,
    "How long was the [exact] ICU stay of {patient_id}?": icu_days,
}


def test_the_reference_agents_programs_read_all_pages(tmp_path: Path) -> None:
    working("bwrap")
    words = ("--protocol", "code", "--limit", 12, "--results-dir", tmp_path, "--quiet", "--json")
    report = json.loads(medagent("run", "fhir-agentbench", "--agent", "reference", *words).out)
    assert_all_right(report)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["text", "tools", "code"])
def test_the_reference_agent_is_right_on_the_bundled_set(protocol: str, tmp_path: Path) -> None:
    words = ("--protocol", protocol, "--results-dir", tmp_path, "--quiet", "--json")
    report = json.loads(medagent("run", "fhir-agentbench", "--agent", "reference", *words).out)
    assert_all_right(report)
    assert overall(report)["counts"]["questions"] == 300


@pytest.mark.long
def test_the_bundled_set_is_what_its_seed_gives(tmp_path: Path) -> None:
    from tools.bundled_tasks import sets

    generator, seed = sets()[bundled_folder()]
    generator.write(tmp_path, SetRequest(SetOptions(seed=seed), seed, bundled="synthetic"))
    for file in ("questions.csv", "dataset.json"):
        assert (tmp_path / file).read_bytes() == (bundled_folder() / file).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_sets_of_other_seeds_are_answered_right(seed: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    assert medagent("data", "new", folder, "--like", "fhir-agentbench", "--seed", seed).code == 0
    assert_all_right(json.loads(run(folder, "reference").out))
