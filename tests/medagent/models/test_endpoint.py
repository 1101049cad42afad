"""A model behind a real server on the loopback interface: what goes wrong there, and what a run makes of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from medagent.core.errors import ContextLimitError, ModelError, StopRunError, UserError
from medagent.models import open_model
from medagent.models.base import Message
from medagent.models.endpoint import ChatEndpoint
from medagent.models.settings import ModelSettings
from tests.loopback import (
    Fault,
    ModelServer,
    drip,
    empty_choices,
    half_closed,
    stall,
    status,
    truncated_json,
    wrong_content_type,
)
from tests.medagent.models.asking import QUESTION, ask, settings, with_model
from tests.medagent.models.conftest import KEY

PASSING = {
    "429": status(429),
    "408": status(408),
    "409": status(409),
    "500": status(500),
    "503": status(503),
    "stall": stall(),
    "drip": drip(),
    "half-closed": half_closed(),
    "truncated": truncated_json(),
    "empty": empty_choices(),
    "html": wrong_content_type(),
    "not an object": Fault(body=b"[]"),
    "too deep": Fault(body=b"[" * 100_000),
    "an error inside 200": Fault(body=b'{"error": {"message": "overloaded", "code": 503}}'),
}
ASKED = pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())


@ASKED
def test_a_fault_that_passes_costs_one_retry(fault: Fault) -> None:
    with ModelServer("FINISH([1])", faults=[fault]) as server:
        completion = ask(settings(server.url, timeout_s=1))
    assert completion.text == "FINISH([1])"
    assert completion.retries == 1
    assert completion.waited > 0
    assert len(server.calls) == 2


@ASKED
def test_a_fault_that_stays_ends_the_episode_after_the_retries(fault: Fault) -> None:
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError, match="2 attempts"):
        ask(settings(server.url, timeout_s=1, max_retries=1))
    assert len(server.calls) == 2


def test_retries_are_bounded_in_time() -> None:
    with ModelServer(faults=[status(503, retry_after=3600)]) as server, pytest.raises(ModelError, match="gave up"):
        ask(settings(server.url, retry_time_s=60))
    assert len(server.calls) == 1


def test_nobody_listens() -> None:
    with ModelServer() as server:
        url = server.url
    with pytest.raises(StopRunError, match=f"{url}: nothing listens on 127.0.0.1:.*; start the server") as failed:
        ask(settings(url, max_retries=1))
    assert "attempts" not in str(failed.value)


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_is_kept_to_the_second(code: int) -> None:
    with ModelServer(faults=[status(code, retry_after=1)]) as server:
        completion = ask(settings(server.url))
    first, second = server.calls
    assert second.at - first.at >= 1.0
    assert 1.0 <= completion.waited <= 1.5


@pytest.mark.parametrize("code", [401, 402, 403, 404])
def test_a_refused_key_or_model_stops_the_run_with_the_providers_words(code: int) -> None:
    with (
        ModelServer(faults=[status(code, message="no such thing here")]) as server,
        pytest.raises(StopRunError, match=f"{code}: no such thing here"),
    ):
        ask(settings(server.url))
    assert len(server.calls) == 1


def test_an_exhausted_quota_is_no_rate_limit() -> None:
    with (
        ModelServer(faults=[status(429, message="You exceeded your quota", code="insufficient_quota")]) as server,
        pytest.raises(StopRunError, match="exceeded your quota"),
    ):
        ask(settings(server.url))
    assert len(server.calls) == 1


def test_a_redirect_is_not_followed_with_the_key() -> None:
    moved = Fault(status=307, headers={"Location": "http://127.0.0.1:9/v1"}, body=b"")
    with ModelServer(faults=[moved]) as server, pytest.raises(StopRunError, match=r"http://127\.0\.0\.1:9/v1"):
        ask(settings(server.url))


@pytest.mark.parametrize("code", [400, 422])
def test_a_refused_request_is_not_repeated(code: int) -> None:
    with ModelServer(faults=[status(code, message="bad tools")]) as server, pytest.raises(ModelError, match="bad tool"):
        ask(settings(server.url))
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "'max_tokens' or 'max_completion_tokens' is too large: 2048. This model's maximum context length is 4096",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens",
        "Range of input length should be [1, 30720]",
        "Input is too long for requested model.",
    ],
)
def test_a_full_context_window(words: str) -> None:
    with ModelServer(faults=[status(400, message=words)]) as server, pytest.raises(ContextLimitError):
        ask(settings(server.url))
    assert len(server.calls) == 1


def test_a_full_context_window_named_by_code_alone() -> None:
    fault = status(400, message="no", code="context_length_exceeded")
    with ModelServer(faults=[fault]) as server, pytest.raises(ContextLimitError):
        ask(settings(server.url))


def _ask_often(times: int) -> Callable[[ChatEndpoint], Any]:
    async def use(model: ChatEndpoint) -> list[BaseException | Any]:
        return [(await asyncio.gather(model.complete(QUESTION), return_exceptions=True))[0] for _ in range(times)]

    return use


def test_ten_refused_requests_in_a_row_stop_the_run() -> None:
    with ModelServer(faults=lambda _: status(400)) as server:
        outcomes, _ = with_model(settings(server.url), _ask_often(10))
    assert [type(outcome) for outcome in outcomes] == [ModelError] * 9 + [StopRunError]


def test_a_success_between_refused_requests_starts_the_count_anew() -> None:
    with ModelServer(faults=lambda call: None if call.number == 9 else status(400)) as server:
        outcomes, _ = with_model(settings(server.url), _ask_often(19))
    assert not any(isinstance(outcome, StopRunError) for outcome in outcomes)


def test_concurrency_halves_once_for_a_burst_of_429_and_recovers() -> None:
    limits: list[int] = []

    async def use(model: ChatEndpoint) -> None:
        await asyncio.gather(*(model.complete(QUESTION) for _ in range(8)))
        limits.append(model.stats.limit)
        await asyncio.gather(*(model.complete(QUESTION) for _ in range(40)))
        limits.append(model.stats.limit)

    with ModelServer(latency=0.01, faults=[status(429)] * 8) as server:
        _, model = with_model(settings(server.url), use)
    assert 4 <= limits[0] < 8
    assert limits[1] == 8
    assert model.stats.throttled == 8
    assert model.stats.retries == 8
    assert model.stats.waits >= 8
    assert model.stats.waited_s > 0
    assert model.stats.in_flight == 0


def test_a_cancelled_call_gives_its_place_back() -> None:
    async def use(model: ChatEndpoint) -> str:
        stuck = [asyncio.create_task(model.complete(QUESTION)) for _ in range(3)]
        while not server.calls:  # noqa: ASYNC110  # one has the place, the others wait for it
            await asyncio.sleep(0.01)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        return (await model.complete(QUESTION)).text

    with ModelServer("fine", faults=lambda call: stall() if call.number == 0 else None) as server:
        text, model = with_model(settings(server.url), use, concurrency=1)
    assert text == "fine"
    assert model.stats.in_flight == 0


def test_an_episode_stays_with_one_replica() -> None:
    async def use(model: ChatEndpoint) -> None:
        for session in range(40):
            for _ in range(2):
                await model.complete([Message("user", str(session))], session=f"task1_{session}")

    with ModelServer() as first, ModelServer() as second:
        with_model(settings(first.url, second.url), use)
    asked = [{call.messages[0]["content"] for call in server.calls} for server in (first, second)]
    assert asked[0]
    assert asked[1]
    assert not asked[0] & asked[1]
    assert len(first.calls) + len(second.calls) == 80


@pytest.mark.parametrize(("api", "header"), [("chat", "authorization"), ("anthropic", "x-api-key")])
def test_the_key_shows_nowhere(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, api: str, header: str
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    leak = status(401, message=f"Incorrect API key provided: {KEY} or sk-proj-other. See Bearer {KEY}.")
    with ModelServer(faults=[leak]) as server:
        outcomes, model = with_model(settings(server.url, api=api), _ask_often(1))
    assert KEY in server.calls[0].headers[header]
    shown = str(outcomes[0]) + repr(outcomes[0]) + repr(model) + repr(model.settings) + model.settings.model_dump_json()
    assert "Incorrect API key provided" in shown
    assert KEY not in shown + caplog.text
    assert "sk-proj" not in shown


def test_a_local_endpoint_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with ModelServer("here") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
        assert ask(settings()).text == "here"
    assert server.calls[0].path == "/v1/chat/completions"


def test_the_environments_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer("by proxy") as proxy, ModelServer("straight") as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert ask(settings("http://models.example/v1")).text == "by proxy"
        assert ask(settings(server.url)).text == "straight"
    assert [call.path for call in proxy.calls] == ["http://models.example/v1/chat/completions"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (stall(), "no answer in 0.5 s"),
        (half_closed(), "the answer ended before it was complete"),
        (truncated_json(), "the reply is not JSON"),
    ],
)
def test_what_an_endpoint_did_wrong_is_said(fault: Fault, words: str) -> None:
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError, match=words):
        ask(settings(server.url, timeout_s=0.5, max_retries=0))


def test_neither_key_nor_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        open_model(ModelSettings(name="gpt-4o-mini"))


def test_a_base_url_without_a_scheme() -> None:
    with pytest.raises(UserError, match="localhost:8000"):
        settings("localhost:8000/v1")


def test_many_conversations_at_once() -> None:
    async def use(model: ChatEndpoint) -> list[str]:
        asked = (model.complete([Message("user", str(n))]) for n in range(300))
        return [completion.text for completion in await asyncio.gather(*asked)]

    with ModelServer(lambda request: f"re {request['messages'][0]['content']}") as server:
        texts, _ = with_model(settings(server.url), use, concurrency=64)
    assert texts == [f"re {n}" for n in range(300)]
    assert len(server.calls) == 300


def test_a_call_that_failed_for_good_says_how_often_and_how_long_it_was_tried() -> None:
    with ModelServer(faults=lambda _: status(500)) as server, pytest.raises(ModelError) as failed:
        ask(settings(server.url, max_retries=1))
    assert failed.value.retries == 1
    assert failed.value.waited > 0
