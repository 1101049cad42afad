"""Replies that are no answer: how each provider says that it failed, and replies in forms that need care to be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medagent.core.errors import ModelError
from medagent.models.base import Completion, Message, ToolCall, Usage
from tests.loopback import Fault, ModelServer, chat_json
from tests.medagent.models.asking import QUESTION, ask, settings
from tests.medagent.models.test_replies import APIS, reply

CALL = {"name": "first", "arguments": "{}"}


def failed(server: ModelServer, api: str = "chat", **options: Any) -> ModelError:
    """The error of a call that fails, without a second attempt."""
    with pytest.raises(ModelError) as raised:
        ask(settings(server.url, api=api, name="gpt-4o-mini", **{"max_retries": 0, **options}))
    return raised.value


@pytest.mark.parametrize(
    ("api", "word"),
    [
        ("chat", "error"),
        ("chat", "abort"),
        ("chat", "network_error"),
        ("chat", "insufficient_system_resource"),
        ("chat", "OTHER"),
        ("anthropic", "pause_turn"),
    ],
)
def test_a_reply_that_its_provider_broke_off_is_no_answer_and_is_paid(api: str, word: str) -> None:
    with ModelServer(lambda _: reply(api, "FINISH([1])", word)) as server:
        error = failed(server, api)
    assert repr(word) in str(error)
    assert error.status == "model_error"
    assert isinstance(error.paid, Completion)
    assert error.paid.cost


@pytest.mark.parametrize("status", ["failed", "cancelled", "in_progress", "queued", "incomplete"])
def test_a_response_that_did_not_complete_is_no_answer(status: str) -> None:
    with ModelServer(lambda _: reply("responses", "FINISH([1])") | {"status": status}) as server:
        assert repr(status) in str(failed(server, "responses"))


def test_a_broken_off_reply_is_asked_for_again_and_its_tokens_are_counted() -> None:
    words = iter(["network_error", "stop"])
    with ModelServer(lambda _: reply("chat", "FINISH([1])", next(words))) as server:
        completion = ask(settings(server.url))
    assert (completion.text, completion.retries, completion.usage.total) == ("FINISH([1])", 1, 2 * 3)


@APIS
def test_an_unknown_reason_is_named_paid_and_asked_for_once(api: str) -> None:
    with ModelServer(lambda _: reply(api, "FINISH([1])", "moon_phase")) as server:
        error = failed(server, api, max_retries=8)
    assert "unknown finish reason 'moon_phase'" in str(error)
    assert isinstance(error.paid, Completion)
    assert len(server.calls) == 1


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_reply_without_a_reason_is_no_answer(text: str) -> None:
    body = reply("chat", text)
    body["choices"][0]["finish_reason"] = None
    with ModelServer(lambda _: body) as server:
        assert "the reply is empty and contains no finish reason" in str(failed(server))
    body["choices"][0]["finish_reason"] = "stop"
    with ModelServer(lambda _: body) as server:
        assert ask(settings(server.url)).text == text


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": {"id": "a", "type": "function", "function": CALL}},
        {"tool_calls": [None, {"id": "a", "type": "function", "function": CALL}]},
        {"function_call": CALL},
    ],
)
def test_tool_calls_in_old_and_odd_forms_are_read_and_sent_back_as_a_list(message: dict[str, Any]) -> None:
    body = reply("chat", "", "function_call")
    body["choices"][0]["message"] = {"role": "assistant", "content": None, **message}
    with ModelServer(lambda _: body) as server:
        completion = ask(settings(server.url))
        (call,) = completion.tool_calls
        assert (call, completion.finish_reason) == (ToolCall(call.id, "first", "{}"), "tool_calls")
        ask(settings(server.url), [*QUESTION, completion.message, Message("tool", "x", tool_call_id=call.id)])
    sent = server.calls[1].messages[1]
    assert [(tool_call["id"], tool_call["function"]) for tool_call in sent["tool_calls"]] == [(call.id, CALL)]
    assert "function_call" not in sent


@pytest.mark.parametrize(("api", "place"), [("responses", "output"), ("anthropic", "content")])
def test_null_among_the_items_is_left_out(api: str, place: str) -> None:
    body = reply(api, "good")
    body[place] = [None, *body[place], None]
    with ModelServer(lambda _: body) as server:
        completion = ask(settings(server.url, api=api))
        assert completion.text == "good"
        ask(settings(server.url, api=api), [*QUESTION, completion.message, *QUESTION])
    assert None not in server.calls[1].messages


@pytest.mark.parametrize("before", [b": OPENROUTER PROCESSING\n\n", b"\n: a\n: b\r\n\r\n", b"\r\n"])
def test_comments_before_the_reply_are_skipped(before: bytes) -> None:
    body = before + json.dumps(chat_json("good", {})).encode()
    with ModelServer(faults=[Fault(body=body)]) as server:
        assert ask(settings(server.url)).text == "good"


@pytest.mark.parametrize("before", [b"", b": OPENROUTER PROCESSING\n\n"])
def test_a_stream_that_was_not_asked_for_is_named(before: bytes) -> None:
    event = b'data: {"choices": [{"delta": {"content": "FINISH([1])"}}]}\n\ndata: [DONE]\n\n'
    fault = Fault(headers={"Content-Type": "text/event-stream"}, body=before + event)
    with ModelServer(faults=lambda _: fault) as server:
        assert "an event stream, which was not requested (text/event-stream)" in str(failed(server))


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (
            {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 5_105},
            Usage(prompt=100, completion=5, unreported=5_000),
        ),
        ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 120}, Usage(prompt=100, completion=50)),
        ({"prompt_tokens": 100, "total_tokens": 120}, Usage(prompt=100, unreported=20)),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage(known=False)),
        ({"prompt_tokens": 0, "completion_tokens": 50, "total_tokens": 50}, Usage(unreported=50, known=False)),
        ({"completion_tokens": 5, "total_tokens": 105}, Usage(unreported=105, known=False)),
        ({"input_tokens": 100, "output_tokens": 5}, Usage(prompt=100, completion=5)),
        ({"total_tokens": 120}, Usage(unreported=120, known=False)),
        ({}, Usage(known=False)),
        (None, Usage(known=False)),
    ],
)
def test_usage_by_every_name_and_the_output_that_only_the_total_has(usage: Any, tokens: Usage) -> None:
    with ModelServer(lambda _: chat_json("a", {}) | {"usage": usage}) as server:
        completion = ask(settings(server.url, name="gpt-4o-mini"))
    assert completion.usage == tokens
    expected = (tokens.prompt * 0.15 + tokens.output * 0.6) / 1e6 if tokens.known else None
    assert completion.cost == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    "place",
    [
        {"x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}},
        {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}},
        {"timings": {"prompt_n": 7, "predicted_n": 3}},
        {"prompt_eval_count": 7, "eval_count": 3},
        {"choices": {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}},
    ],
)
def test_usage_in_the_places_of_vendors(place: dict[str, Any]) -> None:
    body = chat_json("a", {}) | {"usage": None}
    body["choices"][0] |= place.pop("choices", {})
    with ModelServer(lambda _: body | place) as server:
        assert ask(settings(server.url)).usage == Usage(prompt=7, completion=3)
