"""The hospital of any seed: the same bytes everywhere, valid R4, the recorded shapes, linked values, mixed statuses."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fhir_server.synthetic import BUNDLED, FULL, HospitalProfile, Size, lines
from fhir_server.synthetic.bundled import PROFILE
from tests.shared_data import ROOT, SHARED, need

NOW = "2023-11-13T10:15:00+00:00"
DIGEST = "3e6f8cdd8e63087a7b795efd4425b3fcd8c20d81702bd5e06b7ec75a9f01d79f"
"""SHA-256 over the lines of `small()`, each with its newline."""
Resource = dict[str, Any]


def small(seed: int = 7, size: Size = BUNDLED) -> HospitalProfile:
    """Forty patients with the published clock and thresholds."""
    return replace(PROFILE, seed=seed, patients=40, size=size)


def digest() -> str:
    """What another process prints."""
    return hashlib.sha256("".join(line + "\n" for line in lines(small())).encode()).hexdigest()


def shape(value: Any) -> Any:
    """A resource without its values: keys, nesting, and kinds of scalars."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return "number" if isinstance(value, int | float) else type(value).__name__


def references(value: Any) -> Iterator[str]:
    """All references within a resource."""
    if isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value["reference"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


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


@pytest.fixture(scope="module")
def resources() -> list[Resource]:
    return [json.loads(line) for line in lines(small())]


def test_the_bytes_are_the_committed_ones_in_any_surroundings() -> None:
    program = "from tests.fhir_server.synthetic.test_hospital import digest; print(digest())"
    surroundings = {"PYTHONHASHSEED": "7", "TZ": "Asia/Kolkata", "LC_ALL": "tr_TR.UTF-8", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == DIGEST


def test_ids_and_references(resources: list[Resource]) -> None:
    ids = [(resource["resourceType"], resource["id"]) for resource in resources]
    assert len(set(ids)) == len(ids)
    known: set[str] = set()
    for resource in resources:
        known.add(f"{resource['resourceType']}/{resource['id']}")
        for reference in references(resource):
            assert reference in known, resource


@pytest.mark.parametrize("kind", ["Patient", "Observation"])
def test_shapes_are_those_of_the_recordings(resources: list[Resource], kind: str) -> None:
    wanted = recorded(kind)
    code = wanted.get("code")
    made = next(
        resource
        for resource in resources
        if resource["resourceType"] == kind and (code is None or resource["code"] == code)
    )
    added = {"meta", "maritalStatus", "encounter", "interpretation", "referenceRange"}
    assert shape({key: value for key, value in made.items() if key not in added}) == shape(wanted)
    for key in ("category", "code"):
        assert made.get(key) == wanted.get(key)


def test_a_sample_is_valid_r4(resources: list[Resource]) -> None:
    from fhir.resources.R4B import get_fhir_model_class

    seen: Counter[str] = Counter()
    for resource in resources[::5]:
        kind = resource["resourceType"]
        seen[kind] += 1
        if seen[kind] <= 25:
            get_fhir_model_class(kind).model_validate(resource)
    assert set(seen) >= {"Encounter", "AllergyIntolerance", "Immunization", "DocumentReference", "DiagnosticReport"}
    assert set(seen) >= {"Patient", "Observation", "Condition", "MedicationRequest", "Procedure", "ServiceRequest"}


def test_statuses_are_mixed_and_values_sometimes_missing_or_bounded(resources: list[Resource]) -> None:
    statuses: dict[str, set[str]] = defaultdict(set)
    for resource in resources:
        statuses[resource["resourceType"]].add(str(resource.get("status")))
    assert statuses["Observation"] >= {"final", "corrected", "preliminary", "cancelled"}
    assert statuses["MedicationRequest"] >= {"active", "stopped", "completed", "cancelled", "entered-in-error"}
    assert statuses["Procedure"] >= {"completed", "not-done", "entered-in-error"}
    assert statuses["Encounter"] == {"finished", "in-progress"}
    verified = {
        resource["verificationStatus"]["coding"][0]["code"]
        for resource in resources
        if resource["resourceType"] == "Condition"
    }
    assert verified == {"confirmed", "entered-in-error"}
    observations = [resource for resource in resources if resource["resourceType"] == "Observation"]
    assert any("dataAbsentReason" in observation for observation in observations)
    assert any("comparator" in observation.get("valueQuantity", {}) for observation in observations)
    assert sum("deceasedDateTime" in resource for resource in resources) == 2


def test_nothing_is_in_the_future_and_the_deciding_tests_have_values(resources: list[Resource]) -> None:
    times = ("effectiveDateTime", "issued", "authoredOn", "performedDateTime", "recordedDate", "date")
    for resource in resources:
        assert all(resource[name] <= NOW for name in times if name in resource), resource
        if resource["resourceType"] == "Observation" and resource["code"]["text"] in ("MG", "K", "GLU", "A1C"):
            assert resource["valueQuantity"]["value"] > 0
            assert resource["status"] in ("final", "amended", "corrected")


def test_values_that_go_together_in_a_body_do(resources: list[Resource]) -> None:
    draws: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for resource in resources:
        if "valueQuantity" in resource:
            place = (resource["subject"]["reference"], resource["effectiveDateTime"])
            draws[place][resource["code"]["text"]] = resource["valueQuantity"]["value"]

    def correlation(a: str, b: str) -> float:
        pairs = [(draw[a], draw[b]) for draw in draws.values() if a in draw and b in draw]
        x, y = (sum(pair[place] for pair in pairs) / len(pairs) for place in (0, 1))
        together = sum((p - x) * (q - y) for p, q in pairs)
        return float(together / (sum((p - x) ** 2 for p, _ in pairs) * sum((q - y) ** 2 for _, q in pairs)) ** 0.5)

    assert 0.95 < correlation("HGB", "HCT") < 0.999
    assert correlation("NA", "CL") > 0.45
    assert correlation("BUN", "CREA") > 0.5
    assert correlation("ALT", "AST") > 0.6
    assert correlation("CO2", "CL") < -0.15


def test_the_full_size_has_the_originals_proportions() -> None:
    few = HospitalProfile(
        **{**{name: getattr(small(), name) for name in HospitalProfile.__slots__}, "patients": 8, "size": FULL}
    )
    counts: Counter[str] = Counter(line[17 : line.index('"', 17)] for line in lines(few))
    for kind, original in (("Observation", 5634), ("Procedure", 1250), ("Condition", 748), ("MedicationRequest", 220)):
        assert 0.6 < counts[kind] / 8 / original < 1.4, kind


@pytest.mark.long
def test_memory_does_not_grow_with_the_number_of_patients() -> None:
    program = (
        "import resource, sys; from dataclasses import replace; from fhir_server.synthetic import lines; "
        "from fhir_server.synthetic.bundled import PROFILE\n"
        "for line in lines(replace(PROFILE, patients=int(sys.argv[1]))): pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    few, many = (
        int(subprocess.run([sys.executable, "-c", program, count], capture_output=True, check=True, cwd=ROOT).stdout)
        for count in ("100", "400")
    )
    assert many < 1.25 * few
