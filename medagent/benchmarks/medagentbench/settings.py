"""The options of MedAgentBench, in addition to those of every benchmark with a FHIR session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import model_validator

from medagent.benchmarks.medagentbench.tasks.dataset import named
from medagent.core.errors import UserError
from medagent.core.options import Names, Option, Setting
from medagent.engine.benchmark import GradeOptions
from medagent.engine.settings import WHICH, WHO
from medagent.fhir_episodes.settings import DataSource, EpisodeSettings, FhirSettings

REPLAY = "replay"
AGENTS = ("text", "reference", "nop", "constant", REPLAY)
GRADING = "MedAgentBench"


class TaskSource(DataSource):
    """The options that select tasks and patients."""

    version: Annotated[str, Option(WHICH, kind="value")] = "v2"
    """v1 (100 tasks) or v2 (300 tasks)."""
    dataset: Annotated[str, Option(WHICH, kind="path")] = "synthetic"
    """synthetic (bundled), official (after you import it), or a folder made by medagent data new."""
    tasks_file: Annotated[Path | None, Option(WHICH, "place", kind="path")] = None
    """Your own task file instead of a data set."""

    @property
    def replayed(self) -> bool:
        """Whether the run repeats a recording. It may lack GETs that the recorded agent had sent."""
        return False


class TaskEpisodes(TaskSource, EpisodeSettings):
    """The options of `medagent.episode`."""


class GradingSource(TaskSource):
    """The tasks and facts by which a finished run or a results file is graded."""

    key: Path | None = None
    official: Path | None = None
    """The user's copy of the official grader."""
    of_replay: bool = False
    """Whether the run was a replay."""

    @property
    def replayed(self) -> bool:
        """See `TaskSource.replayed`."""
        return self.of_replay


class MedAgentBenchSettings(FhirSettings, TaskEpisodes):
    """The options of `medagent run`."""

    types: Annotated[Names, Option(WHICH, "place", flag="tasks", metavar="TYPE,TYPE", kind="value")] = ()
    """Only these types, e.g. task1,task5."""
    agent: Annotated[str | None, Option(WHO, kind="code")] = None
    """text (a model; the default with --model), reference, nop, constant, replay FILE, or your own class, e.g.
    my_agent.py:MyAgent.
    """
    replay: Annotated[Path | None, Option(WHO, "place", hidden=True, kind="path")] = None
    """The recording that the replay agent repeats."""

    @model_validator(mode="after")
    def _idle_options(self) -> MedAgentBenchSettings:
        """See `FhirSettings.refuse_idle`."""
        self.refuse_idle(AGENTS)
        idle = {
            "--dataset and --tasks-file both name the tasks: leave one of them out": self.tasks_file
            and self.dataset != "synthetic",
            "--agent replay repeats requests, not programs: leave --protocol code out": self.agent == "replay"
            and self.protocol == "code",
            "--agent replay needs a file, e.g. --agent replay results.json": self.agent == "replay"
            and self.replay is None,
        }
        for problem, applies in idle.items():
            if applies:
                raise UserError(problem)
        return self

    @property
    def replayed(self) -> bool:
        """See `TaskSource.replayed`."""
        return self.agent == REPLAY

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`."""
        own = self.tasks_file is not None
        first = {"version": None if own else self.version, "round": self.round}
        decides = {**super().decides(), "dataset": None if own else _place_or_name(self.dataset)}
        return {**first, **{name: value for name, value in decides.items() if name not in first}}


class MedAgentBenchGrading(GradeOptions):
    """The options of `grade`, `report` and `compare`: task set, source of facts, rule set, and official grader.

    If no source of facts is named, the data set's key is used.
    """

    tasks: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """The task file, if it is not the one of the bundled data set."""
    dataset: Annotated[str | None, Option(GRADING, kind="path")] = None
    """The data set: synthetic, synthetic@1, official, or a folder made by medagent data new."""
    fhir: Annotated[str | None, Option(GRADING, kind="address")] = None
    """Read the facts from the FHIR server with this base URL."""
    ehr: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Read the facts from an NDJSON file of FHIR resources."""
    key: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Read the facts from an answer key (made by medagent data key)."""
    base: Annotated[str | None, Option(GRADING, kind="value")] = None
    """The FHIR base in the file's POSTs (default: the run's, otherwise the benchmark's)."""
    rules: Annotated[str, Option(GRADING, kind="value")] = "official"
    """The rule set: official (the score), fair or state."""
    side_by_side: Annotated[bool, Option(GRADING, kind="value")] = False
    """Also show the totals under the other rule sets."""
    official: Annotated[Path | None, Option(GRADING, metavar="FILE.py", kind="path")] = None
    """Your copy of the official refsol.py, to compare its verdicts with those of medagent."""


def _place_or_name(dataset: str) -> str:
    """A data set as `run.json` stores it: a folder by its full path, so that you can grade the run from elsewhere."""
    return named(dataset) or str(Path(dataset).resolve())
