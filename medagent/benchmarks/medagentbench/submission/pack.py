"""The format of packs: an archive of results files, journal, settings, report and own prompts, with their digests.

The archive is a zip file that may contain only these names and no folders, so that unpacking an untrusted one is safe.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medagent.agents.skills import read_skills
from medagent.benchmarks.base import DEFAULT
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.results.files import results_path
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, set_of_run
from medagent.core.errors import UserError
from medagent.core.named_paths import named_path
from medagent.core.number_formats import counted
from medagent.core.scrub import hide, remember_environment
from medagent.core.writing import file_digest, followed, inside, replacing
from medagent.engine.folder import Run, read_run
from medagent.engine.plan import JOURNAL
from medagent.engine.report import DataRef
from medagent.fhir_data.record import PAGE_SIZE, Order, Pages
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.session import CarriedOut, SessionRules
from refsol.files import json_object, read_json
from refsol.schema import faults, validator

PACK = "pack.json"
PROMPTS = "prompts.json"
"""The file of a pack with the run's own prompts, as a complete `Protocol`."""
LARGEST = 100_000_000
"""The most bytes of an archive."""
LARGEST_UNPACKED = 2_000_000_000
LARGEST_JSON = 64_000_000
"""The most bytes of a file of a pack, apart from its journal."""
LARGEST_ROW = 2_000_000
"""The most bytes of a row of a pack's journal."""
LARGEST_DIRECTORY = 1_000_000
"""The most bytes of the list of files at the end of an archive: each of its entries takes memory."""
_PIECE = 1 << 20
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


def write_pack(run: Path, out: Path, *, partial: bool = False, with_skill: bool = False) -> Packed:
    """Pack a finished run of MedAgentBench. Raises UserError for another run, for one without all episodes of its data
    set unless `partial`, or if the pack is too large. `with_skill`: include the texts of the run's skills.
    """
    about = read_run(run)
    if about["benchmark"] != DEFAULT:
        raise UserError(f"{run}: is a run of {about['benchmark']}; only runs of {DEFAULT} can be packed")
    if not results_path(run, 1).is_file() or not (run / JOURNAL).is_file():
        raise UserError(f"{run}: the run is not finished; run its command again to continue it")
    _check_results(run)
    if about["settings"].get("version") not in get_args(PackVersion):
        raise UserError(
            f"{run}: is a run over the task file {about['data']['name']!a}. Only a run over a data set with the "
            "versions v1 and v2 can be checked; make such a set: medagent data new"
        )
    PackSettings.of(run, about["settings"])
    missing = [] if partial else _missing(run, about)
    if missing:
        raise UserError(
            f"{run}: the run is not complete: {missing[0]} ({counted(len(missing), 'such episodes')}); "
            "continue it without --limit and other options that select tasks, or pass --partial"
        )
    remember_environment(os.environ)
    files = {path.name: _hidden(path) for path in sorted(run.iterdir()) if _NAME.fullmatch(path.name)}
    files.pop(PACK, None)
    for name, content in files.items():
        for _ in _pieces(io.BytesIO(content), name, f"{run}: cannot be packed"):
            pass
    protocol = own_protocol(run, about, with_skill=with_skill)
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
    return Packed(pack.files, protocol is None and _has_own_texts(settings))


def _check_results(run: Path) -> None:
    """Raise UserError if a results file contains more or fewer episodes than the journal, which it then contradicts:
    the last command selected fewer items than an earlier one, or did not end.
    """
    for trial, episodes in Counter(int(unit.rpartition("#")[2]) for unit in Run(run).units()).items():
        path = results_path(run, trial)
        total = read_json(path, json_object, error=UserError).get("total_tasks")
        if total != episodes:
            raise UserError(
                f"{path}: contains {total} of the {episodes} episodes in the journal, because the last command "
                "selected fewer items or did not end; run the run's command again with all its items, then pack it"
            )


def _missing(run: Path, about: Mapping[str, Any]) -> Sequence[str]:
    benchmark = MedAgentBench()
    tasks = benchmark.task_set(benchmark.source(Run(run), {}))
    rows = {row.unit: row for row in Run(run).rows(EpisodeRow)}
    return episode_problems(tasks, rows, about["places"].get("trials"))[1]


def episode_problems(tasks: TaskSet, rows: Rows, trials: object) -> tuple[list[str], list[str]]:
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
    with replacing(followed(out)) as part:
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
    if pack.is_dir():
        raise UserError(f"{pack}: is a folder; pack the run first: medagent submit pack {pack}")
    with tempfile.TemporaryDirectory(prefix="medagent-pack-") as name:
        folder = Path(name)
        try:
            with pack.open("rb") as archived:
                _check_size(archived, pack)
                with zipfile.ZipFile(archived) as archive:
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
            if file_digest(folder / file) != digest:
                raise UserError(f"{pack}: {file} is not the file that its {PACK} names (its SHA-256 differs)")
        yield folder, about


def _extract(archive: zipfile.ZipFile, pack: Path, folder: Path) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if PACK not in names:
        raise UserError(f"{pack}: is not a pack made by `medagent submit pack`: {PACK} is missing")
    times = Counter(names)
    if odd := [name for name in names if not _NAME.fullmatch(name) or times[name] > 1]:
        raise UserError(f"{pack}: contains the file {odd[0]!a}, which is not allowed in a pack")
    if sum(entry.file_size for entry in entries) > LARGEST_UNPACKED:
        raise UserError(f"{pack}: would be larger than {LARGEST_UNPACKED} bytes when unpacked")
    for entry in entries:
        with archive.open(entry) as source, (folder / entry.filename).open("wb") as target:
            target.writelines(_pieces(cast(BinaryIO, source), entry.filename, str(pack)))


def _check_size(file: BinaryIO, pack: Path) -> None:
    """Raises UserError if an archive, or the list of files at its end, is too large to be opened."""
    size = file.seek(0, os.SEEK_END)
    if size > LARGEST:
        raise UserError(f"{pack}: contains {size:,} bytes; a pack has at most {LARGEST:,}")
    file.seek(max(0, size - (1 << 16) - 42))
    end = file.read()
    place = end.rfind(b"PK\5\6")
    directory = int.from_bytes(end[place + 12 : place + 16], "little") if place >= 0 else 0
    if directory > LARGEST_DIRECTORY or b"PK\6\7" in end[max(0, place - 20) : max(0, place)]:
        raise UserError(f"{pack}: is not a pack made by `medagent submit pack`: it lists too many files")
    file.seek(0)


def _pieces(source: BinaryIO, name: str, where: str) -> Iterator[bytes]:
    """The content of a file of a pack. Raises UserError with its place as soon as a limit is exceeded."""
    size = 0
    if not name.endswith(".jsonl"):
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > LARGEST_JSON:
                raise UserError(f"{where}: {name} contains more than {LARGEST_JSON:,} bytes")
            yield piece
        return
    rows = io.BufferedReader(cast(io.RawIOBase, source), _PIECE)
    for number in itertools.count(1):
        row = rows.readline(LARGEST_ROW + 1)
        if not row:
            return
        if len(row) > LARGEST_ROW:
            raise UserError(f"{where}: {name}:{number}: the row has more than {LARGEST_ROW:,} bytes")
        if row.isspace():
            raise UserError(f"{where}: {name}:{number}: is an empty line; the journal of a pack contains only rows")
        yield row


def _hidden(path: Path) -> bytes:
    """A file's content, with the secrets of environment variables removed."""
    return hide(inside(path).read_bytes().decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


PackVersion = Literal["v1", "v2"]


class PackSettings(BaseModel):
    """The settings that a check needs, by the names of their options."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-"))

    version: PackVersion
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
    page_size: int | None = Field(default=None, ge=1)
    order: Order | None = None

    @classmethod
    def of(cls, pack: Path, settings: Mapping[str, Any]) -> PackSettings:
        """Read the settings of a pack's run. Raises UserError if the type of one is wrong."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            fault = faults(error, settings)[0]
            raise UserError(f"{pack}: run.json: settings.{'.'.join(map(str, fault.steps))}: {fault.text}") from None

    @property
    def pages(self) -> Pages:
        """How the run's embedded server paged results."""
        return Pages(self.page_size or PAGE_SIZE, self.order or "stored")

    @property
    def rules(self) -> SessionRules:
        """The rules of the run's sessions."""
        executed: CarriedOut = "execute" if self.all_writes else "creates"
        return SessionRules(
            self.api_base,
            self.max_rounds,
            "ack" if self.writes in (None, "ack") else executed,
            self.strip_thinking or False,
            loop=self.loop or "published",
            hints=self.loop == "lenient",
        )


def data_set_protocol(dataset: str | None, version: str, protocol: str | None, *, all_writes: bool = False) -> Protocol:
    """The protocol of a run that uses the data set's prompts. Raises UserError."""
    source = MedAgentBenchSettings(version=version, dataset=dataset or BUNDLED)
    words = MedAgentBench().protocol(source, protocol or "text")
    return words.with_writes() if all_writes else words


def _has_own_texts(settings: Mapping[str, Any]) -> bool:
    """Whether a run has its own prompts or skills."""
    return any(settings.get(name) for name in ("prompt-digest", "system-digest", "skills"))


def own_protocol(folder: Path, run: Mapping[str, Any], *, with_skill: bool = False) -> Protocol | None:
    """The protocol of a run with its own prompts (`--prompt`, `--system`) or skills, from its `run.json`.

    None if there is none, if the files are missing or changed, if the folder may not name them, or if they are skills,
    unless `with_skill`.
    """
    settings, places = run["settings"], run["places"]
    if not _has_own_texts(settings) or (settings.get("skills") and not with_skill):
        return None
    try:
        files = {
            name: Path(named_path(folder, name, places[name])) for name in ("prompt", "system") if places.get(name)
        }
        dataset = named_path(folder, "dataset", set_of_run(settings))
        all_writes = bool(settings.get("all-writes"))
        protocol = data_set_protocol(dataset, settings.get("version"), settings.get("protocol"), all_writes=all_writes)
        protocol = protocol.worded(prompt=files.get("prompt"), system=files.get("system"))
        folders = [Path(named_path(folder, "skill", path)) for path in places.get("skill") or ()]
        protocol = protocol.with_skills(read_skills(folders))
    except UserError:
        return None
    return protocol if protocol.digest == settings.get("prompts-digest") else None


def packed_protocol(folder: Path) -> Protocol | None:
    """The protocol in a pack, or None if there is none. Raises UserError if the file is damaged."""
    path = folder / PROMPTS
    if not path.is_file():
        return None
    return read_json(path, validator(Protocol), expected="a protocol is expected", error=UserError)
