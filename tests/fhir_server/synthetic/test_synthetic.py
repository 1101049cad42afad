"""The made-up hospital: the same bytes always, shapes as recorded, references that resolve, values that make sense."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Any

import pytest

from fhir_server.synthetic import DIGEST, SEED, generate
from fhir_server.synthetic.catalog import DERIVED, LABS, VITALS
from tests.shared_data import ROOT, SHARED, need

NOW = "2023-11-13T10:15:00+00:00"
Resource = dict[str, Any]


def digest(lines: list[str]) -> str:
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return list(generate())


@pytest.fixture(scope="module")
def resources(lines: list[str]) -> list[Resource]:
    return [json.loads(line) for line in lines]


def observations(resources: list[Resource]) -> list[Resource]:
    return [resource for resource in resources if resource["resourceType"] == "Observation"]


def of(resources: list[Resource], code: str) -> dict[str, list[tuple[str, float]]]:
    """Readings of a code by patient, oldest first."""
    out = defaultdict(list)
    for found in observations(resources):
        if found["code"]["text"] == code:
            out[found["subject"]["identifier"]["value"]].append(
                (found["effectiveDateTime"], found["valueQuantity"]["value"])
            )
    return {mrn: sorted(readings) for mrn, readings in out.items()}


def with_problem(resources: list[Resource], code: str) -> set[str]:
    return {
        resource["subject"]["identifier"]["value"]
        for resource in resources
        if resource["resourceType"] == "Condition" and resource["code"]["coding"][0]["code"].startswith(code)
    }


def shape(value: Any) -> Any:
    """A resource without its values: keys, nesting, and kinds of scalars."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return "number" if isinstance(value, int | float) else type(value).__name__


def recorded(kind: str) -> Resource:
    """A resource of the kind as the benchmark's server sent it, without `meta`."""
    path = need(SHARED / "hapi" / "recorded_medagentbench_image.jsonl")
    for line in path.read_text(encoding="utf-8").splitlines():
        for entry in json.loads(json.loads(line)["body"]).get("entry", []):
            resource: Resource = entry["resource"]
            if resource["resourceType"] == kind:
                resource.pop("meta")
                return resource
    raise AssertionError(f"no {kind} was recorded")


def test_the_bytes_are_the_committed_ones(lines: list[str]) -> None:
    assert digest(lines) == DIGEST


def test_another_process_with_other_hashes_gives_the_same_bytes() -> None:
    program = "from fhir_server.synthetic import generate\nfor line in generate(): print(line)"
    command = [sys.executable, "-X", "utf8", "-c", program]
    run = subprocess.run(command, cwd=ROOT, env={"PYTHONHASHSEED": "7"}, capture_output=True, check=True)
    assert hashlib.sha256(run.stdout).hexdigest() == DIGEST


def test_another_seed_gives_another_hospital_of_the_same_size(lines: list[str]) -> None:
    other = list(generate(SEED + 1))
    assert digest(other) != DIGEST
    assert sum('"resourceType":"Patient"' in line for line in other) == 100
    assert abs(len(other) - len(lines)) < 12_000


def test_counts(resources: list[Resource]) -> None:
    counts = Counter(resource["resourceType"] for resource in resources)
    assert counts["Patient"] == 100
    assert 55_000 <= len(resources) <= 65_000
    assert min(counts[kind] for kind in ("Condition", "MedicationRequest", "Procedure")) >= 150
    codes = Counter(found["code"]["text"] for found in observations(resources))
    assert set(codes) == {*LABS, *VITALS, *DERIVED, "BP"} - {"SBP", "DBP"}
    assert len([code for code in codes if code in LABS or code in DERIVED]) >= 24


def test_ids_are_unique_and_accepted_by_any_server(resources: list[Resource]) -> None:
    ids = [resource["id"] for resource in resources]
    assert len(set(ids)) == len(ids)
    assert all(any(letter.isalpha() for letter in name) and name.isalnum() for name in ids)


def test_references_point_at_patients_that_came_before(resources: list[Resource]) -> None:
    known = set()
    for resource in resources:
        if resource["resourceType"] == "Patient":
            known.add(resource["id"])
            assert resource["identifier"][0]["value"] == resource["id"]
        else:
            assert resource["subject"]["reference"] == "Patient/" + resource["subject"]["identifier"]["value"]
            assert resource["subject"]["identifier"]["value"] in known


@pytest.mark.parametrize("kind", ["Patient", "Observation"])
def test_shapes_are_those_of_the_recordings(resources: list[Resource], kind: str) -> None:
    wanted = recorded(kind)
    code = wanted.get("code")
    made = next(r for r in resources if r["resourceType"] == kind and (code is None or r["code"] == code))
    assert shape(made) == shape(wanted)
    for key in ("category", "code"):
        assert made.get(key) == wanted.get(key)


def test_a_sample_is_valid_r4(resources: list[Resource]) -> None:
    from fhir.resources.R4B import get_fhir_model_class

    seen: Counter[str] = Counter()
    for resource in resources[::7]:
        kind = resource["resourceType"]
        seen[kind] += 1
        if seen[kind] <= 40:
            get_fhir_model_class(kind).model_validate(resource)
    assert set(seen) == {"Patient", "Observation", "Condition", "MedicationRequest", "Procedure"}


def test_values_lie_in_the_possible_range_and_nothing_is_in_the_future(resources: list[Resource]) -> None:
    for found in observations(resources):
        assert found["effectiveDateTime"] <= found["issued"] < NOW
        if "valueQuantity" in found:
            code = found["code"]["text"]
            test = LABS.get(code) or VITALS.get(code) or DERIVED[code]
            assert test.low <= found["valueQuantity"]["value"] <= test.high
        else:
            systolic, diastolic = map(int, found["valueString"].removesuffix(" mmHg").split("/"))
            assert systolic - diastolic >= 20


def test_key_tests_have_clean_data_and_no_ties(resources: list[Resource]) -> None:
    for code in ("MG", "GLU", "K", "A1C"):
        for readings in of(resources, code).values():
            times = [time for time, _ in readings]
            assert len(set(times)) == len(times)
            assert all(isinstance(value, int | float) for _, value in readings)


def test_numbers_are_written_in_more_than_one_way(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert '"value":4.0,' in text
    assert '"value":4,' in text
    assert '"value":4.1,' in text


def test_diabetics_have_higher_glucose_and_a1c(resources: list[Resource]) -> None:
    diabetics = with_problem(resources, "E11")
    assert 30 <= len(diabetics) <= 45
    for code, margin in (("GLU", 40), ("A1C", 1.5)):
        of_code = of(resources, code)
        means = {mrn: sum(v for _, v in readings) / len(readings) for mrn, readings in of_code.items()}
        ill = [mean for mrn, mean in means.items() if mrn in diabetics]
        well = [mean for mrn, mean in means.items() if mrn not in diabetics]
        assert sum(ill) / len(ill) > sum(well) / len(well) + margin


def test_low_levels_stand_on_the_problem_list(resources: list[Resource]) -> None:
    listed = with_problem(resources, "E83.42")
    low = {mrn for mrn, readings in of(resources, "MG").items() if readings[-1][1] < 1.0}
    assert len(low) >= 8
    assert low & listed
    assert all(of(resources, "MG")[mrn][-1][1] < 1.5 for mrn in listed)


def test_magnesium_falls_step_by_step_to_a_very_low_level(resources: list[Resource]) -> None:
    endings = [readings[-2:] for readings in of(resources, "MG").values() if readings[-1][1] < 1.0]
    steps = [before[1] - end[1] for before, end in endings if before[0] >= "2023-11-12"]
    assert len(steps) >= 5
    assert max(map(abs, steps)) <= 0.6


def test_birth_dates_and_ages(resources: list[Resource]) -> None:
    births = [r["birthDate"] for r in resources if r["resourceType"] == "Patient"]
    assert sum(birth.endswith("11-13") for birth in births) >= 10
    assert any(birth.endswith("02-29") for birth in births)
    assert all("1931-11-13" < birth <= "2005-11-13" for birth in births), "adults up to 91 years old"


def test_drugs_and_problems_agree(resources: list[Resource]) -> None:
    takers = {
        resource["subject"]["identifier"]["value"]
        for resource in resources
        if resource["resourceType"] == "MedicationRequest"
        and resource["medicationCodeableConcept"]["text"].startswith(("metformin", "insulin"))
    }
    assert takers == with_problem(resources, "E11")
