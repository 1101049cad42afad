"""Optional packages: a missing one is a line that says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from medagent.core.errors import UserError


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports of an extra's packages. Raises UserError where one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("medagent", "refsol", "fhir_server"):
            raise
        raise UserError(f"this needs the package {error.name}: pip install 'medagent[{extra}]'") from None
