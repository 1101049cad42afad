"""Writes tasks as folders that Harbor runs: task.toml, instruction.md, environment/, solution/, tests/.

`environment/` is the same in all folders, so that an image is built once; its large files are hard links where the file
system has them. Facts lie in `tests/` alone, those of one task in each. `solution/` has what the reference agent did in
a run made for it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter

from medagent.api import load_run, run_sync
from medagent.benchmarks.medagentbench.prompts.protocol import load_protocol
from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task, load_dataset, select
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.core.scrub import safe_name
from medagent.integrations.harbor.verify import KEY, TASK, GradedTask
from medagent.integrations.harbor.wheel import write_wheel
from medagent.models.wording import fill
from refsol.medagentbench import Facts, build_key, write_key
from refsol.medagentbench.constants import PUBLISHED

FILES = Path(__file__).parent / "files"
PATIENTS = "patients.ndjson.gz"


@dataclass(frozen=True, slots=True)
class Exported:
    """How many folders were written, and the tasks among them that the reference agent does not get right: these have
    no solution/.
    """

    tasks: int
    unsolved: Sequence[str]


def export_harbor(folder: Path, given: Mapping[str, Any]) -> Exported:
    """Write a folder a task into a new or empty folder; `given` are the options of a run that say which tasks.

    All of them are written, or none. Raises UserError, InputError.
    """
    settings = checked(MedAgentBenchSettings, given)
    dataset = load_dataset(settings.dataset, settings.version)
    if not dataset.bundled and dataset.hospital is None:
        raise UserError(
            f"data set {settings.dataset!r}: its patients are not here, and an image needs them; export the bundled "
            "set or a folder of `medagent data new`"
        )
    tasks = select(dataset, settings.types, settings.ids, settings.limit, settings.per_type)
    facts = grading.facts(dataset, fhir=None, ehr=None, key=None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder}: is not empty; name a new folder")
        acts = _reference_acts(given)
        with TemporaryDirectory(dir=folder, prefix=".") as aside:
            environment = _environment(Path(aside), dataset)
            written = [Path(aside) / "tasks" / safe_name(task.id) for task in tasks]
            for task, path in zip(tasks, written, strict=True):
                _write(path, task, dataset, facts, environment, acts.get(task.id))
            for path in written:
                path.rename(folder / path.name)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return Exported(len(tasks), [task.id for task in tasks if task.id not in acts])


def _reference_acts(given: Mapping[str, Any]) -> dict[str, list[str]]:
    """What the reference agent did in each task that it gets right, where its POSTs are carried out."""
    with TemporaryDirectory() as aside:
        report = run_sync("medagentbench", **given, agent="reference", writes="execute", results_dir=Path(aside))
        right = {item.item for item in report.items if item.correct}
        rows: Iterable[Any] = load_run(Path(aside) / report.folder).rows()
        return {
            row.task_id: [turn.content for turn in row.transcript if turn.role == "agent"]
            for row in rows
            if row.task_id in right
        }


def _environment(folder: Path, dataset: Dataset) -> list[Path]:
    """The files of environment/: Dockerfile, wheel and patients."""
    patients = folder / PATIENTS
    with patients.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        packed.writelines(_patients(dataset))
    wheel = write_wheel(folder)
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(_filled("Dockerfile", wheel=wheel.name, patients=PATIENTS), encoding="utf-8")
    return [dockerfile, wheel, patients]


def _patients(dataset: Dataset) -> Iterable[bytes]:
    if dataset.hospital is not None:
        with dataset.hospital.open("rb") as file:
            yield from file
        return
    from fhir_server.synthetic.bundled import hospital

    for line in hospital():
        yield f"{line.rstrip()}\n".encode()


def _write(
    folder: Path, task: Task, dataset: Dataset, facts: Facts, environment: Sequence[Path], acts: list[str] | None
) -> None:
    for name in ("environment", "tests", *(["solution"] if acts else [])):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(_task_toml(task, dataset), encoding="utf-8")
    (folder / "instruction.md").write_text(_instruction(task, dataset), encoding="utf-8")
    for file in environment:
        _same(file, folder / "environment" / file.name)
    graded = TypeAdapter(GradedTask).dump_json(GradedTask(task=task, constants=dataset.constants), indent=1)
    (folder / "tests" / TASK).write_bytes(graded + b"\n")
    write_key(folder / "tests" / KEY, build_key([task.model_dump()], facts, dataset.constants))
    _script(folder / "tests" / "test.sh")
    if acts:
        (folder / "solution" / "acts.json").write_text(json.dumps(acts, ensure_ascii=False, indent=1), "utf-8")
        _script(folder / "solution" / "solve.sh")
        shutil.copyfile(FILES / "solve.py", folder / "solution" / "solve.py")


def _task_toml(task: Task, dataset: Dataset) -> str:
    slug = re.sub(r"[^\w.-]+", "-", f"{dataset.name}-{dataset.version}-{task.id}", flags=re.ASCII)
    texts = {
        "name": f"medagentbench/{slug}",
        "description": f"MedAgentBench {task.id}: an agent reads a record over FHIR, writes orders, and answers.",
        "dataset": dataset.title,
        "version": dataset.version,
        "type": task.type,
        "digest": dataset.digest,
    }
    quoted = {name: json.dumps(text) for name, text in texts.items()}
    return _filled("task.toml", patients=PATIENTS, now=dataset.constants.now_text, **quoted)


def _instruction(task: Task, dataset: Dataset) -> str:
    """The instruction; a made data set's canary stands in a comment before it, which Harbor shows to no agent."""
    protocol = load_protocol("http", functions=dataset.beside("functions.json"))
    worded = protocol.worded(prompt=FILES / "instruction.md", system=None)
    text = worded.first_message(PUBLISHED.base.rstrip("/"), task.context, task.instruction)
    return f"<!-- canary: {dataset.manifest.canary} -->\n\n{text}" if dataset.manifest else text


def _filled(file: str, **values: str) -> str:
    return fill((FILES / file).read_text("utf-8"), **values)


def _script(path: Path) -> None:
    shutil.copyfile(FILES / path.name, path)
    path.chmod(0o755)


def _same(file: Path, path: Path) -> None:
    """The file under another path, without a copy where the file system can."""
    try:
        os.link(file, path)
    except OSError:
        shutil.copyfile(file, path)
