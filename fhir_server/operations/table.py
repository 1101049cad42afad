"""The operations that are served: one table, from which requests are routed and `/metadata` is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fhir_server.interactions.context import RequestContext
from fhir_server.operations.everything import everything
from fhir_server.operations.meta import meta, meta_add, meta_delete, resource_counts
from fhir_server.operations.validate import validate
from fhir_server.wire.http import Response

Level: TypeAlias = Literal["system", "type", "instance"]
Handler: TypeAlias = Callable[[RequestContext, str, str], Response]
"""Answers a request, given the resource type and id; both are empty at system level, the id at type level."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its name without `$`, where it is offered (no types: for all), and what `/metadata` calls it."""

    name: str
    levels: tuple[Level, ...]
    handler: Handler
    definition: str
    types: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET", "HEAD", "POST")

    def is_offered(self, kind: str) -> bool:
        """Whether the operation is there for a resource type (empty: for the whole server)."""
        if self.types:
            return kind in self.types
        return self.levels != ("system",) if kind else "system" in self.levels


_CORE = "http://hl7.org/fhir/OperationDefinition/"
OPERATIONS = (
    Operation(
        "everything",
        ("instance",),
        everything,
        f"{_CORE}Patient-everything",
        types=("Patient",),
    ),
    Operation("validate", ("type", "instance"), validate, f"{_CORE}Resource-validate"),
    Operation("meta", ("system", "type", "instance"), meta, f"{_CORE}Resource-meta", methods=("GET", "HEAD")),
    Operation("meta-add", ("instance",), meta_add, f"{_CORE}Resource-meta-add", methods=("POST",)),
    Operation("meta-delete", ("instance",), meta_delete, f"{_CORE}Resource-meta-delete", methods=("POST",)),
    Operation("get-resource-counts", ("system",), resource_counts, f"{_CORE}Server-get-resource-counts"),
)


def offered(kind: str) -> Iterator[Operation]:
    """The operations on a resource type."""
    return (operation for operation in OPERATIONS if operation.is_offered(kind))


def find(name: str, level: Level, kind: str, method: str) -> Operation | None:
    """The operation that a request asks for, `name` with its `$`; None where there is none."""
    for operation in OPERATIONS:
        fits = f"${operation.name}" == name and level in operation.levels and method in operation.methods
        if fits and operation.is_offered(kind):
            return operation
    return None
