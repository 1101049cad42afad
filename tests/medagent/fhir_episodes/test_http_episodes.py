"""Agents that ask a FHIR base themselves: a private record each, and the verdict of a run for the same acts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

import medagent
from medagent import UserError
from medagent.fhir import HttpEpisodes
from tests.medagent.fhir_episodes.http_agent import play

ORDER = {
    "resourceType": "MedicationRequest",
    "status": "active",
    "intent": "order",
    "medicationCodeableConcept": {"text": "x"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpEpisodes]:
    with medagent.serve_episodes() as server:
        yield server


@pytest.mark.parametrize("kind", range(1, 11))
def test_what_is_done_over_http_has_the_verdict_of_a_run(server: HttpEpisodes, kind: int) -> None:
    with server.open(f"task{kind}_2") as e, server.open(f"task{kind}_2") as idle:
        e.finish(play(e.task, e.base, e.headers))
        idle.finish([])
    assert e.verdict().correct is True
    with medagent.episode(e.task, writes="execute") as run:
        run.reset()
        for turn in e.outcome().transcript:
            if turn.role == "agent":
                run.act(turn.content)
    assert run.verdict() == e.verdict()
    assert [(write.url, write.refused) for write in e.outcome().writes] == [
        (write.url, None) for write in run.outcome.writes
    ]
    with medagent.episode(idle.task) as nop:
        nop.reset()
        nop.act("FINISH([])")
    assert nop.verdict() == idle.verdict()


@pytest.mark.parametrize(("method", "read"), [("GET", True), ("HEAD", False)])
def test_only_a_reply_with_a_body_is_a_reading(server: HttpEpisodes, method: str, read: bool) -> None:
    answers = next(task.fields.get("sol") for task in medagent.tasks() if task.id == "task1_1")
    with server.open("task1_1") as e:
        httpx.request(method, f"{e.base}/Patient?identifier={answers[0]}", headers=e.headers)
        e.finish(answers)
    assert (e.verdict().correct, e.verdict().grounded) == (True, read)


def test_the_prompt_names_base_and_token_and_the_transcript_neither(server: HttpEpisodes) -> None:
    with server.open("task1_1") as e:
        token = e.headers["Authorization"].removeprefix("Bearer ")
        assert e.base in e.prompt
        assert token in e.prompt
        assert e.task.instruction in e.prompt
        httpx.get(f"{e.base}/Patient?_count=1", headers=e.headers)
        said = "".join(turn.content for turn in e.outcome().transcript)
        assert '"fullUrl": "http://localhost:8080/fhir/Patient/' in said
        assert token not in said
        assert "/episodes/" not in said


def test_writes_are_kept_with_what_was_stored(server: HttpEpisodes) -> None:
    with server.open("task5_1") as e, httpx.Client(base_url=e.base, headers=e.headers) as client:
        patient = client.get("/Patient?_count=1").json()["entry"][0]["resource"]["id"]
        order = {**ORDER, "subject": {"reference": f"Patient/{patient}"}, "note": [{"text": f"see {e.base}/Patient/1"}]}
        assert client.post("/MedicationRequest", json=order).status_code == 201
        assert client.post("/MedicationRequest", json={"resourceType": "Basic"}).status_code == 400
        assert client.post("/Patient/_search", data={"_count": "1", "name": "POSTA"}).status_code == 200
        e.finish([])
        assert client.get("/Patient").status_code == 404, "the record is gone"
    outcome = e.outcome()
    assert [write.refused is None for write in outcome.writes] == [True, False]
    assert "HTTP status 400" in str(outcome.writes[1].refused)
    said = [turn.content for turn in outcome.transcript if turn.role == "agent"]
    assert said[1].startswith("POST http://localhost:8080/fhir/MedicationRequest\n{")
    assert '"see http://localhost:8080/fhir/Patient/1"' in said[1]
    assert said[3] == "GET http://localhost:8080/fhir/Patient?_count=1&name=POSTA"
    assert (outcome.status, outcome.answer, outcome.rounds) == ("completed", "[]", 5)


def test_xml_counts_as_what_was_stored_of_it(server: HttpEpisodes) -> None:
    xml = '<Basic xmlns="http://hl7.org/fhir"><code><text value="x"/></code></Basic>'
    with server.open("task1_1") as e:
        sent = httpx.post(f"{e.base}/Basic", content=xml, headers={**e.headers, "Content-Type": "application/fhir+xml"})
        assert sent.status_code == 201
    body = e.outcome().transcript[1].content.partition("\n")[2]
    assert json.loads(body)["code"] == {"text": "x"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/Patient/a"), ("DELETE", "/Patient/a"), ("POST", ""), ("POST", "/$expunge"), ("PATCH", "/Patient/a")],
)
def test_what_no_agent_of_the_benchmark_can_do_is_refused(server: HttpEpisodes, method: str, path: str) -> None:
    with server.open("task1_1") as e:
        answer = httpx.request(method, e.base + path, headers=e.headers, json={"resourceType": "Patient", "id": "a"})
    assert answer.status_code == 405
    assert "an episode accepts GET" in answer.json()["issue"][0]["diagnostics"]
    assert len(e.outcome().transcript) == 1


def test_an_episode_that_is_not_finished_is_wrong(server: HttpEpisodes) -> None:
    with server.open("task1_1") as e:
        pass
    assert e.outcome().status is None
    assert e.verdict().correct is False
    e.finish([])
    with pytest.raises(medagent.SessionEndedError):
        e.finish([])


def test_what_cannot_be_served_is_said(server: HttpEpisodes) -> None:
    with pytest.raises(UserError, match="unknown task id"):
        server.open("task99_1")
    with pytest.raises(UserError, match="protocol: episodes over HTTP take ehr"):
        medagent.serve_episodes(protocol="tools").__enter__()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"), medagent.serve_episodes(port=port):
            pass
