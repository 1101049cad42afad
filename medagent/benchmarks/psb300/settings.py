"""The options of psb-300, in addition to the options of every benchmark with a FHIR session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime

from medagent.benchmarks.clinical.settings import GroundsGrading
from medagent.benchmarks.psb300.tasks import SETS, PsbSplit
from medagent.core.options import ALL_USES, GradeOption, Option, Setting
from medagent.engine.settings import WHICH
from medagent.fhir_episodes.settings import FhirSettings

AGENTS = ("text", "reference", "nop", "constant")
GRADING = "Grading"
Unfinished = Literal["empty", "wrong"]


class Psb300Settings(FhirSettings):
    """The options of `medagent run psb-300`."""

    agents: ClassVar[tuple[str, ...]] = AGENTS
    dataset: Annotated[str, Option(WHICH, kind="path")] = "synthetic"
    """synthetic (bundled), published (after you import it), or a folder made by medagent data new --like psb-300."""
    split: Annotated[PsbSplit | None, Option(WHICH, kind="value")] = None
    """One split of a set with 30 tasks per type: dev (96 tasks), val (80), id_test (64), or ood (types 5 and 7)."""
    clock: Annotated[
        AwareDatetime | None,
        Option(GRADING, metavar="TIME", kind="value", for_=ALL_USES),
    ] = None
    """The time of grading for task1, e.g. 2026-01-31T12:00:00Z (default: the data set's, otherwise the run's start)."""
    unfinished: Annotated[Unfinished, Option(GRADING, kind="value", for_=ALL_USES)] = "empty"
    """How to grade an episode without FINISH: empty (as the answer [], as published) or wrong (as in GRASP)."""

    def decides(self) -> dict[str, Setting]:
        decides = super().decides()
        decides["dataset"] = self.dataset if self.dataset in SETS else str(Path(self.dataset).resolve())
        decides["clock"] = None if self.clock is None else self.clock.isoformat()
        return decides


class Psb300Grading(GroundsGrading, Psb300Settings):
    """The settings by which a finished run is graded."""

    rules: Annotated[str, GradeOption(GRADING, kind="value")] = "official"
    """The rule set: official (the score) or fair."""
    side_by_side: Annotated[bool, GradeOption(GRADING, kind="value")] = False
    """Also show the totals under the other rule set."""
    charts: Path | None = None
    """The charts before the first episode, in a run on a FHIR server."""
