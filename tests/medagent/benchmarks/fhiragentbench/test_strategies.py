"""The published strategies over a scripted endpoint: calls in their order, what is shown, the cap, and how they end."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.fhiragentbench.strategies.plan import STRATEGIES
from medagent.benchmarks.fhiragentbench.strategies.prompts import published_prompt
from medagent.benchmarks.fhiragentbench.strategies.tokens import InputCount, tokens
from medagent.core.errors import UserError
from medagent.models.base import Message
from tests.loopback import ModelServer
from tests.medagent.benchmarks.fhiragentbench.conftest import Run
from tests.medagent.benchmarks.fhiragentbench.test_run import rows
from tests.shared_data import SHARED, need

PUBLISHED = SHARED / "fhiragentbench" / "published"


def call(name: str, number: int = 0, **arguments: Any) -> dict[str, Any]:
    made = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{name}_{number}", "type": "function", "function": made}


def said(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {}}


def by_patient(kind: str, patient: str = "p1", number: int = 0) -> dict[str, Any]:
    return call("get_resources_by_patient_fhir_id", number, resource_type=kind, patient_fhir_id=patient)


def played(run: Run, folder: Path, script: list[Any], *words: Any, ids: str = "q4") -> tuple[dict[str, Any], list[Any]]:
    """The row of an episode over a script of replies, and the calls that arrived."""

    def reply(body: dict[str, Any]) -> Any:
        return script[sum(message["role"] == "assistant" for message in body["messages"])]

    with ModelServer(reply=reply) as server:
        model = ("--model", words[1] if words[0] == "named" else "m", "--base-url", server.url)
        rest = words[2:] if words[0] == "named" else words
        ran = run("--ids", ids, *model, "--protocol", *rest)
    assert ran.code == 0, ran.err
    (path,) = [child for child in folder.iterdir() if (child / "run.json").is_file()]
    return rows(path)[ids], [received.body for received in server.calls]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


def test_single_turn_resource_calls_twice_and_shows_resources_as_python_does(run: Run, tmp_path: Path) -> None:
    script = [said(by_patient("MedicationRequest"), by_patient("Encounter", number=1)), "Two drugs."]
    row, bodies = played(run, tmp_path, script, "single_turn_resource")
    assert [names(body) for body in bodies] == [["get_resources_by_patient_fhir_id"], []]
    assert (row["answer"], row["status"]) == ("Two drugs.", "completed")
    system, user, _, first, second = bodies[1]["messages"]
    assert (system["role"], user["role"], bodies[0]["temperature"]) == ("system", "user", 0)
    assert user["content"].startswith("Question: Count the number of drugs patient p1")
    assert user["content"].endswith("Context:\nPatient FHIR ID is p1.")
    assert first["content"].startswith("{'MedicationRequest': [{'resourceType': 'MedicationRequest', 'id': 'p1-m1',")
    stay = second["content"]
    assert ("'id': 'p1-e1'" in stay, "'text'" in stay, "'meta'" in stay) == (True, False, False)
    assert [(read["asked"], read["sent"]) for read in row["reads"]] == [
        ("MedicationRequest?patient=p1", "/MedicationRequest?patient=p1&_count=1000"),
        ("Encounter?patient=p1", "/Encounter?patient=p1&_count=1000"),
    ]


def test_requests_show_the_first_page_whole(run: Run, tmp_path: Path) -> None:
    script = [said(call("fhir_request_get", query_string="Observation?patient=p1&_count=2")), "One."]
    row, bodies = played(run, tmp_path, script, "single_turn_request")
    assert "'meta'" in bodies[1]["messages"][-1]["content"]
    assert row["reads"][0]["ids"] == {"Observation": ["p1-o1", "p1-o2"]}
    assert row["reads"][0]["sent"] == "/Observation?patient=p1&_count=2"


def test_a_refusal_is_the_tools_error_and_the_last_call_of_a_type_counts(run: Run, tmp_path: Path) -> None:
    script = [
        said(call("get_resources_by_resource_id", resource_type="Location", resource_id="icu")),
        said(by_patient("Encounter", "p2"), by_patient("Encounter", "p1", 1)),
        "Still thinking.",
        "Done. The FINAL answer is: 2",
    ]
    row, bodies = played(run, tmp_path, script, "multi_turn_resource", "--handling", "strict")
    assert names(bodies[0]) == ["get_resources_by_resource_id", "get_resources_by_patient_fhir_id"]
    assert "HAPI-0524" in bodies[1]["messages"][-1]["content"]
    assert row["answer"] == "Done. The FINAL answer is: 2"
    (path,) = [child for child in tmp_path.iterdir() if (child / "run.json").is_file()]
    from tests.command import medagent

    medagent("export", "official", path, tmp_path / "out")
    (written,) = json.loads((tmp_path / "out" / "outputs.json").read_text())
    assert written["agent_fhir_resources"] == {"Encounter": ["p1-e1"]}
    assert written["error"] is None


@pytest.mark.parametrize(
    ("strategy", "script", "answer"),
    [
        ("single_turn_resource", ["I know it."], "No tool calls found in the response"),
        ("single_turn_request", [said(call("fly"))], "Expected 'fhir_request_get' tool call, but got 'fly'"),
        (
            "multi_turn_resource",
            [said(call("fly"))],
            "Expected 'get_resources_by_patient_fhir_id' or 'get_resources_by_resource_id' tool call, but got 'fly'",
        ),
        ("multi_turn_resource", ["Hm."] * 30, "No final answer reached within iteration limit."),
    ],
)
def test_endings_in_a_sentence(run: Run, tmp_path: Path, strategy: str, script: list[Any], answer: str) -> None:
    row, bodies = played(run, tmp_path, script, strategy)
    assert (row["answer"], row["status"], len(bodies)) == (answer, "completed", len(script))


def test_arguments_that_cannot_be_read_end_the_episode_as_published(run: Run, tmp_path: Path) -> None:
    row, _ = played(run, tmp_path, [said(call("fhir_request_get", endpoint="Patient"))], "single_turn_request")
    assert (row.get("answer"), row["status"]) == (None, "invalid_action")
    assert "fhir_request_get: takes query_string" in row["error"]


def test_the_cap_counts_contents_and_calls_nobody_above_it(run: Run, tmp_path: Path) -> None:
    script = [said(by_patient("Observation"), by_patient("MedicationRequest", number=1)), "Never asked."]
    row, bodies = played(run, tmp_path, script, "single_turn_resource", "--input-cap", "500")
    assert len(bodies) == 1
    size = 2 + sum(4 + tokens(str(message["content"])) for message in (*bodies[0]["messages"], {"content": None}))
    size += sum(4 + tokens(turn["content"]) for turn in row["transcript"][1:-1] if turn["role"] == "user")
    assert row["answer"] == f"Input tokens exceeded: {size} > 500"
    assert row["status"] == "completed"


def test_the_cap_before_a_first_call_is_an_error_in_words(run: Run, tmp_path: Path) -> None:
    row, bodies = played(run, tmp_path, [], "multi_turn_resource", "--input-cap", "20")
    assert row["answer"].startswith("Error: Input tokens exceeded: ")
    assert not bodies


def test_input_is_four_a_message_and_two() -> None:
    count = InputCount()
    messages = [Message("user", "hello world")]
    assert (count.of(messages), count.of([*messages, Message("tool", "")])) == (8, 12)
    assert InputCount().of([Message("assistant", "", original={"content": None})]) == 7


def test_without_the_tokenizer_a_cap_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medagent.benchmarks.fhiragentbench.strategies import tokens as module

    module._tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    words = ("--model", "m", "--base-url", "http://127.0.0.1:9", "--protocol", "multi_turn_resource", "--ids", "q1")
    ran = run(*words)
    assert (ran.code, "pip install 'medagent[fhir-agentbench]'" in ran.err) == (1, True)
    row, _ = played(run, tmp_path, ["The final answer is: 1"], "multi_turn_resource", "--input-cap", "none")
    assert row["answer"] == "The final answer is: 1"


def test_o4_mini_is_sent_no_temperature(run: Run, tmp_path: Path) -> None:
    script = ["The final answer is: 1"]
    _, bodies = played(run, tmp_path, script, "named", "o4-mini", "multi_turn_resource")
    assert "temperature" not in bodies[0]


def test_programs_see_what_was_read_and_give_back_answer_alone(run: Run, tmp_path: Path) -> None:
    code = "print('seen')\nanswer = sorted(one['id'] for one in retrieved_resources['MedicationRequest'])"
    script = [
        said(by_patient("MedicationRequest")),
        said(call("execute_python_code", code=code)),
        said(call("execute_python_code", 1, code="answer = 1 / 0")),
        said(call("execute_python_code", 2, code="x = 1")),
        "The final answer is: 2",
    ]
    row, bodies = played(run, tmp_path, script, "multi_turn_code_resource")
    shown = [message["content"] for message in bodies[-1]["messages"] if message["role"] == "tool"]
    assert shown[0] == "retrieved_fhir_resources['MedicationRequest'] (2 items)"
    assert shown[1] == "{'answer': ['p1-m1', 'p1-m2']}"
    assert "ZeroDivisionError" in shown[2]
    assert "set no variable `answer`" in shown[3]
    assert row["answer"] == "The final answer is: 2"


def test_single_turn_code_has_three_calls_and_may_return_the_output(run: Run, tmp_path: Path) -> None:
    code = "print('seen')\nanswer = len(retrieved_resources['Observation'])"
    script = [said(by_patient("Observation")), said(call("execute_python_code", code=code)), "Three."]
    row, bodies = played(run, tmp_path, script, "single_turn_code_resource", "--code-returns")
    assert [names(body) for body in bodies] == [["get_resources_by_patient_fhir_id"], ["execute_python_code"], []]
    assert bodies[2]["messages"][-1]["content"] == "{'answer': 3, 'output': 'seen\\n'}"
    assert row["answer"] == "Three."


def test_published_prompts_are_read_as_text(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(PUBLISHED)
    real = builtins.__import__

    def guarded(name: str, *rest: Any) -> Any:
        assert name.partition(".")[0] not in ("agent", "litellm", "evaluation_metrics"), name
        return real(name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", guarded)
        for strategy in STRATEGIES.values():
            assert "Few-shot examples" in published_prompt(strategy, PUBLISHED)
    changed = tmp_path / "checkout" / "agent"
    changed.mkdir(parents=True)
    path = changed / "multi_turn_resource_agent.py"
    path.write_text((PUBLISHED / "agent" / path.name).read_text().replace("helpful", "grumpy"))
    with pytest.raises(UserError, match="the system prompt is not the published one"):
        published_prompt(STRATEGIES["multi_turn_resource"], tmp_path / "checkout")
    script = ["The final answer is: 1"]
    _, bodies = played(run, tmp_path, script, "multi_turn_resource", "--prompt", f"published={PUBLISHED}")
    assert bodies[0]["messages"][0]["content"].startswith("You are a helpful assistant that can answer questions")
