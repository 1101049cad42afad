"""Search parameters that clients define: in force at once, over what is stored too, for every reader of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Request, Server
from fhir_server.bounds import Bounds, Meter, UnfinishedError
from tests.fhir_server.ward import JSON, found, resources, said, send, ward

EYE = "Patient.extension.where(url='http://x/eye').value"
NOW = datetime(2023, 11, 13, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[Server]:
    with ward() as server:
        assert send(server, "PUT", "Patient/blue", person("blue", "Blue")).status == 201
        yield server


def person(name: str, eye: str) -> dict[str, Any]:
    extension = [{"url": "http://x/eye", "valueString": eye}, {"url": "http://x/born", "valueDateTime": "2001-02-03"}]
    names = [{"family": "B", "given": ["Zoe", "Yan"]}]
    return {"resourceType": "Patient", "id": name, "extension": extension, "name": names, "deceasedBoolean": True}


def definition(code: str, kind: str, expression: str | None, base: str = "Patient", **more: Any) -> dict[str, Any]:
    made = {"resourceType": "SearchParameter", "id": f"sp-{code}", "url": f"http://x/{code}", "name": code}
    made |= {"status": "active", "description": "d", "code": code, "base": [base], "type": kind}
    return {key: value for key, value in {**made, "expression": expression, **more}.items() if value is not None}


def define(server: Server, *given: Any, **more: Any) -> int:
    resource = definition(*given, **more)
    return send(server, "PUT", f"SearchParameter/{resource['id']}", resource).status


def status(server: Server, query: str) -> int:
    return send(server, "GET", query).status


def test_what_is_stored_and_what_comes_is_found(server: Server) -> None:
    assert status(server, "Patient?eye=blue") == 400
    assert define(server, "eye", "string", EYE) == 201
    assert found(server, "Patient?eye=blue") == ["blue"]
    send(server, "PUT", "Patient/p7", person("p7", "Blue-green"))
    assert found(server, "Patient?eye=blue&_sort=-eye") == ["p7", "blue"]
    assert found(server, "Patient?eye:exact=Blue") == ["blue"]
    assert found(server, "Patient?eye:missing=false&_sort=_id") == ["blue", "p7"]
    assert found(server, 'Patient?_filter=eye sw "blue"') == ["blue", "p7"]
    assert found(server, "Observation?subject.eye=blue") == ["o0"]
    assert found(server, "Observation?subject:Patient.eye=blue&_include=Observation:subject") == ["o0", "p7"]
    answer = send(server, "POST", "Patient", person("x", "Blue"), If_None_Exist="eye:exact=Blue")
    assert (answer.status, json.loads(answer.text)["id"]) == (200, "blue")
    send(server, "DELETE", "Patient/blue")
    assert found(server, "Patient?eye:exact=Blue") == []
    statement = json.loads(send(server, "GET", "metadata").text)["rest"][0]["resource"]
    (listed,) = (resource["searchParam"] for resource in statement if resource["type"] == "Patient")
    assert {"name": "eye", "type": "string"} in listed


@pytest.mark.parametrize(
    ("kind", "expression", "asked", "others"),
    [
        ("token", "Patient.gender", "http://hl7.org/fhir/administrative-gender|male", ["p8"]),
        ("token", "Patient.deceased.exists()", "true", ["blue"]),
        ("string", "Patient.name.given.first()", "zoe", ["blue"]),
        ("string", "Patient.name.given.last() | Patient.name.family", "yan", ["blue"]),
        ("string", "name.given", "zoe", ["blue"]),
        ("string", "Patient.extension('http://x/eye').value", "blue", ["blue"]),
        ("date", "Patient.extension('http://x/born').value.ofType(dateTime)", "2001-02-03", ["blue"]),
        ("date", "(Patient.birthDate as date)", "lt1975", ["p7"]),
        ("uri", "Patient.extension.url", "http://x/eye", ["blue"]),
        ("token", "Patient.identifier.where(use='official').value", "8", ["p8"]),
        ("token", "Patient.nothing", "x", []),
        ("token", "Observation.status", "final", []),
        ("number", "Patient.name.count()", "1", ["blue"]),
        ("string", "Patient.name.given.first().substring(1, 1)", "o", ["blue"]),
        ("string", "Patient.deceased.toString()", "true", ["blue"]),
        ("token", "Patient.name.family.first().matches('^B')", "true", ["blue"]),
        ("token", "Patient.name.where(family ~ 'b').exists()", "true", ["blue"]),
        ("token", "Patient.name.exists() and (1).is(Integer)", "true", ["blue"]),
        ("number", "Patient.name.given.select($index)", "1", ["blue"]),
        ("string", "Patient.name.select(family.union(given))", "yan", ["blue"]),
        ("string", "Patient.name.given.join('-')", "zoe-yan", ["blue"]),
        ("date", "Patient.extension('http://x/born').value + 1 year", "2002-02-03", ["blue"]),
        ("string", "Patient.birthDate.toString().replaceMatches('([0-9]+)-.*', 'born $1')", "born 1970", ["p7"]),
        ("string", "Patient.extension.valueString", "blue", []),
        ("string", "Patient.text.div.exists().toString()", "true", []),
        ("string", "Patient.photo.title.join('-')", "", []),
        ("string", "Patient.deceased", "true", ["blue"]),
        ("string", "Patient.deceased is dateTime", "false", ["blue"]),
        ("string", "Patient.name.given.count()", "2", ["blue"]),
        ("string", "Patient.extension.value.ofType(dateTime)", "2001", ["blue"]),
        ("string", "Patient.birthDate", "1970", ["p7"]),
        ("token", "Patient.name.given.count()", "2", ["blue"]),
        ("token", "Patient.extension.value.ofType(dateTime)", "2001-02-03", ["blue"]),
    ],
)
def test_expressions_of_every_kind(server: Server, kind: str, expression: str, asked: str, others: list[str]) -> None:
    assert define(server, "own", kind, expression) == 201
    assert found(server, f"Patient?own={asked}") == others


def test_references_and_composites(server: Server) -> None:
    assert define(server, "about", "reference", "Observation.subject.where(resolve() is Patient)", "Observation") == 201
    assert found(server, "Observation?about=p8") == ["o1"]
    assert found(server, "Observation?about.gender=male&_include=Observation:about") == ["o1", "p8"]
    assert found(server, "Patient?_has:Observation:about:status=final&gender=male") == ["p8"]
    assert found(server, "Patient?_id=p8&_revinclude=Observation:about") == ["p8", "o1"]
    assert define(server, "size", "quantity", "Observation.value", "Observation") == 201
    parts = [
        {"definition": "http://x/size", "expression": "value"},
        {"definition": "http://hl7.org/fhir/SearchParameter/clinical-code", "expression": "code"},
    ]
    assert define(server, "both", "composite", None, "Observation", component=parts) == 201
    send(server, "PUT", "Observation/o0", {**resources(server, "Observation?_id=o0")[0], "code": {"text": "c"}})
    coded = {"coding": [{"code": "c"}]}
    send(server, "PUT", "Observation/o1", {**resources(server, "Observation?_id=o1")[0], "code": coded})
    assert found(server, "Observation?both=gt99$c") == ["o1"]
    assert found(server, "Observation?both=lt99$c") == []


def test_the_id_of_a_put_is_indexed(server: Server) -> None:
    """An id that the server assigns is not, as in HAPI."""
    assert define(server, "known", "string", "Patient.id") == 201
    assert found(server, "Patient?known:exact=blue") == ["blue"]
    assert send(server, "PUT", "Patient/new", person("new", "Blue")).status == 201
    assert found(server, "Patient?known:exact=new") == ["new"]
    posted = json.loads(send(server, "POST", "Patient", person("x", "Blue")).text)["id"]
    assert found(server, f"Patient?known:exact={posted}") == []


@pytest.mark.parametrize(
    "expression",
    [
        "Patient.name.first().use | Patient.gender",
        "iif(Patient.gender.exists(), Patient.gender | Patient.name.use, Patient.name.use)",
        "Patient.descendants().ofType(code)",
    ],
)
def test_a_code_has_the_system_of_its_own_list(server: Server, expression: str) -> None:
    named = {"resourceType": "Patient", "id": "coded", "gender": "male", "name": [{"use": "usual"}]}
    assert define(server, "coded", "token", expression) == 201
    assert send(server, "PUT", "Patient/coded", named).status == 201
    for system, code in (("administrative-gender", "male"), ("name-use", "usual")):
        assert "coded" in found(server, f"Patient?coded=http://hl7.org/fhir/{system}|{code}")
    assert found(server, "Patient?coded=http://hl7.org/fhir/name-use|male") == []


def test_a_definition_that_changes_goes_and_comes_back(server: Server) -> None:
    define(server, "eye", "string", EYE)
    assert define(server, "eye", "string", "Patient.name.given") == 200
    assert (found(server, "Patient?eye=blue"), found(server, "Patient?eye=yan")) == ([], ["blue"])
    for unused in ("draft", "retired", "unknown"):
        assert define(server, "eye", "string", EYE, status=unused) == 200
        assert status(server, "Patient?eye=blue") == 400
    assert define(server, "eye", "string", EYE) == 200
    assert found(server, "Patient?eye=blue") == ["blue"]
    assert send(server, "DELETE", "SearchParameter/sp-eye").status == 200
    assert status(server, "Patient?eye=blue") == 400
    patched = definition("eye", "string", EYE, status="draft")
    assert send(server, "PUT", "SearchParameter/sp-eye", patched).status == 201
    patch = [{"op": "replace", "path": "/status", "value": "active"}]
    send(server, "PATCH", "SearchParameter/sp-eye", patch, Content_Type="application/json-patch+json")
    assert found(server, "Patient?eye=blue") == ["blue"]


def test_one_of_r4s_is_replaced_retired_and_comes_back(server: Server) -> None:
    assert define(server, "gender", "string", "Patient.name.given") == 201
    assert (found(server, "Patient?gender=male"), found(server, "Patient?gender=zoe")) == ([], ["blue"])
    assert define(server, "gender", "token", "Patient.gender", status="retired") == 200
    assert status(server, "Patient?gender=male") == 400
    send(server, "PUT", "Patient/late", {"resourceType": "Patient", "id": "late", "gender": "male"})
    assert define(server, "gender", "token", "Patient.gender", status="draft") == 200
    assert found(server, "Patient?gender=male") == ["p8", "late"]
    assert define(server, "gender", "token", "Patient.gender | Person.gender") == 200  # what R4 says
    assert found(server, "Patient?gender=male") == ["p8", "late"]
    assert server.store.registry.custom == {}


def test_the_last_of_several_counts(server: Server) -> None:
    define(server, "eye", "string", EYE)
    define(server, "eye", "string", "Patient.name.given", id="sp-other")
    assert found(server, "Patient?eye=zoe") == ["blue"]
    send(server, "DELETE", "SearchParameter/sp-other")
    assert found(server, "Patient?eye=blue") == ["blue"]


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        ({"status": None}, (422, "HAPI-1112: SearchParameter.status is missing or invalid")),
        ({"base": None}, (422, "HAPI-1113: SearchParameter.base is missing")),
        ({"expression": None}, (422, "HAPI-1114: SearchParameter.expression is missing")),
        ({"expression": "Patient.blah()"}, (422, "The name blah is not a valid function name")),
        ({"expression": "Patient.name.where(use = 'x'"}, (422, "the expression is incomplete")),
        ({"expression": "Patient.name..family"}, (422, "HAPI-1121")),
        ({"expression": "(( name.family"}, (422, "HAPI-1121")),
        ({"expression": "Patient.name.given.join()"}, (422, "HAPI-1121")),
        *(
            (
                {"expression": expression},
                (422, f'HAPI-1120: SearchParameter.expression value "{expression}" is invalid'),
            )
            for expression in (
                *("Patient", "Patient..name", "Patient .name", "Patient.`name`", "Patient.Name", "Patient9.name"),
                *("$this.name", "%resource.gender", "'x'", "1 + 1", "(1).blah()", "-Patient.multipleBirth", "{}"),
            )
        ),
        ({"expression": "Patient.name.sort(family)"}, (422, "The name sort is not a valid function name")),
        ({"expression": "Patient.name.first(1)"}, (422, "HAPI-1121")),
        ({"expression": "Patient.name.where(use in {'usual'})"}, (422, "is not FHIRPath; write ('a' | 'b')")),
        ({"expression": "Patient.gender.memberOf('http://x')"}, (422, "this server cannot evaluate memberOf()")),
        ({"expression": "Patient.conformsTo('http://x')"}, (422, "HAPI knows no profiles")),
        ({"expression": "Patient.name.where(use = 'a' and 'b' in given)"}, (422, "write brackets around each")),
        ({"expression": "name.count() | 1 is Integer"}, (422, "write brackets around each")),
        ({"expression": "Patient.name.where($index = 1).given"}, (422, "only in select()")),
        ({"expression": "Patient.name.given.exclude(name.family)"}, (422, "begin its path with $this")),
        ({"expression": "Patient.name[multipleBirth]"}, (422, "begin its path with $this")),
        ({"type": "special"}, (422, "cannot evaluate search parameters of type")),
        ({"type": "composite", "expression": None}, (422, "must have 2 composite types, found 0")),
        ({"type": "composite", "component": [{"definition": "http://x/y", "expression": "x"}]}, (422, "http://x/y")),
        ({"base": ["DomainResource"]}, (400, "DomainResource")),
    ],
)
def test_what_cannot_be_used_is_refused(server: Server, more: dict[str, Any], answer: tuple[int, str]) -> None:
    resource = {**definition("eye", "string", EYE), **more}
    given = {key: value for key, value in resource.items() if value is not None}
    found = said(send(server, "PUT", "SearchParameter/sp-eye", given))
    assert found[0] == answer[0]
    assert answer[1] in found[1]
    assert resources(server, "SearchParameter") == []
    assert status(server, "Patient?eye=x") == 400


def test_what_hapi_stores_and_does_not_use_is_stored(server: Server) -> None:
    for more in ({"type": None}, {"code": None}, {"base": ["Nope"]}, {"base": ["Resource"]}):
        resource = {**definition("eye", "string", EYE), **more}
        given = {key: value for key, value in resource.items() if value is not None}
        assert send(server, "PUT", "SearchParameter/sp-eye", given).status in (200, 201)
        assert status(server, "Patient?eye=x") == 400


def test_an_episodes_parameter_is_its_own(server: Server) -> None:
    body = json.dumps(definition("eye", "string", EYE)).encode()
    with server.overlay("a", NOW) as episode, server.overlay("b", NOW) as neighbour:

        def ids(overlay: Any, query: str) -> Any:
            answer = overlay.handle(Request("GET", f"/fhir/{query}"))
            if answer.status != 200:
                return answer.status
            return [entry["resource"]["id"] for entry in json.loads(answer.text).get("entry", [])]

        assert episode.handle(Request("PUT", "/fhir/SearchParameter/sp-eye", JSON, body)).status == 201
        assert ids(episode, "Patient?eye=blue") == ["blue"]
        moved = json.dumps(person("p8", "Blue")).encode()
        assert episode.handle(Request("PUT", "/fhir/Patient/p8", JSON, moved)).status == 200
        gone = json.dumps(person("blue", "Green")).encode()
        assert episode.handle(Request("PUT", "/fhir/Patient/blue", JSON, gone)).status == 200
        assert ids(episode, "Patient?eye=blue") == ["p8"]
        assert ids(neighbour, "Patient?eye=blue") == 400
        assert status(server, "Patient?eye=blue") == 400
        define(server, "eye", "string", "Patient.name.given")  # the base changes: who has not written sees it
        assert ids(neighbour, "Patient?eye=zoe") == ["blue"]
        assert ids(episode, "Patient?eye=blue") == ["p8"]
        assert neighbour.handle(Request("PUT", "/fhir/SearchParameter/sp-eye", JSON, body)).status == 200
        assert (ids(neighbour, "Patient?eye=zoe"), ids(neighbour, "Patient?eye=blue")) == ([], ["blue"])
        assert found(server, "Patient?eye=zoe") == ["blue"]
        assert neighbour.handle(Request("DELETE", "/fhir/SearchParameter/sp-eye")).status == 200
        assert ids(neighbour, "Patient?eye=zoe") == 400
    with server.overlay("a", NOW) as episode:
        assert ids(episode, "Patient?eye=zoe") == ["blue"]


def test_every_process_over_the_file_sees_it(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Server.open(path) as server, Server.open(path) as worker:
        worker.store.writes_elsewhere = True
        send(server, "PUT", "Patient/blue", person("blue", "Blue"))
        assert status(worker, "Patient?eye=blue") == 400
        define(server, "eye", "string", EYE)
        assert found(worker, "Patient?eye=blue") == ["blue"]
        define(server, "eye", "string", EYE, status="draft")
        assert status(worker, "Patient?eye=blue") == 400
        define(server, "eye", "string", EYE)
    with Server.open(path) as again:
        assert found(again, "Patient?eye=blue") == ["blue"]


def test_a_write_that_fails_leaves_the_parameters_as_they_were(server: Server) -> None:
    entries = [
        {"resource": definition("eye", "string", EYE), "request": {"method": "PUT", "url": "SearchParameter/sp-eye"}},
        {"request": {"method": "GET", "url": "Patient?eye=blue"}},
        {"resource": {"resourceType": "Patient", "id": "1"}, "request": {"method": "PUT", "url": "Patient/1"}},
    ]
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": entries}
    assert send(server, "POST", "", bundle).status == 400
    assert status(server, "Patient?eye=blue") == 400
    answer = json.loads(send(server, "POST", "", {**bundle, "entry": entries[:2]}).text)
    assert [entry["resource"]["id"] for entry in answer["entry"][1]["resource"]["entry"]] == ["blue"]


def test_an_import_brings_parameters_and_reindex_those_of_an_earlier_version(server: Server) -> None:
    lines = [json.dumps(resource) for resource in (definition("eye", "string", EYE), person("late", "Blue"))]
    server.load(lines)
    assert found(server, "Patient?eye=blue") == ["blue", "late"]
    server.load([json.dumps(person("later", "Blue"))])
    assert found(server, "Patient?eye=blue") == ["blue", "late", "later"]
    with server.store.transaction():  # as an earlier version stored it
        server.store.define({}, list(server.store.registry.custom))
    assert status(server, "Patient?eye=blue") == 400
    assert send(server, "POST", "$reindex", {"resourceType": "Parameters"}).status == 200
    assert found(server, "Patient?eye=blue") == ["blue", "late", "later"]


def test_a_file_of_another_fhirpath_is_indexed_again_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.sqlite"
    with Server.open(path) as server:
        send(server, "PUT", "Patient/blue", person("blue", "Blue"))
        define(server, "eye", "string", EYE)
        connection = server.store.connection  # as an earlier version indexed it
        connection.execute("UPDATE strings SET exact = 'Other', norm = 'OTHER' WHERE exact = 'Blue'")
        connection.execute("DELETE FROM meta WHERE name = 'meaning'")
        assert found(server, "Patient?eye=blue") == []
    assert caplog.messages == []
    with Server.open(path) as server:
        assert found(server, "Patient?eye=blue") == ["blue"]
        assert found(server, "Patient?eye=other") == []
    (line,) = caplog.messages
    assert line == f"{path}: indexed again, since this version evaluates FHIRPath otherwise: Patient.eye"
    with Server.open(path) as server:
        assert found(server, "Patient?eye=blue") == ["blue"]
    assert len(caplog.messages) == 1


def test_the_time_of_an_expression_is_that_of_the_index(server: Server) -> None:
    """As in HAPI, a value of `today()` stays until the resource or the parameter is written again."""
    assert define(server, "adult", "token", "Patient.birthDate <= today() - 18 years") == 201
    assert define(server, "written", "date", "now()") == 201
    today = datetime.now(UTC).date()
    born = {"old": "1980-01-01", "young": f"{today.year - 2}-01-01"}
    for name, date in born.items():
        send(server, "PUT", f"Patient/{name}", {"resourceType": "Patient", "id": name, "birthDate": date})
    assert found(server, "Patient?adult=true&_id=old,young") == ["old"]
    assert found(server, "Patient?adult=false&_id=old,young") == ["young"]
    assert found(server, f"Patient?written=ge{today}&_id=old,young") == ["old", "young"]
    send(server, "PUT", "Patient/young", {"resourceType": "Patient", "id": "young", "birthDate": "1990-01-01"})
    assert found(server, "Patient?adult=false&_id=old,young") == []
    send(server, "DELETE", "Patient/young")
    assert found(server, "Patient?adult=true&_id=old,young") == ["old"]


def test_an_episodes_expressions_have_its_time(server: Server) -> None:
    with server.overlay("a", NOW) as episode:
        sp = json.dumps(definition("written", "date", "today()")).encode()
        assert episode.handle(Request("PUT", "/fhir/SearchParameter/sp-written", JSON, sp)).status == 201
        body = json.dumps(person("new", "Blue")).encode()
        assert episode.handle(Request("PUT", "/fhir/Patient/new", JSON, body)).status == 201
        answer = episode.handle(Request("GET", "/fhir/Patient?written=2023-11-13&_id=new"))
        assert json.loads(answer.text)["total"] == 1


def test_no_pattern_takes_long(server: Server) -> None:
    name = {"resourceType": "Patient", "id": "long", "name": [{"family": "a" * 5000 + "!"}]}
    assert send(server, "PUT", "Patient/long", name).status == 201
    assert define(server, "slow", "token", "Patient.name.family.matches('(a+)+$')") == 201
    assert found(server, "Patient?slow=false&_id=long") == ["long"]


@pytest.mark.parametrize("pattern", ["(?=a)", "(a)\\\\1", "a{2000}", "("])
def test_a_pattern_that_is_not_taken_is_named(server: Server, pattern: str) -> None:
    resource = definition("odd", "token", f"Patient.name.family.matches('{pattern}')")
    code, words = said(send(server, "PUT", "SearchParameter/sp-odd", resource))
    assert (code, "RE2" in words) == (400, True), words


def test_an_expression_that_takes_too_many_steps_is_refused(server: Server) -> None:
    grown = "Patient.descendants()" + ".select(%resource.descendants())" * 4
    many = {**person("many", "Blue"), "contact": [{"name": {"given": ["x", "y", "z"]}}] * 40}
    assert send(server, "PUT", "Patient/many", many).status == 201
    code, words = said(send(server, "PUT", "SearchParameter/sp-grown", definition("grown", "string", grown)))
    assert (code, "takes too many steps for this Patient" in words) == (400, True), words
    assert status(server, "Patient?grown=x") == 400  # it is not in force
    assert send(server, "PUT", "Patient/many", {**many, "active": True}).status == 200


def test_a_write_is_given_up_in_its_time(server: Server) -> None:
    with server.overlay("a", NOW) as overlay:
        body = json.dumps(definition("eye", "string", EYE)).encode()
        request = Request("PUT", "/fhir/SearchParameter/sp-eye", JSON, body)
        with pytest.raises(UnfinishedError):
            overlay.handle(request, Meter(Bounds(), 0.0))
        assert overlay.created() == []
        assert overlay.handle(request, Meter(Bounds(), 60.0)).status == 201
