"""The errors of refsol. They share a base class, so a caller can catch all errors that a user can fix."""

from __future__ import annotations


class RefsolError(Exception):
    """Base class of refsol's errors. The text contains one line per problem that the user can fix."""


class InputError(RefsolError):
    """A file or value passed by the user cannot be used. The text says which file and place, and what to do."""


class FactsError(RefsolError):
    """The facts for a verdict (from the EHR or an answer key) could not be read. Nothing was graded."""


class DataFault(ValueError):
    """The chart lacks what the rule needs, so no verdict can rest on it. The text gives the resource and the reason."""


class ReplyFault(ValueError):
    """A post cannot be read. The text says why; `check` is the name of the failed check."""

    def __init__(self, text: str, check: str = "readable") -> None:
        super().__init__(text)
        self.check = check
