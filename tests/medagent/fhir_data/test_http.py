"""A FHIR server over HTTP behind a session: what it says, when it is asked again, and what it is never asked."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import respx
from hypothesis import given
from hypothesis import strategies as st

from fhir_server import Server
from fhir_server.app import create_app
from medagent.core.errors import FhirUnavailableError, StopRunError, UserError
from medagent.fhir_data import http as http_ehr
from medagent.fhir_data.embedded import bundled_file
from medagent.fhir_data.http import HttpEhr, ambiguous
from medagent.fhir_data.record import FhirRequest, Reply, TooMuchError
from medagent.models import retry
from tests.command import medagent
from tests.serving import serving

SERVER = "http://fhir.example:9000/base"
SHOWN = "http://localhost:8080/fhir/"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)


def get(*targets: str, **options: Any) -> Reply:
    """The reply to the last of these GETs, or to a search of patients."""

    async def run() -> Reply:
        async with HttpEhr(SERVER, SHOWN, **options) as ehr, ehr.session("s") as session:
            return [await session.get(target) for target in targets or ("/Patient",)][-1]

    return asyncio.run(run())


@respx.mock
def test_only_the_servers_own_base_is_replaced() -> None:
    template = f'{{{{"0": "{{0}}/Patient?x=1", "1": "{{0}}?_getpages=1", "2": "{SERVER}x/Patient", "3": "{{0}}"}}}}'
    respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(200, text=template.format(SERVER)))
    assert get().text == template.format(SHOWN.rstrip("/"))


@respx.mock
@pytest.mark.parametrize("code", [400, 404, 410, 422, 500, 501])
def test_what_a_server_says_is_its_answer(code: int) -> None:
    route = respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(code, text="no"))
    assert get().status == code
    assert route.call_count == 1


@respx.mock
@pytest.mark.parametrize("trouble", [429, 502, 503, 504, httpx.ConnectError("refused"), httpx.ReadTimeout("slow")])
def test_a_server_that_is_busy_or_away_is_asked_again_then_given_up(trouble: Any) -> None:
    answer = httpx.Response(trouble) if isinstance(trouble, int) else trouble
    route = respx.get(f"{SERVER}/Patient").mock(side_effect=[answer, answer, httpx.Response(200, text="{}")])
    assert get().text == "{}"
    assert route.call_count == 3
    route = respx.get(f"{SERVER}/Patient").mock(side_effect=[answer] * 10)
    with pytest.raises(FhirUnavailableError, match="9 attempts"):
        get()


@respx.mock
@pytest.mark.parametrize(
    ("code", "target", "before"),
    [
        (401, "/Binary/1", 200),
        (407, "/Binary/1", 200),
        (403, "/Patient?_id=1", 200),
        (403, "/Observation?code=1&patient=2", 200),
        (403, "/Condition/_search?subject:Patient=2", 200),
        (403, "/Binary/1", 404),
    ],
)
def test_a_server_that_refuses_the_run_stops_it(code: int, target: str, before: int) -> None:
    respx.get(f"{SERVER}/Patient/1").mock(return_value=httpx.Response(before, text="{}"))
    respx.get(f"{SERVER}{target}").mock(return_value=httpx.Response(code, text="{}"))
    with pytest.raises(StopRunError, match=f"answers {code}: "):
        get("/Patient/1", target)


@respx.mock
@pytest.mark.parametrize("target", ["/AuditEvent?date=2020", "/Patient/2", "/Binary/1"])
def test_a_403_to_one_read_of_a_server_that_works_is_its_answer(target: str) -> None:
    respx.get(f"{SERVER}/Patient/1").mock(return_value=httpx.Response(200, text="{}"))
    respx.get(f"{SERVER}{target}").mock(return_value=httpx.Response(403, text="{}"))
    assert get("/Patient/1", target).status == 403


@respx.mock
@pytest.mark.parametrize("text", ["<html>proxy login</html>", "", "[]"])
def test_a_login_page_is_no_answer(text: str) -> None:
    respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(200, text=text))
    with pytest.raises(FhirUnavailableError, match=r"GET .*/Patient.*: the server does not answer with FHIR as JSON"):
        get("/Patient?_format=application/json")


@respx.mock
def test_a_format_that_was_requested_is_an_answer() -> None:
    respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(200, text="<Bundle/>"))
    assert get("/Patient?_format=xml").text == "<Bundle/>"


@pytest.mark.parametrize("kind", ["401", "403", "407", "302", "page"])
def test_a_server_that_refuses_every_read_is_not_scored(tmp_path: Path, kind: str) -> None:
    async def closed(scope: Any, receive: Any, send: Any) -> None:
        about = scope["path"].endswith("/metadata")
        await send(
            {"type": "http.response.start", "status": 200 if about or kind == "page" else int(kind), "headers": []}
        )
        body = b'{"resourceType": "CapabilityStatement"}' if about else b"<html>proxy login</html>"
        await send({"type": "http.response.body", "body": body})

    with serving(closed) as url:
        ran = run(tmp_path, "--agent", "reference", "--fhir", f"{url}/fhir", "--types", "task4", "--limit", 3)
    stops = kind.startswith("40")
    assert ran.code == (1 if stops else 2), ran.err
    assert f"answers {kind}: " in ran.err or not stops
    rows = [json.loads(line) for line in next(tmp_path.glob("*/episodes.jsonl")).read_text().splitlines()]
    assert {row["status"] for row in rows} == {"cancelled" if stops else "fhir_error"}


@pytest.mark.parametrize(
    ("code", "text", "problem"),
    [
        (200, "<html>", "/metadata does not answer with FHIR as JSON"),
        (200, '{"resourceType": "OperationOutcome"}', "/metadata does not answer with FHIR as JSON"),
        (401, "{}", "answers 401: it requires a token"),
        (403, "{}", "answers 403: it requires a token"),
    ],
)
@respx.mock
def test_a_check_needs_a_capability_statement(code: int, text: str, problem: str) -> None:
    respx.get(f"{SERVER}/metadata").mock(return_value=httpx.Response(code, text=text))
    with pytest.raises(UserError, match=problem):
        asyncio.run(HttpEhr(SERVER, SHOWN).check())


def post(target: str = "/Observation", url: str = SERVER) -> Reply:
    async def run() -> Reply:
        async with HttpEhr(url, SHOWN) as ehr, ehr.session("s") as session:
            return await session.write(FhirRequest("POST", target, "{}"))

    return asyncio.run(run())


@respx.mock
@pytest.mark.parametrize("trouble", [502, 504, httpx.ReadTimeout("slow"), httpx.ReadError("cut")])
def test_a_post_that_may_have_been_carried_out_is_not_sent_again(trouble: Any) -> None:
    answer = httpx.Response(trouble) if isinstance(trouble, int) else trouble
    route = respx.post(f"{SERVER}/Observation").mock(side_effect=[answer] * 10)
    with pytest.raises(FhirUnavailableError, match="it may or may not have been carried out"):
        post()
    assert route.call_count == 1


@respx.mock
@pytest.mark.parametrize("trouble", [429, 503, httpx.ConnectError("refused"), httpx.PoolTimeout("busy")])
def test_a_post_that_was_not_carried_out_is_sent_again(trouble: Any) -> None:
    answer = httpx.Response(trouble) if isinstance(trouble, int) else trouble
    respx.post(f"{SERVER}/Observation").mock(side_effect=[answer, answer, httpx.Response(201, text="{}")])
    assert post().status == 201


@respx.mock
def test_redirects_are_not_followed() -> None:
    respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(302, headers={"Location": "http://evil.example/"}))
    with pytest.raises(FhirUnavailableError, match="does not answer with FHIR"):
        get()


@respx.mock
def test_a_body_over_20_mb_is_not_read() -> None:
    respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(200, content=b"x" * 20_000_001))
    with pytest.raises(TooMuchError):
        get()


@pytest.mark.parametrize(
    "header",
    ["0", format_datetime(datetime.now(UTC), usegmt=True), "9" * 400, "soon"],
    ids=["seconds", "a moment", "too many seconds", "no time"],  # workers collect tests at different moments
)
def test_retry_after_is_read_in_both_forms_and_bounded(header: str) -> None:
    asked = 0

    async def busy_once(scope: Any, receive: Any, send: Any) -> None:
        nonlocal asked
        asked += 1
        await receive()
        headers = [(b"retry-after", header.encode())] if asked == 1 else []
        await send({"type": "http.response.start", "status": 503 if asked == 1 else 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    with serving(busy_once) as url:
        if header == "9" * 400:
            with pytest.raises(FhirUnavailableError, match="gave up after 1 attempts"):
                post(url=url)
        else:
            assert post(url=url).text == "{}"


@respx.mock
def test_a_server_that_is_away_for_long_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_ehr, "OUTAGE_S", 0.0)
    monkeypatch.setattr(http_ehr, "OUTAGE_ATTEMPTS", 5)
    respx.get(f"{SERVER}/Patient").mock(side_effect=[httpx.Response(503)] * 10)
    with pytest.raises(StopRunError, match=r"status 503 \(no attempt has succeeded"):
        get()


def test_an_answer_that_does_not_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_ehr, "ATTEMPT_S", 0.05)

    async def drip(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(30):
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(0.01)

    with serving(drip) as url, pytest.raises(FhirUnavailableError, match=r"no complete answer in 0\.05 s"):
        post(url=url)


PATHS = {
    "/..;/admin": "a parameter",
    "/Patient;jsessionid=1/x": "a parameter",
    "/Patient/%2e%2e%2fadmin": "an escaped slash",
    "/Patient%2f..%2f..%2fadmin": "an escaped slash",
    "/Patient%5c..%5cadmin": "an escaped slash",
    "/Patient\\..\\admin": "an escaped slash",
    "/%252e%252e/admin": "an escape of an escape",
    "/Patient/%25252e": "an escape of an escape",
    "/Patient/../../admin": "dots",
    "/%2e%2e/admin": "dots",
    "/Patient/a%00b": "control characters",
    "/%c0%ae%c0%ae/admin": "bytes that are not UTF-8",
}


@pytest.mark.parametrize(("target", "what"), PATHS.items())
def test_a_path_that_servers_read_in_two_ways_is_not_sent(target: str, what: str) -> None:
    for answered in (get(target), post(target, url="http://127.0.0.1:9/fhir")):  # nobody is asked
        assert answered.status == 400
        assert f"servers differ in how they read {what}" in answered.reason


@pytest.mark.parametrize("target", ["/Patient/é%20x?name=a;b%2fc%252e", "/Patient/$everything", "/Patient/a.b?x=../.."])
def test_what_has_one_reading_is_sent(target: str) -> None:
    assert ambiguous(target) is None


@given(st.text(st.sampled_from("/.;%25efcEF0a\\P?")))
def test_no_path_that_is_sent_leaves_the_base(path: str) -> None:
    """Whichever way a server takes: it undoes escapes as often as it likes, and cuts parameters off."""
    target = f"/{path}"
    if ambiguous(target) is None:
        below = target.partition("?")[0]
        for _ in range(5):
            below = unquote(below)
        assert not {".", ".."} & {segment.partition(";")[0] for segment in below.replace("\\", "/").split("/")}


def test_an_agents_way_out_of_the_base_reaches_no_server(tmp_path: Path, hospital: Server) -> None:
    paths: list[str] = []
    inner = create_app(hospital)

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["raw_path"].decode())
        await inner(scope, receive, send)

    base = "http://localhost:8080/fhir"
    (tmp_path / "script.json").write_text(
        json.dumps({"*": [*[f"GET {base}{path}" for path in PATHS][:7], "FINISH([1])"]})
    )
    with serving(watched) as url:
        words = ["--model", f"scripted:{tmp_path}/script.json", "--fhir", f"{url}/fhir", "--ids", "task2_1"]
        ran = run(tmp_path, *words)
    assert ran.code == 0, ran.err
    row = json.loads(next(tmp_path.glob("*/episodes.jsonl")).read_text())
    assert row["status"] == "completed"
    assert row["transcript"][2]["content"].startswith("The GET failed: 400 Client Error: the path is not sent")
    assert {path.partition("?")[0] for path in paths} <= {"/fhir/metadata", "/fhir/Patient"}


@respx.mock
def test_what_opens_the_server_is_hidden_where_the_server_repeats_it() -> None:
    login = "Basic dXNlcjpzZWNyZXRwdw=="
    respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(500, text=f"no {login}, token-of-the-server-1"))
    shown = get(headers={"Authorization": login, "X-Api-Key": "token-of-the-server-1"}).text
    assert shown == "no Basic ***, ***"


@respx.mock
def test_headers_are_sent() -> None:
    route = respx.get(f"{SERVER}/Patient").mock(return_value=httpx.Response(200, text="{}"))
    get(headers={"Authorization": "Bearer t"})
    assert route.calls[0].request.headers["Authorization"] == "Bearer t"


def test_a_ca_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(UserError, match=r"ca\.pem"):
        HttpEhr(SERVER, SHOWN, ca_file=tmp_path / "ca.pem")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the hospital in a file of its own."""
    with Server.open(Path(shutil.copy(bundled_file().path, tmp_path_factory.mktemp("hospital")))) as server:
        yield server


def run(folder: Path, *args: object) -> Any:
    return medagent("run", "--results-dir", folder, "--quiet", "--version", "v1", *args)


def documents(*folders: Path) -> list[dict[str, Any]]:
    """The results without what may differ between two servers: timestamps, and the ids in replies to POSTs."""
    found = []
    for folder in folders:
        document = json.loads(next(folder.glob("*/results.json")).read_text())
        document["timestamp"] = ""
        for item in document["results"]:
            item["timestamp"] = ""
            for message in item["post_history"]:
                if message["role"] == "user":
                    message["content"] = message["content"].partition("with id:")[0]
        found.append(document)
    return found


def test_the_same_results_over_http_and_nothing_is_written_there(tmp_path: Path, hospital: Server) -> None:
    before = hospital.stats()
    with serving(create_app(hospital)) as url:
        ran = run(tmp_path / "http", "--agent", "reference", "--fhir", f"{url}/fhir/")
        assert ran.code == 0, ran.err
    assert run(tmp_path / "embedded", "--agent", "reference").code == 0
    a, b = documents(tmp_path / "http", tmp_path / "embedded")
    assert a == b
    assert hospital.stats() == before


def test_another_server_is_another_run_and_passwords_stay_out_of_files(tmp_path: Path, hospital: Server) -> None:
    with serving(create_app(hospital)) as first, serving(create_app(hospital)) as second:
        args = ("--agent", "reference", "--ids", "task7_1")
        ran = run(tmp_path, *args, "--fhir", first.replace("//", "//user:p@secretpw@") + "/fhir")
        assert ran.code == 0, ran.err
        assert "Score 100.0% (1 of 1)" in ran.out
        refused = run(tmp_path, *args, "--fhir", f"{second}/fhir")
        assert (refused.code, "fhir http://***@" in refused.err) == (1, True)
    with pytest.raises(FhirUnavailableError) as away:
        post(url=first.replace("//", "//user:secretpw@"))
    for text in (*(file.read_text() for file in (tmp_path / "v1_r1_reference").iterdir()), str(away.value)):
        assert "secretpw" not in text


def test_executed_writes_arrive(tmp_path: Path, hospital: Server) -> None:
    before = hospital.stats()["Observation"]
    with serving(create_app(hospital)) as url:
        ran = run(tmp_path, "--agent", "reference", "--fhir", f"{url}/fhir", "--types", "task3", "--writes", "execute")
    assert ran.code == 0, ran.err
    assert hospital.stats()["Observation"] == before + 10


def test_a_server_that_goes_away_in_mid_run_costs_those_episodes_only(tmp_path: Path, hospital: Server) -> None:
    app = create_app(hospital)
    count = 0

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        nonlocal count
        count += 1
        if 20 < count <= 60:
            await receive()
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    with serving(failing) as url:
        args = ("--agent", "reference", "--fhir", f"{url}/fhir", "--concurrency", 2)
        ran = run(tmp_path, *args)
        assert ran.code == 2
        assert "Owed and not graded: " in ran.out
        rows = [json.loads(line) for line in next(tmp_path.glob("*/episodes.jsonl")).read_text().splitlines()]
        failed = {row["status"] for row in rows}
        assert failed == {"completed", "fhir_error"}
        grade = json.loads(next(tmp_path.glob("*/grade.json")).read_text())["overall"]
        assert grade["wrong"] == 0
        assert grade["ungraded"] == sum(row["status"] == "fhir_error" for row in rows)
        assert run(tmp_path, *args).code == 0
