"""Takes the answer out of a case's chart.

The stewards named patients after the outcome (`NUMERPass`) and resources after their part in the case. So ids,
identifiers and names become neutral ones made from a seed, the same in all references. These are dropped:

* addresses, narrative, notes and all of `meta` but the profile
* free texts that repeat a word of the case's title
* practitioners and organizations to which nothing refers

The order of the resources follows from the neutral ids. Codes and their names, times, statuses and values stay as they
are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

FAMILIES = (
    "Adams",
    "Baker",
    "Clark",
    "Davis",
    "Evans",
    "Foster",
    "Green",
    "Harris",
    "Irwin",
    "Jones",
    "Keller",
    "Lewis",
)
GIVEN = ("Alex", "Chris", "Dana", "Jamie", "Jordan", "Kim", "Lee", "Morgan", "Pat", "Robin", "Sam", "Terry")
DROPPED = frozenset({"text", "note", "implicitRules", "language", "telecom", "address", "contact", "photo", "fullUrl"})
"""Members that are dropped; `text` only if it is a narrative."""
FREE_TEXT = frozenset({"text", "description", "comment", "title", "valueString", "instruction", "patientInstruction"})
"""Members whose texts the authors of a case wrote themselves."""
ADMINISTRATIVE = ("Organization", "Practitioner")
"""Types that no measure reads. Resources of them are dropped if nothing refers to them: their number helps to guess."""
TITLE_WORD = 5
"""The fewest characters of a word of the title, such as `NUMERPass`."""


class Neutral:
    """The neutral names of one case."""

    def __init__(self, seed: str, resources: Iterable[Mapping[str, Any]]) -> None:
        self._seed = seed
        every = list(resources)
        targets = {"/".join(target.split("/")[-2:]) for resource in every for target in _references(resource)}
        self._resources = [
            resource
            for resource in every
            if resource["resourceType"] not in ADMINISTRATIVE or _name(resource) in targets
        ]
        patients = [resource for resource in self._resources if resource["resourceType"] == "Patient"]
        self._patients = [_name(patient) for patient in patients]
        self._title = {word for patient in patients for word in _words_of(patient.get("name", []))}

    def name(self, text: str) -> str:
        """The neutral text for a text: 12 hexadecimal digits."""
        return hashlib.sha256(f"{self._seed}|{text}".encode()).hexdigest()[:12]

    def reference(self, text: str) -> str:
        """The neutral form of a reference: its type, if any, and a neutral id."""
        if text.startswith("#"):
            return f"#{self.name(text)}"
        target = "/".join(text.split("/")[-2:])
        if target.startswith("Patient/") and target not in self._patients and len(self._patients) == 1:
            target = self._patients[0]  # a slip: the expected populations seem to count it
        kind, _, name = target.partition("/")
        return f"{kind}/{self.name(f'{kind}/{name}')}" if name else f"urn:uuid:{self.name(text)}"

    def chart(self) -> str:
        """The resources as NDJSON, in the order of their neutral ids."""
        chart = sorted(
            (self._resource(resource) for resource in self._resources), key=lambda resource: str(resource["id"])
        )
        return "\n".join(json.dumps(resource) for resource in chart)

    def _resource(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        kind = str(resource["resourceType"])
        neutral = self._members(resource)
        neutral["id"] = self.name(f"{kind}/{resource['id']}")
        if "name" in resource:
            neutral["name"] = self._name(kind, neutral["id"])
        if "profile" in resource.get("meta", {}):
            neutral["meta"] = {"profile": resource["meta"]["profile"]}
        else:
            neutral.pop("meta", None)
        return neutral

    def _name(self, kind: str, name: str) -> Any:
        number = int(name, 16)
        family, given = FAMILIES[number % len(FAMILIES)], GIVEN[number // len(FAMILIES) % len(GIVEN)]
        people = kind in ("Patient", "Practitioner", "RelatedPerson", "Person")
        return [{"family": family, "given": [given]}] if people else f"{kind} {name}"

    def _members(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: neutral for name, member in value.items() if (neutral := self._member(name, member)) is not None}

    def _member(self, name: str, value: Any) -> Any:
        """The neutral value of a member; None if it is dropped."""
        if name in DROPPED and not isinstance(value, str):
            return None
        if name == "identifier":
            return (
                [self._identifier(identifier) for identifier in value]
                if isinstance(value, list)
                else self._identifier(value)
            )
        if name == "reference" and isinstance(value, str):
            return self.reference(value)
        if name == "id" and isinstance(value, str):
            return self.name(f"#{value}")  # of a contained resource or an element
        if name in FREE_TEXT and isinstance(value, str) and any(word in value for word in self._title):
            return None
        return self._value(value)

    def _value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            members = self._members(value)
            if "reference" in members:
                members.pop("display", None)  # the name of a person or a place
            return members or None
        if isinstance(value, list):
            return [neutral for element in value if (neutral := self._value(element)) is not None] or None
        return value

    def _identifier(self, identifier: Mapping[str, Any]) -> dict[str, Any]:
        return {"system": "urn:ecqm:case", "value": self.name(f"identifier {identifier.get('value', '')}")}


def _name(resource: Mapping[str, Any]) -> str:
    return f"{resource['resourceType']}/{resource['id']}"


def _references(value: Any) -> Iterator[str]:
    """All references in a resource."""
    if isinstance(value, Mapping):
        if isinstance(value.get("reference"), str):
            yield value["reference"]
        for member in value.values():
            yield from _references(member)
    elif isinstance(value, list):
        for element in value:
            yield from _references(element)


def _words_of(names: Any) -> Iterator[str]:
    for name in names if isinstance(names, list) else [names]:
        texts = [name.get("family", ""), name.get("text", ""), *name.get("given", [])]
        yield from (word for text in texts for word in str(text).split() if len(word) >= TITLE_WORD)
