"""`$meta`, `$meta-add`, `$meta-delete`: labels change, the version does not."""

from __future__ import annotations

import json
from typing import Any

from fhir_server import Server
from tests.fhir_server.ward import found, said, send, ward

TAG = {"system": "urn:t", "code": "a"}


def change(server: Server, name: str, meta: dict[str, Any]) -> dict[str, Any]:
    body = {"resourceType": "Parameters", "parameter": [{"name": "meta", "valueMeta": meta}]}
    answer = send(server, "POST", f"Patient/p7/${name}", body)
    assert answer.status == 200, answer.text
    result: dict[str, Any] = json.loads(answer.text)["parameter"][0]["valueMeta"]
    return result


def test_labels_are_added_and_taken_away() -> None:
    with ward() as server:
        assert change(server, "meta-add", {"tag": [TAG], "profile": ["urn:p"]})["tag"] == [TAG]
        assert found(server, "Patient?_tag=urn:t%7Ca") == ["p7"]
        assert json.loads(send(server, "GET", "Patient/p7").text)["meta"]["versionId"] == "1"
        assert json.loads(send(server, "GET", "Patient/$meta").text)["parameter"][0]["valueMeta"]["profile"] == [
            "urn:p"
        ]
        assert "tag" not in change(server, "meta-delete", {"tag": [TAG | {"display": "other"}]})
        assert found(server, "Patient?_tag=urn:t%7Ca") == []
        assert found(server, "Patient?_profile=urn:p") == ["p7"]


def test_what_is_refused() -> None:
    with ward() as server:
        assert said(send(server, "GET", "Patient/nope/$meta"))[0] == 404
        body = {"resourceType": "Parameters"}
        assert said(send(server, "POST", "Patient/p7/$meta-add", body))[1].startswith("HAPI-0554")
