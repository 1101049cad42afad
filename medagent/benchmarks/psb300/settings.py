"""The options of psb-300, in addition to those of every benchmark with a FHIR session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, model_validator

from medagent.benchmarks.psb300.tasks import SETS, Split
from medagent.core.options import Option, Setting
from medagent.engine.benchmark import GradeOptions
from medagent.engine.settings import WHICH, WHO
from medagent.fhir_episodes.settings import DataSource, EpisodeSettings, FhirSettings

AGENTS = ("text", "reference", "nop", "constant")
GRADING = "Grading"
Unfinished = Literal["empty", "wrong"]


class ChartSource(DataSource):
    """The options that select tasks and patients, and how episodes are graded."""

    dataset: Annotated[str, Option(WHICH, kind="path")] = "synthetic"
    """synthetic (bundled), published (after you import it), or a folder made by medagent data new --like psb-300."""
    split: Annotated[Split | None, Option(WHICH, kind="value")] = None
    """One split of a set with 30 tasks per type: dev (96 tasks), val (80), id_test (64), or ood (types 5 and 7)."""
    clock: Annotated[AwareDatetime | None, Option(GRADING, metavar="TIME", kind="value")] = None
    """The time of grading for task1, e.g. 2026-01-31T12:00:00Z (default: the data set's, otherwise the run's start)."""
    unfinished: Annotated[Unfinished, Option(GRADING, kind="value")] = "empty"
    """How to grade an episode without FINISH: empty (as the answer [], as published) or wrong (as in GRASP)."""


class ChartEpisodes(ChartSource, EpisodeSettings):
    """The options of `medagent.episode`."""


class GradingSource(ChartSource):
    """The tasks and charts by which a run is graded."""

    charts: Path | None = None
    """The charts before the first episode, in a run on a FHIR server."""


class Psb300Settings(FhirSettings, ChartEpisodes):
    """The options of `medagent run psb-300`."""

    agent: Annotated[str | None, Option(WHO, kind="code")] = None
    """text (a model; the default with --model), reference, nop, constant, or your own class, e.g.
    my_agent.py:MyAgent.
    """

    @model_validator(mode="after")
    def _idle_options(self) -> Self:
        """Refuse an option that has no effect with the chosen agent."""
        self.refuse_idle(AGENTS, by_tools=("reference",))
        return self

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`."""
        decides = super().decides()
        decides["dataset"] = self.dataset if self.dataset in SETS else str(Path(self.dataset).resolve())
        if self.agent == "reference" and self.protocol == "tools":
            decides["protocol"] = self.protocol
        decides["clock"] = None if self.clock is None else self.clock.isoformat()
        return decides


class Psb300Grading(GradeOptions):
    """The options of `grade`, `report` and `compare`."""

    fhir: Annotated[str | None, Option(GRADING, kind="address")] = None
    """Read the charts from the FHIR server with this base URL."""
    ehr: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Read the charts from an NDJSON file of FHIR resources."""
    rules: Annotated[str, Option(GRADING, kind="value")] = "official"
    """The rule set: official (the score) or fair."""
    side_by_side: Annotated[bool, Option(GRADING, kind="value")] = False
    """Also show the totals under the other rule set."""
    clock: Annotated[AwareDatetime | None, Option(GRADING, metavar="TIME", kind="value")] = None
    """The time of grading for task1 (default: as recorded in the run)."""
    unfinished: Annotated[Unfinished | None, Option(GRADING, kind="value")] = None
    """How to grade an episode without FINISH: empty or wrong (default: as recorded in the run)."""
