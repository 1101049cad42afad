"""Replies without measure: many parts, long names, long messages, replies that stop in the middle."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import medagent
from medagent.core.errors import ModelError
from medagent.models import endpoint
from medagent.models.base import Completion, Usage
from medagent.models.calls import parse_arguments
from medagent.models.dialects import dialect
from medagent.models.endpoint import ChatEndpoint
from medagent.models.limiter import EndpointStats
from medagent.models.settings import Api
from tests.command import medagent as command
from tests.loopback import Fault, ModelServer, anthropic_json, chat_json, drip, half_closed, responses_json
from tests.medagent.models.asking import QUESTION, ask, settings, with_model

Json = dict[str, Any]
APIS: list[Api] = ["chat", "responses", "anthropic"]


class Counted(dict[str, Any]):
    """An object whose comparisons are counted."""

    compared: ClassVar[int] = 0
    __hash__ = None  # type: ignore[assignment]  # as Python does for classes with __eq__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def parts(api: Api, n: int) -> Json:
    """A reply with n parts of reasoning, n of another kind, and a text."""
    content = [Counted(type="thinking", n=number) for number in range(n)]
    content += [Counted(type="reference", n=number) for number in range(n)]
    content.append(Counted(type="text", text="a"))
    return replied(api, content)


def replied(api: Api, content: Any) -> Json:
    if api == "chat":
        return {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    if api == "responses":
        return {"output": [{"type": "message", "content": content}], "status": "completed"}
    return {"content": content, "stop_reason": "end_turn"}


def calls(api: Api, n: int) -> Json:
    """A reply with n tool calls, whose arguments are not JSON."""
    if api == "chat":
        entries = [Counted(id=f"c{number}", function=Counted(name="f", arguments="{")) for number in range(n)]
        return {"choices": [{"message": {"content": None, "tool_calls": entries}}]}
    if api == "responses":
        return {"output": [Counted(type="function_call", call_id=f"c{i}", name="f", arguments="{") for i in range(n)]}
    return {"content": [Counted(type="tool_use", id=f"c{number}", name="f", input="{") for number in range(n)]}


def choices(api: Api, n: int) -> Json:
    """A reply with n choices, or n messages."""
    if api == "chat":
        message = Counted(content="a")
        return {"choices": [Counted(message=message) for _ in range(n)]}
    if api == "responses":
        return {"output": [Counted(type="message", content=[Counted(type="output_text", text="a")]) for _ in range(n)]}
    return {"content": [Counted(type="text", text="a") for _ in range(n)]}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("made", [parts, calls, choices])
def test_a_reply_is_read_in_linear_time(made: Callable[[Api, int], Json], api: Api) -> None:
    compared = []
    for n in (200, 400):
        Counted.compared = 0
        dialect(api).read(made(api, n))
        compared.append(Counted.compared)
    assert compared[1] <= 2.2 * compared[0]
    assert compared[1] <= 10 * 400


def test_what_an_endpoint_rejects_is_found_in_linear_time() -> None:
    """Thousands of unknown members in the assistant's message, and an error that names none of them."""
    members = {f"member_{number}": 1 for number in range(5_000)}
    odd = {"choices": [{"message": {"content": "a", **members}, "finish_reason": "stop"}]}
    with ModelServer(
        lambda _: odd, faults=[None, Fault(status=400, body=b'{"error": "member_17 is not allowed"}')]
    ) as server:

        async def use(model: ChatEndpoint) -> list[str]:
            first = await model.complete(QUESTION)
            again = await model.complete([*QUESTION, first.message, *QUESTION])
            return [first.text, again.text]

        texts, model = with_model(settings(server.url), use)
    assert texts == ["a", "a"]
    assert "member_17" not in server.calls[2].body["messages"][1]
    assert "member_18" in server.calls[2].body["messages"][1]
    assert model.stats.notes == ["any-model rejects member_17 in its own messages; no longer sent back"]


@pytest.mark.parametrize("api", APIS)
def test_a_large_reply_is_read_beside_the_loop(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    async def noted(function: Callable[[], Any]) -> Any:
        threads.append(1)
        return function()

    monkeypatch.setattr(endpoint.asyncio, "to_thread", noted)
    small, large = reply(api, "a"), reply(api, "a" * (endpoint.LARGE_REPLY + 1))
    for body in (small, large):
        with ModelServer(lambda _, body=body: body) as server:  # type: ignore[misc]  # a lambda with a default
            ask(settings(server.url, api=api))
    assert len(threads) == 2  # decoding it, and hiding keys in it


def reply(api: Api, text: str) -> Json:
    if api == "chat":
        return chat_json(text, {})
    return responses_json(text) if api == "responses" else anthropic_json(text)


def test_a_signal_ends_a_run_with_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example: 20,000 parts of reasoning. The run reads it, and goes on to the next item."""
    monkeypatch.chdir(tmp_path)
    thinking = [{"type": "thinking", "n": number} for number in range(20_000)]
    body = replied("chat", [*thinking, {"type": "text", "text": "FINISH([])"}])
    with ModelServer(lambda _: body) as server:
        ran = command(*RUN, "--base-url", server.url, "--limit", 2)
    assert ran.code == 0, ran.err
    assert [row["status"] for row in rows(tmp_path)] == ["completed"] * 2


RUN = ("run", "--model", "m", "--ehr", "ehr.ndjson", "--dataset", "t.json", "--quiet", "--concurrency", 1)
PATIENT = {"resourceType": "Patient", "id": "S1", "name": [{"family": "Nagy", "given": ["Ilona"]}]}


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a patient and two tasks."""
    monkeypatch.chdir(tmp_path)
    tasks = [
        {"id": f"task1_{n}", "instruction": "What is the MRN of the patient Ilona Nagy?", "context": "", "sol": ["S1"]}
        for n in (1, 2)
    ]
    Path("t.json").write_text(json.dumps(tasks), "utf-8")
    Path("ehr.ndjson").write_text(json.dumps(PATIENT) + "\n", "utf-8")


def rows(folder: Path) -> list[Json]:
    (journal,) = folder.rglob("episodes.jsonl")
    return [json.loads(line) for line in journal.read_text("utf-8").splitlines()]


def called(*named: tuple[str, str, str]) -> Json:
    """A reply with these calls: id, name, arguments."""
    entries = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in named
    ]
    message = {"role": "assistant", "content": None, "tool_calls": entries}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage}


LONG = 300_000
"""Characters. One message with so many is larger than `SMALL`, and eight are more than a line of a pack may have."""
SMALL = 250_000
"""Bytes of a journal that stores no long name."""
LONG_CALLS = [
    ("c1", "x" * LONG, "{}", f"{'x' * 200}… (300,000 characters)"),
    ("i" * LONG, "get_patient", '{"family": "Nagy"}', "get_patient"),
    ("i" * 1_001, "x" * 201, "{}", f"{'x' * 200}… (201 characters)"),
]


@pytest.mark.parametrize(("call_id", "name", "arguments", "shown"), LONG_CALLS, ids=["name", "id", "both"])
def test_a_call_with_a_long_name_or_id_is_an_invalid_message(
    tmp_path: Path, call_id: str, name: str, arguments: str, shown: str
) -> None:
    with ModelServer(lambda _: called((call_id, name, arguments))) as server:
        ran = command(*RUN, "--base-url", server.url, "--protocol", "tools")
        sent = [call.body["messages"] for call in server.calls]
    assert ran.code == 0, ran.err
    (journal,) = tmp_path.rglob("episodes.jsonl")
    assert journal.stat().st_size < SMALL
    for row in rows(tmp_path):
        assert (row["status"], row["malformed"], row["rounds"]) == ("round_limit", 8, 8)
        message, answer = row["transcript"][1:3]
        assert message["content"] == f"{shown}({arguments})"
        assert message["call"]["name"] == shown
        assert "of a tool call has" in answer["content"]
        assert "the limit is" in answer["content"]
    returned = sent[1][-2]["tool_calls"][0]
    assert returned["function"]["name"] == shown
    assert len(returned["id"]) < 300
    assert sent[1][-1]["tool_call_id"] == returned["id"]
    assert all(len(json.dumps(messages)) < 100_000 for messages in sent)


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        (called(("c1", "x" * LONG, "{}")), 16),
        (called(("i" * 3_000, "get_patient", "{}")), 16),
        (called(("c1", "a <|channel|> name", "{}")), 16),
        (chat_json("GET http://localhost:8080/fhir/Patient?_id=" + "y" * 4_000_000, {}), 2),
    ],
    ids=["name", "id", "odd name", "message"],
)
def test_a_run_with_messages_over_a_limit_is_packed_and_checked(body: Json, calls: int, tmp_path: Path) -> None:
    """The example: 16 calls."""
    with ModelServer(lambda _: body) as server:
        model = ("--model", "m", "--base-url", server.url)
        ran = command("run", *model, "--version", "v1", "--limit", 2, "--protocol", "tools", "--quiet")
        assert (ran.code, len(server.calls)) == (0, calls), ran.err
    (folder,) = {path.parent for path in tmp_path.rglob("run.json")}
    assert (folder / "episodes.jsonl").stat().st_size < SMALL
    packed = command("submit", "pack", folder, "--out", tmp_path / "pack.tar.gz", "--partial")
    assert packed.code == 0, packed.err
    checked = command("submit", "check", tmp_path / "pack.tar.gz")
    assert checked.code == 0, checked.out + checked.err


def test_a_name_and_an_id_at_their_limits_are_sent_back_unchanged(tmp_path: Path) -> None:
    with ModelServer(lambda _: called(("i" * 1_000, "x" * 200, "{}"))) as server:
        command(*RUN, "--base-url", server.url, "--protocol", "tools", "--limit", 1)
        returned = server.calls[1].body["messages"][-2]["tool_calls"][0]
    assert returned == {"id": "i" * 1_000, "type": "function", "function": {"name": "x" * 200, "arguments": "{}"}}
    assert "unknown tool" in rows(tmp_path)[0]["transcript"][2]["content"]


def test_a_programs_call_with_a_long_name_is_an_invalid_message() -> None:
    with medagent.episode("task1_1", dataset="t.json", ehr=Path("ehr.ndjson")) as episode:
        episode.reset()
        said = episode.call("x" * 3_000_000, {})
        assert "has 3,000,000 characters; the limit is 200" in said
        assert len(json.dumps([turn.content for turn in episode.transcript])) < 10_000
        assert "over 2,000,000 characters" in episode.call("get_patient", "[" * 3_000_000)
        assert len(json.dumps([turn.content for turn in episode.transcript])) < 10_000


TOO_LONG = [
    ("text", chat_json("y" * 5_000_044, {})),
    ("tools", chat_json("y" * 5_000_044, {})),
    ("tools", called(("c1", "finish", "[" * 2_500_014), ("c2", "finish", "[" * 2_500_014))),
]


@pytest.mark.parametrize(("protocol", "body"), TOO_LONG, ids=["text", "text beside tools", "arguments"])
def test_a_models_message_over_the_limit_is_an_invalid_action(tmp_path: Path, protocol: str, body: Json) -> None:
    with ModelServer(lambda _: body) as server:
        ran = command(*RUN, "--base-url", server.url, "--protocol", protocol, "--limit", 1)
    assert ran.code == 0, ran.err
    (row,) = rows(tmp_path)
    error = "the model's message has 5,000,044 characters; the limit is 4,000,000"
    assert (row["status"], row["error"]) == ("invalid_action", error)
    assert (tmp_path / next(tmp_path.rglob("episodes.jsonl"))).stat().st_size < SMALL
    if body["choices"][0]["message"]["content"]:
        assert row["transcript"][1]["content"] == "y" * 10_000


def test_a_models_message_over_the_limit_in_code_is_an_invalid_action(tmp_path: Path) -> None:
    with ModelServer(chat_json("y" * 4_000_001, {})) as server:
        ran = command(*RUN, "--base-url", server.url, "--protocol", "code", "--sandbox", "monty", "--limit", 1)
    assert ran.code == 0, ran.err
    (row,) = rows(tmp_path)
    assert (row["status"], row["programs"][0]["message"]) == ("invalid_action", "y" * 10_000)
    assert "4,000,001 characters" in row["error"]


def test_a_long_url_made_of_short_arguments_is_refused(tmp_path: Path) -> None:
    arguments = json.dumps({"family": "é" * 1_000_000}, ensure_ascii=False)
    with ModelServer(lambda _: called(("c1", "get_patient", arguments))) as server:
        command(*RUN, "--base-url", server.url, "--protocol", "tools", "--limit", 1, "--max-rounds", 1)
    (row,) = rows(tmp_path)
    assert row["status"] == "round_limit"
    assert "the limit is 4,000,000" in row["transcript"][2]["content"]


class Long(medagent.Agent):
    """A program of one's own."""

    def play(self, task: Any, prompt: str) -> Any:
        yield "y" * 4_000_001


def test_a_programs_message_over_the_limit_is_its_error(tmp_path: Path) -> None:
    medagent.run_sync(agent=Long, dataset="t.json", ehr=Path("ehr.ndjson"), results_dir=tmp_path, ids=("task1_1",))
    (row,) = rows(tmp_path)
    assert (row["status"], "4,000,001 characters" in row["error"]) == ("agent_error", True)


QUESTIONS = '{"id": "q1", "question": "Who?", "answer": "A"}\n'


class Endless(medagent.Model):
    """A model of one's own with a message over the limit."""

    async def complete(self, messages: Any, **_: Any) -> Completion:
        return Completion("y" * 4_000_001, Usage(1, 1))


def test_an_answer_over_the_limit_is_no_error_of_an_agent(tmp_path: Path) -> None:
    medagent.run_sync("promptcblue", model=Endless, results_dir=tmp_path, limit=1)
    (journal,) = {path for path in tmp_path.rglob("*.jsonl") if path.name not in ("items.jsonl", "scores.jsonl")}
    (row,) = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    assert row["status"] == "invalid_action"
    assert "the model's message has 4,000,001 characters" in row["error"]


GOOD = json.dumps(chat_json("good", {})).encode()
CUT_OFF = {
    "short body": half_closed(),
    "garbage behind the JSON": Fault(body=GOOD + b"garbage"),
    "half of the JSON": Fault(body=GOOD[: len(GOOD) // 2]),
    "JSON without a message": Fault(body=b'{"choices": []}'),
    "a list": Fault(body=b"[1]"),
    "a gzip bomb": Fault(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b" " * 2_000_000)),
    "no gzip": Fault(headers={"Content-Encoding": "gzip"}, body=b"good"),
}


@pytest.mark.parametrize("fault", CUT_OFF.values(), ids=CUT_OFF)
@pytest.mark.parametrize("api", APIS)
def test_a_reply_that_was_cut_off_is_charged_by_an_estimate(api: Api, fault: Fault) -> None:
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError) as failed:
        ask(
            settings(server.url, api=api, name="gpt-4o-mini", max_retries=1, max_reply_bytes=1_000_000, retry_time_s=99)
        )
    requests = len(server.calls)
    assert requests == (1 if fault is CUT_OFF["a gzip bomb"] else 2)
    paid = failed.value.paid
    assert isinstance(paid, Completion)
    size = len(json.dumps(server.calls[0].body, separators=(",", ":")))
    assert paid.usage.prompt == requests * round(size / 4)
    assert paid.estimated_tokens == paid.usage.total
    assert paid.cost is not None
    assert paid.cost > 0
    assert paid.usage.completion < 1_000


def test_a_reply_without_end_is_charged_up_to_the_token_limit() -> None:
    endless = Fault(body=b'{"choices": ' + b" " * 100_000)
    with ModelServer(faults=lambda _: endless) as server, pytest.raises(ModelError) as failed:
        ask(settings(server.url, max_retries=0, max_tokens=80))
    assert isinstance(failed.value.paid, Completion)
    assert failed.value.paid.usage.completion == 80


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(body=b'{"error": "down"}')], ids=["500", "error"])
def test_an_error_of_the_endpoint_is_not_charged(fault: Fault) -> None:
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError) as failed:
        ask(settings(server.url, max_retries=1))
    assert failed.value.paid is None


def test_a_request_that_did_not_leave_is_not_charged() -> None:
    with ModelServer("good") as server:
        url = server.url

    async def use(model: ChatEndpoint) -> Any:
        model._reached = True
        return (await asyncio.gather(model.complete(QUESTION), return_exceptions=True))[0]

    for place in (url, url.replace("http://", "https://")):
        failure, _ = with_model(settings(place, max_retries=1), use)
        assert isinstance(failure, ModelError)
        assert failure.paid is None


def test_tokens_of_requests_without_a_reply_are_shown_apart(tmp_path: Path) -> None:
    with ModelServer("FINISH([])", faults=[CUT_OFF["half of the JSON"]]) as server:
        ran = command(*RUN[:-3], "--concurrency", 1, "--base-url", server.url, "--limit", 1)
    (row,) = rows(tmp_path)
    spent = row["spent"]
    assert spent["estimated"] == 1
    reported = spent["prompt"] + spent["completion"] - spent["unanswered"]
    assert f"{reported:,} tokens, and up to {spent['unanswered']:,} of requests without a reply" in ran.err


def test_estimates_without_a_price_count_against_no_limit(tmp_path: Path) -> None:
    """The first item's first request fails; its estimate alone is above the limit of tokens."""
    faults = [CUT_OFF["half of the JSON"]] * 3
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
    with ModelServer(chat_json("FINISH([])", {}) | usage, faults=faults) as server:
        command(*RUN, "--base-url", server.url, "--limit", 1, "--per-item", "tokens=300")
        first = rows(tmp_path)[0]
    assert first["spent"]["unanswered"] > 300
    assert first["status"] == "completed"


def test_signals_are_still_heard(tmp_path: Path) -> None:
    """A run whose endpoint sends slowly ends at a signal."""

    def fault(_: object) -> Fault:
        os.kill(os.getpid(), signal.SIGTERM)
        return drip()

    with ModelServer(faults=fault) as server:
        ran = command(*RUN, "--base-url", server.url)
    assert ran.code == 143


def test_left_out_parts_are_counted_in_a_note(tmp_path: Path) -> None:
    content = [
        {"type": "reference", "n": 1},
        {"type": "text", "text": "FINISH([])"},
        {"type": "image"},
        {"type": "image"},
    ]
    with ModelServer(lambda _: replied("chat", content)) as server:
        ran = command(*RUN[:-3], "--concurrency", 1, "--base-url", server.url)
    assert "Left out of replies, as neither text nor reasoning: 6 parts (4 image, 2 reference)" in ran.out + ran.err
    assert [row["status"] for row in rows(tmp_path)] == ["completed"] * 2
    assert EndpointStats(limit=1).left_out.total() == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"identifier": "X\\1"}', "not JSON"),
        ('{"identifier": "X', "not JSON"),
        ('{"a": 1}{"b": 2}', "not JSON"),
        ('{"a": NaN}', "not JSON"),
        ("[1]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ("null", "must be a JSON object"),
    ],
)
@pytest.mark.parametrize("api", APIS)
def test_arguments_that_are_no_object_are_answered_and_sent_back_empty(text: str, problem: str, api: Api) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_arguments(text)
    body = calls(api, 1)
    for entry in body.get("output") or body.get("content") or body["choices"][0]["message"]["tool_calls"]:
        place = entry.get("function", entry)
        place["input" if api == "anthropic" else "arguments"] = text
    completion = dialect(api).read(body)
    assert completion.tool_calls[0].arguments == text
    returned = json.dumps(completion.message.original)
    assert text not in returned or text == "null"
    assert ('"input": {}' if api == "anthropic" else '"arguments": "{}"') in returned


def test_the_journal_keeps_invalid_arguments_and_the_model_gets_the_error(tmp_path: Path) -> None:
    text = '{"identifier": "X\\1"}'
    replies = iter(
        [called(("c1", "get_patient", text)), called(("c2", "finish", "")), called(("c3", "finish", '{"answers": []}'))]
    )
    with ModelServer(lambda _: next(replies)) as server:
        command(*RUN, "--base-url", server.url, "--protocol", "tools", "--limit", 1)
        sent = server.calls[2].body["messages"]
    (row,) = rows(tmp_path)
    assert row["status"] == "completed"
    assert row["transcript"][1]["call"]["arguments"] == text
    assert "the arguments are not JSON" in row["transcript"][2]["content"]
    assert "finish takes `answers`, a list" in row["transcript"][4]["content"]
    returned = [message["tool_calls"][0]["function"]["arguments"] for message in sent if message.get("tool_calls")]
    assert returned == ["{}", "{}"]
