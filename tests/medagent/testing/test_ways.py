"""The ways to a double: httpx2 and aiohttp, what asks for authorization, assertions on requests; and what it costs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires

import aiohttp
import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from medagent import UserError
from medagent.testing import FhirData, FhirDouble

PATIENT = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Ames"}]}
BASE = "https://ehr.example.org/r4"
PACKAGES = 42
"""Packages that `pip install medagent` installs, itself not counted."""
OWN_CODE = (
    "import sys, medagent.testing as t; [getattr(t, n) for n in t.__all__ if not n.startswith('assert_')];"
    "import medagent.testing.plugin;"
    "print(sorted({'openai', 'anthropic', 'mcp', 'httpx2'} & set(sys.modules)))"
)


@pytest.fixture
def ehr(fhir_data: FhirData) -> FhirDouble:
    return fhir_data.double(PATIENT)


def test_httpx2_reaches_it_with_its_faults(ehr: FhirDouble) -> None:
    httpx2 = pytest.importorskip("httpx2", reason="an older openai uses httpx")
    with httpx2.Client(transport=ehr.transport2(), base_url=BASE, timeout=2) as client:
        assert client.get("/Patient/p1").json()["name"] == PATIENT["name"]
        ehr.drop()
        with pytest.raises(httpx2.RemoteProtocolError):
            client.get("/Patient/p1")
        ehr.delay(5)
        with pytest.raises(httpx2.ReadTimeout):
            client.get("/Patient/p1")

    async def asked() -> int:
        async with httpx2.AsyncClient(transport=ehr.transport2(), base_url=BASE) as client:
            return int((await client.get("/Patient/none")).status_code)

    assert asyncio.run(asked()) == 404


def test_aiohttp_reaches_it_with_its_faults(ehr: FhirDouble) -> None:
    async def ask() -> None:
        async with aiohttp.ClientSession(connector=ehr.aiohttp_connector()) as session:
            async with session.get(f"{BASE}/Patient?family=ames") as reply:
                bundle = await reply.json(content_type=None)
            assert bundle["link"][0]["url"] == f"{BASE}/Patient?family=ames"
            ehr.drop(times=2)  # aiohttp itself tries a second time
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await session.get(f"{BASE}/Patient/p1")
            ehr.truncate()
            with pytest.raises(aiohttp.ClientPayloadError):
                await (await session.get(f"{BASE}/Patient/p1")).read()

    with ehr:
        asyncio.run(ask())


def test_a_token_is_needed(ehr: FhirDouble) -> None:
    ehr.require_token("right")
    with httpx.Client(transport=ehr.transport(), base_url=BASE) as client:
        assert client.get("/metadata").status_code == 200
        refused = client.get("/Patient/p1")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="fhir"')
        assert refused.json()["resourceType"] == "OperationOutcome"
        wrong = client.get("/Patient/p1", headers={"Authorization": "Bearer wrong"})
        assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
        assert client.get("/Patient/p1", headers={"Authorization": "Bearer right"}).status_code == 200
        assert [request.status for request in ehr.requests] == [200, 401, 401, 200]


def test_tokens_come_from_the_smart_endpoint(ehr: FhirDouble) -> None:
    with pytest.raises(UserError, match="no token is required"):
        ehr.expire_tokens()
    ehr.require_smart("me", "secret", scope="system/Patient.rs system/Observation.rs")
    with httpx.Client(transport=ehr.transport(), base_url=BASE) as client:
        token_url = client.get("/.well-known/smart-configuration").json()["token_endpoint"]
        assert token_url == f"{BASE}/auth/token"
        form = {"grant_type": "client_credentials", "scope": "system/Patient.rs"}
        unknown = client.post(token_url, data=form, auth=("me", "guess"))
        assert (unknown.status_code, unknown.json()["error"]) == (401, "invalid_client")
        wider = client.post(token_url, data={**form, "scope": "system/*.cud"}, auth=("me", "secret"))
        assert wider.json()["error"] == "invalid_scope"
        token = client.post(token_url, data=form, auth=("me", "secret")).json()
        assert (token["expires_in"], token["scope"]) == (300, "system/Patient.rs")
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        assert client.get("/Patient/p1", headers=headers).status_code == 200
        ehr.expire_tokens()
        assert client.get("/Patient/p1", headers=headers).status_code == 401
        in_form = {**form, "client_id": "me", "client_secret": "secret"}
        assert client.post(token_url, data=in_form).status_code == 200
        assert client.get(token_url).status_code == 400


def test_assertions_on_requests(ehr: FhirDouble) -> None:
    with httpx.Client(transport=ehr.transport(), base_url=BASE) as client:
        client.get("/Patient?name=x&birthdate=ge2000", headers={"Prefer": "handling=strict"})
    asked = ehr.assert_requested("GET", "Patient?birthdate=ge2000&name=x", times=1, prefer="handling=strict")
    assert asked.status == 200
    ehr.assert_not_requested("POST", "Patient")
    with pytest.raises(AssertionError, match=r"requested 0 times.*\n  GET Patient\?name=x"):
        ehr.assert_requested("GET", "Patient")
    with pytest.raises(AssertionError, match="requested 1 times, expected 2 times"):
        ehr.assert_requested("GET", "Patient?name=x&birthdate=ge2000", times=2)
    with pytest.raises(AssertionError, match="was requested"):
        ehr.assert_not_requested("GET", "Patient?name=x&birthdate=ge2000")


def test_it_loads_no_model_client() -> None:
    done = subprocess.run([sys.executable, "-c", OWN_CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_an_installation_brings() -> None:
    """Counted over the requirements of the installed packages: a new one is a decision."""
    todo, seen = [("medagent", frozenset[str]())], set[tuple[str, frozenset[str]]]()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for text in _required(name):
            requirement = Requirement(text)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (extras or {""})
            ):
                todo.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    packages = {name for name, _ in seen} - {"medagent"}
    assert len(packages) == PACKAGES, sorted(packages)


def _required(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []
