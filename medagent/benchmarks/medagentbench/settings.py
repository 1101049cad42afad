"""The options of MedAgentBench, in addition to the options of every benchmark with a FHIR session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, model_validator

from medagent.benchmarks.clinical.settings import GroundsGrading
from medagent.benchmarks.medagentbench.tasks.dataset import is_tasks_file, named
from medagent.core.errors import UserError
from medagent.core.options import ALL_USES, GradeOption, Names, Option, RunOption, Setting
from medagent.core.writing import file_digest
from medagent.engine.settings import WHICH, WHO
from medagent.fhir_episodes.settings import FhirSettings

REPLAY = "replay"
AGENTS = ("text", "reference", "nop", "constant", REPLAY)
GRADING = "MedAgentBench"


class MedAgentBenchSettings(FhirSettings):
    """The options of `medagent run`."""

    agents: ClassVar[tuple[str, ...]] = AGENTS
    version: Annotated[str, Option(WHICH, kind="value")] = "v2"
    """v1 (100 tasks) or v2 (300 tasks)."""
    dataset: Annotated[
        str,
        BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value),
        Option(WHICH, kind="path", for_=ALL_USES),
    ] = "synthetic"
    """synthetic (bundled), official (after you import it), a folder made by medagent data new, or your own task file
    (.json).
    """
    types: Annotated[Names, RunOption(WHICH, "place", key="tasks", metavar="TYPE,TYPE", kind="value")] = ()
    """Only these types, e.g. task1,task5."""
    replay: Annotated[Path | None, RunOption(WHO, "place", hidden=True, kind="path")] = None
    """The recording that the replay agent repeats."""

    @model_validator(mode="after")
    def _can_replay(self) -> MedAgentBenchSettings:
        if self.replayed and self.acts_in_code:
            raise UserError("--agent replay repeats requests, not programs: leave --protocol code out")
        return self

    @property
    def replayed(self) -> bool:
        """Whether the run repeats a recording. It may lack GETs that the recorded agent had sent."""
        return self.agent == REPLAY

    @property
    def tasks_file(self) -> str | None:
        """The user's own task file, if that is the data set."""
        return self.dataset if is_tasks_file(self.dataset) else None

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`.

        A folder is stored with its full path, so that you can grade the run from elsewhere.
        """
        is_file = self.tasks_file is not None
        first = {"version": None if is_file else self.version, "round": self.round}
        return {
            **first,  # the command that continues the run begins with them
            **super().decides(),
            **first,
            "dataset": None if is_file else named(self.dataset) or str(Path(self.dataset).resolve()),
            "replay-digest": file_digest(self.replay) if self.replay else None,
        }

    def places(self) -> dict[str, Setting]:
        return {**super().places(), **({"dataset": self.tasks_file} if self.tasks_file else {})}


class MedAgentBenchGrading(GroundsGrading, MedAgentBenchSettings):
    """The settings by which a finished run or a results file is graded: source of facts, rule set, official grader.

    If no source of facts is named, the data set's key is used.
    """

    tasks: Annotated[Path | None, GradeOption(GRADING, kind="path")] = None
    """The task file, if it is not the one of the bundled data set."""
    key: Annotated[Path | None, GradeOption(GRADING, kind="path")] = None
    """Read the facts from an answer key (made by medagent data key)."""
    base: Annotated[str | None, GradeOption(GRADING, kind="value")] = None
    """The FHIR base in the file's POSTs (default: the run's, otherwise the benchmark's)."""
    rules: Annotated[str, GradeOption(GRADING, kind="value")] = "official"
    """The rule set: official (the score), fair or state."""
    side_by_side: Annotated[bool, GradeOption(GRADING, kind="value")] = False
    """Also show the totals under the other rule sets."""
    official: Annotated[Path | None, GradeOption(GRADING, metavar="FILE.py", kind="path")] = None
    """Your copy of the official refsol.py, to compare its verdicts with medagent's."""
