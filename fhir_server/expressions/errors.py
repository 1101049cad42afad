"""What can go wrong with an expression."""

from __future__ import annotations


class FhirPathError(ValueError):
    """An expression cannot be parsed, or cannot be evaluated for a resource; the text says why."""


class TooCostlyError(FhirPathError):
    """An expression takes more steps than it may, or would build a text that is too long."""
