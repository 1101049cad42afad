"""What a run of MedAgentBench is asked to do, beside what every run with a FHIR session is asked."""

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
    """Which tasks are meant, and which patients."""

    version: Annotated[str, Option(WHICH, kind="value")] = "v2"
    """v1 (100 tasks) or v2 (300 tasks)."""
    dataset: Annotated[str, Option(WHICH, kind="path")] = "synthetic"
    """synthetic; official once it is imported; or a folder of medagent data new."""
    tasks_file: Annotated[Path | None, Option(WHICH, "place", kind="path")] = None
    """Your own task file instead of a data set."""

    @property
    def replayed(self) -> bool:
        """Whether the run repeats a recording, which may hold no GET though its agent had read."""
        return False


class TaskEpisodes(TaskSource, EpisodeSettings):
    """The options of single episodes."""


class GradingSource(TaskSource):
    """Which tasks and facts a finished run, or a results file, is graded by."""

    key: Path | None = None
    official: Path | None = None
    """A user's copy of the official grader."""
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
    """text (a model; the default with --model), reference, nop, constant, replay FILE; or a class of yours, e.g.
    my_agent.py:MyAgent.
    """
    replay: Annotated[Path | None, Option(WHO, "place", hidden=True, kind="path")] = None
    """What the replay agent repeats."""

    @model_validator(mode="after")
    def _idle_options(self) -> MedAgentBenchSettings:
        """See `FhirSettings.refuse_idle`."""
        self.refuse_idle(AGENTS)
        idle = {
            "--dataset and --tasks-file cannot both name the tasks": self.tasks_file and self.dataset != "synthetic",
            "--agent replay repeats requests, not programs: leave --protocol code out": self.agent == "replay"
            and self.protocol == "code",
            "--agent replay needs a file to repeat: --agent replay results.json": self.agent == "replay"
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
    """The options of `grade`, `report` and `compare`: the task set, where the facts come from (one place, else the data
    set's key), the rules, and a copy of the official grader to ask as well.
    """

    tasks: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """The task file, where it is not the bundled data set's."""
    dataset: Annotated[str | None, Option(GRADING, kind="path")] = None
    """The data set: synthetic, synthetic@1, official, or a folder of medagent data new."""
    fhir: Annotated[str | None, Option(GRADING, kind="address")] = None
    """Facts from a FHIR server's base URL."""
    ehr: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Facts from an NDJSON file of FHIR resources."""
    key: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Facts from an answer key (medagent data key)."""
    base: Annotated[str | None, Option(GRADING, kind="value")] = None
    """The FHIR base in the file's POSTs; by default the run's, or the benchmark's."""
    rules: Annotated[str, Option(GRADING, kind="value")] = "official"
    """official (the score), fair or state."""
    side_by_side: Annotated[bool, Option(GRADING, kind="value")] = False
    """Show the totals under the other rules as well."""
    official: Annotated[Path | None, Option(GRADING, metavar="FILE.py", kind="path")] = None
    """Your copy of the official refsol.py: its verdicts stand beside those of medagent."""


def _place_or_name(dataset: str) -> str:
    """A data set as `run.json` keeps it: a folder by its whole path, so that the run can be graded from elsewhere."""
    return named(dataset) or str(Path(dataset).resolve())
