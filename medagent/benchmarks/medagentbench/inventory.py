"""What data there is on this machine: the data sets, their patients, and the bundled hospital's file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from medagent.benchmarks.medagentbench.tasks.dataset import DATASETS, VERSIONS, Dataset, dataset_folder, load_dataset
from medagent.core.errors import UserError
from medagent.fhir_data.embedded import EhrFile, bundled_file, imported_file


class _NotBuiltError(Exception):
    """Ends `bundled_file` where it would start to build."""


def present_datasets() -> list[Dataset]:
    """Every version of every data set that is here. Raises UserError for one whose file is damaged."""
    return [
        load_dataset(name, version)
        for name in DATASETS
        for version in VERSIONS
        if (dataset_folder(name) / f"test_data_{version}.json").is_file()
    ]


def patients_file(dataset: Dataset, ehr: Path | None = None, report: Callable[[str], None] = lambda _: None) -> EhrFile:
    """The patients of a run: data of the user's own (`ehr`), the data set's, or the bundled hospital's.

    Raises UserError where they cannot be read, or where the data set has patients that are not here.
    """
    own = ehr or dataset.hospital
    if own is not None:
        return imported_file(own, report)
    if dataset.name == "official":
        raise UserError(
            "data set 'official' is about patients of its own: for a run name their FHIR server with --fhir, or their "
            "data (NDJSON) with --ehr"
        )
    return bundled_file(report)


def built_hospital() -> Path | None:
    """The bundled hospital's file where it is built and sound; nothing is built. Raises UserError."""

    def stop(_: str) -> None:
        raise _NotBuiltError

    try:
        return bundled_file(stop).path
    except _NotBuiltError:
        return None
