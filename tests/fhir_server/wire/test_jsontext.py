"""JSON in and out: HAPI's layout byte for byte, digits kept, broken text refused in Jackson's words."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhir_server.errors import FhirError
from fhir_server.wire import _json_lenient as json_lenient
from fhir_server.wire import json_text
from fhir_server.wire.json_text import compact, decode, parse, render
from fhir_server.wire.json_values import JsonTextError, Number
from tests.shared_data import SHARED, need

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | TEXTS
    | st.decimals(-1000, 1000, places=3).map(lambda value: json_text.number(format(value, "f")))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=12)
OBJECTS = st.dictionaries(TEXTS, VALUES)


@settings(max_examples=60)
@given(OBJECTS)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert decode(render(value)) == value
    assert decode(compact(render(value))) == value
    assert json.loads(render(value)) == json.loads(compact(render(value)))


@settings(max_examples=60)
@given(OBJECTS)
def test_both_readers_agree(value: Any) -> None:
    text = render(value)
    assert json_lenient.read(text) == decode(text)


@settings(max_examples=60)
@given(st.text(max_size=60) | st.text("{}[]\"',:\\u0019.eE+-truefalsnNaN \n", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(JsonTextError):
        render(decode(text))


def test_the_layout_is_hapis() -> None:
    value = {"a": 1, "b": [{"c": "é"}, {"d": [1, Number("2.50")]}], "e": {}, "f": [], "g": None, "h": True}
    assert render(value) == (
        '{\n  "a": 1,\n  "b": [ {\n    "c": "é"\n  }, {\n    "d": [ 1, 2.50 ]\n  } ],\n  "e": { },\n  "f": [ ],\n'
        '  "g": null,\n  "h": true\n}'
    )
    assert compact(render(value)) == '{"a":1,"b":[{"c":"é"},{"d":[1,2.50]}],"e":{},"f":[],"g":null,"h":true}'


def test_recorded_bodies_are_rendered_byte_for_byte() -> None:
    lines = need(SHARED / "hapi" / "golden" / "exchanges.jsonl").read_text("utf-8").splitlines()
    exchanges = [json.loads(line) for line in lines]
    bodies = {x["response"]["body"] for x in exchanges if "_pretty=false" not in x["request"]["url"]}
    wrong = [body[:80] for body in bodies if body.startswith("{") and render(decode(body)) != body]
    assert not wrong
    assert len(bodies) > 600


@pytest.mark.parametrize(
    ("literal", "plain"),
    [
        ("4.0", "4.0"),
        ("4.10", "4.10"),
        ("1e3", "1000"),
        ("1.50E1", "15.0"),
        ("1E-3", "0.001"),
        ("-0.0", "0.0"),
        ("-0e-2", "0.00"),
        ("0e3", "0"),
        ("-1.5", "-1.5"),
        ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
    ],
)
def test_a_decimal_keeps_its_digits(literal: str, plain: str) -> None:
    assert compact(render(decode(f'{{"v": {literal}}}'))) == f'{{"v":{plain}}}'


def test_control_characters_are_escaped_in_large_hex() -> None:
    assert render({"a": "\x1f\\u001f\n"}) == '{\n  "a": "\\u001F\\\\u001f\\n"\n}'


def test_single_quotes_and_repeated_keys_are_forgiven() -> None:
    assert decode("{'a': 'it\\'s \"x\"', \"a\": 'y'}") == {"a": "y"}
    assert decode('{"a": 1, "a": 2}') == {"a": 2}
    assert decode("{'\\u00e9\\ud83d\\ude00': -0.5e1}") == {"é😀": "-5"}


REFUSED = [
    ("{", "Unexpected end-of-input: expected close marker for Object (start marker at [line: 1, column: 1])"),
    ('{"a', "Unexpected end-of-input in field name"),
    ('{"a": 1,}', "Unexpected character ('}' (code 125)): was expecting double-quote to start field name"),
    ("{oops", "Unexpected character ('o' (code 111)): was expecting double-quote to start field name"),
    ('{"a" 1}', "Unexpected character ('1' (code 49)): was expecting a colon to separate field name and value"),
    ('{"a": 1 "b": 2}', "Unexpected character ('\"' (code 34)): was expecting comma to separate Object entries"),
    ('{"a": [1 2]}', "Unexpected character ('2' (code 50)): was expecting comma to separate Array entries"),
    ('{"a": [1}', "Unexpected close marker '}': expected ']' (for Array starting at [line: 1, column: 7])"),
    ('{"a": tru}', "Unrecognized token 'tru': was expecting (JSON String, Number, Array, Object"),
    ('{"a": NaN}', "Non-standard token 'NaN': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"),
    ('{"a": 01}', "Invalid numeric value: Leading zeroes not allowed"),
    ('{"a": "x', "Unexpected end-of-input: was expecting closing quote for a string value"),
    ('{"a": "x\ny"}', "Illegal unquoted character ((CTRL-CHAR, code 10)): has to be escaped using backslash"),
    ('{"a": "\\x"}', "Unrecognized character escape 'x' (code 120)"),
    ('{"a": "\\uZZZZ"}', "Unexpected character ('Z' (code 90)): expected a hex-digit"),
    ('{"a": 1} x', "Unrecognized token 'x': was expecting (JSON String"),
    (
        '{"a": 1}}',
        "Unexpected close marker '}': expected ']' (for root starting at [line: 1])\n at [line: 1, column: 9]",
    ),
    (
        '{"a": [}',
        "Unexpected close marker '}': expected ']' (for Array starting at [line: 1, column: 7])",
    ),
    ('{"a": [1,}', "Unexpected character ('}' (code 125)): expected a valid value (JSON String"),
    (
        '{"a": {]',
        "Unexpected close marker ']': expected '}' (for Object starting at [line: 1, column: 7])",
    ),
    ('{"a": 1}{"b": 2}', "Trailing token (of type START_OBJECT) found after value (bound as"),
    ('{"a": 1} true', "Trailing token (of type VALUE_TRUE) found after value"),
    ('{"a": 1} "x"', "Trailing token (of type VALUE_STRING) found after value"),
    ('{"a":', "Unexpected end-of-input within/between Object entries"),
    ('{"a": [1,', "Unexpected end-of-input within/between Array entries"),
    ('{"a": }', "Unexpected character ('}' (code 125)): expected a valid value (JSON String"),
    ('{"a": [1,]}', "Unexpected character (']' (code 93)): expected a valid value (JSON String"),
    ('{"a": 1 // no\n}', "Unexpected character ('/' (code 47)): maybe a (non-standard) comment?"),
    ('{"a": True}', "Unrecognized token 'True': was expecting (JSON String, Number, Array, Object"),
    ('{"a" : -}', "expected digit (0-9) to follow minus sign, for valid numeric value"),
    ('{"a": 1e999999}', "exceeds the maximum allowed (1000"),
    ('{"a": ' + "1" * 5000 + "}", "exceeds the maximum allowed (1000"),
    ('{"a": ' + "[" * 100_000, "exceeds the maximum allowed (250"),
    ('{"a":' * 300 + "1" + "}" * 300, "Document nesting depth (251)"),
    ('{"a": "}}}}\\"}}", "b":' * 300 + "1" + "}" * 300, "Document nesting depth (251)"),
    ('{"a": "\0"}', "Illegal unquoted character ((CTRL-CHAR, code 0))"),
    ('{"a": "\\ud800"}', "Illegal character: a surrogate that is not one of a pair"),
    ("", "HAPI-1857: Did not find any content to parse"),
    ("\ufeff{}", "HAPI-1859: Content does not appear to be FHIR JSON, first non-whitespace character was: '\ufeff'"),
    ("[]", "HAPI-1859: Content does not appear to be FHIR JSON, first non-whitespace character was: '['"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_broken_text_is_refused_in_jacksons_words(text: str, message: str) -> None:
    with pytest.raises(FhirError) as refused:
        parse(text)
    assert refused.value.status == 400
    prefix = "HAPI-0450: Failed to parse request body as JSON resource. Error was: HAPI-1861: Failed to parse JSON "
    assert refused.value.diagnostics.startswith(f"{prefix}encoded FHIR content: ")
    assert message in refused.value.diagnostics


def test_the_place_is_named_by_line_and_column() -> None:
    with pytest.raises(JsonTextError) as refused:
        decode('{\n  "a": 1,\n}')
    assert (refused.value.line, refused.value.column) == (3, 1)


def test_brackets_in_strings_are_no_nesting() -> None:
    assert decode(json.dumps({"a": "[" * 1000})) == {"a": "[" * 1000}
