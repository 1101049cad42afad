"""Items that bring their charts, and the tool for value sets, in a benchmark as somebody writes it in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import medagent
from fhir_server import Server
from fhir_server.app import create_app
from medagent.fhir import EpisodeContext
from tests.command import medagent as command
from tests.harbor_task import played, reward
from tests.serving import serving

CASES = """
import json
from pathlib import Path

import medagent

VALUES = Path(__file__).with_name("values.ndjson")


def chart(form, weight):
    patient = {"resourceType": "Patient", "id": "case", "name": [{"family": "Nagy"}]}
    observation = {
        "resourceType": "Observation",
        "id": "Observation-1",
        "status": "final",
        "code": {"text": "weight"},
        "subject": {"reference": "Patient/case"},
        "valueQuantity": {"value": weight},
    }
    if form == "NDJSON":
        return f"{json.dumps(patient)}\\n{json.dumps(observation)}\\n"
    entries = [{"resource": patient}, {"resource": observation}]
    return json.dumps({"resourceType": "Bundle", "type": "collection", "entry": entries}, indent=1)


class Cases(medagent.FhirBenchmark):
    name = "cases"
    Settings = medagent.FhirSettings
    brings_charts = True
    terminology = True
    ehr_file = VALUES

    def items(self, source):
        weights = {"a": ("NDJSON", 61), "b": ("Bundle", 72)}
        return [
            medagent.FhirItem(id=name, question="How heavy is the patient?", target=str(kg), chart=chart(form, kg))
            for name, (form, kg) in weights.items()
        ]

    def grader(self, source, rules):
        return CasesGrader()


class CasesGrader(medagent.Grader):
    def score(self, item, row, judged=None):
        return medagent.set_score(row.answer, [item.target])


class NoValues(Cases):
    ehr_file = None
    terminology = False


class Broken(Cases):
    def items(self, source):
        first, *_ = super().items(source)
        return [medagent.FhirItem(id="c", question="?", chart=first.chart.replace("Observation", "Weight"))]


class Reader(medagent.Agent):
    def play(self, task, prompt):
        reply = yield f"GET {self.context.base}Observation?patient=case"
        bundle = json.JSONDecoder().raw_decode(reply, reply.index("{"))[0]
        yield f"FINISH({[entry['resource']['valueQuantity']['value'] for entry in bundle['entry']]})"
"""
SYSTEM, URL = "http://example.org/units", "http://example.org/ValueSet/weights"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    contains = [{"system": SYSTEM, "code": name, "display": f"weight in {name}"} for name in ("g", "kg", "lb")]
    values = {
        "resourceType": "ValueSet",
        "id": "weights",
        "url": URL,
        "status": "active",
        "expansion": {"timestamp": "2026-01-01", "contains": contains},
    }
    Path("values.ndjson").write_text(json.dumps(values), "utf-8")
    file = tmp_path / "cases.py"
    file.write_text(CASES, "utf-8")
    return file


def opened(code: Path, item: str, **options: Any) -> EpisodeContext:
    return medagent.episode(item, benchmark=f"{code}:Cases", **options)


@pytest.mark.parametrize("name", ["Cases", "NoValues"])
def test_each_episode_reads_the_chart_of_its_item(name: str, code: Path) -> None:
    report = medagent.run_sync(f"{code}:{name}", agent=f"{code}:Reader", trials=2)
    assert [item.reason for item in report.items] == [""] * 4
    assert report.overall is not None
    assert report.overall.value == 1.0


def test_a_chart_can_be_changed_and_is_new_in_the_next_episode(code: Path) -> None:
    with opened(code, "b", protocol="tools", writes="execute") as episode:
        episode.reset()
        episode.call("fhir_delete", {"type": "Observation", "id": "Observation-1"})
        assert '"total": 0' in episode.call("get_patient", {"family": "Kiss"})
        changes = episode.outcome.changes
        assert isinstance(changes, list)
        assert [change.name for change in changes] == ["Observation Observation-1"]
        episode.reset()
        assert episode.outcome.changes == []
        assert '"total": 1' in episode.call("get_patient", {"family": "Nagy"})


def test_agents_over_http_get_the_chart(code: Path) -> None:
    import httpx

    with (
        medagent.serve_episodes(benchmark=f"{code}:Cases") as episodes,
        episodes.open("b") as episode,
        httpx.Client(headers=episode.headers) as client,
    ):
        reply = client.get(f"{episode.base}/Observation/Observation-1").json()
    assert reply["valueQuantity"]["value"] == 72


def test_harbor_tasks_bring_their_charts_without_other_patients(code: Path, tmp_path: Path) -> None:
    done = command("export", "harbor", f"{code}:NoValues", "tasks")
    assert done.code == 0, done.err
    for item, weight in (("a", 61), ("b", 72)):
        task = Path("tasks", item).resolve()
        built = command("harbor", "build", task / "environment" / "patients.ndjson.gz")
        assert built.code == 0, built.err
        for answer in (61, 72):
            log = tmp_path / f"{item}-{answer}.jsonl"
            (reply,) = played(task, f"[{answer}]", log, "Observation/Observation-1")
            assert json.loads(reply)["valueQuantity"]["value"] == weight
            assert reward(task, log, tmp_path / f"{item}-{answer}") == (answer == weight)


def test_a_chart_that_cannot_be_loaded_is_reported_before_the_run(code: Path) -> None:
    done = command("run", f"{code}:Broken", "--agent", f"{code}:Reader")
    assert done.code == 1
    assert "c: line 2 of the chart" in done.err
    assert not Path("results").exists()


def test_an_external_server_cannot_have_the_charts(code: Path) -> None:
    with Server.open(None) as server, serving(create_app(server)) as address:
        done = command("run", f"{code}:Cases", "--agent", f"{code}:Reader", "--fhir", f"{address}/fhir")
    assert done.code == 1
    assert "items with charts of their own" in done.err


@pytest.mark.parametrize(
    ("arguments", "reply"),
    [
        ({"operation": "expand", "url": URL, "count": 2}, '"code": "kg"'),
        ({"operation": "expand", "url": URL, "filter": "lb"}, '"code": "lb"'),
        ({"operation": "validate-code", "url": URL, "system": SYSTEM, "code": "kg"}, '"valueBoolean": true'),
        ({"operation": "validate-code", "url": URL, "system": SYSTEM, "code": "st"}, '"valueBoolean": false'),
        ({"operation": "lookup", "system": SYSTEM, "code": "st"}, "HTTP status 404"),
        ({"operation": "size"}, "fhir_expand takes `operation`, one of expand, validate-code, lookup"),
        ({}, "fhir_expand takes `operation`"),
    ],
)
def test_value_sets_are_a_tool(arguments: dict[str, Any], reply: str, code: Path) -> None:
    with opened(code, "a", protocol="tools") as episode:
        assert [tool.name for tool in episode.tools][-2:] == ["fhir_expand", "finish"]
        episode.reset()
        assert reply in episode.call("fhir_expand", arguments)


def test_value_sets_are_functions_of_the_text_protocol(code: Path) -> None:
    with opened(code, "a") as episode:
        assert "GET {api_base}/ValueSet/$expand" in episode.reset()
        assert '"total": 3' in episode.act(f"GET http://localhost:8080/fhir/ValueSet/$expand?url={URL}")


def test_other_benchmarks_have_no_tool_for_value_sets() -> None:
    with medagent.episode("task1_1", protocol="tools") as episode:
        assert "fhir_expand" not in {tool.name for tool in episode.tools}
        assert "$expand" not in episode.reset()


EXPECTED = ["initial-population", "denominator"]


@pytest.mark.parametrize(
    ("answer", "correct", "precision", "recall", "reason"),
    [
        ('["denominator", "initial-population"]', True, 1.0, 1.0, ""),
        ('["denominator"]', False, 1.0, 0.5, "missing: initial-population"),
        ('["denominator", "numerator", "x", "y"]', False, 0.25, 0.5, None),
        ("[]", False, 0.0, 0.0, "missing: denominator, initial-population"),
        (None, False, None, None, "no answer"),
        ('{"denominator": 1}', False, None, None, "the answer is not a JSON list"),
        ("[denominator", False, None, None, "the answer is not a JSON list"),
    ],
)
def test_the_score_of_a_set(
    answer: str | None, correct: bool, precision: float | None, recall: float | None, reason: str | None
) -> None:
    score = medagent.set_score(answer, EXPECTED)
    assert score.correct is correct
    assert (score.details.get("precision"), score.details.get("recall")) == (precision, recall)
    assert reason is None or score.reason == reason


def test_an_empty_set_and_numbers() -> None:
    assert medagent.set_score("[]", []).details == {"precision": 1.0, "recall": 1.0}
    assert medagent.set_score("[7]", ["7"]).correct is True
    score = medagent.set_score('["b", "z"]', ["a"], among=["a", "b", "c"])
    assert [(check.name, check.passed) for check in score.checks] == [
        ("a", False),
        ("b", False),
        ("c", True),
        ("z", False),
    ]
