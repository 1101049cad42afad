"""The options of a file of task types, in addition to those of every benchmark with a FHIR session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AwareDatetime

from medagent.core.options import ALL_USES, Option, Setting
from medagent.engine.settings import WHICH, Count
from medagent.fhir_episodes.settings import FhirSettings

AGENTS = ("text", "reference", "nop", "constant")
PER_TYPE = 10


class WardSettings(FhirSettings):
    """The options of `medagent run FILE.py`."""

    agents: ClassVar[tuple[str, ...]] = AGENTS
    dataset: Annotated[Path | None, Option(WHICH, kind="path", for_=ALL_USES)] = None
    """A folder made by medagent data new --from FILE.py (default: items dealt from the patients' data)."""
    per_type: Annotated[Count | None, Option(WHICH, kind="value")] = None
    """The number of items of each type, half of them with something due where the charts allow it (default: 10, or all
    of the data set).
    """
    now: Annotated[AwareDatetime | None, Option(WHICH, metavar="TIME", kind="value", for_=ALL_USES)] = None
    """The time of the tasks, e.g. 2024-03-05T14:00:00Z (default: the data set's, or the newest time in the data)."""

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`. A data set has its full path, so that you can grade the run from elsewhere."""
        dataset = None if self.dataset is None else str(self.dataset.resolve())
        now = None if self.now is None else self.now.isoformat()
        return {**super().decides(), "dataset": dataset, "now": now}


class WardGrading(WardSettings):
    """The settings by which a finished run is graded."""

    tasks: Path | None = None
    """The items that the run's folder lists."""
