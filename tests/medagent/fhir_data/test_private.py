"""`--writes private`: what is sent to the hospital's server, what later reads see, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest

from fhir_server import Request, Server
from medagent.core.errors import FhirUnavailableError, StopRunError, UserError
from medagent.core.fhir_token import scope_that_writes
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.private import session as private_session
from medagent.fhir_data.private.session import PrivateEhr
from medagent.fhir_data.record import EhrSession, FhirRequest, Reply
from tools import private_diff

SHOWN, URL = "http://localhost:8080/fhir", "http://hospital.example/fhir"
NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
PATIENT = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Kis"}]}


def observation(name: str, day: int, **more: Any) -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": name,
        "status": "final",
        "code": {"text": "pulse"},
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": f"2023-10-{day:02}",
        **more,
    }


CHART = [PATIENT, *(observation(f"o{day}", day) for day in range(1, 9))]
NEW = {key: value for key, value in observation("", 4).items() if key != "id"} | {
    "effectiveDateTime": "2023-10-04T08:00:00Z"
}


class HospitalServer(httpx.AsyncBaseTransport):
    """A hospital's server in process. It notes every request; `answer` may answer in its place."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response | None] = lambda _: None) -> None:
        self.server = Server.open(None, base=URL)
        self.server.load([json.dumps(resource) for resource in CHART])
        self.requests: list[httpx.Request] = []
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answer(request)
        if answer is not None:
            return answer
        headers = [(name, value) for name, value in request.headers.items()]
        reply = self.server.handle(Request(request.method, request.url.raw_path.decode(), headers, request.content))
        return httpx.Response(reply.status, headers=reply.headers, content=reply.body)

    def lines(self) -> list[str]:
        """All resources, to see whether anything has changed."""
        return [line for kind in self.server.stats() for line in self.server.export(kind)]


Answer = Callable[[httpx.Request], httpx.Response | None]


@pytest.fixture
def served() -> Iterator[Callable[[Answer], HospitalServer]]:
    """Makes hospital's servers, and closes them."""
    with ExitStack() as stack:

        def serve(answer: Answer) -> HospitalServer:
            hospital = HospitalServer(answer)
            stack.callback(hospital.server.close)
            return hospital

        yield serve


@pytest.fixture
def hospital(served: Callable[[Answer], HospitalServer]) -> HospitalServer:
    return served(lambda _: None)


def episode(hospital: HospitalServer, act: Callable[[EhrSession], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with HttpEhr(URL, SHOWN, transport=hospital, hides_targets=True) as http:
            ehr = PrivateEhr(http, SHOWN, NOW)
            await ehr.check()
            async with ehr.session("seed") as session:
                return await act(session)

    return asyncio.run(run())


def write(method: str, target: str, body: Any = None, *conditions: tuple[str, str]) -> FhirRequest:
    return FhirRequest(method, target, "" if body is None else json.dumps(body), conditions)


def ids(reply: Reply) -> list[str]:
    assert reply.ok, reply.text
    return [entry["resource"]["id"] for entry in json.loads(reply.text).get("entry", [])]


async def all_ids(session: EhrSession, target: str) -> list[str]:
    """The ids on all pages of a search; new ones are `new`."""
    found: list[str] = []
    while target:
        reply = await session.get(target)
        found += ["new" if len(name) > 12 else name for name in ids(reply)]
        links = {link["relation"]: link["url"] for link in json.loads(reply.text).get("link", [])}
        target = links.get("next", "").removeprefix(SHOWN)
    return found


def reason(reply: Reply) -> str:
    assert reply.status == 501, (reply.status, reply.text)
    return str(json.loads(reply.text)["issue"][0]["diagnostics"])


def test_later_reads_see_the_writes_and_the_server_gets_only_reads(hospital: HospitalServer) -> None:
    before = hospital.lines()

    async def act(session: EhrSession) -> None:
        stop = [{"op": "replace", "path": "/status", "value": "amended"}]
        patched = await session.write(write("PATCH", "/Observation/o2", stop, ("If-Match", 'W/"1"')))
        assert json.loads(patched.text)["meta"]["versionId"] == "private-2"
        stale = await session.write(write("PATCH", "/Observation/o2", stop, ("If-Match", 'W/"1"')))
        assert stale.status == 409
        again = await session.write(write("PATCH", "/Observation/o2", stop, ("If-Match", 'W/"private-2"')))
        assert again.status == 200
        created = await session.write(write("POST", "/Observation", NEW))
        name = json.loads(created.text)["id"]
        assert (await session.get(f"/Observation/{name}")).ok
        assert json.loads((await session.get("/Observation/o2")).text)["status"] == "amended"
        assert json.loads((await session.get("/Observation/o2/_history/1")).text)["status"] == "final"
        assert json.loads((await session.get("/Observation/o2/_history/private-2")).text)["status"] == "amended"
        history = json.loads((await session.get("/Observation/o2/_history")).text)
        assert [entry["resource"]["meta"]["versionId"] for entry in history["entry"]] == ["private-2", "1"]
        assert await all_ids(session, "/Observation?status=amended") == ["o2"]
        assert await all_ids(session, "/Observation?status=final&_count=3") == [
            "o1", "o3", "o4", "o5", "o6", "o7", "o8", "new",
        ]  # fmt: skip
        assert await all_ids(session, "/Observation?subject=Patient/p1&_sort=-date&_count=2") == [
            "o8", "o7", "o6", "o5", "new", "o4", "o3", "o2", "o1",
        ]  # fmt: skip
        assert await all_ids(session, "/Observation/_search?status=final&_sort=-date&_count=6") == [
            "o8", "o7", "o6", "o5", "new", "o4", "o3", "o1",
        ]  # fmt: skip
        total = json.loads((await session.get("/Observation?status=final&_summary=count")).text)["total"]
        assert total == 8
        gone = await session.write(write("DELETE", f"/Observation/{name}"))
        assert gone.ok
        assert (await session.get(f"/Observation/{name}")).status == 410
        assert [(change.kind, change.words) for change in session.changes() or ()] == [
            ("changed", "status final → amended")
        ]

    episode(hospital, act)
    assert {request.method for request in hospital.requests} == {"GET"}
    assert hospital.lines() == before


def test_a_written_match_sorts_after_all_that_are_equal(served: Callable[[Answer], HospitalServer]) -> None:
    hospital = served(lambda _: None)
    hospital.server.load([json.dumps(observation(f"t{number}", 4)) for number in range(25)])

    async def act(session: EhrSession) -> None:
        day = {**NEW, "effectiveDateTime": "2023-10-04"}
        assert (await session.write(write("POST", "/Observation", day))).ok
        for sort in ("date", "-date"):
            names = await all_ids(session, f"/Observation?status=final&_sort={sort}&_count=40")
            assert names[names.index("new") - 1] == "t24"
            assert names[names.index("new") + 1] == ("o5" if sort == "date" else "o3")

    episode(hospital, act)


def test_conditional_writes_and_transactions_see_both(hospital: HospitalServer) -> None:
    async def act(session: EhrSession) -> None:
        note = {"resourceType": "Basic", "code": {"text": "note"}, "identifier": [{"system": "http://x", "value": "1"}]}
        twice = [
            await session.write(write("POST", "/Basic", note, ("If-None-Exist", "identifier=http://x|1")))
            for _ in range(2)
        ]
        assert [reply.status for reply in twice] == [201, 200]
        found = await session.write(
            write("PUT", "/Observation?date=2023-10-03", observation("o3", 3, status="amended"))
        )
        assert found.status == 200
        many = await session.write(write("PUT", "/Observation?subject=Patient/p1", NEW))
        assert many.status == 412
        nobody = write("POST", "/Observation", {**NEW, "subject": {"reference": "Patient/nobody"}})
        assert "HAPI-1094" in (await session.write(nobody)).text
        bundle = {
            "resourceType": "Bundle",
            "type": "transaction",
            "entry": [
                {"request": {"method": "POST", "url": "Observation"}, "resource": NEW},
                {"request": {"method": "PUT", "url": "Patient/p1", "ifMatch": 'W/"9"'}, "resource": PATIENT},
            ],
        }
        assert not (await session.write(write("POST", "", bundle))).ok
        assert await all_ids(session, "/Observation?date=2023-10-04") == ["o4"]  # nothing of it was carried out
        bundle["entry"][1]["request"]["ifMatch"] = 'W/"1"'  # type: ignore[index]  # entries are objects
        done = await session.write(write("POST", "", bundle))
        assert done.ok, done.text
        assert await all_ids(session, "/Observation?date=2023-10-04") == ["o4", "new"]

    episode(hospital, act)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (write("DELETE", "/Patient/p1"), "deletion of a resource of the hospital"),
        (write("DELETE", "/Observation?date=2023-10-03"), "deletion of a resource of the hospital"),
        (write("POST", "/Patient/$merge", PATIENT), "an operation"),
        (write("POST", "", {"entry": [{"request": {"method": "GET", "url": "Patient"}}]}), "a read in a Bundle"),
        (FhirRequest("GET", "/Patient/$everything"), "an operation"),
        (FhirRequest("GET", "/Patient/p1/$everything"), "an operation"),
        (FhirRequest("GET", "/$export"), "an operation"),
        (FhirRequest("GET", "/_history"), "the history of a type or of the system"),
        (FhirRequest("GET", "/Patient/_history"), "the history of a type or of the system"),
        (FhirRequest("GET", "?_type=Patient"), "a search of all types"),
        (FhirRequest("GET", "/Observation?patient.name=Kis"), "patient.name goes through Observation"),
        (FhirRequest("GET", "/Patient?_has:Observation:patient:status=final"), "goes through Observation"),
        (FhirRequest("GET", "/Patient?_revinclude=*"), "_revinclude goes through Observation"),
        (FhirRequest("GET", "/Observation?_revinclude=Provenance:target"), "_revinclude goes through Observation"),
        (FhirRequest("GET", "/Observation?_include=Observation:subject"), "_include with a match"),
    ],
)
def test_what_cannot_be_merged_gets_501_with_the_reason(
    hospital: HospitalServer, request_: FhirRequest, words: str
) -> None:
    async def act(session: EhrSession) -> None:
        assert (await session.write(write("POST", "/Observation", NEW))).ok
        hospital.requests.clear()
        reply = await (session.get(request_.target) if request_.method == "GET" else session.write(request_))
        assert words in reason(reply)

    episode(hospital, act)
    assert all("$" not in str(request.url) for request in hospital.requests)


def test_an_included_resource_is_shown_as_it_was_written(hospital: HospitalServer) -> None:
    async def act(session: EhrSession) -> None:
        assert (await session.write(write("PUT", "/Patient/p1", {**PATIENT, "gender": "female"}))).ok
        page = json.loads((await session.get("/Observation?_id=o1&_include=Observation:subject")).text)
        assert [entry["search"]["mode"] for entry in page["entry"]] == ["match", "include"]
        assert page["entry"][1]["resource"]["gender"] == "female"

    episode(hospital, act)


def test_written_resources_are_included_by_what_they_refer_to(hospital: HospitalServer) -> None:
    hospital.server.load([json.dumps({**PATIENT, "id": "p2"})])

    async def act(session: EhrSession) -> None:
        moved = observation("o1", 1, subject={"reference": "Patient/p2"})
        assert (await session.write(write("PUT", "/Observation/o1", moved))).ok
        assert (await session.write(write("POST", "/Observation", NEW))).ok
        page = json.loads((await session.get("/Patient?_id=p1&_revinclude=Observation:subject")).text)
        modes = [(entry["resource"]["id"], entry["search"]["mode"]) for entry in page["entry"]]
        assert modes[0] == ("p1", "match")
        assert {mode for _, mode in modes[1:]} == {"include"}
        assert sorted(name if len(name) < 12 else "new" for name, _ in modes[1:]) == [
            "new", "o2", "o3", "o4", "o5", "o6", "o7", "o8",
        ]  # fmt: skip

    episode(hospital, act)


def test_a_page_that_is_read_later_shows_what_was_written_meanwhile(hospital: HospitalServer) -> None:
    async def act(session: EhrSession) -> None:
        first = json.loads((await session.get("/Observation?_count=5")).text)
        link = first["link"][-1]["url"].removeprefix(SHOWN)
        assert (await session.write(write("PUT", "/Observation/o7", observation("o7", 7, status="amended")))).ok
        page = json.loads((await session.get(link)).text)
        assert [entry["resource"]["status"] for entry in page["entry"]] == ["final", "amended", "final"]

    episode(hospital, act)


def test_a_page_link_is_ours_and_expires(hospital: HospitalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_session, "MOST_SEARCHES", 2)

    async def act(session: EhrSession) -> None:
        first = json.loads((await session.get("/Observation?_count=3")).text)
        link = first["link"][-1]["url"].removeprefix(SHOWN)
        assert link.startswith("?_getpages=private-1")
        assert len(ids(await session.get(link))) == 3
        assert len(ids(await session.get(link))) == 3
        for _ in range(2):
            await session.get("/Observation?_count=3")
        assert (await session.get(link)).status == 410
        assert (await session.get("?_getpages=other&_getpagesoffset=0")).status == 410

    episode(hospital, act)


def test_an_episode_may_write_so_much(hospital: HospitalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_session, "MOST_WRITES", 2)

    async def act(session: EhrSession) -> None:
        statuses = [(await session.write(write("POST", "/Observation", NEW))).status for _ in range(3)]
        assert statuses == [201, 201, 413]
        session.reset()
        assert (await session.write(write("POST", "/Observation", NEW))).ok
        assert len(session.changes() or ()) == 1

    episode(hospital, act)


def bundle(*names: str, following: str | None = None) -> httpx.Response:
    entries = [{"resource": {"resourceType": "Observation", "id": name}, "search": {"mode": "match"}} for name in names]
    link = [{"relation": "next", "url": following}] if following else []
    return httpx.Response(200, json={"resourceType": "Bundle", "type": "searchset", "link": link, "entry": entries})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (httpx.Response(200, html="<html>log in</html>"), "does not answer with FHIR as JSON"),
        (httpx.Response(200, json={"resourceType": "Patient"}), "does not answer a search with a Bundle"),
        (bundle("a", following=f"{URL}/Observation?page=2"), "lead back to an earlier page"),
        (bundle("a", following="http://elsewhere.example/other/Observation"), "is outside the base"),
        (bundle("a", following=f"{URL}/../admin"), "is outside the base"),
        (bundle("a", following=f"{URL}/$export"), "is outside the base"),
    ],
)
def test_a_server_with_faults_ends_the_episode_in_one_line(
    served: Callable[[Answer], HospitalServer], reply: httpx.Response, words: str
) -> None:
    def answer(request: httpx.Request) -> httpx.Response | None:
        return reply if "Observation" in request.url.path else None

    hospital = served(answer)

    async def act(session: EhrSession) -> list[str]:
        return await all_ids(session, "/Observation?code=secret-name")

    with pytest.raises(FhirUnavailableError) as error:
        episode(hospital, act)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert "secret-name" not in str(error.value)
    assert {request.url.host for request in hospital.requests} == {"hospital.example"}


def test_a_link_that_names_another_host_is_followed_on_the_server(
    served: Callable[[Answer], HospitalServer],
) -> None:
    """A server behind a proxy may name its inner address."""

    def answer(request: httpx.Request) -> httpx.Response | None:
        if "Observation" not in request.url.path:
            return None
        second = "page" in str(request.url)
        return bundle("b") if second else bundle("a", following="http://inner.example/fhir/Observation?page=2")

    hospital = served(answer)
    assert episode(hospital, lambda session: all_ids(session, "/Observation?_count=1")) == ["a", "b"]
    assert {request.url.host for request in hospital.requests} == {"hospital.example"}


def test_a_server_that_ignores_count_loses_nothing(
    hospital: HospitalServer, served: Callable[[Answer], HospitalServer]
) -> None:
    def ignore(request: httpx.Request) -> httpx.Response | None:
        query = urlencode([pair for pair in parse_qsl(request.url.query.decode()) if pair[0] != "_count"])
        reply = hospital.server.handle(
            Request("GET", f"{request.url.path}?{query}", [("Accept", "application/fhir+json")])
        )
        return httpx.Response(reply.status, content=reply.body)

    careless = served(ignore)

    async def act(session: EhrSession) -> None:
        assert (await session.write(write("POST", "/Observation", NEW))).ok
        names = await all_ids(session, "/Observation?status=final&_sort=date")
        assert names == ["o1", "o2", "o3", "o4", "new", "o5", "o6", "o7", "o8"]

    episode(careless, act)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (
            httpx.Response(200, json={"resourceType": "CapabilityStatement", "fhirVersion": "5.0.0"}),
            "serves FHIR 5.0.0",
        ),
        (httpx.Response(200, html="<html></html>"), "/metadata does not answer with FHIR as JSON"),
        (httpx.Response(302, headers={"Location": "http://elsewhere.example"}), "answers 302 to /metadata"),
    ],
)
def test_only_a_server_of_r4_is_used(
    served: Callable[[Answer], HospitalServer], metadata: httpx.Response, words: str
) -> None:
    hospital = served(lambda _: metadata)

    async def act(session: EhrSession) -> None:
        raise AssertionError

    with pytest.raises(UserError, match=words):
        episode(hospital, act)
    assert {request.url.host for request in hospital.requests} == {"hospital.example"}


def test_the_token_file_is_read_again_after_401(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Callable[[Answer], HospitalServer]
) -> None:
    file = tmp_path / "token"
    file.write_text("first-token\n")
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN_FILE", str(file))
    valid = {"first-token"}

    def answer(request: httpx.Request) -> httpx.Response | None:
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return None if sent in valid else httpx.Response(401, json={"resourceType": "OperationOutcome", "issue": []})

    hospital = served(answer)

    async def act(session: EhrSession) -> None:
        assert (await session.get("/Patient/p1")).ok
        valid.clear()
        valid.add("second-token")
        file.write_text("second-token")
        assert (await session.get("/Patient/p1")).ok
        sent = len(hospital.requests)
        assert (await session.get("/Patient/p1")).ok
        assert len(hospital.requests) == sent + 1
        valid.clear()
        with pytest.raises(StopRunError, match="answers 401: the token is not accepted"):
            await session.get("/Patient/p1")

    episode(hospital, act)
    file.unlink()
    with pytest.raises(UserError, match=r"token \(MEDAGENT_FHIR_TOKEN_FILE\): cannot be read"):
        episode(hospital, act)


@pytest.mark.parametrize(
    ("scope", "writes"),
    [
        ("user/*.read launch", None),
        ("patient/Observation.rs openid", None),
        ("user/*.read user/Observation.write", "user/Observation.write"),
        (["system/*.cruds"], "system/*.cruds"),
        ("system/*.*", "system/*.*"),
    ],
)
def test_a_scope_that_allows_writes_is_found(scope: object, writes: str | None) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"scope": scope}).encode()).decode().rstrip("=")
    assert scope_that_writes(f"e30.{claims}.x") == writes


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "", "e30.W10.x"])
def test_a_token_that_cannot_be_read_has_no_scope(token: str) -> None:
    assert scope_that_writes(token) is None


def test_private_and_executed_writes_have_the_same_replies() -> None:
    """A part of `tools.private_diff`, whose whole output is in docs/own-hospital.md."""

    async def compared() -> private_diff.Compared:
        async with private_diff.both() as (executed, private):
            lists = private_diff.made(3, private_diff.charts(executed.server), seed=7)
            return await private_diff.compare(lists, executed, private)

    result = asyncio.run(compared())
    assert not result.differences, result.differences[0]
    assert result.counts["equal"] > 20
