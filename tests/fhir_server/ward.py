"""Three patients with an observation each on a server in process, and the requests that tests make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fhir_server import Request, Response, Server

JSON = [("Content-Type", "application/fhir+json")]
PEOPLE = [
    {
        "resourceType": "Patient",
        "id": f"p{number}",
        "gender": "female" if number % 2 else "male",
        "birthDate": f"19{number}0-01-01",
        "identifier": [{"system": f"urn:z{number}", "value": "X"}, {"use": "official", "value": str(number)}],
    }
    for number in range(7, 10)
]


@contextmanager
def ward() -> Iterator[Server]:
    """The server; o0 is about p7, o1 about p8, o2 about p9."""
    with Server.open(None) as server:
        for number, person in enumerate(PEOPLE):
            assert send(server, "PUT", f"Patient/{person['id']}", person).status == 201
            observation = {
                **seen(f"Patient/{person['id']}"),
                "id": f"o{number}",
                "effectiveDateTime": f"2023-11-1{number}",
                "valueQuantity": {"value": 99 + number},
            }
            assert send(server, "PUT", f"Observation/o{number}", observation).status == 201
        yield server


def seen(reference: str) -> dict[str, Any]:
    """An observation of a patient."""
    return {"resourceType": "Observation", "status": "final", "code": {}, "subject": {"reference": reference}}


def send(server: Server, method: str, target: str, body: Any = None, **headers: str) -> Response:
    """The answer to a request with a JSON body, or one of bytes."""
    given = {"Content-Type": "application/fhir+json"} | {key.replace("_", "-"): value for key, value in headers.items()}
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return server.handle(Request(method, f"/fhir/{target}", tuple(given.items()), content))


def found(server: Server, query: str) -> list[str]:
    """The ids that a search answers with."""
    return [resource["id"] for resource in resources(server, query)]


def resources(server: Server, query: str) -> list[dict[str, Any]]:
    """The resources that a search answers with."""
    answer = send(server, "GET", query)
    assert answer.status == 200, answer.text
    return [entry["resource"] for entry in json.loads(answer.text).get("entry", [])]


def next_link(server: Server, query: str) -> str:
    """The address of the next page."""
    (url,) = (link["url"] for link in json.loads(send(server, "GET", query).text)["link"] if link["relation"] == "next")
    return str(url)


def said(answer: Response) -> tuple[int, str]:
    """Status and diagnostics."""
    return answer.status, json.loads(answer.text)["issue"][0]["diagnostics"]
