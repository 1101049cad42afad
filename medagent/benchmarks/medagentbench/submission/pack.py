"""The format of packs: an archive of results files, journal, settings, report and own prompts, with their digests.

The archive is a zip file that may contain only these names and no folders, so that unpacking an untrusted one is safe.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medagent.benchmarks.base import DEFAULT
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.data import dataset_of
from medagent.benchmarks.medagentbench.results.files import results_path
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, Dataset, set_of_run
from medagent.core.errors import UserError
from medagent.core.figures import counted
from medagent.core.named_paths import named_path
from medagent.core.scrub import hide, remember_environment
from medagent.core.writing import replacing
from medagent.engine.folder import Run, read_run
from medagent.engine.plan import JOURNAL
from medagent.engine.report import DataRef
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.session import SessionRules
from refsol.files import read_json
from refsol.schema import faults, validator

PACK = "pack.json"
PROMPTS = "prompts.json"
"""The file of a pack with the run's own prompts, as a complete `Protocol`."""
LARGEST = 100_000_000
"""The most bytes of an archive."""
LARGEST_UNPACKED = 2_000_000_000
_NAME = re.compile(r"pack\.json|run\.json|report\.json|prompts\.json|episodes\.jsonl|results(\.[1-9]\d*)?\.json")
Rows = Mapping[str, EpisodeRow]
_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive. It is fixed, so that the same run gives the same archive."""


class PackFile(BaseModel):
    """`pack.json`: the benchmark, its data set, the versions of the software, and the SHA-256 of each file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    data: DataRef
    seed_sha256: str | None
    """The SHA-256 of the data set's seed, if it was made from one."""
    versions: dict[str, str]
    files: dict[str, str]
    partial: bool = False
    """Whether the run lacks episodes of its data set."""


class Packed(NamedTuple):
    """The files of a pack with their SHA-256s, and whether the run's own prompts are missing.

    They are left out if their files no longer exist or have changed.
    """

    files: dict[str, str]
    prompts_left_out: bool


def write_pack(run: Path, out: Path, *, partial: bool = False) -> Packed:
    """Pack a finished run of MedAgentBench. Raises UserError for another run, for one without all episodes of its data
    set unless `partial`, or if the pack is too large.
    """
    about = read_run(run)
    if about["benchmark"] != DEFAULT:
        raise UserError(f"{run}: is a run of {about['benchmark']}; only runs of {DEFAULT} can be packed")
    if not results_path(run, 1).is_file() or not (run / JOURNAL).is_file():
        raise UserError(f"{run}: the run is not finished; run its command again to continue it")
    missing = [] if partial else _missing(run, about)
    if missing:
        raise UserError(
            f"{run}: the run is not complete: {missing[0]} ({counted(len(missing), 'such episodes')}); "
            "continue it without --limit and other options that select tasks, or pass --partial"
        )
    remember_environment(os.environ)
    files = {path.name: _hidden(path) for path in sorted(run.iterdir()) if _NAME.fullmatch(path.name)}
    files.pop(PACK, None)
    protocol = own_protocol(run, about)
    if protocol is not None:
        files[PROMPTS] = (hide(protocol.model_dump_json(indent=1)) + "\n").encode()
    pack = PackFile(
        benchmark=DEFAULT,
        data=DataRef.model_validate(about["data"]),
        seed_sha256=about["settings"].get("seed-digest"),
        versions={name: str(version) for name, version in about["versions"].items()},
        files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        partial=partial,
    )
    files[PACK] = (pack.model_dump_json(indent=1, exclude=None if partial else {"partial"}) + "\n").encode()
    write_archive(out, files)
    settings = about["settings"]
    return Packed(pack.files, protocol is None and bool(settings.get("prompt-digest") or settings.get("system-digest")))


def _missing(run: Path, about: Mapping[str, Any]) -> Sequence[str]:
    tasks = dataset_of(MedAgentBench().source(Run(run), {}))
    rows = {row.unit: row for row in Run(run).rows(EpisodeRow)}
    return episode_problems(tasks, rows, about["places"].get("trials"))[1]


def episode_problems(tasks: Dataset, rows: Rows, trials: object) -> tuple[list[str], list[str]]:
    """Episodes of unknown tasks, and episodes that are missing or unfinished.

    `trials` is the number in `run.json`. The rows may contain more trials, if a later command added them.
    """
    number = max([trials if isinstance(trials, int) else 1, *(row.trial for row in rows.values())])
    due = number * len(tasks.tasks)
    if due > 2 * len(rows) + len(tasks.tasks):
        return [], [
            f"{number} trials of {len(tasks.tasks)} tasks are {due} episodes, but the journal contains {len(rows)}"
        ]
    units = {f"{task.id}#{trial}" for task in tasks.tasks for trial in range(1, number + 1)}
    strange = [f"{unit}: the data set does not contain this task" for unit in rows if unit not in units]
    missing = [f"{unit}: its episode is missing" for unit in sorted(units - set(rows))]
    unfinished = [f"{unit}: is not finished ({row.status})" for unit, row in rows.items() if row.owed]
    return strange, [*missing, *unfinished]


def write_archive(out: Path, files: dict[str, bytes]) -> None:
    """Write an archive of these files. Raises UserError."""
    with replacing(out) as part:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name, _TIME)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, content)
        if (size := part.stat().st_size) > LARGEST:
            raise UserError(f"{out}: would be {size} bytes large; the limit is {LARGEST}; pack fewer trials")


@contextmanager
def unpacked(pack: Path) -> Iterator[tuple[Path, PackFile]]:
    """Unpack a pack into a temporary folder, which is a run's folder. Yields it with the content of `pack.json`.

    Raises UserError if the file is not a pack, contains other names, is too large, or does not match its digests.
    """
    with tempfile.TemporaryDirectory(prefix="medagent-pack-") as name:
        folder = Path(name)
        try:
            with zipfile.ZipFile(pack) as archive:
                _extract(archive, pack, folder)
        except OSError as error:
            raise UserError(f"{pack}: cannot be read: {error.strerror or error}") from None
        except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
            raise UserError(f"{pack}: is not a pack made by `medagent submit pack`: {error}") from None
        about = read_json(folder / PACK, validator(PackFile), expected=f"a {PACK} is expected", error=UserError)
        held = {path.name for path in folder.iterdir()} - {PACK}
        if held != set(about.files):
            raise UserError(f"{pack}: its files are not those that its {PACK} names")
        for file, digest in about.files.items():
            if hashlib.sha256((folder / file).read_bytes()).hexdigest() != digest:
                raise UserError(f"{pack}: {file} is not the file that its {PACK} names (its SHA-256 differs)")
        yield folder, about


def _extract(archive: zipfile.ZipFile, pack: Path, folder: Path) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if PACK not in names:
        raise UserError(f"{pack}: is not a pack made by `medagent submit pack`: {PACK} is missing")
    if odd := [name for name in names if not _NAME.fullmatch(name) or names.count(name) > 1]:
        raise UserError(f"{pack}: contains the file {odd[0]!a}, which is not allowed in a pack")
    if sum(entry.file_size for entry in entries) > LARGEST_UNPACKED:
        raise UserError(f"{pack}: would be larger than {LARGEST_UNPACKED} bytes when unpacked")
    for entry in entries:
        with archive.open(entry) as source, (folder / entry.filename).open("wb") as target:
            shutil.copyfileobj(source, target)


def _hidden(path: Path) -> bytes:
    """A file's content, with the secrets of environment variables removed."""
    return hide(path.read_bytes().decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


class PackSettings(BaseModel):
    """The settings that a check needs, by the names of their options."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-"))

    version: Literal["v1", "v2"]
    dataset: str | None = None
    agent: str | None = None
    model: str | None = None
    tasks_digest: str | None = None
    seed_digest: str | None = None
    prompts_digest: str | None = None
    ehr_digest: str | None = None
    fhir: str | None = None
    protocol: Literal["text", "tools", "code"] | None = None
    loop: Literal["published", "lenient"] | None = None
    api_base: str
    max_rounds: int = Field(ge=1)
    writes: Literal["ack", "execute", "private"] | None = None
    all_writes: bool | None = None
    strip_thinking: bool | None = None
    max_tokens: int | None = None

    @classmethod
    def of(cls, pack: Path, settings: Mapping[str, Any]) -> PackSettings:
        """Read the settings of a pack's run. Raises UserError if the type of one is wrong."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            fault = faults(error, settings)[0]
            raise UserError(f"{pack}: run.json: settings.{'.'.join(map(str, fault.steps))}: {fault.text}") from None

    @property
    def rules(self) -> SessionRules:
        """The rules of the run's sessions."""
        return SessionRules(
            self.api_base,
            self.max_rounds,
            "ack" if self.writes in (None, "ack") else "execute" if self.all_writes else "creates",
            self.strip_thinking or False,
            self.loop or "published",
        )


def data_set_protocol(dataset: str | None, version: str, protocol: str | None, *, all_writes: bool = False) -> Protocol:
    """The protocol of a run that uses the data set's prompts. Raises UserError."""
    source = MedAgentBenchSettings(version=version, dataset=dataset or BUNDLED)
    words = MedAgentBench().protocol(source, protocol or "text")
    return words.with_writes() if all_writes else words


def own_protocol(folder: Path, run: Mapping[str, Any]) -> Protocol | None:
    """The protocol of a run with its own prompts (`--prompt`, `--system`), from its `run.json`.

    None if there is none, if the prompt files are missing or changed, or if the folder may not name them.
    """
    settings, places = run["settings"], run["places"]
    if not (settings.get("prompt-digest") or settings.get("system-digest")):
        return None
    try:
        files = {
            name: Path(named_path(folder, name, places[name])) for name in ("prompt", "system") if places.get(name)
        }
        dataset = named_path(folder, "dataset", set_of_run(settings))
        all_writes = bool(settings.get("all-writes"))
        protocol = data_set_protocol(dataset, settings.get("version"), settings.get("protocol"), all_writes=all_writes)
        protocol = protocol.worded(prompt=files.get("prompt"), system=files.get("system"))
    except UserError:
        return None
    return protocol if protocol.digest == settings.get("prompts-digest") else None


def packed_protocol(folder: Path) -> Protocol | None:
    """The protocol in a pack, or None if there is none. Raises UserError if the file is damaged."""
    path = folder / PROMPTS
    if not path.is_file():
        return None
    return read_json(path, validator(Protocol), expected="a protocol is expected", error=UserError)
