"""An item as JSON with all its fields, so that an episode can be graded where the data set is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from medagent.core.errors import UserError
from medagent.fhir_episodes.task import FhirItem


def item_document(item: FhirItem) -> dict[str, Any]:
    """The item's id, class and fields. Only its id if JSON cannot store every field: the reader then needs the data
    set, or the code that makes it.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(type(item))
        text = adapter.dump_json(item)
        stored = adapter.validate_json(text) == item
    except (PydanticSchemaGenerationError, PydanticSerializationError, PydanticUserError, ValidationError):
        stored = False
    if not stored:
        return {"id": item.id}
    return {"id": item.id, "class": _name(type(item)), "fields": json.loads(text)}


def stored_item(document: Mapping[str, Any]) -> FhirItem | None:
    """The item in a document of `item_document`; None if it contains only the id.

    Nothing is imported: the class must be one that the benchmark's code has already defined. Raises UserError.
    """
    if "fields" not in document:
        return None
    known: list[type[FhirItem]] = [FhirItem, *_subclasses(FhirItem)]
    classes = {_name(cls): cls for cls in known}
    if document.get("class") not in classes:
        raise UserError(f"the item {document['id']} is of the class {document.get('class')}, which does not exist")
    adapter: TypeAdapter[Any] = TypeAdapter(classes[document["class"]])
    try:
        item: FhirItem = adapter.validate_python(document["fields"], strict=False)
    except ValidationError as error:
        raise UserError(f"the item {document['id']} does not have the fields of its class: {error}") from None
    return item


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _subclasses(cls: type[FhirItem]) -> Iterator[type[FhirItem]]:
    for below in cls.__subclasses__():
        yield below
        yield from _subclasses(below)
