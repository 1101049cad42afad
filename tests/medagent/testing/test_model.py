"""The chat double, asked by the clients that people use and by a run of this project's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from medagent.testing import ModelDouble

Factory = Callable[[list[Any]], ModelDouble]


def test_texts_and_tool_calls_by_the_openai_client(scripted_model: Factory) -> None:
    import openai

    double = scripted_model([("search_patients", {"name": "Smith"}), "FINISH([1])"])
    with openai.OpenAI(base_url=double.url, api_key="none", max_retries=1) as client:
        double.fail(status=429, retry_after=0)
        asked: list[Any] = [{"role": "user", "content": "Who?"}]
        first = client.chat.completions.create(model="any", messages=asked).choices[0]
        assert first.message.tool_calls is not None
        call: Any = first.message.tool_calls[0]
        assert (first.finish_reason, call.function.name) == ("tool_calls", "search_patients")
        assert call.function.arguments == '{"name": "Smith"}'
        asked += [first.message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "[]"}]
        second = client.chat.completions.create(model="any", messages=asked)
        assert second.choices[0].message.content == "FINISH([1])"
    assert len(double.requests) == 3


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/models", {}, 404, "chat/completions alone"),
        ("/chat/completions", {}, 400, "cannot be read"),
        ("/chat/completions", {"messages": [], "stream": True}, 400, "does not stream"),
        ("/chat/completions", {"messages": [{"role": "assistant", "content": "x"}]}, 400, "ends after 1 replies"),
    ],
)
def test_requests_that_it_refuses(scripted_model: Factory, path: str, body: Any, status: int, words: str) -> None:
    answer = httpx.post(scripted_model(["one"]).url + path, json=body)
    assert (answer.status_code, words in answer.json()["error"]["message"]) == (status, True)


def test_connection_faults(scripted_model: Factory) -> None:
    double = scripted_model(["one"])
    body = {"messages": [{"role": "user", "content": "x"}]}
    for fault in (double.drop, double.truncate):
        fault()
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{double.url}/chat/completions", json=body)
    assert httpx.post(f"{double.url}/chat/completions", json=body).json()["choices"][0]["message"]["content"] == "one"
