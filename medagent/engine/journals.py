"""The journals of a run, and the reader of a run's folder that benchmarks use."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from medagent.core.options import Setting
from medagent.engine._limits import Account
from medagent.engine.files import note
from medagent.engine.folder import read_run
from medagent.engine.journal import Journal, last_rows
from medagent.engine.journal_file import JournalFile
from medagent.engine.plan import JOURNAL
from medagent.engine.rows import R, Row, Spent


@dataclass(frozen=True, slots=True)
class JournalKind:
    """A journal of a benchmark: the type of its rows, and the role of its calls in the account."""

    row: type[Row]
    role: str = "model"
    optional: bool = False
    """Whether only some runs have it."""


class Journals:
    """The open journals of a run; a context manager. If not `writable`, no file in the folder is changed.

    `first` is the file of the first journal if the run's folder has opened it. `optional` makes the optional journals
    too. While they are open, garbage is collected less often.
    """

    def __init__(
        self,
        path: Path,
        kinds: Mapping[str, JournalKind],
        *,
        first: JournalFile | None = None,
        writable: bool = True,
        optional: bool = False,
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
                    journal = Journal(path / name, kind.row, writable=writable, file=file)
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
    def of_folder(cls, folder: Path, kinds: Mapping[str, JournalKind]) -> Journals:
        """Open a folder's journals for reading. Raises UserError if it has none."""
        if not any((folder / name).is_file() for name in kinds):
            raise UserError(f"{folder}: not a run's folder (it has no {next(iter(kinds))})")
        return cls(folder, kinds, writable=False)

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
    def account(self) -> Account:
        """The part of the sum that counts against the run's limits."""
        return self.account_beside("")

    def account_beside(self, name: str) -> Account:
        """The same for all journals except one."""
        return sum((journal.account for other, journal in self._open.items() if other != name), Account())


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


def merged(spents: Sequence[Spent]) -> Spent:
    """The sum of several accounts."""
    whole = Spent()
    for one in spents:
        whole.merge(one)
    return whole


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
