"""Reading FHIR resources out of files, whatever their packing, and refusing what is none with file and place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medagent.core.errors import UserError
from medagent.fhir_data.files import read_resources
from tests.medagent.fhir_data.people import bundle, hospital_bundle, patient, patient_bundle

ONE = {"resourceType": "Patient", "id": "a", "name": [{"family": "Åström"}]}
TWO = {"resourceType": "Patient", "id": "b"}


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(resource.line) for resource in read_resources(paths)]


def test_ndjson_one_resource_and_bundles_hold_the_same(tmp_path: Path) -> None:
    lines = f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}"
    packings = {
        "a.ndjson": lines,
        "a.ndjson.gz": gzip.compress(lines.encode()),
        "bom.ndjson": b"\xef\xbb\xbf" + lines.encode(),
        "crlf.ndjson": lines.replace("\n", "\r\n"),
        "pretty.json": json.dumps(bundle("collection", ONE, TWO), indent=2),
        "one-line.json": json.dumps(bundle("searchset", ONE, TWO)),
        "batch.json.gz": gzip.compress(json.dumps(bundle("batch", ONE, TWO)).encode()),
    }
    for name, content in packings.items():
        assert read(written(tmp_path, name, content)) == [ONE, TWO], name
    assert read(written(tmp_path, "one.json", json.dumps(ONE, indent=1))) == [ONE]
    assert read(written(tmp_path, "line.json", json.dumps(ONE))) == [ONE]


def test_decimals_keep_their_digits(tmp_path: Path) -> None:
    text = '{"resourceType":"Bundle","type":"collection","entry":[{"resource":' + (
        '{"resourceType":"Observation","id":"o","valueQuantity":{"value":4.10}}}]}'
    )
    (found,) = read_resources([written(tmp_path, "b.json", text)])
    assert '"value":4.10}' in found.line


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    odd = patient("a", name=[{"text": "x"}]).replace("x", "one\u2028two\u0085three")
    assert len(read(written(tmp_path, "a.ndjson", f"{odd}\n{patient('b')}\n"))) == 2


def test_synthea_output_is_taken_as_it_comes(tmp_path: Path) -> None:
    person = written(tmp_path, "Doe.json", json.dumps(patient_bundle()))
    hospital = written(tmp_path, "hospitalInformation1.json", json.dumps(hospital_bundle()))
    encounter = next(resource for resource in read(person, hospital) if resource["resourceType"] == "Encounter")
    assert encounter["subject"]["reference"] == "Patient/pat-1"
    assert encounter["participant"][0]["individual"]["reference"] == "Practitioner/doc-1"
    assert encounter["serviceProvider"]["reference"] == "Organization/org-1"


def test_identifiers_are_looked_up_in_ndjson_too_and_without_a_system(tmp_path: Path) -> None:
    by_value = json.dumps({"resourceType": "Encounter", "id": "e", "subject": {"reference": "Patient?identifier=77"}})
    person = patient("p", identifier=[{"system": "urn:mrn", "value": "77"}])
    file = written(tmp_path, "a.ndjson", f"{by_value}\n{person}\n")
    assert read(file)[0]["subject"]["reference"] == "Patient/p"


def test_escaped_slashes_hide_no_reference(tmp_path: Path) -> None:
    person = patient("p", managingOrganization={"reference": "Organization/o"}).replace("/", "\\/")
    found = next(read_resources([written(tmp_path, "a.ndjson", f"{person}\n{patient('q')}")]))
    assert found.references == ["Organization/o"]


def test_what_none_of_the_files_holds_is_left_as_it_is(tmp_path: Path) -> None:
    encounter = read(written(tmp_path, "Doe.json", json.dumps(patient_bundle())))[1]
    assert encounter["participant"][0]["individual"]["reference"].startswith("Practitioner?identifier=")


def test_an_entry_gives_its_resource_the_id_it_lacks(tmp_path: Path) -> None:
    nameless = {"resourceType": "Patient"}
    posted = {"fullUrl": "urn:uuid:9f2", "resource": nameless, "request": {"method": "POST", "url": "Patient"}}
    put = {"resource": nameless, "request": {"method": "PUT", "url": "Patient/given"}}
    text = json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": [posted, put]})
    assert [resource["id"] for resource in read(written(tmp_path, "b.json", text))] == ["9f2", "given"]


def test_a_document_bundle_is_a_resource(tmp_path: Path) -> None:
    document = {"resourceType": "Bundle", "id": "d", "type": "document", "entry": [{"resource": ONE}]}
    assert read(written(tmp_path, "d.json", json.dumps(document))) == [document]
    lines = f"{json.dumps(document)}\n{json.dumps(TWO)}\n"
    assert read(written(tmp_path, "d.ndjson", lines)) == [document, TWO]


ENTRY_DELETE = {"request": {"method": "DELETE", "url": "Patient/a"}}
BAD = {
    "empty": (b" \n", "a.json: is empty"),
    "broken": (b'{"resourceType": "Patient",\n "id": }', "a.json: is not JSON: line 2, column 8"),
    "list": (b"[1, 2]", "a.json: is not a FHIR resource"),
    "no type": (b'{"id": "a"}', "a.json: is not a FHIR resource"),
    "not UTF-8": (b'{"resourceType": "Patient",\n"id": "\xff"}', "a.json:2: is not UTF-8 (invalid start byte)"),
    "deep": (b'{"resourceType":' + b"[" * 100_000, "a.json: is not JSON"),
    "entry": (json.dumps({"resourceType": "Bundle", "type": "batch", "entry": 5}).encode(), "entry is not a list"),
    "no resource": (
        json.dumps({"resourceType": "Bundle", "type": "batch", "entry": [{"resource": ONE}, {}]}).encode(),
        "a.json, entry 2: no resource",
    ),
    "a delete": (
        json.dumps({"resourceType": "Bundle", "type": "batch", "entry": [ENTRY_DELETE]}).encode(),
        "a.json, entry 1: is a DELETE",
    ),
    "no id": (
        json.dumps({"resourceType": "Bundle", "type": "collection", "entry": [{"resource": {"resourceType": "X"}}]}),
        "a.json, entry 1: X lacks an id",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_file_and_place(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    path = written(tmp_path, "a.json", content)
    with pytest.raises(UserError) as refused:
        list(read_resources([path]))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(patient("a").encode() * 1000)
    damaged = bytearray(whole)
    damaged[20:40] = bytes(20)
    for path in (
        tmp_path / "absent.json",
        tmp_path,
        written(tmp_path, "plain.gz", patient("a")),
        written(tmp_path, "short.gz", whole[:-20]),
        written(tmp_path, "damaged.gz", bytes(damaged)),
    ):
        with pytest.raises(UserError, match=f"^{path}(:1)?: (cannot be read|is not UTF-8)"):
            list(read_resources([path]))


def test_an_identifier_of_two_resources_is_refused(tmp_path: Path) -> None:
    people = "\n".join(patient(name, identifier=[{"value": "77"}]) for name in "ab")
    visit = json.dumps({"resourceType": "Encounter", "id": "e", "subject": {"reference": "Patient?identifier=77"}})
    with pytest.raises(UserError, match=r":3: .* matches more than one resource: Patient/a, Patient/b"):
        read(written(tmp_path, "a.ndjson", f"{people}\n{visit}"))


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: "\\u0000" not in json.dumps(value))
RESOURCES = st.lists(
    st.fixed_dictionaries({"resourceType": st.just("Basic"), "id": st.text("ab1-", min_size=1), "x": JSON_VALUES}),
    min_size=2,
    max_size=4,
)


@given(RESOURCES, st.sampled_from(["ndjson", "collection", "transaction"]), st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_packing_gives_back_what_was_packed(
    tmp_path: Path, resources: list[dict[str, Any]], packing: str, packed: bool
) -> None:
    if packing == "ndjson":
        text = "".join(json.dumps(resource, ensure_ascii=False) + "\n" for resource in resources)
    else:
        text = json.dumps(bundle(packing, *resources), ensure_ascii=False, indent=2)
    content = gzip.compress(text.encode()) if packed else text.encode()
    assert read(written(tmp_path, "a.gz" if packed else "a", content)) == resources
