"""XML: what is written is read again, and what must not be read is refused."""

from __future__ import annotations

import json

import pytest

from fhir_server import Request, Server
from fhir_server.errors import FhirError
from fhir_server.resources.normalise import normalise
from fhir_server.wire.json_text import decode, render
from fhir_server.wire.xml import parse_xml, to_xml
from tests.shared_data import DATA, read_xz

XML = [("Content-Type", "application/fhir+xml")]


def test_a_resource_comes_back_from_xml() -> None:
    lines = read_xz(DATA / "hapi" / "data.ndjson.xz").splitlines()
    for line in lines:
        resource = normalise(decode(line), expected_type=None)
        again = normalise(parse_xml(to_xml(resource, pretty=False)), expected_type=None)
        assert render(again) == render(resource)
        laid_out = normalise(parse_xml(to_xml(resource)), expected_type=None)
        assert {**laid_out, "text": {}} == {**resource, "text": {}}
    assert len(lines) > 400


@pytest.mark.parametrize(
    ("inner", "laid_out"),
    [
        ("a", "a"),
        ("<p>a</p>", "\n      <p>a</p>\n   "),
        ("<p><b>a</b> text <i>b</i></p>", "\n      <p>\n         <b>a</b> text \n         <i>b</i>\n      </p>\n   "),
        ("  <p> a  b\n</p>", " \n      <p> a  b </p>\n   "),
        ("a<br/>b", "a\n      <br/>b\n   "),
        ("<pre> a\n <b>b</b></pre>", "\n      <pre> a\n <b>b</b></pre>\n   "),
    ],
)
def test_a_narrative_is_laid_out_as_hapi_does(inner: str, laid_out: str) -> None:
    div = '<div xmlns="http://www.w3.org/1999/xhtml">'
    text = to_xml({"resourceType": "Patient", "div": f"{div}{inner}</div>"})
    assert text.partition(div)[2].rpartition("</div>")[0] == laid_out


def test_ids_and_extensions_of_primitives() -> None:
    source = {
        "resourceType": "Patient",
        "_birthDate": {"extension": [{"url": "urn:x", "valueString": 'a "b" <c> & d'}]},
        "name": [{"id": "n", "given": ["a", None, "c"], "_given": [None, {"id": "g"}, None]}],
    }
    assert normalise(parse_xml(to_xml(source)), expected_type=None) == normalise(source, expected_type=None)


def test_entities_of_html_are_characters() -> None:
    div = "<div xmlns='http://www.w3.org/1999/xhtml'>a&nbsp;&lt;&ndash;<![CDATA[&nbsp;]]></div>"
    text = (
        f'<Patient xmlns="http://hl7.org/fhir"><text>{div}</text><name><family value="&eacute;&amp;"/></name></Patient>'
    )
    resource = normalise(parse_xml(text), expected_type=None)
    assert resource["name"] == [{"family": "é&"}]
    assert resource["text"]["div"].partition(">")[2] == "a\xa0&lt;–&amp;nbsp;</div>"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "<Patient>",
        "<Foo/>",
        "<Patient>&unknown;</Patient>",
        "<Patient>&LT;active/></Patient>",
        '<!DOCTYPE Patient [<!ENTITY a "b">]><Patient xmlns="http://hl7.org/fhir"/>',
        "<Patient>" + "<contact>" * 300 + "</contact>" * 300 + "</Patient>",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(FhirError) as refused:
        parse_xml(text)
    assert refused.value.status == 400


def test_the_answer_is_in_the_format_of_the_request() -> None:
    body = b'<Patient xmlns="http://hl7.org/fhir"><active value="true"/></Patient>'
    with Server.open(None) as server:
        answer = server.handle(Request("POST", "/fhir/Patient", XML, body))
        assert (answer.status, answer.header("content-type")) == (201, "application/fhir+xml;charset=UTF-8")
        assert answer.text.startswith('<Patient xmlns="http://hl7.org/fhir">\n   <id value="1"/>')
        read = server.handle(Request("GET", "/fhir/Patient/1"))
        assert json.loads(read.text)["active"] is True
        found = server.handle(Request("GET", "/fhir/Patient", [("Accept", "application/fhir+xml")])).text
        assert parse_xml(found)["entry"][0]["resource"]["active"] is True
