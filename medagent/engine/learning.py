"""Agents that learn from their scores, unit by unit (`--sequential`).

When a unit's score is on disk, the agent's `learn` is called. Then the agent's folder (`agent/current`) is copied to
`agent/N`, and a row of `learned.jsonl` contains the copy's digest. A unit counts as learned when this row is written.
When a run is continued, the copy of the trial's last row is restored, and `learn` is called for scored units without a
row.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self, runtime_checkable

from medagent.core.clock import wall_clock
from medagent.core.errors import MedagentError, StopRunError, UserError
from medagent.core.writing import writing
from medagent.engine.journal import Journal
from medagent.engine.limits import UnitLimits
from medagent.engine.local import opened
from medagent.engine.plan import Done, Job, Take, Unit
from medagent.engine.progress import Progress
from medagent.engine.rows import Row, Spent
from medagent.engine.scores import Check, Score, Scoring

LEARNED, LEARNING = "learned.jsonl", "learning"
"""The journal of learned units, and the role of its calls in the account."""
LearnFrom = Literal["score", "facts"]
_FOLDER, _CURRENT = "agent", "current"

agent_folder: ContextVar[Path | None] = ContextVar("medagent_agent_folder", default=None)
"""The agent's folder in the current run; None if the run is not sequential."""


def folder_of(run: Path) -> Path:
    """The folder in which a run's agent stores what it learns. Raises UserError if links lead elsewhere."""
    return _own(_own(run / _FOLDER) / _CURRENT)


def _own(folder: Path) -> Path:
    if folder.is_symlink():
        raise UserError(f"{folder}: is a symbolic link; medagent writes only into folders of the run. Remove it")
    return folder


class LearnedRow(Row):
    """A row of `learned.jsonl`: the unit, the checksum of its row (`of`), and the copy of the agent's folder."""

    trial: int = 1
    number: int = 0
    """The number of the copy in the run; 0 if `learn` failed."""
    of: str = ""
    digest: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether `learn` has ended and the copy is on disk."""
        return self.status == "completed"


@dataclass(frozen=True, slots=True)
class Feedback:
    """The part of a unit's score that an agent sees. Reasons, checks and facts quote the expected answer, so they are
    empty unless the run uses `--sequential facts`.
    """

    value: float | None
    correct: bool | None
    kind: str = ""
    reason: str = ""
    checks: tuple[Check, ...] = ()
    facts: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, score: Score, what: LearnFrom) -> Self:
        """The feedback of a score."""
        if what == "score":
            return cls(score.value, score.correct, score.kind)
        facts = tuple(score.details.get("facts", ()))
        return cls(score.value, score.correct, score.kind, score.reason, score.checks, facts)


@runtime_checkable
class LearningWorker(Protocol):
    """A worker whose agent may learn."""

    async def learn(self, unit: Any, row: Any, feedback: Feedback, spent: Spent) -> None:
        """Call the agent's `learn`. The cost of its model calls is added to `spent`. Its exceptions pass through."""


class Learning:
    """The learning state of one run. `units` are all units of the stage, trial by trial."""

    def __init__(
        self,
        rows: Journal[Any],
        learned: Journal[LearnedRow],
        units: Sequence[Unit],
        scoring: Scoring[Any],
        what: LearnFrom,
    ) -> None:
        self._folder = folder_of(rows.path.parent).parent
        self._units = {unit.key: unit for unit in units}
        self._rows = rows
        self._journal = learned
        self._scoring = scoring
        self._what = what
        self._learned = {row.unit: row for row in self._journal.rows() if row.is_complete}

    @property
    def any_pending(self) -> bool:
        """Whether there are units to learn from, even if no unit is owed."""
        return any(self.pending(trial) for trial in self.trials)

    @property
    def trials(self) -> Sequence[int]:
        """The trials, in order."""
        return list(dict.fromkeys(map(self.trial, self._units)))

    def trial(self, unit: str) -> int:
        """The trial of a unit."""
        return self._scoring.trial(unit)

    def pending(self, trial: int) -> list[str]:
        """The finished units of a trial that are not yet learned, in the order of their ends."""
        of_trial = [unit for unit in self._rows.units if unit in self._units and self.trial(unit) == trial]
        return [unit for unit in of_trial if not self._rows.is_owed(unit) and not self._is_learned(unit)]

    def begin(self, trial: int) -> None:
        """Restore the agent's folder after its last `learn` in a trial, or empty it. Raises UserError."""
        current = self._folder / _CURRENT
        copies = {row.number: row for row in self._learned.values() if row.trial == trial}
        with writing(current):
            shutil.rmtree(current, ignore_errors=True)
            for left in self._left_over():
                shutil.rmtree(left, ignore_errors=True)
            if not copies:
                current.mkdir(parents=True)
                return
            last = self._folder / str(max(copies))
            if not _own(last).is_dir() or digest_of(last) != copies[max(copies)].digest:
                raise UserError(f"{last}: differs from the copy in {LEARNED}; restore it, or choose another --round")
            shutil.copytree(last, current, symlinks=True)

    async def learn(self, worker: LearningWorker, unit: str) -> None:
        """Make the agent learn from a unit, if the unit got a score. Raises StopRunError."""
        if self._rows.is_owed(unit):
            return
        scored = await self._scoring.of_unit(unit)
        if scored is None or scored.score is None or not scored.score.graded:
            return
        row = self._rows.row(unit)
        learned = LearnedRow(unit=unit, status="cancelled", trial=self.trial(unit), of=self._rows.checksum(unit))
        learned.started = wall_clock()
        try:
            await worker.learn(self._units[unit], row, Feedback.of(scored.score, self._what), learned.spent)
            number = 1 + max((step.number for step in self._learned.values()), default=0)
            learned.digest = self._copied(number)
            learned.number, learned.status = number, "completed"
        except MedagentError as error:
            learned.error = str(error)
            raise StopRunError(f"learn after {unit}: {error}") from error
        finally:
            learned.timestamp = wall_clock()
            if learned.is_complete or learned.spent.calls:
                await self._journal.append(learned)
        self._learned[unit] = learned

    def _copied(self, number: int) -> str:
        """Copy the agent's folder. Returns the copy's digest. Raises UserError."""
        target, aside = self._folder / str(number), self._folder / f".{number}"
        with writing(target):
            shutil.rmtree(aside, ignore_errors=True)
            shutil.copytree(self._folder / _CURRENT, aside, symlinks=True)
            for path in _files(aside):
                _sync(path)
            aside.rename(target)
            _sync(self._folder)
        return digest_of(target)

    def _is_learned(self, unit: str) -> bool:
        """Whether the agent learned from the row that the unit has now."""
        return unit in self._learned and self._learned[unit].of == self._rows.checksum(unit)

    def _left_over(self) -> Iterator[Path]:
        """Copies without a row: the process was killed before it wrote the row."""
        known = {str(row.number) for row in self._learned.values()}
        if self._folder.is_dir():
            yield from (path for path in self._folder.iterdir() if path.name not in known)


class SequentialExecutor:
    """Runs one unit after the other. Each trial starts with a new agent, which learns after each unit."""

    def __init__(self, learning: Learning, limits: UnitLimits) -> None:
        self._learning = learning
        self._limits = limits

    async def run(self, job: Job[Any, Any], take: Take[Any], done: Done[Any], progress: Progress) -> None:
        unit = await take()
        for trial in self._learning.trials:
            pending = self._learning.pending(trial) if learns(job) else []
            if not pending and (unit is None or self._learning.trial(unit.key) != trial):
                continue
            if learns(job):
                self._learning.begin(trial)
            async with opened(job, 1, self._limits) as (worker, carry_out):
                progress.watch(worker.stats)
                learner = worker if learns(job) and isinstance(worker, LearningWorker) else None
                if learner is not None:
                    for left in pending:
                        await self._learning.learn(learner, left)
                while unit is not None and self._learning.trial(unit.key) == trial:
                    performed = await carry_out(unit)
                    if performed.row is not None:
                        await done(performed.row)
                    if performed.stop is not None:
                        raise performed.stop
                    if performed.cancelled:
                        return
                    if learner is not None:
                        await self._learning.learn(learner, unit.key)
                    unit = await take()


def learns(job: object) -> bool:
    """Whether the agent of a job learns from scores."""
    return bool(getattr(job, "learns", False))


def digest_of(folder: Path) -> str:
    """SHA-256 over the names and contents of the files of a folder."""
    whole = hashlib.sha256()
    for path in sorted(_files(folder)):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        for part in (path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape"), content):
            whole.update(len(part).to_bytes(8) + part)
    return whole.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def _sync(path: Path) -> None:
    """Sync a file or folder to the disk, if the system supports it."""
    with suppress(OSError):
        place = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.fsync(place)
        finally:
            os.close(place)
