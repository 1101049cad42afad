"""The options of a benchmark of task types, in addition to the options of every benchmark with a FHIR session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field

from medagent.core.options import ALL_USES, GradeOption, Option, Setting
from medagent.engine.settings import WHICH, Count
from medagent.fhir_episodes.settings import FhirSettings

AGENTS: tuple[str, ...] = ("text", "reference", "nop", "constant")
PER_TYPE = 10


class ClinicalSettings(FhirSettings):
    """The options of `medagent run FILE.py`, and of an installed benchmark of task types."""

    agents: ClassVar[tuple[str, ...]] = AGENTS
    dataset: Annotated[Path | None, Option(WHICH, kind="path", for_=ALL_USES)] = None
    """A folder made by medagent data new: its tasks, if they are of this benchmark or file, otherwise only its patients
    (default: the bundled hospital's patients).
    """
    per_type: Annotated[Count | None, Option(WHICH, kind="value")] = None
    """The number of items of each type, half of them with something due where the charts allow it (default: 10, or all
    of the data set).
    """
    now: Annotated[AwareDatetime | None, Option(WHICH, metavar="TIME", kind="value", for_=ALL_USES)] = None
    """The time of the tasks, e.g. 2024-03-05T14:00:00Z (default: the data set's, or the newest time in the data)."""

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`.

        A data set is stored with its full path, so that you can grade the run from elsewhere.
        """
        dataset = None if self.dataset is None else str(self.dataset.resolve())
        now = None if self.now is None else self.now.isoformat()
        return {**super().decides(), "dataset": dataset, "now": now}


SERVER = "A hospital's own server"


class HospitalSettings(ClinicalSettings):
    """The options of `medagent data new` about the patients."""

    patients: Annotated[Count, Option("", kind="value", without="patient_ids group ehr")] = 100
    """Number of patients."""
    fhir: Annotated[str | None, Option(SERVER, kind="address", metavar="URL")] = None
    """With --from, or --like and an installed benchmark: the tasks are about patients of this FHIR server."""
    patient_ids: Annotated[Path | None, Option(SERVER, kind="path", metavar="FILE", needs="fhir", without="group")] = (
        None
    )
    """The patients: one id of a Patient per line (default: the first living ones, see --patients)."""
    group: Annotated[str | None, Option(SERVER, kind="value", metavar="ID", needs="fhir")] = None
    """The patients: the members of a Group."""
    now: Annotated[AwareDatetime | None, Option(SERVER, metavar="TIME", kind="value", needs="fhir")] = None
    """The time of the tasks, e.g. 2024-03-05T14:00:00Z (default: the present time)."""
    id_system: Annotated[str | None, Option(SERVER, metavar="URI", kind="value", needs="fhir")] = None
    """Texts show the patient's identifier of this system instead of the id of the Patient."""
    concurrency: Annotated[Count, Option(SERVER, "effort", kind="value", needs="fhir")] = 4
    """The most patients that are read at once."""
    fhir_header: Annotated[list[str], Option(SERVER, "effort", kind="secret", needs="fhir")] = Field(
        default_factory=list
    )
    """'Name: value', a header for the server. For a bearer token, set MEDAGENT_FHIR_TOKEN."""
    insecure_http: Annotated[bool, Option(SERVER, "effort", kind="address", needs="fhir")] = False
    """Send a token over plain HTTP to another machine, where it can be read on the way."""
    ca_file: Annotated[Path | None, Option(SERVER, "place", kind="path", needs="fhir")] = None
    """Certificates to trust for the server."""


class GroundsGrading(FhirSettings):
    """What decides whether grading computes `grounded`."""

    no_grounds: Annotated[bool, GradeOption("Grading", kind="value")] = False
    """Leave out whether agents had read what decides, the slowest part of grading."""


class ClinicalGrading(GroundsGrading, ClinicalSettings):
    """The settings by which a finished run is graded."""

    tasks: Path | None = None
    """The items that the run's folder lists."""
