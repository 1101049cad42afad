"""Whether a right item is *grounded*, because its agent could know the answer, or right without reading.

`refsol.clinical.known` decides it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Grounds:
    """`grounded` is True for a right item whose agent could know the answer, and False for any other graded item. It is
    None if nothing has to be read, nothing was graded, or it is unknown.

    `reading` is what the agent could not know, or why `grounded` is None. `kind` says the same in general: unlike
    `reading`, it never contains values, times or ids of a chart, or URLs.
    """

    grounded: bool | None
    reading: str = ""
    kind: str = ""

    @property
    def without_data(self) -> Grounds:
        """The grounds as a run with patient data stores them."""
        return replace(self, reading=self.kind)


NO_READING = Grounds(None, "needs no reading", "needs no reading")
"""The task's text has everything."""
UNKNOWN = Grounds(None, "unknown", "unknown")
"""No transcript with reads is stored."""
NOT_GRADED = Grounds(None)
