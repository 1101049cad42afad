"""`--writes private` answers as a server that carries out the writes, or with 501."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from fhir_server import Request, Server
from medagent.fhir_data.embedded import EmbeddedEhr
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.private import session as private_session
from medagent.fhir_data.private.session import PrivateEhr
from medagent.fhir_data.record import EhrSession, FhirRequest, Reply
from tests.medagent.fhir_data.test_private import CHART, NEW, SHOWN, URL, HospitalServer, observation, write
from tools import private_diff

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""The clock of the episodes, after the time at which the charts are loaded."""
DOCTOR = {"resourceType": "Practitioner", "id": "d1", "name": [{"family": "House"}]}
VALUES: dict[str, Any] = {
    "resourceType": "ValueSet",
    "id": "v",
    "url": "http://v",
    "status": "active",
    "compose": {"include": [{"system": "http://s", "concept": [{"code": "a"}]}]},
}
CODES = {
    "resourceType": "CodeSystem",
    "id": "s",
    "url": "http://s",
    "status": "active",
    "content": "complete",
    "concept": [{"code": "a", "concept": [{"code": "b"}]}],
}
LIST = {"resourceType": "List", "id": "l", "status": "current", "mode": "working"}
BASIC = {"resourceType": "Basic", "id": "b1", "code": {"text": "a"}}
CODED = {"code": {"coding": [{"system": "http://s", "code": "a"}]}}
MARKED = {"extension": [{"url": "http://e", "valueString": "x"}], "profile": ["http://profile"]}
UNDATED = {key: value for key, value in observation("u1", 1).items() if key != "effectiveDateTime"}
MORE: list[dict[str, Any]] = [
    {"resourceType": "Patient", "id": "p2", "name": [{"family": "Nagy"}]},
    DOCTOR,
    VALUES,
    CODES,
    {**LIST, "entry": [{"item": {"reference": "Observation/o1"}}]},
    BASIC,
    UNDATED,
    observation("a1", 9, performer=[{"reference": "Practitioner/d1"}], **CODED),
    observation("m1", 9, meta=MARKED),
    observation("n1", 9, note=[{"text": "as in Observation/o1/_history/1"}]),
    *(observation(f"t{number}", 20) for number in range(3)),
]
PUT_AGAIN = observation("o3", 3, note=[{"text": "2"}])
AMEND = [{"op": "replace", "path": "/status", "value": "amended"}]
MOVE = [{"op": "replace", "path": "/subject/reference", "value": "Patient/p2"}]


def get(*targets: str) -> list[FhirRequest]:
    return [FhirRequest("GET", target) for target in targets]


def bundle(*entries: Any, kind: str = "transaction") -> FhirRequest:
    return write("POST", "", {"resourceType": "Bundle", "type": kind, "entry": entries})


def entry(method: str, url: str, resource: Any = None, **request: str) -> dict[str, Any]:
    return {"request": {"method": method, "url": url, **request}, "resource": resource}


def binary(patch: Any) -> dict[str, str]:
    data = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"resourceType": "Binary", "contentType": "application/json-patch+json", "data": data}


def fhir_patch(path: str, **value: Any) -> dict[str, Any]:
    parts = [{"name": "type", "valueCode": "replace"}, {"name": "path", "valueString": path}]
    part = [*parts, {"name": "value", **value}]
    return {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": part}]}


def prepared(server: Server, path: str) -> Server:
    """The server with more resources, a second version, and a deleted resource."""
    server.load([json.dumps(resource) for resource in MORE])
    server.store.skip_to(61_000)  # private_diff recognises ids from here on as new
    headers = [("Content-Type", "application/fhir+json")]
    for request in (
        Request("PUT", f"{path}/Observation/o3", headers, json.dumps(PUT_AGAIN).encode()),
        Request("DELETE", f"{path}/Basic/b1"),
    ):
        assert server.handle(request).status == 200
    return server


def played(act: Callable[[EmbeddedEhr, PrivateEhr], Awaitable[Any]], shown: str = SHOWN) -> Any:
    """What `act` returns with both: a server that carries out writes, and the same one as the hospital."""
    hospital, executed = HospitalServer(), Server.open(None, base=shown)
    executed.load([json.dumps(resource) for resource in CHART])
    prepared(hospital.server, "/fhir")
    ehr = EmbeddedEhr(prepared(executed, urlsplit(shown).path), LATER)
    before = hospital.lines()

    async def run() -> Any:
        async with HttpEhr(URL, shown, transport=hospital, hides_targets=True) as http:
            return await act(ehr, PrivateEhr(http, shown, LATER))

    try:
        return asyncio.run(run())
    finally:
        assert {request.method for request in hospital.requests} <= {"GET"}
        assert hospital.lines() == before
        hospital.server.close()
        ehr.close()


def in_episode(act: Callable[[EhrSession], Awaitable[Any]], shown: str = SHOWN) -> Any:
    async def run(_: EmbeddedEhr, private: PrivateEhr) -> Any:
        async with private.session("seed") as session:
            return await act(session)

    return played(run, shown)


def diagnostics(reply: Reply) -> str:
    return str(json.loads(reply.text)["issue"][0]["diagnostics"])


PUT_DOCTOR = write("PUT", "/Practitioner/d1", {**DOCTOR, "name": [{"family": "Wilson"}]})
PUT_LIST = write("PUT", "/List/l", {**LIST, "entry": [{"item": {"reference": "Observation/o2"}}]})
PUT_VALUES = write("PUT", "/ValueSet/v", {**VALUES, "compose": {"include": [{"system": "http://s"}]}})
PUT_PATIENT = write("PUT", "/Patient/p2", {**MORE[0], "name": [{"family": "Uj"}]})
POST = write("POST", "/Observation", {**NEW, **CODED})
PATCH = write("PATCH", "/Observation/o1", AMEND)
HISTORY = [write("PUT", "/Observation/o1", observation("o1", 1, note=[{"text": str(number)}])) for number in range(25)]
CREATED = [write("PUT", "/Observation/x1", observation("x1", 1, note=[{"text": str(number)}])) for number in range(25)]


@pytest.mark.parametrize(
    ("writes", "reads", "refused"),
    [
        ([PUT_DOCTOR], ["/Patient?_has:Observation:patient:code=a", "/Observation?performer=Practitioner/d1"], 0),
        (
            [PUT_DOCTOR],
            [
                "/Patient?_has:Observation:patient:performer.family=House",
                "/Patient?_has:Observation:patient:_has:Provenance:target:agent.name=House",
                "/Observation?performer:Practitioner.family=House",
                "/Encounter?patient.general-practitioner.name=House",
                "/Observation?_sort=Practitioner:performer.name",
            ],
            5,
        ),
        ([PUT_PATIENT], ["/Observation?_sort=Patient:subject.name", "/Observation?_sort=date&_count=3"], 1),
        ([PUT_LIST], ["/Observation?_list=l", "/Observation?_count=30"], 1),
        ([PUT_VALUES], [f"/Observation?code{end}" for end in (":in=http://v", ":not-in=http://v", "=a")], 2),
        ([POST], [f"/Observation?code:{modifier}=http://s|a" for modifier in ("below", "above")], 2),
        ([POST], [f"/Observation?{end}" for end in ("_id:not=o1", "_offset=2&_count=3", "_filter=status eq final")], 3),
        ([POST], [f"/Observation?_sort{end}" for end in ("=subject", "=date&_sort=code", ":desc=date")], 3),
        ([POST], ["/Observation?status=final&_sort=date&_count=4", "/Observation?_sort=-date"], 0),
        ([POST], ["/Observation?_summary=Count", "/Observation?_sort=-status,date&_elements=status&_count=50"], 0),
        (
            [PATCH],
            [
                "/Patient?_id=p1&_revinclude=Observation:subject:Group",
                "/Patient?_id=p1&_revinclude=Observation:subject:Patient",
                "/Patient?_id=p1&_revinclude=Observation:subject&_elements=name",
                "/Observation?_id=o1&_include=Observation:subject",
            ],
            0,
        ),
        ([PATCH], ["/Patient?_id=p1&_revinclude=Observation:subject&_include=Observation:performer"], 1),
        ([PATCH], ["/Observation?subject=Patient/p1&_include=Observation:subject&_sort=status"], 1),
        (
            [write("PATCH", "/Observation/t0", AMEND), write("PATCH", "/Observation/u1", AMEND)],
            [f"/Observation?subject=Patient/p1&_sort={sign}date" for sign in ("", "-")],
            0,
        ),
        ([write("PUT", "/Observation/t0", observation("t0", 9))], ["/Observation?subject=Patient/p1&_sort=date"], 1),
        (
            HISTORY,
            [f"/Observation/o1/_history{end}" for end in ("", "/1", "?_count=2", "?_count=4&_offset=23", "?_offset=9")],
            0,
        ),
        (HISTORY[:1], [f"/Observation/o1/_history?{end}" for end in ("_at=2030", "_summary=true", "_count=0")], 3),
        (CREATED, ["/Observation/x1/_history", "/Observation/x1/_history?_count=9", "/Observation/x1/_history/3"], 0),
        ([CREATED[0], replace(CREATED[1], conditions=(("If-Match", 'W/"1"'),))], ["/Observation/x1/_history/2"], 0),
        (CREATED[:2], ["/Observation/x1/_history?_at=2030", "/Observation/x1/_history?_count=0"], 0),
        (
            [write("PUT", "/Basic/b1", {**BASIC, "subject": {"reference": "Patient/p1"}})],
            ["/Basic/b1", "/Basic/b1/_history", "/Basic/b1/_history?_count=1", "/Basic/b1/_history/1"],
            0,
        ),
        ([write("PATCH", "/Observation/m1", AMEND)], ["/Observation/m1", "/Observation/m1/_history"], 0),
    ],
)  # fmt: skip
def test_reads_after_writes(writes: list[FhirRequest], reads: list[str], refused: int) -> None:
    result = played(lambda executed, private: private_diff.compare([[*writes, *get(*reads)]], executed, private))
    assert not result.differences, result.differences[0]
    assert result.counts["501"] == refused
    assert result.counts.total() >= len(writes) + len(reads)  # a sorted search counts its pages


FORM = {"resourceType": "QuestionnaireResponse", "status": "completed"}
SUBJECT = {"subject": {"reference": "Patient/p2"}}


@pytest.mark.parametrize(
    ("request_", "reads"),
    [
        (write("PATCH", "/Observation/o1", MOVE), ["/Observation?subject=Patient/p2"]),
        (write("PATCH", "/Observation/o1", fhir_patch("Observation.subject.reference", valueString="Patient/p2")), []),
        (write("PATCH", "/Observation/o1", fhir_patch("Observation.subject", valueReference=SUBJECT["subject"])), []),
        (write("PATCH", "/Observation?date=2023-10-02", MOVE, ("If-Match", 'W/"9"')), ["/Observation/o2"]),
        (bundle(entry("PATCH", "Observation/o3", binary(MOVE))), ["/Observation/o3"]),
        (bundle(entry("PUT", "/Observation/o3", {**PUT_AGAIN, **SUBJECT}, ifMatch='W/"2"')), ["/Observation/o3"]),
        (bundle(entry("PUT", "Observation/o3", PUT_AGAIN, ifMatch='W/"1"')), ["/Observation/o3"]),
        (bundle(entry("PUT", "Observation/o3", PUT_AGAIN, ifMatch='W/"7"'), kind="batch"), []),
        (write("PUT", "/Observation/o3", PUT_AGAIN, ("If-Match", 'W/"7"')), []),
        (write("PATCH", "/Observation/o3", AMEND, ("If-Match", 'W/"7"')), []),
        (write("PATCH", "/Observation/o3", AMEND, ("If-Match", 'W/""')), []),
        (write("POST", "/Observation", {**NEW, "subject": {"reference": "/Patient/p2/_history/1"}}), []),
        (write("POST", "/Basic", {"resourceType": "Basic", "subject": {"reference": "Basic/b1"}}), []),
        (write("POST", "/QuestionnaireResponse", {**FORM, "questionnaire": "List/l"}), []),
        (write("POST", "/Observation", NEW, ("If-None-Exist", "nonsense=1")), []),
        (write("PUT", "/Observation?subject=Patient/p1&_count=1", NEW), []),
        (write("POST", "/ValueSet", {key: value for key, value in VALUES.items() if key != "id"}), []),
        (bundle(entry("POST", "Observation", MORE[0], ifNoneExist="family=Nagy")), ["/Patient?family=Nagy"]),
    ],
)  # fmt: skip
def test_writes_get_the_same_replies(request_: FhirRequest, reads: list[str]) -> None:
    result = played(lambda executed, private: private_diff.compare([[request_, *get(*reads)]], executed, private))
    assert not result.differences, result.differences[0]
    assert result.counts["501"] == 0
    assert result.counts.total() == 1 + len(reads)


@pytest.mark.parametrize("shown", ["https://ehr.example/api/FHIR/R4", "https://ehr.example"])
def test_the_shown_base_may_have_another_path(shown: str) -> None:
    created = bundle(entry("POST", "Observation", NEW))
    acts = [[PATCH, created, *get("/Observation?status=amended", "/Observation?date=gt2023-10-09")]]
    result = played(lambda executed, private: private_diff.compare(acts, executed, private), shown)
    assert not result.differences, result.differences[0]
    assert result.counts == {"equal": 4}


def test_a_version_of_the_layer_has_its_prefix_whatever_meta_contains() -> None:
    async def act(session: EhrSession) -> None:
        reply = await session.write(write("PATCH", "/Observation/m1", AMEND))
        assert json.loads(reply.text)["meta"]["versionId"] == "private-2"
        stale = await session.write(write("PATCH", "/Observation/m1", AMEND, ("If-Match", 'W/"1"')))
        assert "Version 1 is not the most recent version" in diagnostics(stale)
        for request in (CREATED[0], write("DELETE", "/Observation/x1"), CREATED[1]):  # HAPI then skips a number
            reply = await session.write(request)
        version = json.loads(reply.text)["meta"]["versionId"]
        assert version == "private-4"
        assert (await session.get(f"/Observation/x1/_history/{version}")).text == reply.text

    in_episode(act)


def test_what_resources_contain_stays_as_it_was_sent() -> None:
    sent = {**NEW, "id": "n2", "note": [{"text": "as in Observation/o1/_history/1"}], "valueQuantity": {"value": 7.25}}
    put = entry("PUT", "/Observation/n1", {**MORE[9], "note": sent["note"], "status": "amended"}, ifMatch='W/"1"')
    request = bundle(put, entry("PUT", "Observation/n2", sent))

    async def act(session: EhrSession) -> None:
        assert (await session.write(PATCH)).ok
        assert (await session.write(FhirRequest("POST", "", request.body.replace("7.25", "7.250")))).ok
        for name, text in (("n1", "as in Observation/o1/_history/1"), ("n2", '"value": 7.250')):
            assert text in (await session.get(f"/Observation/{name}")).text
            assert text in (await session.get(f"/Observation?_id={name}")).text

    in_episode(act)


@pytest.mark.parametrize(
    "entries",
    [
        entry("DELETE", "Observation/o1"),
        [[entry("DELETE", "Observation/o1")]],
        [entry("DELETE", "Observation")],
        [entry("PUT", "Observation?_id=o1", NEW), entry("DELETE", "Observation?date=2023-10-04T08:00:00Z")],
    ],
)
def test_no_bundle_deletes_a_resource_of_the_hospital(entries: Any) -> None:
    body = json.dumps({"resourceType": "Bundle", "type": "batch", "entry": entries})

    async def act(session: EhrSession) -> None:
        for text in (body, body.replace('"', "'")):
            reply = await session.write(FhirRequest("POST", "", text))
            assert (reply.status, "deletion" in diagnostics(reply)) == (501, True)
        assert (await session.get("/Observation/o1")).ok

    in_episode(act)


def test_a_search_parameter_cannot_be_written() -> None:
    reply = in_episode(
        lambda session: session.write(write("POST", "/SearchParameter", {"resourceType": "SearchParameter"}))
    )
    assert (reply.status, "search parameter" in diagnostics(reply)) == (501, True)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/observation/o1/_history/1?x=1", 501),
        ("/$export/x/_history/1", 501),
        ("/Observation/o1?_summary=text", 501),
        ("/Observation/o1?%5Fformat=xml", 501),
        ("/Observation?_format=application/fhir%2Bxml", 501),
        ("/Observation?_count=-1", 501),
        ("?_getpages=other&_getpagesoffset=0", 410),
        ("?_getpages=private-1&_getpagesoffset=%C2%B2", 400),
        (f"?_getpages=private-1&_getpagesoffset={'9' * 5000}", 400),
        ("?_getpages=private-1&_getpagesoffset=-1", 400),
        ("?_getpages=private-1&_getpagesoffset=1&_count=9", 501),
    ],
)
def test_no_read_ends_the_episode(target: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medagent.fhir_data.private.session.time.monotonic", lambda: 1.0)  # just after the boot

    async def act(session: EhrSession) -> Reply:
        assert (await session.get("/Observation?_count=2")).ok
        return await session.get(target)

    assert in_episode(act).status == status


def test_a_refused_history_is_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(session: EhrSession) -> None:
        assert (await session.write(PATCH)).ok
        monkeypatch.setattr(HospitalServer, "handle_async_request", refuse)
        assert (await session.get("/Observation/o1/_history")).status == 501

    async def refuse(self: HospitalServer, request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, json={"resourceType": "OperationOutcome"})

    in_episode(act)


def test_refused_writes_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_session, "MOST_WRITES", 2)
    new = entry("POST", "Observation", NEW)

    async def act(session: EhrSession) -> list[int]:
        wrong = [write("POST", "/Patient", NEW), write("DELETE", "/Observation/o1"), bundle(new, new, new)]
        return [(await session.write(request)).status for request in [*wrong, bundle(new, new), POST]]

    assert in_episode(act) == [400, 501, 413, 200, 413]


def test_writes_between_two_pages_of_a_sorted_search_are_not_lost() -> None:
    async def act(session: EhrSession) -> None:
        created = await session.write(write("POST", "/Observation", {**NEW, "effectiveDateTime": "2023-10-08"}))
        page = json.loads((await session.get("/Observation?status=final&_sort=date&_count=3")).text)
        assert (await session.write(write("PATCH", "/Observation/o7", AMEND))).ok
        assert (await session.write(write("DELETE", f"/Observation/{json.loads(created.text)['id']}"))).ok
        later = json.loads((await session.get(page["link"][-1]["url"].removeprefix(SHOWN))).text)
        assert [item["resource"]["id"] for item in later["entry"]] == ["o4", "o5", "o6"]
        assert json.loads((await session.get("/Observation/o7")).text)["status"] == "amended"

    in_episode(act)
