"""Compares `--writes private` with `--writes execute`: python -m tools.private_diff

Every list of actions is played twice: against the embedded server, which carries out the writes, and against the same
server over HTTP as "the hospital", with a private layer. Replies must be equal except new ids, versions and times, or
be 501. If only one of them states a `total`, it is not compared, as HAPI states it only if it knows it. FHIR defines no
order without `_sort`, so all pages of a search without it are compared as a whole.

The lists are the reference agent's actions in the 300 bundled tasks, and 200 made ones with updates, patches,
deletions, conditional writes and transactions. After a 501 to a write, the records differ, so the list ends there.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import re
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import medagent
from fhir_server import Server
from fhir_server.app import create_app
from fhir_server.processes.http import serving
from medagent.fhir_data.embedded import EmbeddedEhr, bundled_file
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.private.session import PrivateEhr
from medagent.fhir_data.record import EhrSession, FhirRequest, Reply
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.writes import stated_write
from refsol.medagentbench.constants import PUBLISHED

BASE = API_BASE.rstrip("/")
KINDS = ("Observation", "MedicationRequest", "ServiceRequest", "Condition", "Procedure")
Actions = Sequence[FhirRequest]
_NEW = re.compile(r"\b(?:1\d{15}|(?:6[1-9]|7\d)\d{3})\b")
"""Ids that a server gave: in the layer, and in the bundled hospital."""
_MOST_PAGES = 30


def recorded(limit: int | None = None) -> list[Actions]:
    """The reference agent's actions in the bundled tasks."""
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"agent": "reference", "results_dir": Path(folder), "limit": limit}
        report = medagent.run_sync("medagentbench", **options)
        lists: list[Actions] = []
        for row in medagent.load_run(report.folder).rows():
            assert isinstance(row, EpisodeRow)
            acts = [turn.content for turn in row.transcript if turn.role == "agent"]
            lists.append([_request(text) for text in acts if not text.startswith("FINISH(")])
    return lists


def _request(text: str) -> FhirRequest:
    stated = stated_write(text)
    if stated is None:
        return FhirRequest("GET", text.removeprefix("GET ").removeprefix(BASE))
    return FhirRequest(stated.method, stated.url.removeprefix(BASE), stated.body, stated.conditions)


def made(count: int, charts: dict[str, list[dict[str, Any]]], seed: int = 51) -> list[Actions]:
    """Lists with every kind of write on the resources of these patients, by type."""
    rng = random.Random(seed)
    return [list(_made(rng, charts)) for _ in range(count)]


def _made(rng: random.Random, charts: dict[str, list[dict[str, Any]]]) -> Iterator[FhirRequest]:
    patient = rng.choice(charts["Patient"])
    for _ in range(rng.randint(3, 7)):
        resource = rng.choice(charts[rng.choice(KINDS)])
        status = rng.choice(["stopped", "active", "completed", "final", "amended"])
        yield from _writes(rng, resource, patient, status)
        yield from rng.sample(_reads(rng, resource, patient["id"], status), 3)


def _writes(
    rng: random.Random, resource: dict[str, Any], patient: dict[str, Any], status: str
) -> Iterator[FhirRequest]:
    """At most one write, of a new note, of a resource, or of a patient."""
    place, version, identifier = (
        f"/{resource['resourceType']}/{resource['id']}",
        rng.choice(["1", "1", "2"]),
        rng.randint(1, 3),
    )
    condition = rng.choice([(), (), (("If-Match", f'W/"{version}"'),)])
    subject = f"Patient/{patient['id']}"
    note = {
        "resourceType": "Observation",
        "status": rng.choice(["final", "preliminary"]),
        "code": {"text": "note"},
        "subject": {"reference": subject},
        "effectiveDateTime": f"2023-11-{rng.randint(1, 28):02}",
        "identifier": [{"system": "http://x", "value": str(rng.randint(1, 3))}],
    }
    body, search = json.dumps(note), f"identifier=http://x|{identifier}"
    moved = [{"op": "replace", "path": "/subject/reference", "value": subject}]
    match rng.randint(0, 13):
        case 0 | 1:
            yield FhirRequest("POST", "/Observation", body)
        case 2:
            yield FhirRequest("PUT", place, json.dumps({**resource, "status": status}), condition)
        case 3:
            patch = json.dumps([{"op": "replace", "path": "/status", "value": status}])
            yield FhirRequest("PATCH", place, patch, condition)
        case 4:
            yield FhirRequest("POST", "/Observation", body, (("If-None-Exist", search),))
        case 5:
            yield FhirRequest("PUT", f"/Observation?{search}", body)
        case 6:
            yield FhirRequest("DELETE", f"/Observation?{search}")
        case 7:
            if rng.random() < 0.3:
                yield FhirRequest("DELETE", place)
        case 8:
            put = {"method": "PUT", "url": rng.choice([place, place[1:]])}
            stated = put | rng.choice([{}, {"ifMatch": f'W/"{version}"'}])
            yield _bundle(
                rng.choice(["transaction", "batch"]),
                {"request": {"method": "POST", "url": "Observation", "ifNoneExist": search}, "resource": note},
                {"request": stated, "resource": {**resource, "status": status}},
            )
        case 9:
            yield FhirRequest("PATCH", place, json.dumps(moved), condition)
        case 10:
            yield FhirRequest("PATCH", place, json.dumps(_fhir_patch(resource["resourceType"], subject)))
        case 11:
            data = base64.b64encode(json.dumps(moved).encode()).decode()
            binary = {"resourceType": "Binary", "contentType": "application/json-patch+json", "data": data}
            yield _bundle("transaction", {"request": {"method": "PATCH", "url": place[1:]}, "resource": binary})
        case 12:
            named = {**patient, "name": [{"family": rng.choice(["Smith", "Other"])}]}
            yield FhirRequest("PUT", f"/{subject}", json.dumps(named))


def _bundle(kind: str, *entries: dict[str, Any]) -> FhirRequest:
    return FhirRequest("POST", "", json.dumps({"resourceType": "Bundle", "type": kind, "entry": entries}))


def _fhir_patch(kind: str, subject: str) -> dict[str, Any]:
    """A FHIRPath Patch that moves a resource to a patient."""
    part = [
        {"name": "type", "valueCode": "replace"},
        {"name": "path", "valueString": f"{kind}.subject"},
        {"name": "value", "valueReference": {"reference": subject}},
    ]
    return {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": part}]}


def _reads(rng: random.Random, resource: dict[str, Any], patient: str, status: str) -> list[FhirRequest]:
    kind, place = resource["resourceType"], f"/{resource['resourceType']}/{resource['id']}"
    subject = resource.get("subject", {}).get("reference", "")
    targets = [
        place,
        f"{place}/_history",
        f"{place}/_history?_count={rng.randint(1, 2)}&_offset={rng.randint(0, 1)}",
        f"{place}/_history/1",
        f"{place}/_history/99",
        f"/{kind}?subject={subject}&_count=50",
        f"/{kind}?subject={subject}&status={status}",
        f"/{kind}?subject={subject}&status:not={status}&_sort=-_lastUpdated",
        f"/{kind}?subject={subject}&_sort={rng.choice(['-', ''])}{rng.choice(['code', 'patient', 'patient.name'])}",
        f"/{kind}?subject={subject}&_offset=2&_count=3",
        f"/Observation?subject=Patient/{patient}&_sort=-date&_count=4",
        f"/Observation?patient={patient}&date=ge2023-11-10&_sort=date",
        "/Observation?identifier=http://x|1&_summary=count",
        f"/{kind}?_id={resource['id']}&_include={kind}:subject",
        f"/{kind}?subject={subject}&_include={kind}:subject&_sort=code",
        f"/{kind}?_id={resource['id']}&patient.name=Smith",
        f"/Patient?_id={patient}&_revinclude=Observation:subject",
        f"/Patient?_id={patient}&_revinclude=Observation:subject:{rng.choice(['Group', 'Patient'])}",
        f"/Patient?_id={patient}&_revinclude=Observation:subject&_elements=name",
        f"/Patient?_id={patient}&_has:Observation:patient:encounter.status=finished",
        f"/{kind}?subject={subject}&_elements=status&_count=30",
    ]
    return [FhirRequest("GET", target) for target in targets]


@dataclass(slots=True)
class Compared:
    """The numbers of replies, by how they compare, and the differences."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[FhirRequest, str, str]] = field(default_factory=list)


async def compare(lists: Sequence[Actions], executed: EmbeddedEhr, private: PrivateEhr) -> Compared:
    """Play the lists against both."""
    result = Compared()
    for number, actions in enumerate(lists):
        async with executed.session(f"s{number}") as executed_session, private.session(f"s{number}") as private_session:
            await _play(actions, executed_session, private_session, result)
    return result


async def _play(actions: Actions, executed_session: EhrSession, private_session: EhrSession, result: Compared) -> None:
    names: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for action in actions:
        if action.method == "GET":
            await _read(action, executed_session, private_session, names, result)
            continue
        replies = await executed_session.write(action), await private_session.write(action)
        if _noted(action, replies, names, result) != "equal":
            return


async def _read(
    action: FhirRequest, executed_session: EhrSession, private_session: EhrSession, names: Any, result: Compared
) -> None:
    """Compare a read with its next pages: one by one with `_sort`, otherwise as a whole."""
    pages = [[page async for page in _pages(session, action.target)] for session in (executed_session, private_session)]
    if "_sort" in action.target and len(pages[0]) == len(pages[1]):
        for replies in zip(*pages, strict=True):
            if _noted(action, replies, names, result) != "equal":
                return
    else:
        _noted(action, (_joined(pages[0]), _joined(pages[1])), names, result)


async def _pages(session: EhrSession, target: str | None) -> AsyncIterator[Reply]:
    """A read and, for a search, its next pages."""
    pages = 0
    while target is not None and pages < _MOST_PAGES:
        reply = await session.get(target)
        yield reply
        target, pages = _next(reply), pages + 1


def _joined(pages: list[Reply]) -> Reply:
    """The pages of a search as one."""
    if len(pages) == 1 or not all(page.ok for page in pages):
        return pages[-1]
    bundles = [json.loads(page.text) for page in pages]
    entries = [entry for bundle in bundles for entry in bundle.get("entry", [])]
    return Reply(200, json.dumps({**bundles[0], "link": bundles[-1].get("link", []), "entry": entries}))


def _noted(action: FhirRequest, replies: tuple[Reply, Reply], names: Any, result: Compared) -> str:
    how = "equal"
    if replies[1].status == 501 and replies[0].status != 501:
        how = "501"
        result.reasons[json.loads(replies[1].text)["issue"][0]["diagnostics"]] += 1
    else:
        with_total = all('"total"' in reply.text for reply in replies)
        executed_reply, private_reply = (
            f"{reply.status} {_normal(reply, known, '_sort' in action.target, with_total)}"
            for reply, known in zip(replies, names, strict=True)
        )
        if executed_reply != private_reply:
            how = "different"
            result.differences.append((action, executed_reply, private_reply))
    result.counts[how] += 1
    return how


def _next(reply: Reply) -> str | None:
    links = json.loads(reply.text).get("link", []) if reply.ok else []
    return next((link["url"].removeprefix(BASE) for link in links if link["relation"] == "next"), None)


def _normal(reply: Reply, names: dict[str, str], sorted_: bool, with_total: bool) -> str:
    """A reply without times, versions and links; new ids are numbered in the order in which they appear."""
    try:
        value = json.loads(reply.text)
    except ValueError:
        return reply.text
    if value.get("resourceType") == "Bundle":
        value["more"] = any(link["relation"] == "next" for link in value.pop("link", []))
        value.pop("id", None)
        if not with_total:
            value.pop("total", None)
    text = json.dumps(_plain(value), sort_keys=True)
    text = re.sub(r"private-(\d+)", r"\1", text)
    text = re.sub(r"(Version |/_history/)\d+", r"\1N", text)
    value = json.loads(_NEW.sub(lambda match: names.setdefault(match[0], f"new{len(names)}"), text))
    if value.get("type") == "searchset" and not sorted_:
        value.get("entry", []).sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    return json.dumps(value, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        times = ("lastUpdated", "source", "lastModified", "versionId", "etag")
        return {key: _plain(item) for key, item in value.items() if key not in times}
    return value


@asynccontextmanager
async def both() -> AsyncIterator[tuple[EmbeddedEhr, PrivateEhr]]:
    """The bundled hospital as the embedded server, and served over HTTP with private layers."""
    path = bundled_file().path
    executed = EmbeddedEhr.open(path, BASE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/fhir"
        hospital = Server.open(path, base=url)
        try:
            with serving(create_app(hospital), listener):
                async with HttpEhr(url, BASE) as http:
                    yield executed, PrivateEhr(http, BASE, PUBLISHED.now)
        finally:
            hospital.close()
            executed.close()


def charts(server: Server) -> dict[str, list[dict[str, Any]]]:
    """Some resources of each type that the made lists use."""
    return {
        kind: [json.loads(line) for number, line in enumerate(server.export(kind)) if number % 97 == 0][:200]
        for kind in ("Patient", *KINDS)
    }


async def main() -> None:
    """Print the shares of equal replies, of 501, and of differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recorded", type=int, default=None, help="so many of the 300 recorded lists")
    parser.add_argument("--made", type=int, default=200)
    parser.add_argument("--show", type=int, default=5, help="so many differences")
    options = parser.parse_args()
    async with both() as (executed, private):
        parts = {
            "recorded": await asyncio.to_thread(recorded, options.recorded),
            "made": made(options.made, charts(executed.server)),
        }
        for name, lists in parts.items():
            result = await compare(lists, executed, private)
            total = sum(result.counts.values())
            shares = ", ".join(f"{how} {count} ({count / total:.1%})" for how, count in result.counts.most_common())
            print(f"{name}: {len(lists)} lists, {total} replies: {shares}")
            for reason, count in result.reasons.most_common():
                print(f"  501 × {count}: {reason}")
            for action, executed_reply, private_reply in result.differences[: options.show]:
                print(f"  {action.method} {action.target} {action.body[:200]} {action.conditions}")
                print(
                    f"    executed: {_around(executed_reply, private_reply)}\n"
                    f"    private:  {_around(private_reply, executed_reply)}"
                )


def _around(text: str, compared: str) -> str:
    """A text around its first difference from another."""
    place = next(
        (n for n, (a, b) in enumerate(zip(text, compared, strict=False)) if a != b), min(len(text), len(compared))
    )
    return text[max(0, place - 150) : place + 150]


if __name__ == "__main__":
    asyncio.run(main())
