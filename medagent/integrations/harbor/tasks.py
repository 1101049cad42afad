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
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medagent.api import load_run, run_sync
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.core.scrub import safe_name
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.task import FhirItem
from medagent.integrations.harbor.wheel import write_wheel
from medagent.models.wording import fill

FILES = Path(__file__).parent / "files"
PATIENTS = "patients.ndjson.gz"


@dataclass(frozen=True, slots=True)
class Exported:
    """How many folders were written, and the tasks among them that the reference agent does not get right: these have
    no solution/.
    """

    tasks: int
    unsolved: Sequence[str]


def export_harbor(benchmark: FhirBenchmark[Any], folder: Path, given: Mapping[str, Any]) -> Exported:
    """Write a folder a task into a new or empty folder; `given` are the options of a run that say which tasks.

    All of them are written, or none. Raises UserError, InputError.
    """
    settings = checked(benchmark.Settings, given)
    items = benchmark.selected(settings, benchmark.items(settings))
    resources = benchmark.resources(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder}: is not empty; name a new folder")
        acts = _reference_acts(benchmark, given)
        with TemporaryDirectory(dir=folder, prefix=".") as aside:
            environment = _environment(Path(aside), resources, benchmark.kept_out)
            written = [Path(aside) / "tasks" / safe_name(item.id) for item in items]
            for item, path in zip(items, written, strict=True):
                _write(path, benchmark, settings, item, environment, acts.get(item.id))
            for path in written:
                path.rename(folder / path.name)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return Exported(len(items), [item.id for item in items if item.id not in acts])


def _reference_acts(benchmark: FhirBenchmark[Any], given: Mapping[str, Any]) -> dict[str, list[str]]:
    """What the reference agent did in each task that it gets right, where its POSTs are carried out; nothing of a
    benchmark without one.
    """
    if "reference" not in benchmark.agents:
        return {}
    with TemporaryDirectory() as aside:
        options = {**given, "agent": "reference", "writes": "execute", "results_dir": Path(aside)}
        report = run_sync(benchmark.reference or benchmark.name, **options)
        right = {item.item for item in report.items if item.correct}
        rows: Iterable[Any] = load_run(Path(aside) / report.folder).rows()
        return {
            row.task_id: [turn.content for turn in row.transcript if turn.role == "agent"]
            for row in rows
            if row.task_id in right
        }


def _environment(folder: Path, resources: Iterable[bytes], kept_out: Sequence[str]) -> list[Path]:
    """The files of environment/: Dockerfile, wheel and patients."""
    patients = folder / PATIENTS
    with patients.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        packed.writelines(resources)
    wheel = write_wheel(folder, kept_out)
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(_filled("Dockerfile", wheel=wheel.name, patients=PATIENTS), encoding="utf-8")
    return [dockerfile, wheel, patients]


def _write(
    folder: Path,
    benchmark: FhirBenchmark[Any],
    settings: FhirSettings,
    item: FhirItem,
    environment: Sequence[Path],
    acts: list[str] | None,
) -> None:
    for name in ("environment", "tests", *(["solution"] if acts else [])):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(_task_toml(benchmark, settings, item), encoding="utf-8")
    (folder / "instruction.md").write_text(_instruction(benchmark, settings, item), encoding="utf-8")
    for file in environment:
        _same(file, folder / "environment" / file.name)
    for name, content in benchmark.pack(settings, item).items():
        (folder / "tests" / name).write_bytes(content)
    script = folder / "tests" / "test.sh"
    script.write_text(_filled("test.sh", benchmark=shlex.quote(benchmark.reference or benchmark.name)), "utf-8")
    script.chmod(0o755)
    if acts:
        (folder / "solution" / "acts.json").write_text(json.dumps(acts, ensure_ascii=False, indent=1), "utf-8")
        _script(folder / "solution" / "solve.sh")
        shutil.copyfile(FILES / "solve.py", folder / "solution" / "solve.py")


def _task_toml(benchmark: FhirBenchmark[Any], settings: FhirSettings, item: FhirItem) -> str:
    data = benchmark.data(settings)
    version = benchmark.folder_name(settings)
    slug = re.sub(r"[^\w.-]+", "-", f"{getattr(settings, 'dataset', data.name)}-{version}-{item.id}", flags=re.ASCII)
    texts = {
        "name": f"{benchmark.name}/{slug}",
        "description": f"{benchmark.name} {item.id}: an agent reads a record over FHIR, writes orders, and answers.",
        "benchmark": benchmark.name,
        "dataset": data.name,
        "version": version,
        "type": item.group,
        "digest": data.digest,
    }
    quoted = {name: json.dumps(text) for name, text in texts.items()}
    now = benchmark.now(settings).isoformat(timespec="seconds")
    return _filled("task.toml", patients=PATIENTS, now=now, **quoted)


def _instruction(benchmark: FhirBenchmark[Any], settings: FhirSettings, item: FhirItem) -> str:
    """The instruction; a data set's canary stands in a comment before it, which Harbor shows to no agent."""
    worded = benchmark.protocol(settings, "http").worded(prompt=FILES / "instruction.md", system=None)
    text = worded.first_message(API_BASE.rstrip("/"), item.context, item.question)
    canary = benchmark.canary(settings)
    return f"<!-- canary: {canary} -->\n\n{text}" if canary else text


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
