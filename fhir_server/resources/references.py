"""Parses references as HAPI does, and checks that a reference points to a type that its element allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, NamedTuple

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.wire.json_values import Json

TargetCheck = Callable[[Json, str], None]


class Target(NamedTuple):
    """The type and the id that a reference names; each is empty if the reference does not name it."""

    type: str
    id: str


@lru_cache(maxsize=1024)
def target(reference: str) -> Target:
    """Split a reference at its slashes, as HAPI's IdType does, without base and version.

    Cached, because many resources refer to the same patient, and each needs the result three times.
    """
    if reference.startswith(("urn:", "#")):
        return Target("", reference)
    head, _, identity = reference.partition("/_history/")[0].rpartition("/")
    if not head:
        return Target("", identity)
    before = head.rfind("/")
    if before > 0 and head[before - 1] == "/":
        return Target(identity, "")  # HAPI takes the last part of `http://host/x` as the type
    return Target(head[before + 1 :], identity)


def is_elsewhere(reference: str) -> bool:
    """Whether a reference contains an address before its type and id: for HAPI, five letters or more."""
    base, _, kind = reference.rpartition("/")[0].rpartition("/")
    return "://" in reference or (len(base) > 4 and base[-1] != "/" and kind != "" and reference[-1] != "/")


def without_version(reference: str) -> str:
    """A reference without its version (if any)."""
    return reference.partition("/_history/")[0] if "/_history/" in reference else reference


def check_targets(resource: Json) -> None:
    """Refuse a reference to a type that its element does not allow.

    Raises:
        FhirError: 422 with HAPI-0931, naming the path.
    """
    type_name = resource["resourceType"]
    for key, check in _checks(type_name).items():
        value = resource.get(key)
        if value is not None:
            check(value, f"{type_name}.{key}")


# Types without checked references, or whose references HAPI does not check.
_UNCHECKED: Final = frozenset(("Extension", "Meta", "Narrative"))


@cache
def _holds_references(type_name: str) -> bool:
    """Whether an object of the type may hold a checked reference at any depth."""
    return _reaches(type_name, set())


def _reaches(type_name: str, seen: set[str]) -> bool:
    if type_name == "Resource":
        return True
    if type_name in seen or type_name in _UNCHECKED or definitions.is_primitive(type_name):
        return False
    seen.add(type_name)
    return any(
        _restricted(element, declared) or _reaches(declared.name, seen)
        for element in definitions.elements(type_name)
        for declared in element.types
    )


def _restricted(element: definitions.Element, declared: definitions.ElementType) -> bool:
    return declared.name == "Reference" and bool(declared.targets) and not element.is_choice


@cache
def _checks(type_name: str) -> dict[str, TargetCheck]:
    checks: dict[str, TargetCheck] = {}
    for element in definitions.elements(type_name):
        for declared in element.types:
            key = element.key(declared)
            if _restricted(element, declared):
                checks[key] = _reference_check(declared.targets)
            elif _holds_references(declared.name):
                checks[key] = _object_check(declared.name)
    return checks


def _reference_check(allowed: frozenset[str]) -> TargetCheck:
    inner = _object_check("Reference")

    def check(value: Json, path: str) -> None:
        for item in value if type(value) is list else (value,):
            if "identifier" in item:
                inner(item, path)
            reference = item.get("reference")
            if reference is None or "?" in reference:
                continue
            target_type = target(reference).type
            if target_type and target_type not in allowed:
                raise FhirError(
                    422,
                    f"HAPI-0931: Invalid reference found at path '{path}'. "
                    f"Resource type '{target_type}' is not valid for this path",
                )

    return check


def _object_check(type_name: str) -> TargetCheck:
    def check(value: Json, path: str) -> None:
        for item in value if type(value) is list else (value,):
            for key, inner in _checks(item["resourceType"] if type_name == "Resource" else type_name).items():
                member = item.get(key)
                if member is not None:
                    inner(member, f"{path}.{key}")

    return check
