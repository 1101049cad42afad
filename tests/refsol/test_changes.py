"""The state difference: what counts as a change, and how a person reads it."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.changes import Change, change_of

ORDER = {
    "resourceType": "MedicationRequest",
    "id": "123",
    "meta": {"versionId": "1", "lastUpdated": "2023-01-01"},
    "status": "active",
    "medicationCodeableConcept": {"coding": [{"code": "m", "display": "Magnesium"}]},
    "dosageInstruction": [{"doseAndRate": [{"doseQuantity": {"value": 1, "unit": "g"}}]}],
}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"status": "stopped"}, "status active → stopped"),
        ({"priority": "urgent"}, "priority urgent added"),
        ({"status": None}, "status active removed"),
        ({"medicationCodeableConcept": {"text": "Potassium"}}, "medicationCodeableConcept.coding Magnesium removed"),
        (
            {"dosageInstruction": [{"doseAndRate": [{"doseQuantity": {"value": 2, "unit": "g"}}]}]},
            "dosageInstruction.doseAndRate.doseQuantity.value 1 → 2",
        ),
        ({f"a{number}": number for number in range(8)}, "a0 0 added, a1 1 added"),
        ({"doNotPerform": True}, "doNotPerform true added"),
        ({"note": [{"text": "long " * 40}]}, "note long long"),
    ],
)
def test_a_change_is_worded_by_its_elements(more: dict[str, Any], words: str) -> None:
    after = {key: value for key, value in {**ORDER, **more}.items() if value is not None}
    change = change_of(ORDER, after)
    assert change is not None
    assert (change.kind, change.name) == ("changed", "MedicationRequest 123")
    assert change.words.startswith(words)
    assert len(change.words) < 300


def test_created_and_deleted_resources_are_named_by_what_they_are_about() -> None:
    created, deleted = change_of(None, ORDER), change_of(ORDER, None)
    assert created == Change("created", None, ORDER)
    assert deleted == Change("deleted", ORDER, None)
    assert created.words == "created (active, Magnesium)"
    assert deleted.name == "MedicationRequest 123"


def test_a_resource_that_ends_as_it_began_is_no_change() -> None:
    again = {**ORDER, "meta": {"versionId": "3", "lastUpdated": "2024-01-01", "source": "#x"}}
    assert change_of(ORDER, again) is None
    assert change_of(None, None) is None
    assert change_of(ORDER, {**again, "meta": {"tag": [{"code": "t"}]}}) is not None
