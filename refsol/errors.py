"""The errors of refsol: one root, so that a caller can catch everything that a user can mend."""

from __future__ import annotations


class RefsolError(Exception):
    """Root of refsol's errors; its text says what a user can act on, one line a problem."""


class InputError(RefsolError):
    """A file or value handed in cannot be used: the text names the file, the place and the way on."""


class FactsError(RefsolError):
    """The facts a verdict needs (the EHR, an answer key) could not be read: nothing was graded."""
