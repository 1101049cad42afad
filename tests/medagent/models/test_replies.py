"""What replies say beside their text, in each API; and replies, errors and headers that are hostile."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import zlib
from typing import Any

import pytest

from medagent.core.errors import ContextLimitError, ModelError, RefusedError, StopRunError
from medagent.models.base import Completion, Message, Tool, ToolCall, Usage
from medagent.models.estimate import BYTES_PER_TOKEN
from medagent.models.retry import Outage
from tests.loopback import Fault, ModelServer, anthropic_json, chat_json, responses_json, stall, status
from tests.medagent.models.asking import QUESTION, ask, settings
from tests.medagent.models.conftest import KEY

APIS = pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])


def reply(api: str, text: str, finish: str | None = None) -> dict[str, Any]:
    """A reply in one of the APIs, with what that API calls `finish`."""
    if api == "chat":
        body = chat_json(text, {"model": "served-1"}) | {"system_fingerprint": "fp_1"}
        body["choices"][0]["finish_reason"] = finish or "stop"
        return body
    if api == "anthropic":
        return anthropic_json(text) | {"model": "served-1", "stop_reason": finish or "end_turn"}
    body = responses_json(text) | {"model": "served-1"}
    return body | {"status": "incomplete", "incomplete_details": {"reason": finish}} if finish else body


@pytest.mark.parametrize(
    ("api", "word", "reason"),
    [
        ("chat", "stop", "stop"),
        ("chat", "length", "length"),
        ("chat", "MAX_TOKENS", "length"),
        ("responses", None, "stop"),
        ("responses", "max_output_tokens", "length"),
        ("anthropic", "end_turn", "stop"),
        ("anthropic", "stop_sequence", "stop"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "model_context_window_exceeded", "length"),
    ],
)
def test_the_finish_reason_is_kept_in_one_vocabulary(api: str, word: str | None, reason: str) -> None:
    with ModelServer(lambda _: reply(api, "GET x", word)) as server:
        completion = ask(settings(server.url, api=api))
    assert completion.text == "GET x"
    assert completion.finish_reason == reason
    assert completion.model == "served-1"
    assert completion.fingerprint == ("fp_1" if api == "chat" else None)
    assert completion.started <= completion.ended


def test_a_fingerprint_is_cut() -> None:
    with ModelServer(lambda _: reply("chat", "x") | {"system_fingerprint": "f" * 10**6}) as server:
        assert ask(settings(server.url)).fingerprint == "f" * 200


@pytest.mark.parametrize("text", ["", "FINISH([1"])
@pytest.mark.parametrize(
    ("api", "word"),
    [
        ("chat", "content_filter"),
        ("chat", "SAFETY"),
        ("chat", "sensitive"),
        ("responses", "content_filter"),
        ("anthropic", "refusal"),
    ],
)
def test_a_reply_that_a_filter_withheld_or_cut_is_refused_and_paid(api: str, word: str, text: str) -> None:
    with ModelServer(lambda _: reply(api, text, word)) as server, pytest.raises(RefusedError) as refused:
        ask(settings(server.url, api=api))
    assert refused.value.status == "refused"
    assert isinstance(refused.value.paid, Completion)
    assert refused.value.paid.usage.known
    assert len(server.calls) == 1


def test_a_request_that_a_filter_refuses_is_refused_and_none_of_ten() -> None:
    fault = status(400, message="The prompt was filtered", code="content_filter")
    with ModelServer(faults=lambda _: fault) as server:
        for _ in range(11):
            with pytest.raises(RefusedError, match="The prompt was filtered"):
                ask(settings(server.url))


@APIS
@pytest.mark.parametrize("broken", [{"choices": None, "output": None, "content": None}, {"error": "overloaded"}])
def test_a_reply_without_a_message_is_paid_if_it_counts_tokens(api: str, broken: dict[str, Any]) -> None:
    bodies = iter([reply(api, "good") | broken, reply(api, "good")])
    with ModelServer(lambda _: next(bodies)) as server:
        completion = ask(settings(server.url, api=api))
    with ModelServer(lambda _: reply(api, "good")) as server:
        once = ask(settings(server.url, api=api))
    assert (completion.retries, completion.usage, completion.estimated) == (1, once.usage + once.usage, False)


def test_a_call_without_an_answer_in_time_is_paid_by_an_estimate() -> None:
    with ModelServer("good", faults=[stall()]) as server:
        completion = ask(settings(server.url, timeout_s=0.5))
        size = len(json.dumps(server.calls[0].body, separators=(",", ":")))
    with ModelServer("good") as server:
        once = ask(settings(server.url))
    assert (completion.retries, completion.estimated) == (1, True)
    assert completion.usage == once.usage + Usage(prompt=round(size / BYTES_PER_TOKEN))


@APIS
@pytest.mark.parametrize("form", ["top", "choice"])
def test_an_error_inside_a_200_is_the_endpoints_failure_and_holds_no_key(api: str, form: str) -> None:
    error = {"message": f"upstream said: bad key {KEY}\x1b[2J", "code": 502}
    body: dict[str, Any] = {"error": error}
    if form == "choice" and api == "chat":
        body = reply("chat", "")
        body["choices"][0] |= {"error": error, "finish_reason": "error"}
    with ModelServer(lambda _: body) as server, pytest.raises(ModelError) as failed:
        ask(settings(server.url, api=api, max_retries=0))
    assert "upstream said: bad key ***␛[2J" in str(failed.value)


@APIS
def test_no_reply_carries_the_key_into_a_file(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with ModelServer(lambda _: reply(api, f"FINISH([{KEY}])")) as server:
        assert ask(settings(server.url, api=api)).text == "FINISH([***])"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(headers={"Content-Type": f"text/html; token={KEY}"}, body=b"<html>"),
        Fault(status=307, headers={"Location": f"http://127.0.0.1:9/v1?session={KEY}"}, body=b""),
        status(500, message=f"at {KEY}"),
        status(400, message=f"at {KEY}"),
        status(403, message=f"at {KEY}"),
    ],
)
def test_a_failure_repeats_no_key(fault: Fault) -> None:
    with ModelServer(faults=lambda _: fault) as server, pytest.raises((ModelError, StopRunError)) as failed:
        ask(settings(server.url, max_retries=0))
    assert "***" in str(failed.value)
    assert KEY not in str(failed.value)


@APIS
@pytest.mark.parametrize("count", [None, -3, "many", 10**400, 1.5, True])
def test_usage_that_cannot_be_is_unknown(api: str, count: Any) -> None:
    fields = {"chat": "completion_tokens", "responses": "output_tokens", "anthropic": "output_tokens"}
    body = reply(api, "a")
    body["usage"] = {**body["usage"], fields[api]: count, "total_tokens": None}
    with ModelServer(lambda _: body) as server:
        completion = ask(settings(server.url, api=api, name="gpt-4o-mini"))
    assert completion.usage == Usage(known=False)
    assert completion.cost is None


def bomb(encoding: str) -> Fault:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    return Fault(headers={"Content-Encoding": encoding}, body=pack(b" " * 5_000_000))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", ""])
def test_a_reply_is_read_to_a_bound_and_then_the_calls_failure(encoding: str) -> None:
    fault = bomb(encoding) if encoding else Fault(body=b" " * 2_000_000)
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError, match="longer than 1,000,000 bytes"):
        ask(settings(server.url, max_reply_bytes=1_000_000))
    assert len(server.calls) == 1


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_reply_is_read(pack: Any) -> None:
    body = json.dumps(chat_json("good", {})).encode()
    encoding = "gzip" if pack is gzip.compress else "deflate"
    with ModelServer(faults=[Fault(headers={"Content-Encoding": encoding}, body=pack(body))]) as server:
        assert ask(settings(server.url)).text == "good"
    assert server.calls[0].headers["accept-encoding"] == "gzip, deflate"


def test_what_is_called_compressed_and_is_not_is_a_failure() -> None:
    fault = Fault(headers={"Content-Encoding": "gzip"}, body=b"plain")
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError, match="cannot be decompressed"):
        ask(settings(server.url, max_retries=0))


def test_an_outage_stops_the_run_with_the_reason() -> None:
    with ModelServer(faults=lambda _: status(503, message="down")) as server, pytest.raises(StopRunError) as stopped:
        ask(settings(server.url, outage_time_s=0, outage_attempts=3))
    assert re.search(r"down \(no attempt has succeeded for \d+ s; 3 attempts failed\)", str(stopped.value))
    assert len(server.calls) == 3


def test_a_429_that_says_when_to_come_back_is_no_outage() -> None:
    faults = [status(429, retry_after=0)] * 5
    with ModelServer("good", faults=faults) as server:
        assert ask(settings(server.url, outage_time_s=0, outage_attempts=3)).text == "good"


def test_an_outage_needs_both_time_and_attempts_and_ends_with_a_success() -> None:
    now = 0.0
    outage = Outage(120, 20, clock=lambda: now)
    assert not any(outage.failed() for _ in range(100))  # a burst
    now = 60
    assert outage.failed() is None

    async def success() -> int:
        return 1

    assert asyncio.run(outage.watch(success())) == 1
    now = 500
    assert not any(outage.failed() for _ in range(19))
    now = 700
    assert outage.failed() == "no attempt has succeeded for 200 s; 20 attempts failed"


@pytest.mark.parametrize("header", ["1e400", "9" * 400, "Wed, 21 Oct 9999 07:28:00 +0000"])
def test_a_retry_after_without_end_stops_the_run(header: str) -> None:
    fault = status(503, retry_after=header)
    with ModelServer(faults=[fault]) as server, pytest.raises(StopRunError, match="asks to come back in a day or"):
        ask(settings(server.url))


def test_a_retry_after_of_more_than_fifteen_minutes_stops_the_run() -> None:
    fault = status(429, retry_after=901)
    with ModelServer(faults=[fault]) as server, pytest.raises(StopRunError, match=r"asks to come back at \d\d:\d\d"):
        ask(settings(server.url))


@pytest.mark.parametrize("header", ["Fri, 31 Dec 9999 23:59:00 -9999", "Wed, 21 Oct 99999 07:28:00 GMT"])
def test_a_retry_after_that_is_no_date_is_not_kept(header: str) -> None:
    with ModelServer("good", faults=[status(503, retry_after=header)]) as server:
        assert ask(settings(server.url)).retries == 1


@pytest.mark.parametrize(
    ("code", "fault", "words"),
    [
        (529, {"type": "overloaded_error", "message": "Overloaded"}, "answered 529: Overloaded"),
        (429, {"type": "rate_limit_error", "message": "Slow down"}, "answered 429: Slow down"),
    ],
)
def test_anthropics_overload_is_waited_for(code: int, fault: dict[str, str], words: str) -> None:
    body = json.dumps({"type": "error", "error": fault}).encode()
    refusal = Fault(status=code, headers={"retry-after": "0"}, body=body)
    with ModelServer("good", faults=[refusal]) as server:
        assert ask(settings(server.url, api="anthropic")).retries == 1
    with ModelServer(faults=lambda _: refusal) as server, pytest.raises(ModelError, match=words):
        ask(settings(server.url, api="anthropic", max_retries=0))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", ContextLimitError),
        ("input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000", ContextLimitError),
        ("Your credit balance is too low to access the Anthropic API.", StopRunError),
    ],
)
def test_what_anthropic_says_with_a_400(words: str, kind: type[Exception]) -> None:
    fault = status(400, type="invalid_request_error", message=words)
    with ModelServer(faults=[fault]) as server, pytest.raises(kind):
        ask(settings(server.url, api="anthropic"))


def test_geminis_list_of_errors_is_read() -> None:
    body = json.dumps(
        [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]
    ).encode()
    with ModelServer(faults=[Fault(status=400, body=body)]) as server, pytest.raises(ModelError, match="API key not"):
        ask(settings(server.url))


@pytest.mark.parametrize("depth", [600, 950])
def test_a_reply_that_is_nested_too_deeply_is_the_calls_failure(depth: int) -> None:
    body = json.dumps(chat_json("x", {})).replace('"x"', "[" * depth + "]" * depth).encode()
    with ModelServer(faults=lambda _: Fault(body=body)) as server, pytest.raises(ModelError, match=r"nested|not JSON"):
        ask(settings(server.url, max_retries=0))


def test_a_message_without_content_is_not_sent_to_anthropic() -> None:
    with ModelServer("good") as server:
        talk = (*QUESTION, Message("assistant", "", original=[]), Message("user", "Go on."))
        ask(settings(server.url, api="anthropic"), talk)
    assert [turn["role"] for turn in server.calls[0].messages] == ["user"]
    assert [block["text"] for block in server.calls[0].messages[0]["content"]] == ["How old is S1?", "Go on."]


TOOLS = [Tool(name, f"The {name}.", {"type": "object", "properties": {}}) for name in ("first", "second")]
TALK = (
    Message("system", "You are a clerk."),
    Message("user", "Find Ann."),
    Message("assistant", "Looking.", (ToolCall("a", "first", '{"x": 1}'), ToolCall("b", "second", "{broken"))),
    Message("tool", "one", tool_call_id="a"),
    Message("tool", "two", tool_call_id="b"),
)


def test_the_request_to_anthropic() -> None:
    with ModelServer("good") as server:
        ask(settings(server.url, api="anthropic", name="claude"), TALK, tools=TOOLS, seed=3)
    assert server.calls[0].body == {
        "model": "claude",
        "max_tokens": 16384,
        "temperature": 0.0,
        "system": [{"type": "text", "text": "You are a clerk.", "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {"name": "first", "description": "The first.", "input_schema": {"type": "object", "properties": {}}},
            {"name": "second", "description": "The second.", "input_schema": {"type": "object", "properties": {}}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Find Ann."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "a", "name": "first", "input": {"x": 1}},
                    {"type": "tool_use", "id": "b", "name": "second", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "b",
                        "content": "two",
                        "cache_control": {"type": "ephemeral"},
                    },
                ],
            },
        ],
    }


def test_anthropics_usage_counts_what_is_cached() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 100,
        "output_tokens": 5,
    }
    with ModelServer(lambda _: anthropic_json("a") | {"usage": usage}) as server:
        completion = ask(settings(server.url, api="anthropic", name="claude-sonnet-4-5"), QUESTION)
    assert completion.usage == Usage(prompt=1110, completion=5, cached=1000, cache_written=100)
    assert completion.cost == pytest.approx((10 * 3 + 1000 * 0.3 + 100 * 3.75 + 5 * 15) / 1e6)


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("'messages.1': property 'annotations' is unsupported", "annotations"),
        ("messages.1.assistant.annotations: Extra inputs are not permitted", "annotations"),
        ("Please remove the reasoning_content from your message", "reasoning_content"),
    ],
)
def test_a_member_that_the_provider_does_not_take_back_is_left_out(words: str, gone: str) -> None:
    original = {"role": "assistant", "content": "a", "annotations": [], "reasoning_content": "why"}
    talk = (*QUESTION, Message("assistant", "a", original=original), *QUESTION)

    def refuse(call: Any) -> Fault | None:
        return status(400, message=words) if gone in call.messages[1] else None

    with ModelServer("good", faults=refuse) as server:
        assert ask(settings(server.url), talk).text == "good"
    assert [call.messages[1] for call in server.calls] == [
        original,
        {name: value for name, value in original.items() if name != gone},
    ]


def test_a_model_without_encrypted_reasoning_is_asked_without() -> None:
    def refuse(call: Any) -> Fault | None:
        return (
            status(400, message="Encrypted content is not supported with this model.")
            if "include" in call.body
            else None
        )

    with ModelServer("good", faults=refuse) as server:
        assert ask(settings(server.url, api="responses")).text == "good"
    assert ["include" in call.body for call in server.calls] == [True, False]


def test_halves_of_characters_are_sent_as_what_utf_8_can_carry() -> None:
    with ModelServer("good") as server:
        ask(settings(server.url), [Message("user", "half \ud83d and 好"), *QUESTION])
    assert server.calls[0].messages[0]["content"] == "half \ufffd and 好"
