"""A `Plan` describes a run: fixed settings, data, and stages of units.

Errors in these are raised while the plan is made, before the first paid call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from medagent.core.options import Setting
from medagent.engine.job import Job, U
from medagent.engine.report import DataRef
from medagent.engine.rows import R
from medagent.engine.scores import Item
from medagent.engine.settings import RunSettings

JOURNAL = "episodes.jsonl"


@dataclass(frozen=True, slots=True)
class Stage(Generic[U, R]):
    """Units that one job runs, with their rows in one journal. `units` is called when the stage starts, so a stage can
    depend on the files of an earlier one.
    """

    job: Job[U, R]
    units: Callable[[], Sequence[U]]
    journal: str = JOURNAL
    title: str = ""
    """The message at its start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. `decides` are the settings that cannot change in its folder. `prepare` writes the files that the stages
    need there.
    """

    settings: RunSettings
    folder: Path
    data: DataRef
    stages: Sequence[Stage[Any, Any]]
    items: Sequence[Item]
    """All items of the benchmark, selected or not."""
    source: Any = None
    """The object that names the data for grading, if the settings do not."""
    decides: dict[str, Setting] = field(default_factory=dict)
    command: str = "medagent run"
    repeat: str = ""
    """The command that continues the run, if it is not `command` with the settings."""
    prepare: Callable[[], None] = lambda: None
    warnings: Sequence[str] = ()
