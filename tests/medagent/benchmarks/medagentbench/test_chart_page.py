"""`medagent data chart`: a patient's chart as one page, from the bundled hospital or a made set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.fhir_data.chart_page import chart_page, patient_resources
from tests.command import medagent
from tests.shared_data import hospital_lines


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return hospital_lines()


def inpatient(lines: list[str]) -> str:
    """Somebody who has been in intensive care."""
    for line in lines:
        if '"code":"ACUTE"' in line:
            return str(json.loads(line)["subject"]["reference"]).partition("/")[2]
    raise AssertionError("nobody was in intensive care")


def test_the_page_shows_what_the_chart_has(lines: list[str]) -> None:
    mrn = inpatient(lines)
    resources = patient_resources(lines, mrn)
    page = chart_page(resources)
    for title in ("Problems", "Stays and visits", "Drug orders", "Tests over time", "Notes"):
        assert f"<h2>{title}</h2>" in page
    assert "Intensive Care Unit" in page or "Coronary Care Unit" in page
    kinds: dict[str, list[dict[str, Any]]] = {}
    for resource in resources:
        kinds.setdefault(resource["resourceType"], []).append(resource)
    assert page.count("<article>") == len(kinds["DocumentReference"])
    rates = [observation for observation in kinds["Observation"] if observation["code"]["text"] == "HEARTRATE"]
    assert f"n = {len(rates)}" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_texts_are_escaped(lines: list[str]) -> None:
    resources = patient_resources(lines, inpatient(lines))
    resources[0 if resources[0]["resourceType"] == "Patient" else -1]["x"] = ""
    patient = next(resource for resource in resources if resource["resourceType"] == "Patient")
    patient["name"][0]["family"] = "<img src=x onerror=alert(1)>"
    page = chart_page(resources)
    assert "<img" not in page
    assert "&lt;img" in page


def test_the_command_writes_the_page(shift: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = (shift / "hospital.ndjson").read_text(encoding="utf-8").splitlines()
    mrn = next(json.loads(line)["id"] for line in made if line.startswith('{"resourceType":"Patient"'))
    ran = medagent("data", "chart", mrn, "--dataset", shift)
    assert (ran.code, ran.out.partition(":")[0]) == (0, f"{mrn}.html")
    assert mrn in Path(f"{mrn}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("S0000000",), "this data set contains no patient with this MRN"),
        (("../S0000000",), "is not a medical record number"),
        (("S0000000", "--dataset", "nowhere"), "nowhere"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = medagent("data", "chart", *words, "--output", tmp_path / "page.html")
    assert (ran.code, said in ran.err, ran.err.count("\n")) == (1, True, 1)
    assert not (tmp_path / "page.html").exists()
