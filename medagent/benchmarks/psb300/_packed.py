"""One task as files that have all that is needed to grade it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict

from medagent.benchmarks.psb300._charts import CHARTS, OpenCharts
from medagent.benchmarks.psb300._figures import Grading
from medagent.benchmarks.psb300._grader import ChartGrader
from medagent.benchmarks.psb300._items import ChartItem, item_of
from medagent.benchmarks.psb300.settings import Unfinished
from medagent.benchmarks.psb300.tasks import Psb300Manifest, Task, TaskSet
from medagent.core.errors import UserError
from medagent.core.writing import file_digest
from refsol.clinical.twins import changed
from refsol.files import json_object, read_json
from refsol.psb300 import Constants, StoredFacts, save
from refsol.schema import validator

TASK = "task.json"


class PackedTask(BaseModel):
    """The content of `task.json`. `cut_off` is None if the cut-off is not applied."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Task
    now: AwareDatetime
    clock: AwareDatetime
    cut_off: AwareDatetime | None
    unfinished: Unfinished


def packed_task(item: ChartItem, charts: OpenCharts, grading: Grading) -> Mapping[str, bytes]:
    """The files of a task by name. They have only the chart of its patient. Raises FactsError."""
    constants = charts.constants
    packed = PackedTask(
        task=item.stored.alone,
        now=constants.default_now,
        clock=grading.clock,
        cut_off=constants.cut_off,
        unfinished=grading.unfinished,
    )
    saved = save([item.stored.model_dump()], changed(charts.facts, item.stored.change))
    return {TASK: packed.model_dump_json(indent=1).encode() + b"\n", CHARTS: json.dumps(saved).encode() + b"\n"}


def unpacked_task(folder: Path) -> tuple[ChartItem, ChartGrader]:
    """Read the item and its grader from these files. Raises UserError."""
    packed = read_json(
        folder / TASK, validator(PackedTask), expected="a task of the export is expected", error=UserError
    )
    manifest = Psb300Manifest(name="packed", now=packed.now, clock=packed.clock, cut_off=packed.cut_off, files={})
    tasks = TaskSet("packed", None, (packed.task,), "", folder, manifest)
    document = read_json(folder / CHARTS, json_object, expected="the charts of a task are expected", error=UserError)
    charts = OpenCharts(StoredFacts(document), Constants(packed.cut_off, packed.now))
    grading = Grading("official", packed.clock, packed.unfinished)
    return item_of(packed.task, packed.now), ChartGrader(
        tasks, lambda: charts, lambda: file_digest(folder / CHARTS), grading
    )
