"""The toolbox: one tool a FHIR function, and the way back from a call to the action that means the same."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.fhir_episodes.protocol import FhirFunction, load_protocol
from medagent.fhir_episodes.tools import FINISH, Toolbox, ToolError
from medagent.models.base import ToolCall

BASE = "http://localhost:8080/fhir"
TOOLBOX = Toolbox.of(load_protocol("tools"), BASE + "/")


def action(name: str, arguments: Any) -> str:
    return TOOLBOX.action(ToolCall("c", name, arguments if isinstance(arguments, str) else json.dumps(arguments)))


def test_there_is_a_tool_for_every_function_and_one_to_finish() -> None:
    names = [tool.name for tool in TOOLBOX.tools()]
    assert names[-1] == "finish"
    assert len(names) == len(set(names)) == len(load_protocol("tools").functions) + 1
    assert {"get_patient", "get_observation", "get_observation_by_category", "post_medicationrequest"} <= set(names)
    assert all(tool.parameters["type"] == "object" for tool in TOOLBOX.tools())


def test_functions_of_one_name_are_told_apart_by_what_they_take() -> None:
    def function(*parameters: str) -> FhirFunction:
        properties = {name: {"type": "string"} for name in parameters}
        return FhirFunction(name="GET {api_base}/Basic", description="", parameters={"properties": properties})

    protocol = load_protocol("tools").model_copy(
        update={"functions": (function("a"), function("a", "b"), function("a", "b"), function("b", "a"))}
    )
    assert list(Toolbox.of(protocol, BASE).functions) == ["get_basic", "get_basic_by_b", "get_basic_3", "get_basic_4"]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("get_patient", {"identifier": "S1"}, f"GET {BASE}/Patient?identifier=S1"),
        ("get_patient", {"name": "Ann Lee", "birthdate": None}, f"GET {BASE}/Patient?name=Ann+Lee"),
        ("get_observation", {"date": ["ge2023", "le2024"]}, f"GET {BASE}/Observation?date=ge2023&date=le2024"),
        ("get_patient", "", f"GET {BASE}/Patient?"),
        ("finish", {"answers": [1, "é"]}, 'FINISH([1, "é"])'),
        ("finish", {"answers": []}, "FINISH([])"),
        ("post_observation", {"code": "BP"}, f'POST {BASE}/Observation\n{{"code": "BP"}}'),
    ],
)
def test_a_call_becomes_the_action_that_means_the_same(name: str, arguments: Any, expected: str) -> None:
    assert action(name, arguments) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("get_patient", "{", "the arguments are not JSON"),
        ("get_patient", "[1]", "the arguments must be a JSON object"),
        ("get_patient", "[" * 100_000, "the arguments are not JSON"),
        ("get_nothing", "{}", "unknown tool 'get_nothing'; the tools are get_condition, "),
        ("finish", "{}", "finish takes `answers`, a list"),
        ("finish", '{"answers": 1}', "finish takes `answers`, a list"),
    ],
)
def test_a_call_that_cannot_be_read_says_why(name: str, arguments: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        action(name, arguments)
    assert said in str(caught.value)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_parameters_reach_the_url_whole(arguments: dict[str, str]) -> None:
    query = urlsplit(action("get_patient", arguments).removeprefix("GET ")).query
    read = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True, errors="replace").items()}
    assert read == {
        name.encode(errors="replace").decode(): value.encode(errors="replace").decode()
        for name, value in arguments.items()
    }


@given(st.lists(st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_answers_are_finished_as_they_are(answers: list[Any]) -> None:
    said = action(FINISH.name, {"answers": answers})
    assert json.loads(said.removeprefix("FINISH(")[:-1]) == answers
