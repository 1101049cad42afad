"""Functions whose modules are loaded by their first call: a start need not wait for what few requests need."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

Result = TypeVar("Result")


def late(place: str, returns: type[Result]) -> Callable[..., Result]:
    """The function at `module:name` below this package, with the type that it `returns`.

    It is kept: an import statement in each call would take 2 µs.
    """
    found: Callable[..., Result] | None = None

    def call(*arguments: object) -> Result:
        nonlocal found
        if found is None:
            module, _, name = place.partition(":")
            found = getattr(import_module(f"fhir_server.{module}"), name)
            assert found is not None
        return found(*arguments)

    return call
