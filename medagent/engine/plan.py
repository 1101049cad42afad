"""A `Plan` says what a run does: settings that are fixed, data, and stages of units. Whatever can fail, fails while it
is made, before the first call is paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from medagent.core.options import Setting
from medagent.engine.job import Job, Unit
from medagent.engine.report import DataRef
from medagent.engine.rows import Row
from medagent.engine.scores import Item
from medagent.engine.settings import RunSettings

U = TypeVar("U", bound=Unit)
R = TypeVar("R", bound=Row)
JOURNAL = "episodes.jsonl"


@dataclass(frozen=True, slots=True)
class Stage(Generic[U, R]):
    """Units that are carried out by one job into one journal. `units` is asked when the stage begins, so that a later
    stage may follow from what an earlier one left in the folder.
    """

    job: Job[U, R]
    units: Callable[[], Sequence[U]]
    journal: str = JOURNAL
    title: str = ""
    """What is said when it begins."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. `decides` is what cannot change in its folder; `prepare` writes what the stages need there."""

    settings: RunSettings
    folder: Path
    data: DataRef
    stages: Sequence[Stage[Any, Any]]
    items: Sequence[Item]
    """The benchmark's items, whichever of them are selected."""
    source: Any = None
    """What names the data for grading, if the settings do not."""
    decides: dict[str, Setting] = field(default_factory=dict)
    command: str = "medagent run"
    repeat: str = ""
    """What continues the run, where that is not its command with its settings."""
    prepare: Callable[[], None] = lambda: None
    warnings: Sequence[str] = ()
