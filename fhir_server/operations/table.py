"""The operations that are served: one table, from which requests are routed and `/metadata` is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fhir_server.interactions.context import RequestContext
from fhir_server.operations.everything import everything
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
        return kind in self.types if self.types else bool(kind) or "system" in self.levels


OPERATIONS = (
    Operation(
        "everything",
        ("instance",),
        everything,
        "http://hl7.org/fhir/OperationDefinition/Patient-everything",
        types=("Patient",),
    ),
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
