"""Benchmarks as people write them in a file: over an external FHIR server, with judges, with errors in their code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Server
from fhir_server.app import create_app
from tests.command import Ran, medagent
from tests.loopback import ModelServer
from tests.medagent.judging.test_judging import World, calls
from tests.serving import serving

ORDERS = """
import json
import medagent

URL = "http://localhost:8080/fhir/"


class Orders(medagent.FhirBenchmark[medagent.FhirSettings]):
    name = "orders"
    Settings = medagent.FhirSettings

    def items(self, source):
        return [medagent.FhirItem(id="a", question="Order it."), medagent.FhirItem(id="b", question="Order nothing.")]

    def grader(self, source, rules):
        return OrdersGrader()


class OrdersGrader(medagent.Grader):
    def score(self, item, row, judged=None):
        codes = [one.resource["code"]["text"] for one in row.created if one.resource is not None]
        return medagent.Score(correct=codes == ["K"] if item.id == "a" else not codes)


class Agent(medagent.Agent):
    def play(self, task, prompt):
        if task.id == "a":
            yield f"POST {URL}ServiceRequest\\n" + json.dumps(ORDER)
            yield f"POST {URL}ServiceRequest\\n[1]"
        yield "FINISH([])"


ORDER = {"resourceType": "ServiceRequest", "id": "mine", "code": {"text": "K"}}
"""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text("utf-8").splitlines()]


def test_an_order_that_an_external_server_does_not_get_is_graded_by_its_json(tmp_path: Path) -> None:
    code = tmp_path / "orders.py"
    code.write_text(ORDERS, "utf-8")
    with Server.open(None) as server, serving(create_app(server)) as url:
        ran = medagent(
            *("run", f"{code}:Orders", "--agent", f"{code}:Agent", "--fhir", f"{url}/fhir"),
            *("--results-dir", tmp_path / "results", "--quiet", "--json"),
        )
    assert ran.code == 0, ran.err
    [folder] = (tmp_path / "results").iterdir()
    report = json.loads((folder / "report.json").read_text())
    assert (report["overall"]["value"], report["overall"]["n"]) == (1.0, 2)
    row = next(row for row in rows_of(folder) if row["task_id"] == "a")
    order = {"resourceType": "ServiceRequest", "id": "mine", "code": {"text": "K"}}
    url = "http://localhost:8080/fhir/ServiceRequest"
    assert row["created"] == [
        {"url": url, "resource": order, "stored": False},
        {"url": url, "refused": "not sent: the body is not a JSON object"},
    ]
    assert "created with id: 1." in row["transcript"][2]["content"], "no server gave the order an id"
    shown = medagent("show", folder, "a", "--benchmark", f"{code}:Orders").out
    assert f"POST {url}: not stored: acknowledged, not sent" in shown


DEFAULTS = """
from pathlib import Path
from typing import Annotated

from medagent.core.options import Option
from tests.medagent.judging.capitals import Capitals, CapitalsSettings


class Settings(CapitalsSettings):
    notes: Annotated[Path, Option("Data", "place", kind="path")] = Path(DEFAULT)
    '''Notes for the grader.'''


class Noted(Capitals):
    name = "noted"
    Settings = Settings
"""


def noted(folder: Path, server: ModelServer, *words: object) -> Ran:
    """Run a judged benchmark whose path option has a default outside the run's folder."""
    code = folder / "noted.py"
    code.write_text(DEFAULTS.replace("DEFAULT", repr(str(folder / "notes.txt"))), "utf-8")
    return medagent(
        *("run", f"{code}:Noted", "--model", "m", "--judge", "good", "--base-url", server.url),
        *("--results-dir", folder / "results", "-q", *words),
    )


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def test_the_default_of_a_path_option_is_named_by_the_benchmark_s_code(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    with ModelServer(reply=World()) as server:
        ran = noted(tmp_path, server)
    assert ran.code == 0, ran.err
    [folder] = (tmp_path / "results").iterdir()
    assert "noted" in medagent("show", folder, "--benchmark", f"{tmp_path}/noted.py:Noted").out


def test_a_path_that_judges_may_not_read_is_refused_before_the_first_call(tmp_path: Path) -> None:
    with ModelServer(reply=World()) as server:
        ran = noted(tmp_path, server, "--notes", tmp_path / "absent" / "notes.txt")
        assert (ran.code, calls(server)) == (1, {})
    assert "a path outside its folder that you have not named" in ran.err


SUMS = """
from dataclasses import dataclass
import json
import medagent


class Sum(medagent.Item):
    first: int
    second: int


class Sums(medagent.Benchmark):
    name = "sums"
    Settings = medagent.RunSettings
    row = medagent.ReplyRow

    def items(self, source):
        return [Sum(id="1+1", question="1+1", first=1, second=1)]

    def grader(self, source, rules):
        return SumsGrader()

    async def plan(self, settings, say):
        return medagent.single_turn(self, settings)


class SumsGrader(medagent.Grader):
    def score(self, item, row, judged=None):
        return medagent.Score(correct=json.loads(row.reply) == item.first + item.second)
"""


def sums(folder: Path, text: str) -> Ran:
    (folder / "sums.py").write_text(text, "utf-8")
    (folder / "replies.json").write_text(json.dumps({"*": ["two"]}), "utf-8")
    words = ("--model", f"scripted:{folder}/replies.json", "--results-dir", folder / "results", "--quiet")
    return medagent("run", f"{folder}/sums.py:Sums", *words)


def test_an_error_in_a_benchmark_s_code_is_one_line_with_its_place(tmp_path: Path) -> None:
    ran = sums(tmp_path, SUMS)
    problem = "TypeError: Item.__init__() got an unexpected keyword argument 'first'"
    assert (ran.code, ran.err) == (1, f"medagent: {tmp_path}/sums.py:Sums: {problem} ({tmp_path}/sums.py:18)\n")


def test_a_grader_s_error_names_the_line_of_the_grader(tmp_path: Path) -> None:
    assert sums(tmp_path, SUMS.replace("class Sum(", "@dataclass(frozen=True, kw_only=True)\nclass Sum(")).code == 2
    [folder] = (tmp_path / "results").iterdir()
    shown = medagent("show", folder, "1+1", "--benchmark", f"{tmp_path}/sums.py:Sums")
    assert "the grader raised JSONDecodeError: Expecting value: line 1 column 1 (char 0) (sums.py:30)" in shown.out


def test_show_prints_the_reported_verdict_of_a_run_whose_data_is_gone(tmp_path: Path) -> None:
    code = SUMS.replace("class Sum(", "@dataclass(frozen=True, kw_only=True)\nclass Sum(")
    code = code.replace("json.loads(row.reply)", "len(row.reply) - 1")
    assert sums(tmp_path, code).code == 0
    [folder] = (tmp_path / "results").iterdir()
    (tmp_path / "sums.py").write_text(
        code.replace("def items(self, source):", "def items(self, source):\n        raise medagent.UserError('gone')")
    )
    shown = medagent("show", folder, "1+1", "--benchmark", f"{tmp_path}/sums.py:Sums")
    assert (shown.code, "verdict: right" in shown.out) == (0, True), shown


QUIZ = """
import json
from pathlib import Path

import medagent


class Quiz(medagent.Benchmark):
    name = "quiz"
    Settings = medagent.RunSettings
    row = medagent.ReplyRow

    def items(self, source):
        LINES

    def grader(self, source, rules):
        return QuizGrader()

    async def plan(self, settings, say):
        return medagent.single_turn(self, settings)


class QuizGrader(medagent.Grader):
    def score(self, item, row, judged=None):
        return medagent.Score(correct=row.reply == item.target)
"""


@pytest.mark.parametrize(
    ("read", "bad", "problem"),
    [
        (
            'return [medagent.Item(**json.loads(one)) for one in Path("quiz.jsonl").read_text().splitlines()]',
            '{"id": ',
            "JSONDecodeError: Expecting value: line 1 column 8 (char 7) (quiz.py:14, quiz.jsonl)",
        ),
        (
            'with open("quiz.jsonl") as file:\n            return [medagent.Item(**json.loads(line)) for line in file]',
            '{"id": "b", "answer": "x"}',
            "TypeError: Item.__init__() got an unexpected keyword argument 'answer' (quiz.py:15, quiz.jsonl)",
        ),
        (
            'rows = map(json.loads, Path("quiz.jsonl").read_bytes().splitlines())\n        '
            'return [medagent.Item(id=row["id"], target=row["target"], question="?") for row in rows]',
            '{"id": "b"}',
            "KeyError: 'target' (quiz.py:15, quiz.jsonl)",
        ),
    ],
)
def test_an_error_while_items_are_read_names_the_code_and_the_data(
    read: str, bad: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quiz.py").write_text(QUIZ.replace("LINES", read), "utf-8")
    Path("quiz.jsonl").write_text('{"id": "a", "question": "?", "target": "x"}\n', "utf-8")
    Path("replies.json").write_text('{"*": ["x"]}', "utf-8")
    run = ("run", "quiz.py:Quiz", "--model", "scripted:replies.json", "--quiet")
    assert medagent(*run).code == 0
    (folder,) = Path("results").iterdir()
    with Path("quiz.jsonl").open("a") as file:
        file.write(f"{bad}\n")
    code = ("--benchmark", "quiz.py:Quiz")
    for words in (run, ("grade", folder, *code), ("leaderboard", folder, *code), ("report", folder, *code)):
        ran = medagent(*words)
        assert (ran.code, ran.err) == (1, f"medagent: quiz.py:Quiz: {problem}\n"), words
    shown = medagent("show", folder, *code)
    assert (shown.code, shown.err.count("\n"), problem in shown.err) == (0, 1, True)
