"""`medagent ehr import`, `export` and `stats`: whole or not at all, references that lead somewhere, digits kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fhir_server import Server
from tests.command import Ran, medagent
from tests.medagent.fhir_data.people import hospital_bundle, observation, patient, patient_bundle, ward


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def counts(data: Path) -> dict[str, int]:
    ran = medagent("ehr", "stats", "--data", data, "--json")
    assert ran.code == 0, ran.err
    stats: dict[str, int] = json.loads(ran.out)
    return stats


def refused(ran: Ran) -> str:
    assert ran.code == 1
    assert ran.err.count("\n") == 1, ran.err
    return ran.err


def test_what_is_imported_is_exported_with_its_digits(tmp_path: Path) -> None:
    data = tmp_path / "ward.sqlite"
    readings = [observation("o1", "p1", "4.10"), observation("o2", "p1", "0.0700")]
    source = written(tmp_path / "ward.ndjson", *readings, patient("p1"))
    ran = medagent("ehr", "import", source, "--data", data)
    assert (ran.code, ran.out.startswith(f"{data}: 3 resources imported")) == (0, True), ran.err
    assert counts(data) == {"Observation": 2, "Patient": 1}
    assert medagent("ehr", "export", tmp_path / "out", "--data", data).code == 0
    lines = (tmp_path / "out" / "Observation.ndjson").read_text().splitlines()
    assert [line.partition('"value": ')[2][:6].rstrip("}") for line in lines] == ["4.10", "0.0700"]
    again = tmp_path / "again.sqlite"
    assert medagent("ehr", "import", *sorted((tmp_path / "out").iterdir()), "--data", again).code == 0
    assert medagent("ehr", "export", tmp_path / "again", "--data", again).code == 0
    for name in ("Observation.ndjson", "Patient.ndjson"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_synthea_files_become_one_hospital(tmp_path: Path) -> None:
    person = written(tmp_path / "Doe.json", json.dumps(patient_bundle()))
    hospital = written(tmp_path / "hospitalInformation1.json", json.dumps(hospital_bundle(), indent=1))
    data = tmp_path / "s.sqlite"
    assert medagent("ehr", "import", person, hospital, "--data", data).code == 0
    assert counts(data) == {"Encounter": 1, "Organization": 1, "Patient": 1, "Practitioner": 1}


def test_more_than_one_process_can_hold_is_imported(tmp_path: Path) -> None:
    data = tmp_path / "big.sqlite"
    source = written(tmp_path / "big.ndjson", *ward(3, 1500))
    assert medagent("ehr", "import", source, "--data", data).code == 0
    assert counts(data) == {"Observation": 4500, "Patient": 3}


def test_a_new_file_has_large_pages_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    files = {True: tmp_path / "new.sqlite", False: tmp_path / "old.sqlite"}
    Server.open(files[False]).close()
    sizes = {}
    for is_new, data in files.items():
        assert medagent("ehr", "import", written(tmp_path / "p.ndjson", patient("p")), "--data", data).code == 0
        sizes[is_new] = int.from_bytes(data.read_bytes()[16:18])
    assert sizes == {True: 16384, False: 4096}


def test_a_resource_that_is_there_becomes_its_next_version(tmp_path: Path) -> None:
    data = tmp_path / "v.sqlite"
    for gender in ("female", "male"):
        medagent("ehr", "import", written(tmp_path / "p.json", patient("p", gender=gender)), "--data", data)
    assert counts(data) == {"Patient": 1}
    medagent("ehr", "export", tmp_path / "out", "--data", data)
    stored = json.loads((tmp_path / "out" / "Patient.ndjson").read_text())
    assert (stored["gender"], stored["meta"]["versionId"]) == ("male", "2")


def test_missing_references_are_named_and_nothing_is_imported(tmp_path: Path) -> None:
    data = tmp_path / "s.sqlite"
    person = written(tmp_path / "Doe.json", json.dumps(patient_bundle()))
    message = refused(medagent("ehr", "import", person, "--data", data))
    assert "2 references lack their target: Practitioner?identifier=" in message
    assert f"({person}, entry 2)" in message
    assert "--no-reference-check" in message
    assert message.rstrip().endswith("nothing was imported")
    assert list(tmp_path.iterdir()) == [person]
    assert medagent("ehr", "import", person, "--data", data, "--no-reference-check").code == 0
    assert counts(data) == {"Encounter": 1, "Patient": 1}


@pytest.mark.parametrize(
    ("reference", "leads"),
    [
        ("#inside", True),
        ("Patient/p", True),
        ("Patient/p/_history/1", True),
        ("Patient/other", False),
        ("Device/p", False),
        ("p", False),
        ("urn:uuid:p", False),
        ("https://elsewhere.example/fhir/Patient/p", False),
    ],
)
def test_references_lead_to_what_is_imported_or_inside(tmp_path: Path, reference: str, leads: bool) -> None:
    contained = [{"resourceType": "Patient", "id": "inside"}]
    report = {
        "resourceType": "Basic",
        "id": "b",
        "contained": contained,
        "code": {},
        "subject": {"reference": reference},
    }
    source = written(tmp_path / "a.ndjson", json.dumps(report), patient("p"))
    ran = medagent("ehr", "import", source, "--data", tmp_path / "a.sqlite")
    assert (ran.code == 0) is leads
    assert leads or f"{reference} ({source}:1)" in ran.err


def test_references_to_what_was_there_before_lead_somewhere(tmp_path: Path) -> None:
    data = tmp_path / "a.sqlite"
    assert medagent("ehr", "import", written(tmp_path / "p.json", patient("p")), "--data", data).code == 0
    assert medagent("ehr", "import", written(tmp_path / "o.json", observation("o", "p")), "--data", data).code == 0


BAD_LINES = {
    "broken": '{"resourceType": "Patient", "id": }',
    "no resource": "[]",
    "no id": '{"resourceType": "Patient"}',
    "unknown type": '{"resourceType": "Banana", "id": "a"}',
    "bad date": '{"resourceType": "Patient", "id": "a", "birthDate": "yesterday"}',
    "bad code": '{"resourceType": "Patient", "id": "a", "gender": "banana"}',
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named_and_what_was_there_stays(tmp_path: Path, name: str) -> None:
    data = tmp_path / "a.sqlite"
    medagent("ehr", "import", written(tmp_path / "p.json", patient("p", gender="female")), "--data", data)
    source = written(
        tmp_path / "bad.ndjson", patient("p", gender="male"), "", patient("q"), BAD_LINES[name], patient("r")
    )
    message = refused(medagent("ehr", "import", source, "--data", data))
    assert f"{source}:4: " in message
    assert "nothing was imported" in message
    assert counts(data) == {"Patient": 1}
    medagent("ehr", "export", tmp_path / "out", "--data", data)
    assert json.loads((tmp_path / "out" / "Patient.ndjson").read_text())["gender"] == "female"


def test_everything_that_is_wrong_is_listed_with_its_place(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"{patient(f'p{n}')}\n" for n in range(500)).encode())
    (tmp_path / "cut.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.ndjson").write_text("")
    bad = written(tmp_path / "bad.ndjson", patient("a"), BAD_LINES["bad code"], patient("b"), BAD_LINES["no id"])
    data = tmp_path / "a.sqlite"
    message = refused(medagent("ehr", "import", *sorted(tmp_path.glob("*nd*")), "--data", data))
    assert f"{bad}:2: " in message
    assert f"{bad}:4: " in message
    assert f"{tmp_path / 'cut.ndjson.gz'}: cannot be read: Compressed file ended" in message
    assert f"{tmp_path / 'empty.ndjson'}: is empty" in message
    assert not data.exists()
    many = written(tmp_path / "many.ndjson", *[BAD_LINES["no id"]] * 25)
    assert "; and 5 more problems; nothing was imported" in refused(medagent("ehr", "import", many, "--data", data))


def test_a_bad_line_after_many_good_ones_leaves_nothing(tmp_path: Path) -> None:
    data, neighbour = tmp_path / "a.sqlite", written(tmp_path / "a.sqlite.kept", "mine")
    source = written(tmp_path / "bad.ndjson", *ward(2, 2500), BAD_LINES["bad code"])
    message = refused(medagent("ehr", "import", source, "--data", data))
    assert f"{source}:5003: " in message
    assert sorted(tmp_path.iterdir()) == [neighbour, source]
    medagent("ehr", "import", written(tmp_path / "p.json", patient("p")), "--data", data)
    refused(medagent("ehr", "import", source, "--data", data))
    assert counts(data) == {"Patient": 1}


def test_files_without_a_resource_make_no_store(tmp_path: Path) -> None:
    source = written(tmp_path / "none.json", '{"resourceType":"Bundle","type":"batch"}')
    message = refused(medagent("ehr", "import", source, "--data", tmp_path / "a.sqlite"))
    assert f"{source}: no resource; nothing was imported" in message
    assert list(tmp_path.iterdir()) == [source]


def test_files_that_are_no_store_are_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "p.ndjson", patient("p"), patient("q"))
    absent, text = tmp_path / "absent.sqlite", written(tmp_path / "text.sqlite", "hello" * 1000)
    folder = tmp_path / "no" / "such" / "folder.sqlite"
    assert f"{absent}: does not exist" in refused(medagent("ehr", "stats", "--data", absent))
    assert f"{absent}: does not exist" in refused(medagent("ehr", "export", tmp_path / "out", "--data", absent))
    assert not absent.exists()
    assert f"{text}: SQLite cannot open this file" in refused(medagent("ehr", "import", source, "--data", text))
    assert text.read_text() == "hello" * 1000
    assert f"{text}: SQLite cannot open this file" in refused(medagent("ehr", "stats", "--data", text))
    assert f"{folder}: SQLite cannot open this file" in refused(medagent("ehr", "import", source, "--data", folder))


def test_an_export_overwrites_nothing(tmp_path: Path) -> None:
    data = tmp_path / "a.sqlite"
    medagent("ehr", "import", written(tmp_path / "p.json", patient("p")), "--data", data)
    folder = tmp_path / "out"
    folder.mkdir()
    kept = written(folder / "Patient.ndjson", "mine")
    assert f"{folder}: is not empty" in refused(medagent("ehr", "export", folder, "--data", data))
    assert kept.read_text() == "mine"
    assert "cannot be written" in refused(medagent("ehr", "export", kept, "--data", data))
