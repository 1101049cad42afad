"""The data on this machine: data sets, their patients, and the bundled hospital's file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from medagent.benchmarks.medagentbench.tasks.dataset import DATASETS, VERSIONS, Dataset, dataset_folder, load_dataset
from medagent.core.errors import UserError
from medagent.fhir_data.embedded import EhrFile, bundled_file, imported_file


class _NotBuiltError(Exception):
    """Stops `bundled_file` before it builds the file."""


def present_datasets() -> list[Dataset]:
    """Every version of every data set on this machine. Raises UserError if a file is damaged."""
    return [
        load_dataset(name, version)
        for name in DATASETS
        for version in VERSIONS
        if (dataset_folder(name) / f"test_data_{version}.json").is_file()
    ]


def patients_file(dataset: Dataset, ehr: Path | None = None, report: Callable[[str], None] = lambda _: None) -> EhrFile:
    """The patients of a run: the user's file (`ehr`), the data set's file, or the bundled hospital.

    Raises UserError if the file cannot be read, and for the official data set, whose patients are not bundled.
    """
    own = ehr or dataset.hospital
    if own is not None:
        return imported_file(own, report)
    if dataset.name == "official":
        raise UserError(
            "data set 'official' has its own patients: name their FHIR server with --fhir, or a file of them (NDJSON) "
            "with --ehr"
        )
    return bundled_file(report)


def built_hospital() -> Path | None:
    """The bundled hospital's file, or None if it has not been built yet. Raises UserError."""

    def stop(_: str) -> None:
        raise _NotBuiltError

    try:
        return bundled_file(stop).path
    except _NotBuiltError:
        return None
