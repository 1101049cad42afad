"""What goes over the wire and how replies are read."""

from __future__ import annotations

import contextlib
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.core.errors import ModelError, StopRunError
from medagent.models.base import Completion, Message, Tool, ToolCall, Usage
from medagent.models.dialects import dialect
from medagent.models.endpoint import ChatEndpoint
from medagent.models.retry import EndpointFailure
from medagent.models.settings import Api
from tests.loopback import Call, Fault, ModelServer, status
from tests.medagent.models.asking import QUESTION, ask, settings, with_model

SEARCH = Tool("search", "Search patients.", {"type": "object", "properties": {"name": {"type": "string"}}})
TOOL_TALK = (
    Message("system", "You are a clerk."),
    Message("user", "Find Ann."),
    Message("assistant", "", tool_calls=(ToolCall("c1", "search", '{"name": "Ann"}'),)),
    Message("tool", "found", tool_call_id="c1"),
)


def chat(message: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop"}], **more}


def test_chat_completions() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    with ModelServer(chat({"content": "FINISH([60])"}, usage=usage)) as server:
        completion = ask(settings(server.url, name="gpt-4o-mini"), seed=7)
    assert completion.text == "FINISH([60])"
    assert completion.usage == Usage(100, 50, 40, 30)
    assert completion.cost == pytest.approx((60 * 0.15 + 40 * 0.075 + 50 * 0.60) / 1e6)
    assert completion.finish_reason == "stop"
    assert [call.body for call in server.calls] == [
        {
            "model": "gpt-4o-mini",
            "messages": [{"role": "user", "content": "How old is S1?"}],
            "temperature": 0.0,
            "seed": 7,
        }
    ]


def test_chat_tools() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "search", "arguments": '{"name": '}},
        {"type": "function", "function": {"name": "search", "arguments": {"name": "Ann"}}},
        "no call",
    ]
    with ModelServer(chat({"content": None, "tool_calls": calls})) as server:
        completion = ask(settings(server.url), TOOL_TALK, tools=[SEARCH])
    assert completion.text == ""
    assert completion.tool_calls == (
        ToolCall("a", "search", '{"name": '),
        ToolCall("call_2", "search", '{"name": "Ann"}'),
    )
    body = server.calls[0].body
    assert body["tools"][0]["function"]["name"] == "search"
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"name": "Ann"}'}
    assert body["messages"][3] == {"role": "tool", "content": "found", "tool_call_id": "c1"}


def test_responses() -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "She was born in 1963."}]},
        {"type": "message", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "function_call", "call_id": "c2", "name": "search", "arguments": "{}"},
    ]
    usage = {"input_tokens": 9, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 4}}
    with ModelServer({"output": output, "usage": usage}) as server:
        completion = ask(settings(server.url, api="responses"), TOOL_TALK, tools=[SEARCH], seed=1)
    assert completion.text == "Looking."
    assert completion.reasoning == "She was born in 1963."
    assert completion.tool_calls == (ToolCall("c2", "search", "{}"),)
    assert completion.usage == Usage(9, 5, 0, 4)
    body = server.calls[0].body
    assert "max_output_tokens" not in body
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "seed" not in body
    assert body["tools"][0]["name"] == "search"
    assert body["input"][2:] == [
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"name": "Ann"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
    ]


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "a", "reasoning_content": "why"}, "a", "why"),
        ({"content": "a", "reasoning": "why"}, "a", "why"),
        ({"content": [{"type": "thinking", "thinking": [{"text": "why"}]}, {"text": "a"}]}, "a", "why"),
        ({"content": "<think>why</think>a"}, "<think>why</think>a", None),
        ({"content": None}, "", None),
        ({}, "", None),
        ({"content": ""}, "", None),
        ({"content": 5}, "5", None),
        ({"content": {"answer": [1]}}, '{"answer": [1]}', None),
        ({"content": [{"type": "text", "text": "a"}, "b", None, {"type": "image", "url": "u"}]}, "ab", None),
        ({"content": [["a", [{"text": "b"}]], "c"]}, "abc", None),
        ({"content": {"type": "output_text", "text": "a"}}, "a", None),
        ({"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]}]}, "", "why"),
        ({"content": [{"type": "reasoning", "content": [{"text": "why"}], "summary": []}, "a"]}, "a", "why"),
        ({"content": [{"type": "thinking", "text": "why"}, {"type": "reasoning", "text": "so"}]}, "", "why\nso"),
        ({"content": [{"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "a"}]}, "a", None),
        ({"content": "a", "reasoning": [{"type": "x", "text": "why"}]}, "a", "why"),
        ({"content": "x" * 5_000_000}, "x" * 5_000_000, None),
        ({"content": "low \ud83d surrogate"}, "low \ufffd surrogate", None),
        ({"content": "\U0001f600"}, "\U0001f600", None),
    ],
)
def test_what_a_message_may_hold(message: dict[str, Any], text: str, reasoning: str | None) -> None:
    with ModelServer(chat(message)) as server:
        completion = ask(settings(server.url))
    assert completion.text == text
    assert completion.reasoning == reasoning


def test_usage_that_makes_no_sense_is_no_usage() -> None:
    with ModelServer(chat({"content": "a"}, usage={"prompt_tokens": "many", "completion_tokens": -3})) as server:
        assert ask(settings(server.url)).usage == Usage(known=False)


def test_json_under_another_content_type_is_read() -> None:
    plain = Fault(headers={"Content-Type": "text/plain"}, body=json.dumps(chat({"content": "a"})).encode())
    with ModelServer(faults=[plain]) as server:
        assert ask(settings(server.url)).text == "a"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    ["content", "tool_calls", "reasoning", "reasoning_content", "refusal", "type", "summary", "function", "arguments"]
)


@given(message=st.dictionaries(FIELDS, JSON), usage=JSON, finish=JSON)
def test_any_message_is_a_completion_or_an_endpoint_failure(message: Any, usage: Any, finish: Any) -> None:
    replies = [
        ("chat", {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}),
        ("responses", {"output": [message | {"type": "message"}, message], "usage": usage}),
        ("anthropic", {"content": [message | {"type": "text"}, message], "usage": usage, "stop_reason": finish}),
    ]
    for api, reply in replies:
        completion = dialect(api).read(reply)
        completion.text.encode()
        assert completion.usage.total >= 0


@given(reply=st.dictionaries(st.sampled_from(["choices", "output", "content", "usage", "error"]), JSON))
def test_any_reply_is_a_completion_or_an_endpoint_failure(reply: dict[str, Any]) -> None:
    for api in get_args(Api):
        with contextlib.suppress(EndpointFailure):
            assert isinstance(dialect(api).read(reply), Completion)


REFUSALS = [
    (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
        "max_tokens",
        "max_completion_tokens",
    ),
    (
        "Unsupported value: 'temperature' does not support 0 with this model.",
        "temperature",
        "rejects temperature",
    ),
    ("Unrecognized request argument supplied: seed", "seed", "rejects seed"),
]


@pytest.mark.parametrize(("words", "field", "note"), REFUSALS, ids=["max_tokens", "temperature", "seed"])
def test_a_field_that_the_model_refuses_is_sent_once(words: str, field: str, note: str) -> None:
    def refuse(call: Call) -> Fault | None:
        return status(400, message=words) if field in call.body else None

    async def use(model: ChatEndpoint) -> list[str]:
        return [(await model.complete(QUESTION, seed=1)).text for _ in range(3)]

    with ModelServer("a", faults=refuse) as server:
        texts, model = with_model(settings(server.url, max_tokens=2048), use)
    assert texts == ["a"] * 3
    assert [field in call.body for call in server.calls] == [True, False, False, False]
    assert model.stats.retries == 0
    assert len(model.stats.notes) == 1
    assert note in model.stats.notes[0]
    if field == "max_tokens":
        assert server.calls[1].body["max_completion_tokens"] == 2048


def test_a_value_out_of_range_is_not_mended_silently() -> None:
    fault = status(400, message="Invalid 'temperature': decimal above maximum value.")
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError, match="above maximum"):
        ask(settings(server.url, temperature=5))
    assert len(server.calls) == 1


def test_extra_fields_are_sent_as_they_are() -> None:
    with ModelServer("a") as server:
        ask(settings(server.url, temperature=None, max_tokens=None, extra={"reasoning_effort": "low"}))
    assert server.calls[0].body == {
        "model": "any-model",
        "messages": [{"role": "user", "content": "How old is S1?"}],
        "reasoning_effort": "low",
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"object": "error", "message": "vLLM says so"}, "vLLM says so"),
        ({"error": "Ollama says so"}, "Ollama says so"),
        ({"detail": "FastAPI says so"}, "FastAPI says so"),
    ],
)
def test_the_providers_words_whatever_their_form(body: dict[str, str], words: str) -> None:
    fault = Fault(status=404, body=json.dumps(body).encode())
    with ModelServer(faults=[fault]) as server, pytest.raises(StopRunError, match=words):
        ask(settings(server.url))
