"""What a run of psb-300 is asked to do, beside what every run with a FHIR session is asked."""

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
    """Which tasks are meant, which patients, and how episodes are graded."""

    dataset: Annotated[str, Option(WHICH, kind="path")] = "synthetic"
    """synthetic; published once it is imported; or a folder of medagent data new --like psb-300."""
    split: Annotated[Split | None, Option(WHICH, kind="value")] = None
    """One split of a set of 30 tasks a type: dev (96 tasks), val (80), id_test (64), or ood (types 5 and 7)."""
    clock: Annotated[AwareDatetime | None, Option(GRADING, metavar="TIME", kind="value")] = None
    """When task1 is graded, e.g. 2026-01-31T12:00:00Z (default: the data set's, or when the run began)."""
    unfinished: Annotated[Unfinished, Option(GRADING, kind="value")] = "empty"
    """An episode without FINISH: empty (counts as [], as published) or wrong (as GRASP counts)."""


class ChartEpisodes(ChartSource, EpisodeSettings):
    """The options of single episodes."""


class GradingSource(ChartSource):
    """Which tasks and charts a run is graded by."""

    charts: Path | None = None
    """The charts as they were before the first episode, in a run over a FHIR server."""


class Psb300Settings(FhirSettings, ChartEpisodes):
    """The options of `medagent run psb-300`."""

    agent: Annotated[str | None, Option(WHO, kind="code")] = None
    """text (a model; the default with --model), reference, nop, constant; or a class of yours, e.g.
    my_agent.py:MyAgent.
    """

    @model_validator(mode="after")
    def _idle_options(self) -> Self:
        """An option that would do nothing beside another one is refused."""
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
    """Charts from a FHIR server's base URL."""
    ehr: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Charts from an NDJSON file of FHIR resources."""
    rules: Annotated[str, Option(GRADING, kind="value")] = "official"
    """official (the score) or fair."""
    side_by_side: Annotated[bool, Option(GRADING, kind="value")] = False
    """Show the totals under the other rules as well."""
    clock: Annotated[AwareDatetime | None, Option(GRADING, metavar="TIME", kind="value")] = None
    """When task1 is graded (default: as the run recorded it)."""
    unfinished: Annotated[Unfinished | None, Option(GRADING, kind="value")] = None
    """How an episode without FINISH counts: empty or wrong (default: as the run recorded it)."""
