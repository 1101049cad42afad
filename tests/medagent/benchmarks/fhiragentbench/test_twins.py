"""Twins of questions: over one of the two charts, the right answer is that the record does not contain it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from medagent.agents.base import Agent
from medagent.benchmarks.fhiragentbench._outputs import in_words
from medagent.benchmarks.fhiragentbench.benchmark import FhirAgentBench
from medagent.benchmarks.fhiragentbench.generator.twins import LINE
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.fhir_episodes.episode import EpisodeRow
from refsol.fhiragentbench import (
    Output,
    Question,
    compare,
    grade_row,
    of_twin,
    outcome_of,
    questions_text,
    read_questions,
    reliability,
)
from refsol.resources import codes, subject_id
from tests.command import medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.test_twins import BOTH, HEADLINE, rates

Json = dict[str, Any]
PATIENTS, QUESTIONS_ = 20, 8


class Set(NamedTuple):
    """A made set of questions, its twins, and what the command printed."""

    source: Path
    folder: Path
    told: str

    @property
    def questions(self) -> tuple[Question, ...]:
        return read_questions(self.folder / "questions.csv")

    @property
    def patients(self) -> dict[str, Json]:
        lines = map(json.loads, (self.folder / "hospital.ndjson").read_text("utf-8").splitlines())
        return {f"{resource['resourceType']}/{resource['id']}": resource for resource in lines}

    def run(self, agent: object, *more: object) -> Json:
        words = ("--agent", agent, "--quiet", "--json", "--overwrite", "--results-dir", self.folder.parent / "results")
        ran = medagent("run", "fhir-agentbench", "--dataset", self.folder, *words, *more)
        assert ran.code == 0, ran.err
        report: Json = json.loads(ran.out)
        return report

    def folder_of(self, report: Json) -> Path:
        return self.folder.parent / "results" / Path(report["folder"]).name

    def rows(self, report: Json) -> list[Json]:
        lines = (self.folder_of(report) / "episodes.jsonl").read_text("utf-8").splitlines()
        return list(map(json.loads, lines))


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Set:
    folder = tmp_path_factory.mktemp("twins")
    words = ("--like", "fhir-agentbench", "--seed", "ward", "--patients", PATIENTS, "--per-type", QUESTIONS_)
    assert medagent("data", "new", folder / "set", *words).code == 0
    ran = medagent("data", "twins", folder / "set", "--out", folder / "twins")
    assert ran.code == 0, ran.err
    return Set(folder / "set", folder / "twins", ran.out)


def replies(report: Json) -> dict[str, int]:
    (table,) = (section for section in report["table"] if section["title"] == "Replies")
    return {line["name"]: line["n"] for line in table["lines"] if line["n"]}


def test_the_command_counts_pairs_and_says_why_questions_are_left_out(twins: Set) -> None:
    pairs = len(twins.questions) // 2
    assert pairs > 10
    assert f"{twins.folder}: {pairs} pairs, {2 * pairs} items" in twins.told
    assert f"Run it: medagent run fhir-agentbench --dataset {twins.folder} --agent reference" in twins.told
    for reason in (
        "does not have an answer in the record",
        "asks for a count, a sum, or yes or no",
        "rests on the patient, a stay",
    ):
        assert reason in twins.told
    kinds = {kind for question in twins.questions for kind in question.true_ids}
    assert not kinds & {"Patient", "Location", "Encounter"}
    assert not any(question.template.startswith(("Has_verb", "Is ", "How often")) for question in twins.questions)


def test_twins_of_twins_are_refused(twins: Set, tmp_path: Path) -> None:
    ran = medagent("data", "twins", twins.folder, "--out", tmp_path / "again")
    assert (ran.code, "the set contains twins" in ran.err) == (1, True)


def test_all_with_the_code_of_a_listed_resource_is_removed_and_drugs_stay(twins: Set) -> None:
    patients, whole = twins.patients, {question.twin: question for question in twins.questions if question.true_ids}
    texts = {name: json.dumps(resource) for name, resource in patients.items()}
    for question in twins.questions:
        removed = set(question.change)
        assert bool(removed) == (not question.true_ids)
        assert not {reference.partition("/")[0] for reference in removed} & {
            "Medication",
            "Encounter",
            "Patient",
            "Location",
        }
        listed = {f"{kind}/{id_}" for kind, ids in whole[question.twin].true_ids.items() for id_ in ids}
        same = {(reference.partition("/")[0], code) for reference in listed for code in codes(patients[reference])}
        for name, resource in patients.items():
            if removed and subject_id(resource) == question.patient and name not in removed:
                assert name not in listed or name.startswith("Medication/")
                assert not same & {(resource["resourceType"], code) for code in codes(resource)}
                assert not any(gone in texts[name] for gone in removed)
                assert resource["resourceType"] != "MedicationRequest" or "MedicationRequest" not in question.removed


def test_the_reference_agent_gets_all_pairs(twins: Set) -> None:
    pairs = len(twins.questions) // 2
    for rules in ("published", "paper", "a2a"):
        report = twins.run("reference", "--rules", rules)
        assert rates(report)[HEADLINE] == rates(report)[BOTH] == (pairs, pairs)
        assert replies(report) == {"answered rightly": pairs, "refused rightly": pairs}
        assert report["reliability"] == {"RS(0)": 1, "RS(5)": 1, "RS(10)": 1}


def test_who_always_refuses_gets_no_pair(twins: Set) -> None:
    report, pairs = twins.run("nop"), len(twins.questions) // 2
    assert rates(report)[HEADLINE] == rates(report)[BOTH] == (0, pairs)
    assert replies(report) == {"refused rightly": pairs, "refused despite evidence": pairs}
    assert report["reliability"] == {"RS(0)": 0.5, "RS(5)": 0.5, "RS(10)": 0.5}


class NeverRefuses(Agent):
    """Knows all answers and reads nothing. `refuses` says that the record does not contain an answer."""

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        by_id = {question.id: question for question in read_questions(os.environ["TWINS"])}
        twin = by_id[task.id].twin
        truth = next(question for question in by_id.values() if question.twin == twin and question.true_ids).true_answer
        yield f"FINISH({self.answer(by_id[task.id], truth)})"

    def answer(self, question: Question, truth: str) -> str:
        rows = truth.strip("[]").split("]\n [")
        return "[" + ", ".join(rows).replace("'", '"') + "]"


class Knows(NeverRefuses):
    """Knows also what is not in the record."""

    def answer(self, question: Question, truth: str) -> str:
        return super().answer(question, truth) if question.true_ids else '["Not in the record."]'


@pytest.fixture
def run_agent(twins: Set, monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Agent]], Json]:
    monkeypatch.setenv("TWINS", str(twins.folder / "questions.csv"))
    return lambda agent: twins.run(f"{__name__}:{agent.__name__}")


def test_who_never_refuses_gets_no_pair(twins: Set, run_agent: Callable[[type[Agent]], Json]) -> None:
    report, pairs = run_agent(NeverRefuses), len(twins.questions) // 2
    assert rates(report)[BOTH] == rates(report)[HEADLINE] == (0, pairs)
    assert replies(report) == {"answered rightly": pairs, "answered without evidence": pairs}
    assert report["reliability"] == {"RS(0)": 0.5, "RS(5)": -2, "RS(10)": -4.5}
    assert {item["kind"] for item in report["items"]} == {"", "answered-without-evidence"}


def test_who_reads_nothing_gets_nothing_in_the_headline(twins: Set, run_agent: Callable[[type[Agent]], Json]) -> None:
    report, pairs = run_agent(Knows), len(twins.questions) // 2
    assert rates(report)[BOTH] == (pairs, pairs)
    assert rates(report)[HEADLINE] == (0, pairs)


def test_the_line_on_refusing_is_in_both_prompts_of_this_set_only(twins: Set) -> None:
    texts: dict[str, set[str]] = {}
    for question in twins.questions:
        texts.setdefault(question.twin, set()).add(f"{question.question}\n{question.assumption}")
        assert question.assumption.endswith(LINE)
    assert all(len(wordings) == 1 for wordings in texts.values())
    assert LINE not in (twins.source / "questions.csv").read_text("utf-8")
    for protocol in ("text", "tools", "code"):
        for row in twins.rows(twins.run("nop", "--protocol", protocol, "--limit", 2)):
            assert LINE in row["transcript"][0]["content"]


def test_no_answer_is_right_over_both_charts(twins: Set) -> None:
    by_twin: dict[str, list[Question]] = {}
    for question in twins.questions:
        by_twin.setdefault(question.twin, []).append(question)
    for both in by_twin.values():
        truth = next(question.true_answer for question in both if question.true_ids)
        for answer in ("not in the record", "No answer was found.", "0", "no", truth, in_words(truth)):
            assert not all(verdict(question, answer) for question in both), answer


def verdict(question: Question, answer: str) -> bool:
    """Whether an answer is right, or only a judge can tell."""
    settled = of_twin(question, Output(question.id, answer))
    return compare(question, answer) is not False if settled is None else settled == 1


QUESTION = Question("q", "What was the last weight?", "[[70.5]]", {"Observation": ["1"]}, "{vital_name}", twin="t")
EMPTY = replace(QUESTION, true_answer="[]", true_ids={}, removed={"Observation": ["1"]})


@pytest.mark.parametrize(
    ("question", "answer", "normal", "outcome"),
    [
        (QUESTION, "70.5", None, "answered rightly"),
        (QUESTION, "12", None, "answered wrongly"),
        (QUESTION, "Not in the record.", None, "refused despite evidence"),
        (QUESTION, "I have looked everywhere in vain", "no answer", "refused despite evidence"),
        (QUESTION, None, None, "no answer"),
        (EMPTY, "not in the record", None, "refused rightly"),
        (EMPTY, "The final answer is: not in the record", None, "refused rightly"),
        (EMPTY, "I have looked everywhere in vain", "no answer", "refused rightly"),
        (EMPTY, "0", None, "answered without evidence"),
        (EMPTY, "It is not in the record, but probably 70.", None, "answered without evidence"),
        (EMPTY, None, None, "no answer"),
    ],
)
def test_what_becomes_of_a_reply(question: Question, answer: str | None, normal: str | None, outcome: str) -> None:
    output = Output("q", answer, {"Observation": ["1"]})
    correct = of_twin(question, output, normal)
    if correct is None:
        correct = 1 if compare(question, answer) else 0
    row = grade_row(question, output, correct, normalized=normal)
    assert outcome_of(row.failure or "", answerable=bool(question.true_ids)) == outcome


def test_the_reliability_scores_are_those_of_the_paper() -> None:
    outcomes: Counter[Any] = Counter({"answered rightly": 2, "refused rightly": 1, "refused despite evidence": 1})
    outcomes["answered without evidence"] = 1
    outcomes["no answer"] = 1
    assert [reliability(outcomes, penalty) * 6 for penalty in (0, 5, 10)] == pytest.approx([3, -2, -7])


def test_a_judge_reads_refusals_in_other_words(twins: Set, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    whole = next(question for question in twins.questions if question.true_ids)
    acts = {f"{question.id}#1": ['FINISH(["I have looked everywhere in vain"])'] for question in twins.questions}
    (tmp_path / "acts.json").write_text(json.dumps(acts), "utf-8")

    def judge(body: Json) -> str:
        assert "question answered" in body["messages"][-1]["content"]
        return "no answer"

    with ModelServer(reply=judge) as server:
        model = ("--model", f"scripted:{tmp_path / 'acts.json'}", "--judge", "j", "--judge-base-url", server.url)
        words = ("--dataset", twins.folder, "--ids", whole.id, "--results-dir", tmp_path, "--quiet", "--json")
        ran = medagent("run", "fhir-agentbench", *words, *model)
    assert ran.code == 0, ran.err
    assert replies(json.loads(ran.out)) == {"refused rightly": 1, "refused despite evidence": 1}
    assert len(server.calls) == 1, "both have the same first call"


def test_questions_of_a_file_have_twins_over_other_patients(twins: Set, tmp_path: Path) -> None:
    chosen = [question for question in read_questions(twins.source / "questions.csv") if question.true_ids][:30]
    file = tmp_path / "own.csv"
    file.write_text(questions_text(chosen), "utf-8")
    ran = medagent("data", "twins", file, "--ehr", twins.source / "hospital.ndjson", "--out", tmp_path / "twins")
    assert ran.code == 0, ran.err
    made = Set(file, tmp_path / "twins", ran.out)
    pairs = len(made.questions) // 2
    assert rates(made.run("reference"))[HEADLINE] == (pairs, pairs)


def test_an_output_file_is_graded_by_each_chart(twins: Set, tmp_path: Path) -> None:
    folder = twins.folder_of(twins.run("reference"))
    assert medagent("export", "official", folder, tmp_path / "official").code == 0
    words = ("--benchmark", "fhir-agentbench", "--dataset", twins.folder, "--json")
    ran = medagent("grade", tmp_path / "official" / "outputs.json", *words)
    assert ran.code == 0, ran.err
    pairs = len(twins.questions) // 2
    assert json.loads(ran.out)["twins"]["right_on_both"]["right"] == pairs
    assert replies(json.loads(ran.out)) == {"answered rightly": pairs, "refused rightly": pairs}


def test_a_packed_question_is_graded_as_one_of_two(twins: Set, tmp_path: Path) -> None:
    benchmark, source = FhirAgentBench(), FhirAgentBenchSettings(dataset=str(twins.folder))
    for item in list(benchmark.items(source))[:4]:
        for name, content in benchmark.pack(source, item).items():
            (tmp_path / name).write_bytes(content)
        alone, grader = benchmark.unpack(tmp_path)
        row = EpisodeRow(unit=f"{item.id}#1", status="completed", task_id=item.id, answer='["Not in the record."]')
        assert (alone.id, alone.change) == (item.id, item.change)
        assert grader.score(alone, row).correct == bool(item.change)


@pytest.mark.long
def test_the_bundled_questions_have_90_pairs(tmp_path: Path) -> None:
    ran = medagent("data", "twins", "fhir-agentbench", "--out", tmp_path / "twins")
    assert ran.code == 0, ran.err
    assert f"{tmp_path / 'twins'}: 90 pairs, 180 items" in ran.out
    assert not (tmp_path / "twins" / "hospital.ndjson").exists()
    words = ("--dataset", tmp_path / "twins", "--agent", "nop", "--limit", 2, "--results-dir", tmp_path, "--quiet")
    ran = medagent("run", "fhir-agentbench", *words)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"twin": "alone"}, "twin alone occurs in 1 of the questions; two questions share the name of a twin"),
        ({"removed": {"Observation": ["none"]}}, "Observation/none: is not in the data, so it cannot be changed"),
    ],
)
def test_a_file_that_does_not_fit_has_one_line(twins: Set, tmp_path: Path, change: Json, problem: str) -> None:
    place = next(place for place, question in enumerate(twins.questions) if question.removed)
    questions = list(twins.questions)
    questions[place] = replace(questions[place], **change)
    file = tmp_path / "broken.csv"
    file.write_text(questions_text(questions), "utf-8")
    words = ("--ehr", twins.folder / "hospital.ndjson", "--agent", "nop", "--results-dir", tmp_path)
    ran = medagent("run", "fhir-agentbench", "--dataset", file, *words)
    assert ran.code != 0
    assert problem in ran.err
    assert "Traceback" not in ran.err
