"""Verdicts that another tool's file contains, compared with the verdicts computed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from medagent.core.errors import UserError
from medagent.core.number_formats import counted
from medagent.engine.report import Report
from medagent.engine.scores import Scored

RECORDED = "recorded"
"""The name of the comparison among a report's details."""
_LISTED = 20
_WORDS = {True: "right", False: "wrong"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A unit whose recorded verdict is another one. `reason` explains the verdict computed here."""

    unit: str
    recorded: bool
    here: bool
    reason: str

    @property
    def words(self) -> str:
        """`task5_7 (recorded wrong, here right: magnesium 2.1 …)`."""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.unit} (recorded {_WORDS[self.recorded]}, here {_WORDS[self.here]}{reason})"


@dataclass(frozen=True, slots=True)
class RecordedVerdicts:
    """The comparison of all units with a recorded verdict. `ungraded` of them are not graded here."""

    compared: int
    different: tuple[Difference, ...]
    ungraded: int

    @classmethod
    def of(cls, scores: Sequence[Scored], recorded: Mapping[str, bool]) -> RecordedVerdicts | None:
        """Compare the scores with the verdicts by unit; None if the file contains no verdict."""
        both = [(scored, recorded[scored.unit]) for scored in scores if scored.unit in recorded]
        if not both:
            return None
        graded = [(scored, verdict, right) for scored, verdict in both if (right := _is_right(scored)) is not None]
        different = [
            Difference(scored.unit, verdict, right, _reason(scored))
            for scored, verdict, right in graded
            if right != verdict
        ]
        return cls(len(graded), tuple(different), len(both) - len(graded))

    @property
    def notes(self) -> Iterator[str]:
        """The comparison in a line, with all differences."""
        equal = self.compared - len(self.different)
        line = f"Equal to the recorded verdict in {equal:,} of {self.compared:,}"
        if self.different:
            line += "; different: " + "; ".join(difference.words for difference in self.different[:_LISTED])
        if len(self.different) > _LISTED:
            line += f"; and {len(self.different) - _LISTED:,} more"
        yield line
        if self.ungraded:
            yield f"With a recorded verdict but not graded here: {counted(self.ungraded, 'items')}"

    @property
    def document(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {
            "compared": self.compared,
            "equal": self.compared - len(self.different),
            "ungraded": self.ungraded,
            "different": [asdict(difference) for difference in self.different],
        }


def differs(report: Report) -> bool:
    """Whether a verdict differs from the recorded one. Raises UserError if the report compares none."""
    recorded = report.details.get(RECORDED)
    if recorded is None:
        raise UserError(
            f"{report.folder}: --expect-recorded: no verdicts to compare; the file must contain them, and they are "
            "compared under the published rules only"
        )
    return bool(recorded["different"])


def _is_right(scored: Scored) -> bool | None:
    """Whether a unit is right: its verdict, or the full or no score. None if it is neither, or not graded."""
    if scored.correct is not None:
        return scored.correct
    return {1.0: True, 0.0: False}.get(scored.value) if scored.value is not None else None


def _reason(scored: Scored) -> str:
    """Why a unit is right or wrong."""
    if scored.score is None:
        return ""
    return " ".join((scored.score.because if scored.correct else scored.score.reason).split())
