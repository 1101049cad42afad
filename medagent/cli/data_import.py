"""`medagent data import`: takes the published data set from a checkout of the official repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def data_import(
    checkout: Annotated[Path, typer.Argument(metavar="DIR", help="A checkout of the official repository.")],
) -> None:
    """Import the published tasks, function list and wording as data set `official`.

    Example: medagent data import ~/src/MedAgentBench
    """
    from medagent.benchmarks.medagentbench.tasks.official import import_official

    folder = import_official(checkout)
    print(f"{folder}: imported. Run it: medagent run --dataset official --fhir http://localhost:8080/fhir/")
