"""Normalises a resource as HAPI's lenient parser does: known elements in R4's order, nothing empty, checked values.

Each type is compiled once to a `TypeCleaner`: its JSON keys, their order, and a function that cleans each value. The
same input as in HAPI is accepted (a list for one value and one value for a list, numbers as text), and the same input
is refused with the same message (a bad code, date, number or boolean). Observed behaviour of HAPI FHIR 7.6.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, TypeAlias

from fhir_server import definitions
from fhir_server.definitions import Element, ElementType
from fhir_server.errors import FhirError
from fhir_server.resources import narrative
from fhir_server.resources.primitives import PrimitiveError, Reader, reader
from fhir_server.wire.http import sanitised
from fhir_server.wire.json_values import Json

Resource: TypeAlias = dict[str, Json]
Cleaner = Callable[[Json], Json]
PARSE_FAILED: Final = "HAPI-0450: Failed to parse request body as JSON resource. Error was: "


def normalise(body: Json, *, expected_type: str | None) -> Resource:
    """The resource as it is stored; `id` and `meta` stay as the client sent them.

    Raises:
        FhirError: 400 with HAPI-1838 (no type), HAPI-1814 (not `expected_type`), HAPI-1684 (a type that is not in R4),
            HAPI-1821 (a value that its type does not allow), each after `PARSE_FAILED`.
    """
    type_name = body.get("resourceType") if isinstance(body, dict) else None
    if type(type_name) is not str or not type_name.strip():  # a number, read as its text, is a subclass
        raise _refusal("HAPI-1838: Invalid JSON content detected, missing required element: 'resourceType'")
    if expected_type is not None and type_name != expected_type:
        raise _refusal(f'HAPI-1814: Incorrect resource type found, expected "{expected_type}" but found "{type_name}"')
    try:
        return _resource(body)
    except RecursionError as error:
        raise _refusal("HAPI-1861: Failed to parse JSON encoded FHIR content: nested too deeply") from error


def _refusal(message: str) -> FhirError:
    return FhirError(400, PARSE_FAILED + message)


def _resource(body: Resource) -> Resource:
    type_name = body.get("resourceType")
    if not isinstance(type_name, str):
        raise _refusal("HAPI-1843: Missing required element 'resourceType' from JSON resource object, unable to parse")
    if not definitions.is_resource_type(type_name):
        raise _refusal(f'HAPI-1684: Unknown resource name "{type_name}" (this name is not known in FHIR version "R4")')
    return {"resourceType": type_name, **_type_cleaner(type_name).clean(body)}


class ElementField:
    """One JSON key of a type: its position, whether it is a list, and how its value is cleaned.

    `clean` takes the whole value of the key, `clean_one` one item of it. If `is_text`, any text is valid unchanged.
    """

    __slots__ = ("clean", "clean_one", "is_choice", "is_primitive", "is_text", "many", "place")

    def __init__(self, key: str, place: int, element: Element, declared: ElementType, owner: str) -> None:
        self.place = place
        self.many = element.many
        self.is_choice = element.is_choice
        self.is_primitive = definitions.is_primitive(declared.name)
        self.clean_one, self.is_text = _cleaner(key, declared.name, element.codes, owner)
        self.is_text = self.is_text and not self.many
        self.clean: Cleaner = _list_cleaner(self.clean_one) if element.many else _first_cleaner(self.clean_one)
        if declared.name == "Extension" and element.many:
            self.clean = _strict_list_cleaner(key, self.clean)


class TypeCleaner:
    """The fields of one type by JSON key."""

    __slots__ = ("fields",)

    def __init__(self, type_name: str, owner: str) -> None:
        self.fields: dict[str, ElementField] = {}
        for place, element in enumerate(_ordered(type_name)):
            for declared in element.types:
                key = element.key(declared)
                self.fields[key] = ElementField(key, place, element, declared, owner)

    def clean(self, source: Json) -> Resource:
        """The cleaned members of an object, without those that are empty afterwards."""
        fields = self.fields
        result: Resource = {}
        chosen: set[int] = set()
        last = -1
        in_order = True
        has_alternates = False
        for key, value in source.items():
            field = fields.get(key)
            if field is None:
                has_alternates = has_alternates or key[:1] == "_"
                continue
            place = field.place
            if field.is_choice:
                if place in chosen:  # a second type of a choice: HAPI keeps the first
                    continue
                chosen.add(place)
            if place < last:
                in_order = False
            last = place
            kind = type(value)
            # A text that begins with a visible character is not blank. This test is faster than isspace().
            if kind is str and field.is_text and "!" <= value < "\x7f":
                result[key] = value
                continue
            cleaned = field.clean(value)
            if cleaned is not None:
                result[key] = cleaned
            if field.is_primitive and (kind is list or kind is dict):
                has_alternates = has_alternates or _holds_object(value)
        if has_alternates:
            self._add_alternates(source, result, chosen)
            in_order = False
        if in_order:
            return result
        return {key: result[key] for key in sorted(result, key=self._place)}

    def _place(self, key: str) -> tuple[int, bool]:
        """The position of a key; `_key` comes after `key`."""
        field = self.fields.get(key)
        return (field.place, False) if field is not None else (self.fields[key[1:]].place, True)

    def _add_alternates(self, source: Json, result: Resource, chosen: set[int]) -> None:
        """Add the ids and extensions of primitives, which are in `_key`."""
        objects = ((f"_{key}", _extensions_in(value)) for key, value in source.items() if _holds_object(value))
        for name, sibling in [*objects, *source.items()]:
            key = name[1:]
            field = self.fields.get(key) if name[:1] == "_" else None
            if field is None or not field.is_primitive:
                continue
            if field.is_choice and field.place in chosen and key not in result and source.get(key) is None:
                continue  # another type of the choice came first
            clean = _alternates_of_list if field.many else _alternates_of_one
            value, alternate = clean(field, source.get(key), sibling)
            result |= {name: item for name, item in ((key, value), (name, alternate)) if item is not None}


def _holds_object(value: Json) -> bool:
    """Whether there is an object instead of a scalar: HAPI keeps its extensions as if they were in `_key`."""
    return type(value) is dict or (type(value) is list and any(type(item) is dict for item in value))


def _extensions_in(value: Json) -> Json:
    if type(value) is list:
        return [_extensions_in(item) for item in value]
    return {"extension": value["extension"]} if type(value) is dict and "extension" in value else None


def _alternates_of_one(field: ElementField, value: Json, sibling: Json) -> tuple[Json, Json]:
    return field.clean(value), _alternate(sibling[0] if isinstance(sibling, list) and sibling else sibling)


def _alternates_of_list(field: ElementField, value: Json, sibling: Json) -> tuple[Json, Json]:
    """Both lists of a repeating primitive, aligned with nulls; extensions beyond the values are lost."""
    if value is None:
        value, sibling = [None], [sibling]
    values = value if isinstance(value, list) else [value]
    alternates = sibling if isinstance(sibling, list) else []
    pairs = []
    for index, item in enumerate(values):
        cleaned = field.clean_one(item)
        alternate = _alternate(alternates[index]) if index < len(alternates) else None
        if cleaned is not None or alternate is not None:
            pairs.append((cleaned, alternate))
    ones = [cleaned for cleaned, _ in pairs]
    others = [alternate for _, alternate in pairs]
    return ones or None, others if any(others) else None


def _alternate(sibling: Json) -> Json:
    return _type_cleaner("Element").clean(sibling) or None if isinstance(sibling, dict) else None


def fields(resource_type: str) -> Mapping[str, ElementField]:
    """The fields of a resource type by JSON key."""
    return _type_cleaner(resource_type).fields


@cache
def _type_cleaner(type_name: str, owner: str = "") -> TypeCleaner:
    """The cleaner of a type; `owner` is the path of the element that uses it, if that makes a difference."""
    return TypeCleaner(type_name, owner or type_name)


def _ordered(type_name: str) -> tuple[Element, ...]:
    """The elements of a type in HAPI's order: R4's, except that the url of an extension comes early."""
    elements = definitions.elements(type_name)
    if type_name != "Extension":
        return elements
    return tuple(sorted(elements, key=lambda element: {"id": 0, "url": 1}.get(element.name, 2)))


def _list_cleaner(clean_one: Cleaner) -> Cleaner:
    def clean(value: Json) -> Json:
        if type(value) is not list:
            value = [value]
        items: list[Json] = []
        for item in value:
            if type(item) is list:
                items.extend(clean(item) or ())
            elif (cleaned := clean_one(item)) is not None:
                items.append(cleaned)
        return items or None

    return clean


def _strict_list_cleaner(key: str, clean_list: Cleaner) -> Cleaner:
    """A cleaner that refuses a value that is not a list. HAPI requires a list for extensions only."""

    def clean(value: Json) -> Json:
        if value is not None and type(value) is not list:
            actual = "OBJECT" if isinstance(value, dict) else "SCALAR"
            problem = f"Expected ARRAY at element '{key}', found '{actual}'"
            raise _refusal(f"HAPI-1841: Syntax error parsing JSON FHIR structure: {problem}")
        return clean_list(value)

    return clean


def _first_cleaner(clean_one: Cleaner) -> Cleaner:
    def clean(value: Json) -> Json:
        if type(value) is not list:
            return clean_one(value)
        while type(value) is list:
            if not value:
                return None
            value = value[0]
        return clean_one(value)

    return clean


def _cleaner(key: str, type_name: str, codes: str | None, owner: str) -> tuple[Cleaner, bool]:
    """The cleaner of one value of a type (its result is None if nothing is left), and whether any text is unchanged."""
    if type_name == "Resource":
        return _inline_resource, False
    if type_name == "Extension":
        return (_extension if owner == "Element" else _extension_with_content), False
    if (owner, key) == ("AuditEvent.entity", "what"):  # the only element whose references keep their version
        return _object_cleaner("Reference", "AuditEvent.entity.what"), False
    if not definitions.is_primitive(type_name):
        return _object_cleaner(type_name), False
    if type_name == "xhtml":
        return _narrative, False
    if (owner, key) == ("Reference", "reference"):
        return _reference, False
    read = reader(type_name, codes)
    return (_text, True) if read is None else (_scalar_cleaner(key, read), False)


def _inline_resource(value: Json) -> Json:
    return _resource(value) if isinstance(value, dict) else None


def _narrative(value: Json) -> Json:
    text = _text(value)
    return None if text is None else narrative.normalise(text)


def _object_cleaner(type_name: str, owner: str = "") -> Cleaner:
    cleaner: TypeCleaner | None = None

    def clean(value: Json) -> Json:
        nonlocal cleaner
        if type(value) is not dict:
            return None
        if cleaner is None:  # types refer to each other, so each is compiled at its first use
            cleaner = _type_cleaner(type_name, owner)
        # HAPI drops an empty extension, but still writes the element that had it, as an empty one.
        return cleaner.clean(value) or ({} if _has_extension(value) else None)

    return clean


def _has_extension(value: Json) -> bool:
    listed = value.get("extension")
    return type(listed) is list and any(_extension(extension) is not None for extension in listed)


def _extension(value: Json) -> Json:
    """An extension; without a url, it is kept with a url of null."""
    if type(value) is not dict:
        return None
    cleaned = _type_cleaner("Extension").clean(value)
    if value.get("extension") and any(key.lstrip("_").startswith("value") for key in cleaned):
        problem = f"Extension (URL='{cleaned.get('url', 'null')}') must not have both a value and other contained"
        raise _refusal(f"HAPI-1811: {problem} extensions")
    if "url" in cleaned or not cleaned:
        return cleaned or None
    identity = {"id": cleaned.pop("id")} if "id" in cleaned else {}
    return {**identity, "url": None, **cleaned}


def _extension_with_content(value: Json) -> Json:
    """As `_extension`, but None for an extension with only a url: HAPI drops it from objects, not primitives."""
    extension = _extension(value)
    return None if extension is not None and extension.keys() == {"url"} and extension["url"] else extension


def _text(value: Json) -> str | None:
    """The text of a scalar as HAPI's parser reads it; None if there is none."""
    if type(value) is str:
        return value if value and not value.isspace() else None
    if value is None or isinstance(value, (dict, list)):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _reference(value: Json) -> Json:
    """A reference as HAPI stores it: without the version, and without a short path before type and id."""
    text = _text(value)
    if not text or text.count("/") < 2:
        return text
    text = text.partition("/_history/")[0]
    shorter = _BEHIND_SHORT_PATH.fullmatch(text)
    return shorter[1] if shorter else text


_BEHIND_SHORT_PATH = re.compile(r"(?:[^:?]{0,3}[^:?/])?/([^/?]+/[^/?]+)")


def _scalar_cleaner(key: str, read: Reader) -> Cleaner:
    def clean(value: Json) -> Json:
        text = value if type(value) is str and "!" <= value < "\x7f" else _text(value)
        if text is None:
            return None
        try:
            return read(text)
        except PrimitiveError as error:
            shown = sanitised(text)
            raise _refusal(f'HAPI-1821: [element="{key}"] Invalid attribute value "{shown}": {error}') from error

    return clean


def labels(new: Resource, earlier: Resource) -> Resource:
    """The profiles, security labels and tags of a meta; labels and tags are merged with an `earlier` meta's.

    HAPI keeps them as sets and sorts them. Of several with the same system and code, the first counts.
    """
    merged: Resource = {}
    if "profile" in new:
        merged["profile"] = sorted(set(new["profile"]))
    for name in ("security", "tag"):
        by_code: dict[tuple[str, str], Json] = {}
        for item in (*earlier.get(name, []), *new.get(name, [])):
            by_code.setdefault((item.get("system", ""), item.get("code", "")), item)
        if by_code:
            merged[name] = [by_code[key] for key in sorted(by_code)]
    return merged
