"""How results of MedAgentBench are graded anew: the options of `grade`, `report` and `compare`, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from medagent.core.options import Option

GRADING = "MedAgentBench"


class Wanted(BaseModel):
    """The task set, where the facts come from (one place, else the data set's key), the rules, and a copy of the
    official grader to ask as well.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tasks: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """The task file, where it is not the bundled data set's."""
    dataset: Annotated[str | None, Option(GRADING, kind="path")] = None
    """The data set: synthetic, synthetic@1, official, or a folder of medagent data new."""
    fhir: Annotated[str | None, Option(GRADING, kind="address")] = None
    """Facts from a FHIR server's base URL."""
    ehr: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Facts from an NDJSON file of FHIR resources."""
    key: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """Facts from an answer key (medagent key build)."""
    base: Annotated[str | None, Option(GRADING, kind="value")] = None
    """The FHIR base in the file's POSTs; by default the run's, or the benchmark's."""
    rules: Annotated[str, Option(GRADING, kind="value")] = "official"
    """official (the score), fair or state."""
    side_by_side: Annotated[bool, Option(GRADING, kind="value")] = False
    """Show the totals under the other rules as well."""
    official: Annotated[Path | None, Option(GRADING, metavar="FILE.py", kind="code")] = None
    """Your copy of the official refsol.py: its verdicts stand beside those of medagent."""
