"""Writes tasks as folders for Harbor: task.toml, README.md, instruction.md, environment/, solution/, tests/. Beside the
tasks it writes the data set's dataset.toml and README.md.

`environment/` is the same in all folders, so that an image is built only once, except for `change.json`, which has the
change of a twin's chart, or the chart that the item brings. Its large files are hard links if the file system has them.
Facts are only in `tests/`, and only those of the folder's task. `solution/` repeats the reference agent's actions from
a run made for the export.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from medagent._api import load_run, run_sync
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.core.scrub import safe_name
from medagent.core.version import __version__
from medagent.core.writing import file_digest, writing
from medagent.engine.benchmark import Say
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.task import FhirItem
from medagent.integrations.harbor._code import PACKAGES, PackedCode, package_files, packed_code
from medagent.models.wording import fill

FILES = Path(__file__).parent / "files"
PATIENTS = "patients.ndjson.gz"
CHANGE = "change.json"
_CREATES = """ and create (POST to a type, with `Content-Type: application/fhir+json`); nothing else is carried out. \
Whatever you create is the order that counts, so create nothing that is not asked for."""
_ALL_WRITES = """, create (POST to a type, with `Content-Type: application/fhir+json`), update (PUT), patch (PATCH, \
with `Content-Type: application/json-patch+json`), delete (DELETE), and POST a Bundle of type transaction or batch to \
the base. All of these are carried out, and whatever you create, change or delete counts, so do nothing that is not \
asked for."""
_WHEEL = "Wheel-Version: 1.0\nGenerator: medagent\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass(frozen=True, slots=True)
class Exported:
    """The number of folders, and the tasks without solution/, because the reference agent does not get them right.

    `reference` is false if the benchmark does not have a reference agent, so that no task has a solution.
    """

    tasks: int
    unsolved: Sequence[str]
    reference: bool


def export_harbor(benchmark: FhirBenchmark[Any], folder: Path, options: Mapping[str, Any], say: Say) -> Exported:
    """Write one folder for each task into a new or empty folder; `options` are those of a run and select the tasks.

    The tasks are those of a run: `say` gets a line about the ones that are left out. Writes all folders or none. Raises
    UserError, InputError.
    """
    settings = checked(benchmark.Settings, options)
    resources = benchmark.resources(settings)
    known = benchmark.read_items(settings)
    left_out = benchmark.left_out(settings, known, benchmark.embedded(settings, lambda _: None), say)
    items = benchmark.chosen_without(settings, known, left_out)
    benchmark.check_writes(settings, items)
    code = packed_code(benchmark)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder}: the folder is not empty; name a new one")
        acts = _reference_acts(benchmark, options)
        with TemporaryDirectory(dir=folder, prefix=".") as aside:
            environment = _environment(Path(aside), resources, benchmark.kept_out)
            written = [Path(aside) / "tasks" / safe_name(item.id) for item in items]
            for item, path in zip(items, written, strict=True):
                _write(path, benchmark, settings, item, environment, code, acts.get(item.id))
            _write_set(folder, benchmark, settings, code, written)
            for path in written:
                path.rename(folder / path.name)
    return Exported(len(items), [item.id for item in items if item.id not in acts], _has_reference(benchmark))


def _has_reference(benchmark: FhirBenchmark[Any]) -> bool:
    return "reference" in benchmark.agents


def _reference_acts(benchmark: FhirBenchmark[Any], options: Mapping[str, Any]) -> dict[str, list[str]]:
    """The reference agent's actions for each task that it gets right while its POSTs are executed. Empty if the
    benchmark has no reference agent.
    """
    if not _has_reference(benchmark):
        return {}
    with TemporaryDirectory() as aside:
        run_options = {**options, "agent": "reference", "writes": "execute", "results_dir": Path(aside)}
        report = run_sync(benchmark.reference or benchmark.name, **run_options)
        right = {item.item for item in report.items if item.correct}
        rows: Iterable[Any] = load_run(Path(aside) / report.folder, benchmark=benchmark.reference or None).rows()
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
    dockerfile.write_text(_filled("Dockerfile", wheel=wheel.name, patients=PATIENTS, change=CHANGE), encoding="utf-8")
    return [dockerfile, wheel, patients]


def _write(
    folder: Path,
    benchmark: FhirBenchmark[Any],
    settings: FhirSettings,
    item: FhirItem,
    environment: Sequence[Path],
    code: PackedCode,
    acts: list[str] | None,
) -> None:
    for name in ("environment", "tests", *(["solution"] if acts else [])):
        (folder / name).mkdir(parents=True)
    for name, text in _task_files(benchmark, settings, item, code).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "instruction.md").write_text(_instruction(benchmark, settings, item), encoding="utf-8")
    for file in environment:
        _same(file, folder / "environment" / file.name)
    change = {"change": list(item.change), "chart": item.chart}
    (folder / "environment" / CHANGE).write_text(f"{json.dumps(change)}\n", encoding="utf-8")
    for name, content in benchmark.pack(settings, item).items():
        (folder / "tests" / name).write_bytes(content)
    for place, file in code.files.items():
        (folder / "tests" / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / "tests" / place)
    for place, text in code.texts.items():
        (folder / "tests" / place).write_text(text, "utf-8")
    script = folder / "tests" / "test.sh"
    script.write_text(_filled("test.sh", path=code.path, benchmark=code.benchmark), "utf-8")
    script.chmod(0o755)
    if acts:
        (folder / "solution" / "acts.json").write_text(json.dumps(acts, ensure_ascii=False, indent=1), "utf-8")
        _script(folder / "solution" / "solve.sh")
        shutil.copyfile(FILES / "solve.py", folder / "solution" / "solve.py")


def _set_name(benchmark: FhirBenchmark[Any], settings: FhirSettings) -> str:
    """The name of the data set in Harbor's form, `ORG/NAME`. A set without a name is called by its digest."""
    data, manifest = benchmark.data(settings), benchmark.manifest(settings)
    parts = dict.fromkeys(filter(None, (manifest.name if manifest else "", data.version)))
    return f"{_slug(benchmark.name)}/{_slug('-'.join(parts) or data.digest[:12])}"


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII)


def _texts(benchmark: FhirBenchmark[Any], settings: FhirSettings, code: PackedCode) -> dict[str, str]:
    """The data set's values that the templates fill in. Whether the patients of others are synthetic is not known."""
    data = benchmark.data(settings)
    stated = "" if data.name == benchmark.name else data.name
    words = " ".join(filter(None, (stated, data.version)))
    return {
        "benchmark": benchmark.name,
        "dataset": data.name,
        "version": data.version,
        "digest": data.digest,
        "patients": "" if code.is_own else " The patients are synthetic.",
        "set": f"{benchmark.name} ({words})" if words else benchmark.name,
    }


def _task_files(
    benchmark: FhirBenchmark[Any], settings: FhirSettings, item: FhirItem, code: PackedCode
) -> dict[str, str]:
    """`task.toml` and `README.md`."""
    texts = {
        **_texts(benchmark, settings, code),
        "name": f"{_set_name(benchmark, settings)}-{_slug(item.id)}",
        "description": f"{benchmark.name} {item.id}: an agent reads a record over FHIR, writes orders, and answers.",
        "type": item.group,
    }
    quoted = {name: json.dumps(text) for name, text in texts.items() if name != "patients"}
    now = benchmark.now(settings).isoformat(timespec="seconds")
    return {
        "task.toml": _filled(
            "task.toml",
            patients=PATIENTS,
            change=CHANGE,
            options=" --all-writes" if _all_writes(settings) else "",
            now=now,
            medagent=__version__,
            authors=_authors(code),
            **quoted,
        ),
        "README.md": _filled("README.md", medagent=__version__, **texts),
    }


def _write_set(
    folder: Path, benchmark: FhirBenchmark[Any], settings: FhirSettings, code: PackedCode, tasks: Sequence[Path]
) -> None:
    """`dataset.toml` and `README.md` beside the tasks."""
    name, texts = _set_name(benchmark, settings), _texts(benchmark, settings, code)
    named = [(tomllib.loads((path / "task.toml").read_text("utf-8"))["task"]["name"], path) for path in tasks]
    description = f"Tasks of {texts['set']} over a FHIR R4 record."
    (folder / "dataset.toml").write_text(dataset_toml(name, description, _authors(code), named), encoding="utf-8")
    agent = "oracle" if _has_reference(benchmark) else "AGENT"
    page = _filled("dataset.md", name=name, count=str(len(named)), medagent=__version__, agent=agent, **texts)
    (folder / "README.md").write_text(page, encoding="utf-8")


def _all_writes(settings: FhirSettings) -> bool:
    """Whether agents may make all writes of FHIR, not only creates."""
    return settings.carried_out == "execute"


def _instruction(benchmark: FhirBenchmark[Any], settings: FhirSettings, item: FhirItem) -> str:
    """The instruction. A data set's canary precedes it in a comment, which Harbor does not show to agents."""
    worded = benchmark.session_protocol(settings, "http").worded(prompt=FILES / "instruction.md", system=None)
    writes = _ALL_WRITES if _all_writes(settings) else _CREATES
    worded = worded.model_copy(update={"prompt": fill(worded.prompt, writes=writes)})
    text = worded.first_message(API_BASE.rstrip("/"), item.context, item.question)
    manifest = benchmark.manifest(settings)
    canary = manifest.canary if manifest else ""
    return f"<!-- canary: {canary} -->\n\n{text}" if canary else text


def _filled(file: str, **values: str) -> str:
    return fill((FILES / file).read_text("utf-8"), **values)


def _script(path: Path) -> None:
    shutil.copyfile(FILES / path.name, path)
    path.chmod(0o755)


def _same(file: Path, path: Path) -> None:
    """Put the file at another path, as a hard link if the file system can, otherwise as a copy."""
    try:
        os.link(file, path)
    except OSError:
        shutil.copyfile(file, path)


def _authors(code: PackedCode) -> str:
    """The authors of the tasks, as TOML; an empty list if they are not known."""
    return f"[{', '.join(f'{{ name = {json.dumps(name)} }}' for name in code.authors)}]"


def dataset_toml(name: str, description: str, authors: str, tasks: Sequence[tuple[str, Path]]) -> str:
    """The manifest of `tasks`: pairs of a name and a folder. `authors` is TOML.

    Harbor identifies a task's content by its digest.
    """
    lines = [
        "[dataset]",
        f"name = {json.dumps(name)}",
        f'version = "{__version__}"',
        f"description = {json.dumps(description)}",
        f"authors = {authors}",
        'keywords = ["medicine", "FHIR", "agent"]',
    ]
    for task, folder in tasks:
        lines += ["", "[[tasks]]", f"name = {json.dumps(task)}", f'digest = "sha256:{content_digest(folder)}"']
    return "\n".join(lines) + "\n"


def content_digest(folder: Path) -> str:
    """SHA-256 over the paths and digests of a task's files, as Harbor's packager computes it."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{name}\0{file_digest(files[name])}\n".encode())
    return whole.hexdigest()


def write_wheel(folder: Path, left_out: Sequence[str]) -> Path:
    """Write a wheel of this installation into a folder, without the files below `left_out` (the bundled tasks and their
    answer keys), and return its path. So a task's image runs the same code that wrote the task, even if that version is
    on no package index, and needs no build backend. The same files give the same bytes. Raises UserError.
    """
    version, about = _installed()
    name = f"medagent-{version}"
    path = folder / f"{name}-py3-none-any.whl"
    info = {f"{name}.dist-info/{part}": text.encode() for part, text in about.items()}
    record = []
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for place, content in [*_files(left_out), *info.items()]:
            _add(archive, place, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{place},sha256={digest},{len(content)}")
        record_name = f"{name}.dist-info/RECORD"
        _add(archive, record_name, "\n".join([*record, f"{record_name},,", ""]).encode())
    return path


def _installed() -> tuple[str, dict[str, str]]:
    """The version, and the texts of the wheel's metadata files by name."""
    try:
        distribution = metadata.distribution("medagent")
    except metadata.PackageNotFoundError:
        raise UserError("medagent is not installed here, so no wheel can be made; install it with pip") from None
    about = {name: distribution.read_text(name) for name in ("METADATA", "entry_points.txt")}
    missing = [name for name, text in about.items() if text is None]
    if missing:
        raise UserError(f"this installation of medagent lacks {missing[0]}; reinstall it with pip")
    return distribution.version, {**{name: text or "" for name, text in about.items()}, "WHEEL": _WHEEL}


def _files(left_out: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        root = Path(str(import_module(package).__file__)).parent
        for path in package_files(root):
            place = path.relative_to(root.parent).as_posix()
            if not place.startswith(tuple(left_out)):
                yield place, path.read_bytes()


def _add(archive: ZipFile, place: str, content: bytes) -> None:
    entry = ZipInfo(place)  # dated 1980, so that the same files give the same bytes
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)
