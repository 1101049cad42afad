"""Rules of writing that no recording shows: they follow from HAPI FHIR's sources, and stand here with its words."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from tests.fhir_server.ward import JSON, PEOPLE, found, resources, said, seen, send, ward


@pytest.fixture
def server() -> Iterator[Server]:
    with ward() as server:
        yield server


def transact(server: Server, *entries: dict[str, Any]) -> Response:
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": list(entries)}
    return server.handle(Request("POST", "/fhir", JSON, json.dumps(bundle).encode()))


def entry(method: str, url: str, resource: dict[str, Any] | None = None, full_url: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"request": {"method": method, "url": url}}
    return made | ({"resource": resource} if resource else {}) | ({"fullUrl": full_url} if full_url else {})


@pytest.mark.parametrize("full_url", ["", "http://x.example/fhir/Patient/7"])
def test_an_entry_is_known_by_its_own_id(server: Server, full_url: str) -> None:
    person = {"resourceType": "Patient", "id": "7", "active": True}
    about = entry("POST", "Observation", seen("Patient/7"))
    answer = transact(server, entry("POST", "Patient", person, full_url), about)
    assert answer.status == 200, answer.text
    locations = [item["response"]["location"] for item in json.loads(answer.text)["entry"]]
    stored = json.loads(send(server, "GET", locations[1].partition("/_history")[0]).text)
    assert stored["subject"]["reference"] == locations[0].partition("/_history")[0]


def test_a_transaction_replaces_references_and_uris_only(server: Server) -> None:
    name = "urn:uuid:9d3b0c1e-1111-4222-8333-000000000001"
    values = {"Uri": name, "Canonical": name, "Oid": "urn:oid:1.2", "String": name, "Markdown": name, "Code": name}
    about = seen(name) | {
        "meta": {"profile": [name]},
        "extension": [{"url": "http://u", f"value{kind}": value} for kind, value in values.items()],
        "identifier": [{"system": name, "value": name}],
        "note": [{"text": name}],
    }
    person = {"resourceType": "Patient", "identifier": [{"system": "urn:ietf:rfc:3986", "value": name}]}
    holder = {"resourceType": "Bundle", "type": "collection", "entry": [{"fullUrl": name, "resource": seen(name)}]}
    answer = transact(
        server,
        *(entry("POST", str(resource["resourceType"]), resource) for resource in (about, holder)),
        entry("POST", "Patient", person, name),
        entry("POST", "Patient", PEOPLE[0], "urn:oid:1.2"),
    )
    assert answer.status == 200, answer.text
    stored, kept, who, second_person = (
        json.loads(send(server, "GET", item["response"]["location"]).text) for item in json.loads(answer.text)["entry"]
    )
    new, second = f"Patient/{who['id']}", f"Patient/{second_person['id']}"
    assert who["identifier"] == person["identifier"]
    assert (stored["subject"]["reference"], stored["meta"]["profile"]) == (new, [new])
    assert stored["identifier"] == [{"system": new, "value": name}]
    assert stored["note"] == [{"text": name}]
    assert [list(extension.values())[1] for extension in stored["extension"]] == [new, new, second, name, name, name]
    assert (kept["entry"][0]["fullUrl"], kept["entry"][0]["resource"]["subject"]["reference"]) == (new, name)


@pytest.mark.parametrize("full_url", ["http://x.example/fhir/Patient/7", "http://localhost:8080/fhir/Patient/7"])
@pytest.mark.parametrize(("method", "url"), [("POST", "Patient"), ("PUT", "Patient/7x")])
def test_a_reference_with_an_address_is_external(server: Server, full_url: str, method: str, url: str) -> None:
    person = {"resourceType": "Patient", "active": True}
    answer = transact(server, entry(method, url, person, full_url), entry("POST", "Observation", seen(full_url)))
    assert said(answer)[0] == 400
    assert said(answer)[1].startswith(f'HAPI-0507: Resource contains external reference to URL "{full_url}"')


@pytest.mark.parametrize(
    ("method", "status", "words"),
    [
        ("GET", 404, "HAPI-0302: Unknown resource type 'http:'"),
        *((method, 400, f"HAPI-2006: Unable to perform {method}") for method in ("PUT", "DELETE", "PATCH")),
    ],
)
def test_the_url_of_an_entry_is_relative(server: Server, method: str, status: int, words: str) -> None:
    resource = PEOPLE[0] if method in ("PUT", "PATCH") else None
    answer = said(transact(server, entry(method, "http://localhost:8080/fhir/Patient/p7", resource)))
    assert (answer[0], answer[1][: len(words)]) == (status, words)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_condition_that_is_repeated_counts_once(server: Server, method: str) -> None:
    condition = "identifier=urn:new|1"
    entries = []
    for number, gender in enumerate(("male", "female")):
        person = {"resourceType": "Patient", "gender": gender, "identifier": [{"system": "urn:new", "value": "1"}]}
        made = entry(method, "Patient" if method == "POST" else f"Patient?{condition}", person, f"urn:uuid:{number}")
        if method == "POST":
            made["request"]["ifNoneExist"] = condition
        entries += [made, entry("POST", "Observation", seen(f"urn:uuid:{number}"))]
    for status in ("201 Created", "200 OK"):
        answer = transact(server, *entries)
        assert answer.status == 200, answer.text
        first, *others = (item["response"] for item in json.loads(answer.text)["entry"])
        assert (first["status"], len(others)) == (status, 2)
    (person,) = resources(server, f"Patient?{condition}")
    assert person["gender"] == "male"
    assert len(found(server, f"Observation?subject=Patient/{person['id']}")) == 4


JSON_PATCH = {
    "resourceType": "Binary",
    "contentType": "application/json-patch+json",
    "data": base64.b64encode(b'[{"op": "replace", "path": "/gender", "value": "other"}]').decode(),
}
PARTS = {"type": {"valueCode": "replace"}, "path": {"valueString": "Patient.gender"}, "value": {"valueCode": "other"}}
FHIR_PATCH = {
    "resourceType": "Parameters",
    "parameter": [{"name": "operation", "part": [{"name": name, **value} for name, value in PARTS.items()]}],
}


@pytest.mark.parametrize("patch", [JSON_PATCH, FHIR_PATCH])
def test_a_patch_with_a_condition_in_a_transaction(server: Server, patch: dict[str, Any]) -> None:
    url = "Patient?identifier=urn:z7|X"
    for code in ("SUCCESSFUL_CONDITIONAL_PATCH", "SUCCESSFUL_CONDITIONAL_PATCH_NO_CHANGE"):
        (item,) = json.loads(transact(server, entry("PATCH", url, patch)).text)["entry"]
        assert item["response"]["location"] == "Patient/p7/_history/2"
        (issue,) = item["response"]["outcome"]["issue"]
        assert issue["details"]["coding"][0]["code"] == code
        assert issue["diagnostics"].endswith(f"Existing resource Patient/p7/_history/2 matched URL: {url}.")
    assert json.loads(send(server, "GET", "Patient/p7").text)["gender"] == "other"
    for query, expected in (("?identifier=urn:no|1", (404, "HAPI-0973")), ("", (400, "HAPI-0518"))):
        status, words = said(transact(server, entry("PATCH", f"Patient{query}", patch)))
        assert (status, words[:9]) == expected


def test_a_conditional_update_keeps_the_id_in_a_transaction_only(server: Server) -> None:
    def body(value: str) -> dict[str, Any]:
        return {"resourceType": "Patient", "id": f"own{value}", "identifier": [{"system": "urn:c", "value": value}]}

    assert json.loads(send(server, "PUT", "Patient?identifier=urn:c|1", body("1")).text)["id"].isdigit()
    assert said(send(server, "PUT", "Patient?_id=own2", body("2")))[1].startswith("HAPI-0929: ")
    by_identifier = entry("PUT", "Patient?identifier=urn:c|3", body("3"), "urn:uuid:3")
    answer = transact(
        server,
        by_identifier,
        entry("PUT", "Patient?_id=own4", body("4")),
        entry("PUT", "Observation/n", seen("urn:uuid:3")),
    )
    assert answer.status == 200, answer.text
    assert json.loads(send(server, "GET", "Observation/n").text)["subject"]["reference"] == "Patient/own3"
    assert found(server, "Patient?_id=own2,own3,own4&_sort=_id") == ["own3", "own4"]


@pytest.mark.parametrize("query", ["?_id=p7&_elements=id&_pretty=false", "/p7?_elements=id&_pretty=false"])
def test_a_read_in_a_transaction_is_whole(server: Server, query: str) -> None:
    text = transact(server, entry("GET", f"Patient{query}")).text
    answer = json.loads(text)["entry"][0]["resource"]
    person = answer
    if "entry" in answer:
        assert answer["link"][0]["url"].endswith("Patient?_elements=id&_id=p7&_pretty=false")
        person = answer["entry"][0]["resource"]
    assert person == json.loads(send(server, "GET", "Patient/p7").text)
    assert '"birthDate": ' in text


def test_a_resource_that_comes_back_has_its_labels(server: Server) -> None:
    label = [{"system": "urn:s", "code": "1"}]
    meta = {"tag": label, "security": label, "profile": ["http://p"]}
    plain = {"resourceType": "Patient", "id": "t", "active": True}
    assert send(server, "PUT", "Patient/t", plain | {"meta": meta}).status == 201
    assert send(server, "DELETE", "Patient/t").status == 200
    stored = json.loads(send(server, "PUT", "Patient/t", plain).text)["meta"]
    assert (stored["tag"], stored["security"], "profile" in stored) == (label, label, False)
    assert found(server, "Patient?_tag=urn:s|1") == ["t"]


def test_a_delete_without_search_parameters_deletes_nothing(server: Server) -> None:
    assert said(send(server, "DELETE", "Patient?_count=1")) == (
        412,
        'HAPI-0962: Failed to DELETE Patient with match URL "Patient?_count=1" because this search matched 3 resources',
    )
    assert said(send(server, "DELETE", "Slot?_count=1"))[0] == 200
    assert send(server, "PUT", "Basic/b", {"resourceType": "Basic", "id": "b", "code": {"text": "x"}}).status == 201
    assert said(send(server, "DELETE", "Basic?_count=1"))[1].startswith("HAPI-0518: ")
    assert send(server, "GET", "Basic/b").status == 200


def test_an_extension_has_a_value_or_extensions(server: Server) -> None:
    both = {"extension": [{"url": "u", "valueString": "x", "extension": [{"url": "v", "valueInteger": 1}]}]}
    expected = "HAPI-1811: Extension (URL='u') must not have both a value and other contained extensions"
    for holder in (both, {"birthDate": "1980", "_birthDate": both}, {"name": [both]}):
        status, words = said(send(server, "POST", "Patient", {"resourceType": "Patient", **holder}))
        assert (status, words.partition("Error was: ")[2]) == (400, expected)


@pytest.mark.parametrize(
    ("charset", "encoding"), [("ISO-8859-1", "utf-8"), ("ISO-8859-1", "latin-1"), ("utf-8", "utf-8")]
)
def test_a_body_in_utf_8_is_read_as_such(server: Server, charset: str, encoding: str) -> None:
    body = '{"resourceType": "Patient", "name": [{"family": "Müller"}]}'.encode(encoding)
    answer = send(server, "POST", "Patient", body, Content_Type=f"application/fhir+json;charset={charset}")
    assert json.loads(answer.text)["name"][0]["family"] == "Müller"


@pytest.mark.parametrize("header", ['W/"1", W/"2"', 'W/"1"x'])
def test_if_match_is_one_version(server: Server, header: str) -> None:
    changed = PEOPLE[0] | {"active": True}
    expected = (400, 'If-Match must be one version, such as W/"1"')
    assert said(send(server, "PUT", "Patient/p7", changed, If_Match=header)) == expected
    assert said(send(server, "PATCH", "Patient/p7", FHIR_PATCH, If_Match=header)) == expected
    assert "active" not in json.loads(send(server, "GET", "Patient/p7").text)


@pytest.mark.parametrize(("method", "target"), [("POST", "metadata"), ("GET", "Patient/p7/$meta-add")])
def test_a_method_that_is_not_allowed_names_the_allowed(server: Server, method: str, target: str) -> None:
    answer = send(server, method, target)
    assert (answer.status, dict(answer.headers)["Allow"]) == (405, "GET" if method == "POST" else "POST")


@pytest.mark.parametrize("url", ["", "Patient/x", "Observation"])
def test_where_an_entry_is_posted_to_does_not_matter(server: Server, url: str) -> None:
    answer = json.loads(transact(server, entry("POST", url, {"resourceType": "Patient", "active": True})).text)
    assert answer["entry"][0]["response"]["location"].startswith("Patient/")


def test_the_url_of_a_put_decides_about_the_id(server: Server) -> None:
    answer = transact(server, entry("PUT", "Patient/B", {"resourceType": "Patient", "id": "A", "active": True}))
    assert answer.status == 200
    assert send(server, "GET", "Patient/B").status == 200
    assert send(server, "GET", "Patient/A").status == 404


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("POST", "Observation", seen("urn:uuid:nope"))], "HAPI-0541: Unable to satisfy placeholder ID "
         "urn:uuid:nope found in element named 'subject' within resource of type: Observation"),
        ([entry("POST", "Patient", PEOPLE[n], "urn:uuid:1") for n in (0, 1)],
         "HAPI-0534: Transaction bundle contains multiple resources with ID: urn:uuid:1"),
        ([entry("POST", "Patient", PEOPLE[0])] * 2,
         "HAPI-0535: Transaction bundle contains multiple resources with ID: Patient/p7"),
        ([entry("POST", "Patient")],
         "HAPI-0543: Missing required resource in Bundle.entry[0].resource for operation POST"),
        ([entry("PUT", "Patient/x")],
         "HAPI-0543: Missing required resource in Bundle.entry[0].resource for operation PUT"),
        ([entry("PUT", "Patient", PEOPLE[0])],
         "HAPI-0518: Invalid match URL[Patient?Patient] - URL has no search parameters"),
    ],
)  # fmt: skip
def test_what_a_transaction_refuses(server: Server, entries: list[dict[str, Any]], words: str) -> None:
    assert said(transact(server, *entries)) == (400, words)


def test_a_conditional_reference_is_resolved_in_any_write(server: Server) -> None:
    answer = send(server, "POST", "Observation", seen("Patient?identifier=urn:z7|X"))
    assert json.loads(answer.text)["subject"]["reference"] == "Patient/p7"
    nobody = 'HAPI-1091: Invalid match URL "Patient?identifier=nope" - No resources match this search'
    assert said(send(server, "POST", "Observation", seen("Patient?identifier=nope"))) == (404, nobody)


def test_a_condition_that_holds_an_address_is_no_address(server: Server) -> None:
    lookalike = {"resourceType": "Patient", "id": "other", "identifier": [{"value": "http://x/Patient/a1"}]}
    assert send(server, "PUT", "Patient/other", lookalike).status == 201
    mine = entry("PUT", "Patient/a1", {"resourceType": "Patient", "id": "a1"})
    answer = transact(server, mine, entry("PUT", "Observation/n", seen("Patient?identifier=http://x/Patient/a1")))
    assert answer.status == 200, answer.text
    assert json.loads(send(server, "GET", "Observation/n").text)["subject"]["reference"] == "Patient/other"


def test_a_reference_to_what_was_deleted(server: Server) -> None:
    assert send(server, "DELETE", "Observation/o0").status == 200
    assert send(server, "DELETE", "Patient/p7").status == 200
    status, words = said(send(server, "POST", "Observation", seen("Patient/p7")))
    assert status == 400
    assert words.startswith("HAPI-1096: Resource Patient/p7 is deleted, specified in path: Observation.subject")


def test_tags_and_profiles_are_sets(server: Server) -> None:
    tag = {"system": "urn:t", "code": "a"}
    meta = {"profile": ["http://p", "http://p"], "tag": [tag, {**tag, "display": "A"}], "security": [tag, tag]}
    answer = send(server, "PUT", "Patient/t", {"resourceType": "Patient", "id": "t", "meta": meta})
    stored = json.loads(answer.text)["meta"]
    assert (stored["profile"], stored["tag"], stored["security"]) == (["http://p"], [tag], [tag])


@pytest.mark.parametrize(
    ("number", "words", "column"),
    [
        ("1.", "Unexpected character ('}' (code 125)) in numeric value: Decimal point not followed by a digit", 2),
        ("1e", "Unexpected character ('}' (code 125)) in numeric value: Exponent indicator not followed by a digit", 2),
        ("12.5e+", "Unexpected character ('}' (code 125)) in numeric value: Exponent indicator not followed by a digit",
         3),
        ("1.5.", "Unexpected character ('.' (code 46)): was expecting comma to separate Object entries", 4),
        ("-.5", "Unexpected character ('.' (code 46)): expected a valid value (JSON String, Number, Array, Object or "
         "token 'null', 'true' or 'false')", 2),
        ("-", "Unexpected character ('}' (code 125)) in numeric value: "
         "expected digit (0-9) to follow minus sign, for valid numeric value", 2),
        ("+", "Unexpected character ('}' (code 125)) in numeric value: expected digit (0-9) for valid numeric value",
         2),
        ("-Infinity",
         "Non-standard token '-Infinity': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow", 10),
    ],
)  # fmt: skip
def test_numbers_that_are_none_in_jacksons_words(server: Server, number: str, words: str, column: int) -> None:
    before = '{"resourceType":"Patient","x":'
    answer = server.handle(Request("POST", "/fhir/Patient", JSON, f"{before}{number}}}".encode()))
    place = f"\n at [line: 1, column: {len(before) + column}]"
    assert said(answer)[1].endswith(f"Failed to parse JSON encoded FHIR content: {words}{place}")


def json_patch(server: Server, *operations: dict[str, Any], **headers: str) -> Response:
    return send(server, "PATCH", "Patient/p7", list(operations), Content_Type="application/json-patch+json", **headers)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"op": "add", "path": "/foo", "value": 1}, "HAPI-1825: Unknown element 'foo' found during parse"),
        ({"op": "add", "path": "/identifier/0/foo", "value": 1}, "HAPI-1825: Unknown element 'foo' found during parse"),
        ({"op": "replace", "path": "/gender", "value": "banana"},
         'HAPI-1821: [element="gender"] Invalid attribute value "banana": '
         "Unknown AdministrativeGender code 'banana'"),
    ],
)  # fmt: skip
def test_what_a_json_patch_makes_is_parsed_strictly(server: Server, operation: dict[str, Any], words: str) -> None:
    expected = f"HAPI-1271: Failed to apply JSON patch to Patient/p7: {words}"
    assert said(json_patch(server, operation)) == (400, expected)


@pytest.mark.parametrize("target", ["Patient/p7", "Patient?gender=female"])
def test_a_patch_in_xml_is_refused(server: Server, target: str) -> None:
    body = b'<diff xmlns:f="http://hl7.org/fhir"><remove sel="f:Patient/f:gender"/></diff>'
    sent = Request("PATCH", f"/fhir/{target}", [("Content-Type", "application/xml-patch+xml")], body)
    answer = server.handle(sent)
    issue = json.loads(answer.text)["issue"][0]
    assert (answer.status, issue["code"]) == (415, "not-supported")
    assert "send a JSON Patch (application/json-patch+json) or a FHIRPath patch" in issue["diagnostics"]
    assert "xml-patch" not in server.handle(Request("GET", "/fhir/metadata")).text


def test_a_patch_of_another_version_and_of_several(server: Server) -> None:
    test = {"op": "test", "path": "/gender", "value": "female"}
    old = "HAPI-0550: HAPI-0974: Version 7 is not the most recent version of this resource, unable to apply patch"
    assert said(json_patch(server, test, If_Match='W/"7"')) == (409, old)
    answer = send(server, "PATCH", "Patient?gender=female", [test], Content_Type="application/json-patch+json")
    status, words = said(answer)
    assert (status, words[:41]) == (412, "HAPI-0972: Failed to PATCH Patient with m")


@pytest.mark.parametrize(
    ("kind", "path", "more", "check"),
    [
        ("add", "Patient", {"name": "active", "value": True}, lambda p: p["active"] is True),
        ("replace", "Patient.identifier.where(value='7').use", {"value": "old"},
         lambda p: p["identifier"][1]["use"] == "old"),
        ("delete", "Patient.identifier.where(use = 'official')", {}, lambda p: len(p["identifier"]) == 1),
        ("delete", "Patient.identifier.first()", {}, lambda p: p["identifier"][0]["value"] == "7"),
        ("delete", "Patient.identifier.last()", {}, lambda p: p["identifier"][0]["value"] == "X"),
        ("add", "Patient.identifier[1]", {"name": "use", "value": "old"}, lambda p: p["identifier"][1]["use"] == "old"),
        ("replace", "Patient.identifier[1]", {"value": "x"}, "HAPI-1831: "),
        ("replace", "Patient.identifier.where(value='none').use", {"value": "old"},
         lambda p: p["meta"]["versionId"] == "1"),
        ("replace", "Patient", {"value": "x"}, "HAPI-2761: "),
        ("replace", "Patient.nope", {"value": "x"}, "HAPI-2761: "),
        ("add", "Patient.identifier.count()", {"name": "id", "value": "x"}, "HAPI-2761: "),
        ("delete", "Patient.name[", {}, "HAPI-2409: "),
        ("delete", "Patient.identifier.where()", {}, "HAPI-2409: "),
        ("move", "Patient.identifier", {"source": "x", "destination": "0"}, "HAPI-1268: "),
    ],
)  # fmt: skip
def test_fhirpath_patches(server: Server, kind: str, path: str, more: dict[str, Any], check: Any) -> None:
    types = {bool: "valueBoolean", str: "valueString"}
    parts = [{"name": "type", "valueCode": kind}, {"name": "path", "valueString": path}]
    parts += [{"name": name, types[type(value)]: value} for name, value in more.items()]
    body = {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": parts}]}
    answer = send(server, "PATCH", "Patient/p7", body)
    if isinstance(check, str):
        assert said(answer)[1].startswith(check)
    else:
        assert answer.status == 200, answer.text
        assert check(json.loads(answer.text))


@pytest.mark.parametrize(
    ("method", "target", "body", "headers", "expected"),
    [
        ("PATCH", "Patient/p7", [], {"Content_Type": "application/json; charset=utf-8"},
         "HAPI-1965: Invalid Content-Type for PATCH operation: application/json"),
        ("DELETE", "Patient?foo=1", None, {}, "HAPI-0488: Failed to parse match URL[Patient?foo=1] - "
         "Resource type Patient does not have a parameter with name: foo"),
        ("POST", "Patient", PEOPLE[0], {"If_None_Exist": "foo=bar"}, "HAPI-0488: Failed to parse match URL[foo=bar] - "
         "Resource type Patient does not have a parameter with name: foo"),
        ("PUT", "Patient", PEOPLE[0], {}, "HAPI-0418: Can not update resource, request URL must contain an ID element "
         "for update (PUT) operation (it must be of the form [base]/[resource type]/[id])"),
        ("POST", "Patient", b"a=b", {"Content_Type": "application/x-www-form-urlencoded"},
         'HAPI-0446: Incorrect Content-Type header value of "application/x-www-form-urlencoded" was provided in the '
         'request. A FHIR Content-Type is required for "CREATE" operation'),
        ("POST", "Patient", {"resourceType": "Patient", "extension": {"url": "u", "valueString": "x"}}, {},
         "HAPI-0450: Failed to parse request body as JSON resource. Error was: HAPI-1841: Syntax error parsing JSON "
         "FHIR structure: Expected ARRAY at element 'extension', found 'OBJECT'"),
        ("POST", "Patient", {"resourceType": ""}, {}, "HAPI-0450: Failed to parse request body as JSON resource. Error "
         "was: HAPI-1838: Invalid JSON content detected, missing required element: 'resourceType'"),
    ],
)  # fmt: skip
def test_what_a_write_refuses(
    server: Server, method: str, target: str, body: Any, headers: dict[str, str], expected: str
) -> None:
    assert said(send(server, method, target, body, **headers)) == (400, expected)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"op": "foo", "path": "/a"}, "Could not resolve type id 'foo' as a subtype of `com.github.fge.jsonpatch."
         "operation.JsonPatchOperation`: known type ids = [add, copy, move, remove, replace, test]"
         " (for POJO property '#temporary-name')"),
        ({"path": "/a"}, "Could not resolve subtype of [simple type, class com.github.fge.jsonpatch.operation."
         "JsonPatchOperation]: missing type id property 'op'"),
        ({"op": "add", "path": "/identifier/abc", "value": {}}, "reference token is not an array index"),
        ({"op": "add", "path": "/identifier/9", "value": {}}, "no such index in target array"),
    ],
)  # fmt: skip
def test_json_patches_that_are_none(server: Server, operation: dict[str, Any], words: str) -> None:
    status, diagnostics = said(json_patch(server, operation))
    assert (status, diagnostics.partition("\n at ")[0]) == (400, f"HAPI-1272: {words}")


def test_raw_bytes_are_a_binary(server: Server) -> None:
    assert send(server, "POST", "Binary", b"hello", Content_Type="text/plain").body == b"hello"
    answer = json.loads(send(server, "POST", "Binary?_format=json", b"hello", Content_Type="text/plain").text)
    assert (answer["contentType"], answer["data"]) == ("text/plain", "aGVsbG8=")


def test_an_update_that_changes_nothing_shows_the_source_that_came(server: Server) -> None:
    stored = json.loads(send(server, "GET", "Patient/p7").text)
    again = json.loads(send(server, "PUT", "Patient/p7", stored).text)
    assert again["meta"]["source"] == stored["meta"]["source"]
    assert "source" not in json.loads(send(server, "PUT", "Patient/p7", PEOPLE[0]).text)["meta"]


def test_a_read_that_fails_in_a_transaction_fails_alone(server: Server) -> None:
    answer = json.loads(
        transact(server, entry("POST", "Patient", {"resourceType": "Patient"}), entry("GET", "Patient/no")).text
    )
    made, missing = (item["response"] for item in answer["entry"])
    assert (made["status"], missing["status"]) == ("201 Created", "404 Not Found")
    assert missing["outcome"]["issue"][0]["code"] == "exception"
    assert transact(server, entry("GET", "Foo/1")).status == 404


def test_a_transaction_shows_what_it_wrote_where_that_is_preferred(server: Server) -> None:
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [entry("PUT", "Patient/p7", PEOPLE[1])]}
    bundle["entry"][0]["resource"] = {**PEOPLE[0], "active": True}
    (shown,) = json.loads(send(server, "POST", "", bundle, Prefer="return=representation").text)["entry"]
    assert list(shown) == ["resource", "response"]
    assert shown["resource"]["active"] is True


def test_what_refers_may_be_deleted_with_what_it_refers_to(server: Server) -> None:
    assert send(server, "DELETE", "Patient/p7").status == 409
    answer = json.loads(transact(server, entry("DELETE", "Patient/p7"), entry("DELETE", "Observation/o0")).text)
    assert [item["response"]["status"] for item in answer["entry"]] == ["204 No Content"] * 2
    unchanged = json.loads(send(server, "GET", "Observation/o1").text)
    for entries in (
        [entry("DELETE", "Patient/p8")],
        [entry("DELETE", "Patient/p8"), entry("PUT", "Observation/o1", unchanged)],
    ):
        assert transact(server, *entries).status == 409
        assert send(server, "GET", "Patient/p8").status == 200
    moved = entry("PUT", "Observation/o1", {**unchanged, "subject": {"reference": "Patient/p9"}})
    assert transact(server, entry("DELETE", "Patient/p8"), moved).status == 200
    assert transact(server, entry("DELETE", "Patient/p9"), entry("PUT", "Patient/p9", PEOPLE[2])).status == 200
    assert send(server, "GET", "Patient/p9").status == 200


def test_unchecked_references_are_found_by_while_they_lead_somewhere() -> None:
    def put(*names: str) -> list[dict[str, Any]]:
        return [entry("PUT", f"Observation/{name}", {**seen("Patient/p"), "id": name}) for name in names]

    person = {"resourceType": "Patient", "id": "p", "active": True}
    with Server.open(None, reference_check=False) as server:
        assert transact(server, *put("before")).status == 200
        assert transact(server, entry("PUT", "Patient/p", person), *put("with")).status == 200
        assert transact(server, *put("a", "b")).status == 200
        assert found(server, "Observation?subject=Patient/p") == ["with", "a", "b"]
        assert transact(server, *put("c", "d"), entry("DELETE", "Patient/p")).status == 200
        assert transact(server, *put("e")).status == 200
        assert found(server, "Observation?subject=Patient/p") == ["with", "a", "b"]


def test_a_batch_reads_what_it_writes(server: Server) -> None:
    person = {"resourceType": "Patient", "name": [{"family": "Zed"}]}
    entries = [entry("GET", "Patient?family=Zed"), entry("POST", "Patient", person)]
    bundle = {"resourceType": "Bundle", "type": "batch", "entry": entries}
    answer = json.loads(send(server, "POST", "", bundle).text)["entry"]
    assert answer[0]["resource"]["total"] == 1
    assert answer[1]["response"]["status"] == "201 Created"


def test_a_subscription_that_waits_for_notifications_is_refused(server: Server) -> None:
    """Nobody would send them; HAPI without subscriptions stores it and sends none."""
    channel = {"type": "rest-hook", "endpoint": "http://127.0.0.1:9/", "payload": "application/fhir+json"}
    waiting = {"resourceType": "Subscription", "status": "requested", "reason": "r", "criteria": "Observation?"}
    waiting["channel"] = channel
    refusal = (
        422,
        "This server delivers no notifications: it stores a Subscription only with the status off or error"
        " (medagent serve --allow-hook HOST delivers to that host)",
    )
    assert said(send(server, "POST", "Subscription", waiting)) == refusal
    assert said(send(server, "PUT", "Subscription/s", waiting | {"id": "s", "status": "active"})) == refusal
    assert said(transact(server, entry("POST", "Subscription", waiting))) == refusal
    assert send(server, "PUT", "Subscription/s", waiting | {"id": "s", "status": "off"}).status == 201
    patch = [{"op": "replace", "path": "/status", "value": "active"}]
    answer = send(server, "PATCH", "Subscription/s", patch, Content_Type="application/json-patch+json")
    assert said(answer) == refusal
    now = datetime(2023, 11, 13, tzinfo=UTC)
    with server.overlay("seed", now) as episode:
        answer = episode.handle(Request("POST", "/fhir/Subscription", JSON, json.dumps(waiting).encode()))
    assert said(answer) == refusal
    stored = resources(server, "Subscription")
    assert [(subscription["id"], subscription["status"]) for subscription in stored] == [("s", "off")]
