"""What can be wrong with a chart or a reply."""

from __future__ import annotations


class DataFault(ValueError):
    """The chart lacks what the rule needs, so no verdict can rest on it. The text names the resource and the reason."""


class ReplyFault(ValueError):
    """A post cannot be read. The text says why; `check` is the name of the failed check."""

    def __init__(self, text: str, check: str = "readable") -> None:
        super().__init__(text)
        self.check = check
