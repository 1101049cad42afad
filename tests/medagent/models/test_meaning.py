"""What an error means, by its words and code, and wherever it is: in a status, in a 200, inside a completion."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medagent.core.errors import ContextLimitError, ModelError, RefusedError, StopRunError
from tests.loopback import Fault, ModelServer, status
from tests.medagent.models.asking import ask, settings

TOO_LONG = {"message": "This model's maximum context length is 2048 tokens. However, you requested 2500 tokens."}
JINJA = {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}
FILTERED = {"message": "The response was filtered", "code": "content_filter"}
ERRORS = [
    (TOO_LONG, ContextLimitError),
    ({"message": "no", "type": "exceed_context_size_error", "n_ctx": 2048, "n_prompt_tokens": 2500}, ContextLimitError),
    (JINJA, ModelError),
    ({"message": "this model does not support tools"}, ModelError),
    (FILTERED, RefusedError),
    ({"message": "no", "code": "insufficient_quota"}, StopRunError),
]


def within(place: str, error: Any) -> Fault:
    if place.isdigit():
        return Fault(status=int(place), body=json.dumps({"error": error}).encode())
    if place == "200":
        return Fault(body=json.dumps({"error": error}).encode())
    choice = {"message": {"content": ""}, "finish_reason": "error", "error": error}
    return Fault(body=json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize("place", ["400", "500", "200", "choice"])
@pytest.mark.parametrize(("error", "kind"), ERRORS, ids=[str(number) for number in range(len(ERRORS))])
def test_an_error_means_the_same_in_every_place(error: Any, kind: type[Exception], place: str) -> None:
    with ModelServer(faults=lambda _: within(place, error)) as server, pytest.raises(kind):
        ask(settings(server.url, max_retries=1, retry_time_s=5))
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": "I cannot."},
        {"content": [{"type": "refusal", "refusal": "I cannot."}]},
        {"content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "I cannot."}]},
    ],
)
def test_a_refusal_inside_a_completion_is_refused(message: Any) -> None:
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    with ModelServer(lambda _: body) as server, pytest.raises(RefusedError, match="I cannot"):
        ask(settings(server.url))


def test_a_limit_of_tokens_per_minute_is_no_window() -> None:
    fault = status(413, message="Request too large for model on tokens per minute (TPM)", code="rate_limit_exceeded")
    with ModelServer("a", faults=[fault]) as server:
        assert ask(settings(server.url)).retries == 1
