"""The figures that others published for the official tasks, from `published.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.reports.published import PublishedSource, published_sources

_FILE = Path(__file__).with_name("published.toml")


def published_of(dataset: Dataset) -> Sequence[PublishedSource]:
    """The published sources for a data set. Empty unless it is the official one."""
    return [one for one in published_sources(_FILE) if one.version == dataset.official_version]
