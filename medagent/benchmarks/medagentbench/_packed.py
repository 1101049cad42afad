"""One task as files that have all that is needed to grade it, and a data set's patients as NDJSON lines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from medagent.benchmarks.medagentbench._grader import TaskGrader
from medagent.benchmarks.medagentbench.facts import OpenFacts
from medagent.benchmarks.medagentbench.items import TaskItem, item_of
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
from medagent.core.errors import UserError
from medagent.fhir_episodes.task import FhirItem
from refsol.files import read_json
from refsol.medagentbench import Facts, KeyEhr, build_key, write_key
from refsol.medagentbench.constants import Constants
from refsol.schema import validator

TASK, KEY = "task.json", "key.json"


class PackedTask(BaseModel):
    """The content of `task.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Task
    constants: Constants


def packed_task(item: TaskItem, facts: Facts) -> Mapping[str, bytes]:
    """The files of a task by name. Its facts are an answer key for this task only. Raises FactsError."""
    constants = item.dataset.constants
    with tempfile.TemporaryDirectory() as aside:
        key = Path(aside) / KEY
        write_key(key, build_key([item.stored.model_dump()], facts, constants))
        packed = PackedTask(task=item.stored, constants=constants)
        return {TASK: packed.model_dump_json(indent=1).encode() + b"\n", KEY: key.read_bytes()}


def unpacked_task(folder: Path) -> tuple[FhirItem, TaskGrader]:
    """Read the item and its grader from these files. Raises UserError."""
    packed = read_json(
        folder / TASK, validator(PackedTask), expected="a task of the export is expected", error=UserError
    )
    source = MedAgentBenchSettings(dataset=str(folder / TASK))
    dataset = Dataset("packed", "packed", (packed.task,), "", folder / TASK, alone=True, fixed=packed.constants)
    facts = OpenFacts(KeyEhr(folder / KEY), "", at_once=True)
    return item_of(packed.task, dataset, source), TaskGrader(source, "official", dataset, facts)


def resource_lines(dataset: Dataset) -> Iterable[bytes]:
    """The patients as lines of NDJSON. Raises UserError if the data set does not have them."""
    if not dataset.bundled and dataset.hospital is None:
        raise UserError(
            f"data set {dataset.name!r} does not contain its patients, and the image needs them; export the bundled "
            "data set or a folder made by `medagent data new`"
        )
    return _lines(dataset)


def _lines(dataset: Dataset) -> Iterable[bytes]:
    if dataset.hospital is not None:
        with dataset.hospital.open("rb") as file:
            yield from file
        return
    from fhir_server.synthetic.bundled import hospital

    for line in hospital():
        yield f"{line.rstrip()}\n".encode()
