"""One episode: what a message means, where a URL may lead, what becomes of a POST."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhir_server import Server
from medagent.fhir_data.embedded import EmbeddedEhr
from medagent.fhir_episodes.fhir_base import FhirBase
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.requests_words import ActionError, prepare
from medagent.fhir_episodes.session import NO_ACTION, Outcome, Session, SessionRules, clean, strip_thinking
from medagent.fhir_episodes.task import FhirTask

BASE = "http://localhost:8080/fhir/"
PATIENT = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Kis", "given": ["Ann"]}]}
OBSERVATION = {
    "resourceType": "Observation",
    "status": "final",
    "code": {"text": "BP"},
    "subject": {"reference": "Patient/p1"},
}


@pytest.fixture(scope="module")
def ehr() -> Iterator[EmbeddedEhr]:
    server = Server.open(None, base=BASE.rstrip("/"))
    server.load([json.dumps(PATIENT)])
    yield EmbeddedEhr(server)
    server.close()


def play(ehr: EmbeddedEhr, *messages: str, **rules: Any) -> Outcome:
    async def run() -> Outcome:
        async with ehr.session("seed") as fhir:
            task = FhirTask(id="task1_1", type="task1", instruction="Who?", context="Now.")
            session = Session(task, fhir, load_protocol("text"), SessionRules(**rules))
            session.reset()
            for message in messages:
                if not session.done:
                    await session.act(message)
            return session.outcome()

    return asyncio.run(run())


def reply(ehr: EmbeddedEhr, message: str, **rules: Any) -> str:
    return play(ehr, message, **rules).transcript[-1].content


@pytest.mark.parametrize(
    ("message", "status", "answer"),
    [
        ("FINISH([1])", "completed", "[1]"),
        ("  FINISH([ 1,\n 2 ])  ", "completed", "[ 1,\n 2 ]"),
        ("FINISH(not json)", "completed", "not json"),
        ("FINISH()", "completed", ""),
        ("```tool_code\nFINISH([])\n```", "completed", "[]"),
        ("finish([1])", "invalid_action", None),
        ("I will FINISH([1])", "invalid_action", None),
        ("<think>hm</think>FINISH([1])", "invalid_action", None),
        ("", "invalid_action", None),
        ("DELETE http://localhost:8080/fhir/Patient/p1", "invalid_action", None),
    ],
)
def test_the_first_letters_decide(ehr: EmbeddedEhr, message: str, status: str, answer: str | None) -> None:
    outcome = play(ehr, message)
    assert (outcome.status, outcome.answer) == (status, answer)
    assert outcome.transcript[-1].content == message


def test_half_of_a_surrogate_pair_is_replaced_in_a_message(ehr: EmbeddedEhr) -> None:
    outcome = play(ehr, 'FINISH(["\ud800"])')
    assert (outcome.answer, outcome.transcript[-1].content) == ('["\ufffd"]', 'FINISH(["\ufffd"])')


def test_thinking_is_cut_where_asked_and_the_raw_text_kept(ehr: EmbeddedEhr) -> None:
    message = "<think>so\n</think>\nFINISH([1])"
    outcome = play(ehr, message, strip_thinking=True)
    assert outcome.status == "completed"
    assert outcome.transcript[-1].content == message
    assert outcome.transcript[-1].dispatched == "FINISH([1])"


@pytest.mark.parametrize("message", ["<think>open FINISH([1])", "no <think>x</think>", "plain"])
def test_only_a_leading_closed_block_is_cut(message: str) -> None:
    assert strip_thinking(message) == message


def test_a_get_shows_the_servers_text(ehr: EmbeddedEhr) -> None:
    text = reply(ehr, f"GET {BASE}Patient?family=Kis")
    bundle = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    assert bundle["entry"][0]["resource"]["id"] == "p1"
    assert bundle["entry"][0]["fullUrl"] == f"{BASE}Patient/p1"


def test_an_error_is_worded_as_published(ehr: EmbeddedEhr) -> None:
    text = reply(ehr, f"GET {BASE}Patient/nobody?x=Mary Ann")
    assert text.endswith(f": 400 Client Error:  for url: {BASE}Patient/nobody?x=Mary%20Ann&_format=json")
    text = reply(ehr, f"GET {BASE}Patient/nobody")
    assert text.endswith(f": 404 Client Error:  for url: {BASE}Patient/nobody&_format=json")


def test_a_lenient_error_names_status_and_diagnostics(ehr: EmbeddedEhr) -> None:
    text = reply(ehr, f"GET {BASE}Patient/nobody", loop="lenient")
    assert "404" in text
    assert "HAPI-2001" in text


def test_with_hints_the_third_message_in_a_row_without_an_action_ends_the_episode(ehr: EmbeddedEhr) -> None:
    read = f"GET {BASE}Patient?_count=1"
    outcome = play(ehr, "Let me think.", "I will GET it.", read, "So", "", "The answer is 3.", read, hints=True)
    assert outcome.status == "invalid_action"
    assert outcome.rounds == 6
    hints = [number for number, turn in enumerate(outcome.transcript) if turn.content == NO_ACTION]
    assert hints == [2, 4, 8, 10]
    assert play(ehr, "Hm", "Hm", "FINISH([3])", hints=True).answer == "[3]"
    assert play(ehr, "Hm", "Hm", hints=True, max_rounds=2).status == "round_limit"


def test_the_same_episode_gives_the_same_bytes(ehr: EmbeddedEhr) -> None:
    messages = [
        f"GET {BASE}Patient?_count=1",
        f"POST {BASE}Observation\n{json.dumps(OBSERVATION)}",
        f"GET {BASE}Observation",
    ]
    assert play(ehr, *messages).transcript == play(ehr, *messages).transcript


OUTSIDE = [
    "http://evil.example/fhir/Patient",
    "http://localhost:8081/fhir/Patient",
    "http://localhost/fhir/Patient",
    "https://localhost:8080/fhir/Patient",
    "http://localhost:8080/fhirx/Patient",
    "http://localhost:8080/fhir/../admin",
    "http://localhost:8080/fhir/%2e%2e/admin",
    "http://localhost:8080/fhir/Patient/../../admin",
    "http://localhost:8080@evil.example/fhir/Patient",
    "file:///etc/passwd",
    "Patient?name=x",
    "//evil.example/fhir/Patient",
    "http://[::1/fhir",
    "http://localhost:port/fhir",
    "",
]


@pytest.mark.parametrize("url", OUTSIDE)
def test_a_url_outside_the_base_is_told_so_where_the_loop_is_lenient(ehr: EmbeddedEhr, url: str) -> None:
    for message in (f"GET {url}", f"POST {url}\n{{}}"):
        outcome = play(ehr, message, loop="lenient")
        assert "FHIR base" in outcome.transcript[-1].content or "not a URL" in outcome.transcript[-1].content
        assert "accepted" not in outcome.transcript[-1].content
        assert outcome.transcript[-2].content == message
        assert outcome.status is None
        assert outcome.writes == []


@pytest.mark.parametrize("url", OUTSIDE)
def test_a_post_outside_the_base_is_acknowledged_and_not_sent(ehr: EmbeddedEhr, url: str) -> None:
    outcome = play(ehr, f"POST {url}\n{json.dumps(OBSERVATION)}")
    assert "POST request accepted" in outcome.transcript[-1].content
    assert outcome.writes[0].url == url
    assert (outcome.writes[0].refused or "").startswith("not sent: ")
    refused = reply(ehr, f"POST {url}\n{json.dumps(OBSERVATION)}", writes="execute")
    assert refused.startswith("Invalid POST request: ")


MISSING = "Invalid URL {0!r}: No scheme supplied. Perhaps you meant https://{0}?"
ADAPTER = "No connection adapters were found for {0!r}"
UNPARSED = "Failed to parse: {0}"
REFUSED = (
    "{scheme}ConnectionPool(host={host!r}, port={port}): Max retries exceeded with url: {path} (Caused by "
    "NewConnectionError('<urllib3.connection.{scheme}Connection object at 0x7f0000000000>: "
    "Failed to establish a new connection: [Errno 111] Connection refused'))"
)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("Patient?a=b", MISSING),
        ("/fhir/Patient?a=b", MISSING),
        ("//evil.example/fhir/Patient", MISSING),
        ("", MISSING),
        ("localhost:8080/fhir/Patient", ADAPTER),
        (f"<{BASE}Patient?a=b>", ADAPTER),
        (f"'{BASE}Patient?a=b'", ADAPTER),
        (f"[x]({BASE}Patient?a=b)", ADAPTER),
        (f": {BASE}Patient?a=b", ADAPTER),
        ("file:///etc/passwd", ADAPTER),
        ("httpx://a/b", ADAPTER),
        ("http://localhost:port/fhir", UNPARSED),
        ("http://localhost:99999/fhir", UNPARSED),
        ("http://[::1/fhir", UNPARSED),
        ("http://é a/fhir", UNPARSED),
        ("http:/localhost/fhir", "Invalid URL {0!r}: No host supplied"),
        ("http://*.example/fhir", "URL has an invalid label."),
        ("x://[", "Invalid IPv6 URL"),
        ("http://[::%2e1]/fhir", "'::.1' does not appear to be an IPv4 or IPv6 address"),
    ],
)
def test_what_is_no_url_is_worded_as_published(ehr: EmbeddedEhr, url: str, words: str) -> None:
    said = words.format(url + "&_format=json")
    assert reply(ehr, f"GET {url}") == f"The GET failed: {said}"


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "path"),
    [
        ("http://evil.example/fhir/Patient?a=b c", "HTTP", "evil.example", 80, "/fhir/Patient?a=b%20c&_format=json"),
        ("https://Evil.example?a", "HTTPS", "evil.example", 443, "/?a&_format=json"),
        ("http://localhost/fhir/Patient?a", "HTTP", "localhost", 80, "/fhir/Patient?a&_format=json"),
        ("http://127.0.0.1:8081/x?a#b", "HTTP", "127.0.0.1", 8081, "/x?a"),
        ("http://bücher.example/x?a", "HTTP", "xn--bcher-kva.example", 80, "/x?a&_format=json"),
        ("http://localhost:8080@evil.example/x?a", "HTTP", "evil.example", 80, "/x?a&_format=json"),
    ],
)
def test_another_server_reads_as_a_refused_connection(
    ehr: EmbeddedEhr, url: str, scheme: str, host: str, port: int, path: str
) -> None:
    said = REFUSED.format(scheme=scheme, host=host, port=port, path=path)
    assert reply(ehr, f"GET {url}") == f"The GET failed: {said}"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://localhost:8080/Patient?a", "404 Client Error:  for url: http://localhost:8080/Patient?a&_format=json"),
        (BASE + "../Patient?a", "404 Client Error:  for url: http://localhost:8080/Patient?a&_format=json"),
        (BASE + "%2e%2e/x?a", "404 Client Error:  for url: http://localhost:8080/fhir/../x?a&_format=json"),
        (
            "https://localhost:8080/fhir/Patient?a",
            "HTTPSConnectionPool(host='localhost', port=8080): Max retries exceeded with url: "
            "/fhir/Patient?a&_format=json (Caused by SSLError(SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version "
            "number (_ssl.c:1006)')))",
        ),
    ],
)
def test_the_same_server_outside_the_base_has_nothing(ehr: EmbeddedEhr, url: str, said: str) -> None:
    assert reply(ehr, f"GET {url}") == f"The GET failed: {said}"


@pytest.mark.parametrize(
    "server", ["127.0.0.1:8080", "127.1:8080", "0.0.0.0:8080", "LOCALHOST:08080", "me:x@localhost:8080"]
)
def test_another_name_of_the_address_is_the_same_server(ehr: EmbeddedEhr, server: str) -> None:
    text = reply(ehr, f"GET http://{server}/fhir/Patient?family=Kis")
    named = server.lower().rpartition("@")[2].replace(":0", ":")
    assert f'"fullUrl": "http://{named}/fhir/Patient/p1"' in text


def test_a_wrapped_url_is_sent_with_its_line_ends(ehr: EmbeddedEhr) -> None:
    assert "name=Kis%0AAnn" in reply(ehr, f"GET {BASE}Patient?name=Kis\nAnn")


@given(st.text() | st.text().map(lambda text: "http" + text) | st.text().map(lambda text: BASE + text))
def test_no_text_crashes_and_every_url_is_escaped(url: str) -> None:
    try:
        prepared = prepare(url)
    except ActionError:
        return
    assert prepared.text.isascii()
    assert " " not in prepared.text
    FhirBase(BASE).below(prepared.parts)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (BASE + "Patient?name=Mary Ann", "/Patient?name=Mary%20Ann"),
        ("http://LOCALHOST:8080/fhir?_getpages=x", "?_getpages=x"),
        (BASE + "Observation?date=ge2023-11-12T10:15:00+00:00", "/Observation?date=ge2023-11-12T10:15:00+00:00"),
        (BASE + "a/./b/../Patient", "/a/Patient"),
        (BASE + "Patient?name=Zoë|x", "/Patient?name=Zo%C3%AB%7Cx"),
    ],
)
def test_a_url_inside_keeps_its_words(url: str, target: str) -> None:
    assert FhirBase(BASE).target(url) == target


@given(st.text())
def test_no_url_crashes_and_none_leaves_the_base(url: str) -> None:
    try:
        target = FhirBase(BASE).target(url)
    except ActionError:
        return
    assert target == "" or target[0] in "/?"
    assert ".." not in target.partition("?")[0].split("/")


@given(st.text())
def test_what_is_cleaned_holds_no_fence_of_tool_code(message: str) -> None:
    assert "```tool_code" not in clean(message)


@pytest.mark.parametrize("loop", ["published", "lenient"])
def test_acknowledged_writes_are_kept_and_never_read(ehr: EmbeddedEhr, loop: str) -> None:
    post = f"POST {BASE}Observation\n{json.dumps(OBSERVATION)}"
    outcome = play(ehr, post, post, f"GET {BASE}Observation?patient=p1&_summary=count", loop=loop)
    assert '"total": 0' in outcome.transcript[-1].content
    stored = [write.resource for write in outcome.writes]
    assert all(resource and resource["code"] == {"text": "BP"} for resource in stored)
    assert len({resource["id"] for resource in stored if resource}) == 2
    assert f"Resource created with id: {(stored[0] or {})['id']}" in outcome.transcript[2].content


def test_executed_writes_are_seen_in_the_same_episode_only(ehr: EmbeddedEhr) -> None:
    post = f"POST {BASE}Observation\n{json.dumps(OBSERVATION)}"
    count = f"GET {BASE}Observation?patient=p1&_summary=count"
    assert '"total": 1' in play(ehr, post, count, writes="execute").transcript[-1].content
    assert '"total": 0' in reply(ehr, count, writes="execute")


@pytest.mark.parametrize("payload", ["[1, 2]", "{}", '"text"', '{"resourceType": "Observation", "status": "banana"}'])
def test_whatever_loads_is_acknowledged_and_the_refusal_kept(ehr: EmbeddedEhr, payload: str) -> None:
    outcome = play(ehr, f"POST {BASE}Observation\n{payload}")
    assert (
        "POST request accepted and executed successfully. Resource created with id: 1" in outcome.transcript[-1].content
    )
    assert outcome.writes[0].resource is None
    assert "400" in (outcome.writes[0].refused or "")


def test_executed_writes_are_the_servers_decision(ehr: EmbeddedEhr) -> None:
    accepted = reply(ehr, f"POST {BASE}Observation\n{json.dumps(OBSERVATION)}", writes="execute")
    assert "POST request accepted" in accepted
    refused = reply(
        ehr, f'POST {BASE}Observation\n{{"resourceType": "Observation", "status": "banana"}}', writes="execute"
    )
    assert refused.startswith("Invalid POST request")
    assert "HAPI-" in refused


@pytest.mark.parametrize("payload", ["", "```", "{'a': 1}", "{", "1" * 5000, "[" * 100_000])
def test_what_does_not_load_is_refused_and_the_reason_told_where_the_loop_is_lenient(
    ehr: EmbeddedEhr, payload: str
) -> None:
    outcome = play(ehr, f"POST {BASE}Observation\n{payload}")
    assert outcome.transcript[-1].content == "Invalid POST request"
    assert outcome.writes == []
    told = reply(ehr, f"POST {BASE}Observation\n{payload}", loop="lenient")
    assert told.startswith("Invalid POST request: the lines after the url are not JSON (")


def test_only_newlines_part_the_url_from_the_payload(ehr: EmbeddedEhr) -> None:
    outcome = play(ehr, f"POST {BASE}Observation\u2028\n{json.dumps(OBSERVATION)}")
    assert "accepted" in outcome.transcript[-1].content


def test_rounds_end(ehr: EmbeddedEhr) -> None:
    outcome = play(ehr, *[f"GET {BASE}Patient?_count={n}" for n in range(1, 20)])
    assert outcome.status == "round_limit"
    assert outcome.rounds == 8
    assert outcome.transcript[-1].role == "user"
