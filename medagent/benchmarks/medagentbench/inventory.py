"""What data there is on this machine: the data sets, and the bundled hospital's file."""

from __future__ import annotations

from pathlib import Path

from medagent.benchmarks.medagentbench.tasks.dataset import DATASETS, VERSIONS, Dataset, dataset_folder, load_dataset
from medagent.fhir_data.embedded import bundled_file


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


def built_hospital() -> Path | None:
    """The bundled hospital's file where it is built and sound; nothing is built. Raises UserError."""

    def stop(_: str) -> None:
        raise _NotBuiltError

    try:
        return bundled_file(stop).path
    except _NotBuiltError:
        return None
