"""FHIRPath patch: the operations of a Parameters resource (FHIR R4, fhirpatch.html).

A path is evaluated over the resource, and an operation applies to all elements that it selects, as in HAPI. A path
that selects nothing changes nothing. HAPI answers 500 if a path of `replace` ends in an index or a function; here the
operation applies to the selected elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

from fhir_server import definitions
from fhir_server.errors import FhirError
from fhir_server.expressions.errors import FhirPathError, TooCostlyError
from fhir_server.expressions.evaluator import walk
from fhir_server.expressions.node import Node, Nodes, keys
from fhir_server.expressions.parser import Call, Member, Tree, parse
from fhir_server.expressions.scope import Environment
from fhir_server.wire.json_values import Json

Item = tuple[Json, Json]
"""A value, and the value of its `_key`."""
Parts = dict[str, Json]
_CONVERTED_FROM = {
    "code": "string",
    "markdown": "string",
    "string": "xhtml",
    "id": "uri",
    "url": "uri",
    "canonical": "uri",
    "oid": "uri",
    "uuid": "uri",
    "positiveInt": "integer",
    "unsignedInt": "integer",
    **dict.fromkeys(("Age", "Count", "Distance", "Duration", "MoneyQuantity", "SimpleQuantity"), "Quantity"),
}
"""Each type, with the type that accepts its values too."""
_GIVEN_TYPES = {key: type_name for key, type_name, _ in keys("Parameters.parameter")["value"]}


@dataclass(frozen=True, slots=True)
class _Slot:
    """An element of an object: its possible JSON keys, each with its type, and whether it is a list."""

    owner: dict[str, Json]
    name: str
    choices: tuple[tuple[str, str], ...]
    many: bool

    def items(self) -> list[Item]:
        """The present values."""
        for key, _ in self.choices:
            values, extras = _listed(self.owner.get(key)), _listed(self.owner.get(f"_{key}"))
            count = max(len(values), len(extras))
            if count:
                values += [None] * (count - len(values))
                return list(zip(values, extras + [None] * (count - len(extras)), strict=True))
        return []

    def put(self, key: str, items: list[Item]) -> None:
        """Replaces the values, under one of the keys."""
        for name, _ in self.choices:
            self.owner.pop(name, None)
            self.owner.pop(f"_{name}", None)
        for name, column in ((key, [value for value, _ in items]), (f"_{key}", [extra for _, extra in items])):
            if any(item is not None for item in column):
                self.owner[name] = column if self.many else column[0]

    def converted(self, part: Json) -> tuple[str, Item]:
        """The key and the value that a part of the patch describes.

        Raises:
            FhirError: the element's value cannot be of that type.
        """
        inner = part.get("part")
        if inner is not None and not any(key.startswith("value") for key in part):
            key, type_name = self.choices[0]
            return key, (_built(type_name, inner), None)
        value_key = next((name for name in part if name.startswith("value")), "")
        first = expected = _GIVEN_TYPES.get(value_key, "")
        while expected:
            fits = [key for key, type_name in self.choices if type_name == expected]
            fits += [key for key, type_name in self.choices if (type_name, expected) == ("code", "string")]
            if fits:
                return fits[0], (deepcopy(part[value_key]), deepcopy(part.get(f"_{value_key}")))
            expected = _CONVERTED_FROM.get(expected, "")
        shown = f"{first[:1].upper()}{first[1:]}Type" if first and definitions.is_primitive(first) else first
        problem = f"{self.name} has type org.hl7.fhir.r4.model.{shown}"
        raise FhirError(400, f"HAPI-1831: {problem} but this is not a valid type for this element")


def apply_fhir_patch(target: Json, parameters: Json) -> Json:
    """The resource with all operations applied, in order.

    Raises:
        FhirError: 400, an operation cannot be applied.
    """
    target = deepcopy(target)
    for item in parameters.get("parameter", []):
        if item.get("name") == "operation":
            _apply(target, {str(part.get("name")): part for part in item.get("part", [])})
    return target


def _apply(target: Json, parts: Parts) -> None:
    kind, path = _scalar(parts, "type"), _scalar(parts, "path")
    operation = _OPERATIONS.get(kind)
    if operation is None:
        raise FhirError(400, f"HAPI-1267: Unknown patch operation type: {kind}")
    operation(Node(target, str(target["resourceType"])), path, parts)


def _add(root: Node, path: str, parts: Parts) -> None:
    for holder in _selected(root, path, _tree(path)):
        slot = _slot(holder, _scalar(parts, "name"), path)
        if _is_there(parts):
            key, item = slot.converted(parts["value"])
            slot.put(key, [*slot.items(), item] if slot.many else [item])


def _replace(root: Node, path: str, parts: Parts) -> None:
    tree = _tree(path)
    if not isinstance(tree, Member):
        for slot, places in _places(_selected(root, path, tree), path) if _is_there(parts) else ():
            key, item = slot.converted(parts["value"])
            slot.put(key, [item if place in places else present for place, present in enumerate(slot.items())])
        return
    for slot in _slots(root, path):
        if _is_there(parts):
            key, item = slot.converted(parts["value"])
            slot.put(key, [item])
        else:
            slot.put("", [])


def _delete(root: Node, path: str, parts: Parts) -> None:
    nodes = _selected(root, path, _tree(path))
    if any(node.place is None for node in nodes):  # the resource itself
        root.value.clear()
        root.value["resourceType"] = root.type_name
        return
    for slot, places in _places(nodes, path):
        key = next(key for key, _ in slot.choices if key in slot.owner or f"_{key}" in slot.owner)
        slot.put(key, [present for place, present in enumerate(slot.items()) if place not in places])


def _insert(root: Node, path: str, parts: Parts) -> None:
    for slot in _slots(root, path) if _is_there(parts) else ():
        items = slot.items()
        at = _index(parts, "index", "insert", 1270, path, len(items), len(items))
        key, item = slot.converted(parts["value"])
        items.insert(at, item)
        slot.put(key, items)


def _move(root: Node, path: str, parts: Parts) -> None:
    for slot in _slots(root, path):
        items = slot.items()
        source = _index(parts, "source", "move source", 1268, path, len(items) - 1, len(items))
        item = items.pop(source)
        to = _index(parts, "destination", "move destination", 1269, path, len(items), len(items))
        items.insert(to, item)
        slot.put(slot.choices[0][0], items)


_OPERATIONS: dict[str, Callable[[Node, str, Parts], None]] = {
    "add": _add,
    "replace": _replace,
    "delete": _delete,
    "insert": _insert,
    "move": _move,
}


def _built(type_name: str, parts: Json) -> Json:
    """An object whose members are named by parts."""
    node = Node({}, type_name)
    for part in parts:
        slot = _slot(node, str(part.get("name")), type_name)
        key, item = slot.converted(part)
        slot.put(key, [*slot.items(), item] if slot.many else [item])
    return node.value


def _slots(root: Node, path: str) -> Iterator[_Slot]:
    """The elements that a path names, in all objects that its first part selects; they may be absent."""
    tree = _tree(path)
    if isinstance(tree, Call) and tree.left is not None and not _selected(root, path, tree.left):
        return  # as in HAPI, if there is nothing for a function to select from
    if not isinstance(tree, Member) or tree.left is None:
        raise _unresolved(path)
    for holder in _selected(root, path, tree.left):
        yield _slot(holder, tree.name, path)


def _slot(holder: Node, name: str, path: str) -> _Slot:
    choices = tuple((key, type_name) for key, type_name, _ in keys(holder.type_name).get(name, ()))
    computed = holder.place is None and not isinstance(holder.value, dict)
    if not choices or computed:
        raise _unresolved(path)
    return _Slot(_object(holder), name, choices, _is_list(holder.type_name, choices[0][0]))


def _is_list(type_name: str, key: str) -> bool:
    return definitions.fields("Element" if definitions.is_primitive(type_name) else type_name)[key].element.many


def _object(node: Node) -> dict[str, Json]:
    """The JSON object of a node; for a primitive, the object at its `_key`, which is created if absent."""
    if node.place is None or isinstance(node.value, dict):
        members: dict[str, Json] = node.value
        return members
    owner, key, at = node.place
    beside: dict[str, Json]
    if not isinstance(owner.get(key), list):
        beside = owner.setdefault(f"_{key}", {})
        return beside
    extras = owner.setdefault(f"_{key}", [])
    extras += [None] * (at + 1 - len(extras))
    extras[at] = beside = extras[at] or {}
    return beside


def _places(nodes: Nodes, path: str) -> Iterator[tuple[_Slot, set[int]]]:
    """The elements that contain the nodes, each with the nodes' positions in it."""
    by_slot: dict[tuple[int, str], tuple[_Slot, set[int]]] = {}
    for node in nodes:
        if node.place is None:
            raise _unresolved(path)
        owner, key, at = node.place
        slot = _Slot(owner, key, ((key, node.type_name),), isinstance(owner.get(key) or owner.get(f"_{key}"), list))
        by_slot.setdefault((id(owner), key), (slot, set()))[1].add(at)
    yield from by_slot.values()


def _tree(path: str) -> Tree:
    try:
        return parse(path)
    except FhirPathError as error:
        raise FhirError(400, f"HAPI-2409: {error}") from error


def _selected(root: Node, path: str, tree: Tree) -> Nodes:
    environment = Environment(root, root, lambda _: None, json_names=True)
    try:
        return walk(tree, root, environment)
    except TooCostlyError:
        raise FhirError(400, f"HAPI-2409: {path}: the path takes too many steps", "too-costly") from None
    except FhirPathError as error:
        raise FhirError(400, f"HAPI-2409: {path}: {error}") from error


def _scalar(parts: Parts, name: str) -> str:
    part = parts.get(name, {})
    return next((str(value) for key, value in part.items() if key.startswith("value")), "")


def _is_there(parts: Parts) -> bool:
    """Whether an operation contains a value; HAPI's parser drops empty ones."""
    return any(key == "part" or key.startswith("value") for key in parts.get("value", {}))


def _index(parts: Parts, name: str, what: str, code: int, path: str, last: int, count: int) -> int:
    text = _scalar(parts, name)
    if not text:
        raise FhirError(400, f"No index supplied for {what.partition(' ')[0]} operation")
    number = int(text) if text.lstrip("-").isdecimal() else -1
    if not 0 <= number <= last:
        problem = f"Invalid {what} index {text} for path {path} - Only have {count} existing entries"
        raise FhirError(400, f"HAPI-{code}: {problem}")
    return number


def _listed(value: Json) -> list[Json]:
    if value is None:
        return []
    return [*value] if isinstance(value, list) else [value]


def _unresolved(path: str) -> FhirError:
    return FhirError(400, f"HAPI-2761: Failed to resolve path of patch operation: {path}")
