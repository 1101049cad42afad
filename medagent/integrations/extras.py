"""Optional packages: if one is missing, the error says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from medagent.core.errors import UserError


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Wraps imports of an extra's packages. Raises UserError if one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("medagent", "refsol", "fhir_server"):
            raise
        raise UserError(f"the package {error.name} is missing: pip install 'medagent[{extra}]'") from None
