"""A run's folder: its lock, its settings, its journals.

`run.json` contains the settings that decide the rows. Repeating the command continues the run; other settings are
refused. The lock is the first journal's. A read-only folder can be opened too, to show finished work.
"""

from __future__ import annotations

import gc
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from medagent.core.code_digest import UNKNOWN
from medagent.core.errors import UserError
from medagent.core.options import OptionField, Setting, as_words
from medagent.core.version import versions
from medagent.core.writing import MANIFEST, inside, note, noted, write_whole, writing, written_files
from medagent.engine.journal import Journal, JournalFile, ReadOnlyError, last_rows
from medagent.engine.limits import Spending
from medagent.engine.plan import JOURNAL
from medagent.engine.report import DataRef
from medagent.engine.rows import R, Row, Spent, merged
from refsol.files import DuplicateKeyError, unique
from refsol.schema import fault_text

FORMAT = 1
"""The format of `run.json`."""


class RunFolder:
    """An open, locked run folder; a context manager. `settings` are keyed by option name (`model`, `max-rounds`) or
    fact (`tasks-digest`). `places` are options that may change when the run is continued, such as paths. `unwritten`
    are limits and addresses, which no file contains, and None for what the command leaves out. All three are part of
    the command that continues the run. `options` are the command's, `about` is the benchmark and its data.

    Raises UserError if the folder cannot be used: it is read-only, locked by another run, or made with other settings.
    """

    def __init__(
        self,
        path: Path,
        command: str,
        settings: Mapping[str, Setting],
        *,
        about: Mapping[str, Any] = MappingProxyType({"benchmark": "", "data": {"name": ""}}),
        places: Mapping[str, Setting] | None = None,
        unwritten: Mapping[str, Setting] | None = None,
        options: Iterable[OptionField] = (),
        overwrite: bool = False,
        reuse: bool = False,
    ) -> None:
        self.path = path
        self._command = command
        self._about = about
        self._settings = dict(settings)
        self._places = dict(places or {})
        self._unwritten = dict(unwritten or {})
        self._options = tuple(options)
        self._reuse = reuse
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        self.journal = self._locked(overwrite)
        """The first journal's file, which holds the folder's lock."""
        self._stack = ExitStack()
        self._stack.callback(self.journal.close)
        try:
            if overwrite:
                self._clear()
            self._stack.enter_context(noted(path))
            if self.writable:
                note(self.journal_path)
            self._check()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def writable(self) -> bool:
        """Whether files can be written to the folder."""
        return self.journal.writable

    @property
    def command(self) -> str:
        """The command that continues the run."""
        return self.command_without("")

    def command_without(self, option: str) -> str:
        """The command that continues the run without an option, such as `--max-cost`."""
        options = [field for field in self._options if field.written != option]
        return command_line(self._command, {**self._settings, **self._places, **self._unwritten}, options)

    @property
    def journal_path(self) -> Path:
        """The path of the first journal."""
        return self.path / "episodes.jsonl"

    def state(self, name: str, value: Mapping[str, Any]) -> None:
        """Add a fact to `run.json` that is known only once the run has started. The first value stays."""
        path = self.path / "run.json"
        if not value or not self.writable:
            return
        run = read_run(self.path)
        if not run.get(name):
            write_whole(path, json.dumps({**run, name: value}, indent=2) + "\n")

    def _locked(self, overwrite: bool) -> JournalFile:
        try:
            return JournalFile(self.journal_path)
        except ReadOnlyError:
            if overwrite or not (self.path / "run.json").is_file():
                raise
            return JournalFile(self.journal_path, writable=False)

    def _clear(self) -> None:
        """Remove the files that the run wrote, and no others."""
        for name in ("run.json", *sorted(written_files(self.path) - {self.journal_path.name}), MANIFEST):
            file = self.path / name
            if file.is_file():
                file.unlink()
        self.journal.cut(0)

    def _check(self) -> None:
        path = self.path / "run.json"
        if not path.exists():
            if (self.path / "results.json").exists() or self.journal_path.stat().st_size:
                raise UserError(
                    f"{self.path}: contains results but no run.json, so the run cannot be continued; "
                    "choose another --round, or pass --overwrite"
                )
            write_whole(
                path,
                json.dumps(
                    {
                        "format": FORMAT,
                        "command": self._command,
                        **self._about,
                        "settings": self._settings,
                        "places": self._places,
                        "versions": versions(),
                    },
                    indent=2,
                )
                + "\n",
            )
            return
        run = read_run(self.path)
        before = run["settings"]
        names = {*before, *self._settings} - self._unknown(before)
        differing = sorted(name for name in names if before.get(name) != self._settings.get(name))
        if differing:
            begun = {key: before.get(key) for key in differing}
            stated = {**before, **run["places"], **self._unwritten, **begun}
            command = command_line(self._command, stated, self._options)
            changes = ", ".join(
                f"{name} {_show(before.get(name))} → {_show(self._settings.get(name))}" for name in differing
            )
            raise UserError(
                f"{self.path}: the run uses other settings ({changes}). Continue it with its settings: "
                f"{command}; or choose another --round; or delete it and start again with --overwrite"
            )

    def _unknown(self, before: Mapping[str, Setting]) -> set[str]:
        """The digests of code that cannot be compared. Raises UserError if the folder contains rows of this code,
        unless the user states that the code is the same (`--reuse`).
        """
        unknown = {
            name: str(value)
            for settings in (before, self._settings)
            for name, value in settings.items()
            if isinstance(value, str) and value.startswith(UNKNOWN)
        }
        if unknown and not self._reuse and self.journal_path.stat().st_size:
            name, reason = next(iter(unknown.items()))
            who = name.removesuffix("-digest")
            raise UserError(
                f"{self.path}: contains an earlier run, and it is unknown whether its {who} is the same "
                f"({reason.removeprefix(UNKNOWN)}). If it is, continue with reuse=True (--reuse); otherwise delete the "
                "run with overwrite=True (--overwrite), or choose another round"
            )
        return set(unknown)


def command_line(command: str, settings: Mapping[str, Setting], options: Iterable[OptionField]) -> str:
    """The command with the settings that are its options."""
    return f"{command} {shlex.join(as_words(options, settings))}".rstrip()


def _show(value: Setting) -> str:
    if value is None:
        return "(none)"
    text = " ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) <= 20 else text[:12] + "…"


class RunFile(BaseModel):
    """The content of `run.json`."""

    model_config = ConfigDict(frozen=True, strict=True)

    format: int
    command: str
    benchmark: str
    """The benchmark's name, or its import path if it is not installed."""
    data: DataRef
    settings: dict[str, Setting]
    """The settings that decide the rows."""
    places: dict[str, Setting]
    """The other options of the first command."""
    versions: dict[str, str]
    endpoint: dict[str, int | str] = {}
    """What the model's server states of itself: `window`, `slots`, `model`."""


def read_run(folder: Path) -> dict[str, Any]:
    """A folder's `run.json`, a `RunFile`. Raises UserError if it is missing, damaged, or of a newer version."""
    path = inside(folder / "run.json")
    if not path.is_file():
        raise UserError(f"{folder}: not a run's folder (run.json is missing)")
    try:
        run = json.loads(path.read_bytes(), object_pairs_hook=unique)
    except DuplicateKeyError as error:
        raise _damaged(path, str(error)) from None
    except (OSError, ValueError, RecursionError):
        raise _damaged(path, "it is not JSON") from None
    format_ = run.get("format") if isinstance(run, dict) else None
    if isinstance(format_, int) and format_ > FORMAT:
        raise UserError(
            f"{path}: written by a newer medagent (format {format_} of run.json; this version reads {FORMAT}); use the "
            "newer version"
        )
    try:
        return RunFile.model_validate(run).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {fault_text(first)}") from None


def _damaged(path: Path, why: str) -> UserError:
    return UserError(f"{path}: is damaged ({why}); choose another --round, or pass --overwrite")


@dataclass(frozen=True, slots=True)
class JournalKind:
    """A journal of a benchmark: the type of its rows, and the role of its calls in the account."""

    row: type[Row]
    role: str = "model"
    optional: bool = False
    """Whether only some runs write it."""


class Journals:
    """The open journals of a run; a context manager. If not `writable`, no file in the folder is changed.

    `first` is the file of the first journal if the run's folder has opened it. `optional` makes the optional journals
    too. `only` selects the units whose rows are read. While they are open, garbage is collected less often.
    """

    def __init__(
        self,
        path: Path,
        kinds: Mapping[str, JournalKind],
        *,
        first: JournalFile | None = None,
        writable: bool = True,
        optional: bool = False,
        only: Callable[[str], bool] | None = None,
    ) -> None:
        self._open: dict[str, Journal[Any]] = {}
        self._roles = {name: kind.role for name, kind in kinds.items()}
        with ExitStack() as stack:
            stack.enter_context(few_collections())
            for name, kind in kinds.items():
                if (writable and (optional or not kind.optional)) or (path / name).exists():
                    if writable:
                        note(path / name)
                    file = first if first is not None and first.path == path / name else None
                    journal = Journal(path / name, kind.row, writable=writable, file=file, only=only)
                    stack.callback(journal.close)
                    self._open[name] = journal
            self._stack = stack.pop_all()

    def __enter__(self) -> Journals:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __getitem__(self, name: str) -> Journal[Any]:
        return self._open[name]

    def __contains__(self, name: str) -> bool:
        return name in self._open

    @property
    def idle(self) -> bool:
        """Whether no row was written since the journals were opened."""
        return not any(journal.written for journal in self._open.values())

    @classmethod
    def of_folder(
        cls, folder: Path, kinds: Mapping[str, JournalKind], only: Callable[[str], bool] | None = None
    ) -> Journals:
        """Open a folder's journals for reading. Raises UserError if there is none."""
        if not any(inside(folder / name).is_file() for name in kinds):
            raise UserError(f"{folder}: not a run's folder ({next(iter(kinds))} is missing)")
        return cls(folder, kinds, writable=False, only=only)

    def items(self) -> Iterator[tuple[str, Journal[Any]]]:
        """Each journal with the role of its calls."""
        return ((self._roles[name], journal) for name, journal in self._open.items())

    def states(self) -> dict[str, str]:
        """The fingerprint of each journal."""
        return {name: journal.state for name, journal in self._open.items()}

    @property
    def spent(self) -> Spent:
        """The sum of what all journals spent."""
        return merged([journal.spent for journal in self._open.values()])

    @property
    def account(self) -> Spending:
        """The part of the sum that counts against the run's limits."""
        return self.account_beside("")

    def account_beside(self, name: str) -> Spending:
        """The same for all journals except one."""
        return sum(
            (journal.account for journal_name, journal in self._open.items() if journal_name != name), Spending()
        )


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage less often: episodes and grading make few cycles, and the search for them is slow."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@dataclass(frozen=True, slots=True)
class Run:
    """A run's folder, for reading. `journals` are its journals if they are open."""

    path: Path
    journals: Journals | None = None

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings that decide its rows. Raises UserError if `run.json` is missing or damaged."""
        settings: dict[str, Setting] = read_run(self.path)["settings"]
        return settings

    @property
    def document(self) -> dict[str, Any]:
        """The content of `run.json`. Raises UserError if it is missing or damaged."""
        return read_run(self.path)

    def units(self, journal: str = JOURNAL) -> Iterable[str]:
        """The units with a row, in the order of their last rows. Raises UserError for a damaged line."""
        if self.journals is not None and journal in self.journals:
            return self.journals[journal].units
        return [row.unit for row in last_rows(self.path / journal, Row)]

    def rows(self, row: type[R], journal: str = JOURNAL, units: Iterable[str] | None = None) -> Iterator[R]:
        """The last row of every unit in a journal; or of these units, in their order.

        Raises UserError for a damaged line.
        """
        if self.journals is not None and journal in self.journals:
            return self.journals[journal].rows(units)
        return last_rows(self.path / journal, row, units)
