"""The table of operations, which routes requests and fills `/metadata`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from fhir_server.interactions.context import RequestContext
from fhir_server.operations import _export, _maintenance, _meta, _terminology
from fhir_server.operations._everything import document, everything
from fhir_server.operations._lastn import lastn
from fhir_server.operations._validate import validate
from fhir_server.wire.http import Response

Level: TypeAlias = Literal["system", "type", "instance"]
Handler: TypeAlias = Callable[[RequestContext, str, str], Response]
"""Answers a request, by resource type and id; both are empty at system level, the id at type level."""


_ANY = ("GET", "POST")


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its name without `$`, the levels and types that offer it (no types: all), and its definition."""

    name: str
    levels: tuple[Level, ...]
    handler: Handler
    definition: str
    types: tuple[str, ...] = ()
    methods: tuple[str, ...] = _ANY
    exports: bool = False
    """Whether only a server with `--export` offers it."""

    def is_offered(self, kind: str) -> bool:
        """Whether a resource type offers the operation (empty: the whole server)."""
        if self.types:
            return kind in self.types
        return self.levels != ("system",) if kind else "system" in self.levels


_CORE = "http://hl7.org/fhir/OperationDefinition/"
_BULK = "http://hl7.org/fhir/uv/bulkdata/OperationDefinition/"
_SYSTEM: tuple[Level, ...] = ("system",)
_INSTANCE: tuple[Level, ...] = ("instance",)
_BOTH: tuple[Level, ...] = ("type", "instance")
_ALL: tuple[Level, ...] = ("system", "type", "instance")
_POST, _GET = ("POST",), ("GET",)


def _core(
    owner: str,
    name: str,
    levels: tuple[Level, ...],
    handler: Handler,
    methods: tuple[str, ...] = _ANY,
    types: tuple[str, ...] = (),
) -> Operation:
    """An operation of FHIR or HAPI. `owner` begins the name of its definition. Only resources of that type offer it,
    except for operations on all resources and on the server.
    """
    owners = types or (() if owner in ("Resource", "Server") else (owner,))
    return Operation(name, levels, handler, f"{_CORE}{owner}-{name}", owners, methods)


_bulk = partial(Operation, exports=True)
"""An operation of bulk exports."""

OPERATIONS = (
    _core("Patient", "everything", _BOTH, everything),
    _core("Encounter", "everything", _BOTH, everything),
    _core("Observation", "lastn", ("type",), lastn),
    _core("Composition", "document", _INSTANCE, document),
    _core("ValueSet", "expand", _BOTH, _terminology.expand_value_set),
    _core("CodeSystem", "lookup", _BOTH, _terminology.lookup),
    _core("CodeSystem", "subsumes", _BOTH, _terminology.subsumes),
    _core("ValueSet", "validate-code", _BOTH, _terminology.validate_code, types=("ValueSet", "CodeSystem")),
    _core("ConceptMap", "translate", _BOTH, _terminology.translate),
    _core("Resource", "validate", _BOTH, validate),
    _core("Resource", "meta", _ALL, _meta.meta, _GET),
    _core("Resource", "meta-add", _INSTANCE, _meta.meta_add, _POST),
    _core("Resource", "meta-delete", _INSTANCE, _meta.meta_delete, _POST),
    _core("Server", "get-resource-counts", _SYSTEM, _maintenance.resource_counts),
    _core("Server", "expunge", _ALL, _maintenance.expunge, _POST),
    _core("Server", "reindex", _SYSTEM, _maintenance.reindex, _POST),
    _core("Server", "mark-all-resources-for-reindexing", _SYSTEM, _maintenance.mark_for_reindexing, _POST),
    _bulk("export", _SYSTEM, _export.export, f"{_BULK}export"),
    _bulk("export", _BOTH, _export.export, f"{_BULK}patient-export", ("Patient",)),
    _bulk("export", _INSTANCE, _export.export, f"{_BULK}group-export", ("Group",)),
    _bulk("export-poll-status", _SYSTEM, _export.status, f"{_BULK}export-poll-status", methods=("GET", "DELETE")),
    _bulk("export-file", _SYSTEM, _export.file, f"{_BULK}export-file", methods=_GET),
)


def offered(kind: str, *, exports: bool) -> Iterator[Operation]:
    """The operations on a resource type; `exports` is whether the server exports."""
    return (operation for operation in OPERATIONS if operation.is_offered(kind) and (exports or not operation.exports))


def other_methods(name: str, level: Level, kind: str) -> tuple[str, ...]:
    """The HTTP methods of an operation; empty for an unknown operation."""
    return next((operation.methods for operation in _named(name, level, kind)), ())


def find(name: str, level: Level, kind: str, method: str) -> Operation | None:
    """The operation of a request, `name` with its `$`; None if there is none."""
    return next((operation for operation in _named(name, level, kind) if method in operation.methods), None)


def _named(name: str, level: Level, kind: str) -> Iterator[Operation]:
    return (
        operation
        for operation in OPERATIONS
        if f"${operation.name}" == name and level in operation.levels and operation.is_offered(kind)
    )
