"""The errors of refsol. They share a base class, so a caller can catch all errors that a user can fix."""

from __future__ import annotations

from typing import Literal


class Lines(str):
    """The text of an error that has several lines, such as one per problem. Other texts are one line: a line break in
    them comes from a file.
    """


class RefsolError(Exception):
    """Base class of refsol's errors. The text contains one line per problem that the user can fix."""


class InputError(RefsolError):
    """A file or value passed by the user cannot be used. The text says which file and place, and what to do."""


class FactsError(RefsolError):
    """The facts for a verdict (from the EHR or an answer key) could not be read. Nothing was graded."""


FaultKind = Literal[
    "another unit",
    "no unit",
    "no value",
    "no time",
    "no time zone",
    "day too coarse",
    "no birth date",
    "no sex",
    "several values at once",
    "no drug's name",
    "no patient",
    "the rule's own reason",
]
"""Why a rule cannot rule on a chart."""


class DataFault(ValueError):
    """The chart lacks what the rule needs, so no verdict can rest on it. The text gives the resource and the reason.

    `reason` is what may be shown where the chart itself may not: the kind and, for a unit, which one it is.
    """

    def __init__(self, text: str, kind: FaultKind = "the rule's own reason", detail: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.reason = f"{kind} ({detail})" if detail else str(kind)


class ReplyFault(ValueError):
    """A post cannot be read. The text says why; `check` is the name of the failed check."""

    def __init__(self, text: str, check: str = "readable") -> None:
        super().__init__(text)
        self.check = check
