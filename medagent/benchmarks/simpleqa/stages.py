"""Asking and judging through the run engine, each into its own journal, and what is said at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from medagent.benchmarks.simpleqa.calls import Call, CallJob, CallRow
from medagent.benchmarks.simpleqa.config import Effort
from medagent.benchmarks.simpleqa.folder import RunFiles
from medagent.benchmarks.simpleqa.judging import Judging, owed_calls
from medagent.engine.engine import Limits, carry_out, run_units
from medagent.engine.journal import Journal
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress, dollars
from medagent.engine.rows import Row, Spent
from medagent.models.settings import ModelSettings
from refsol.simpleqa.score import label_of
from refsol.simpleqa.verdict import CORRECT


@dataclass(frozen=True, slots=True)
class _RunLimits(Limits):
    """Limits over both journals of a run: `other` is what the other one has spent."""

    other: Spent = field(default_factory=Spent)

    def reached(self, spent: Spent) -> str | None:
        """See `Limits.reached`."""
        whole = self.other.model_copy()
        whole.merge(spent)
        return Limits.reached(self, whole)


class Stages:
    """The journals of a locked run folder; a context manager. `stopped` says which limit ended a stage early."""

    def __init__(self, files: RunFiles, effort: Effort, command: str) -> None:
        self.command = command
        """What continues the run."""
        self.answers = Journal(files.answers_path, CallRow)
        self.judgements = Journal(files.judgements_path, CallRow)
        self.stopped: str | None = None
        self.owed: list[str] = []
        self._files = files
        self._effort = effort
        self._paid_before = self.answers.spent.calls + self.judgements.spent.calls

    def __enter__(self) -> Stages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.answers.close()
        self.judgements.close()

    @property
    def idle(self) -> bool:
        """Whether nothing was owed: no call was made."""
        return self.answers.spent.calls + self.judgements.spent.calls == self._paid_before and not self.owed

    def ask(self, model: ModelSettings, calls: Sequence[Call]) -> None:
        """Make the calls that the journal of answers does not hold."""
        progress = Progress(quiet=self._effort.quiet)
        self._run([model], calls, self.answers, self.judgements.spent, progress)

    def judge(self, judging: Judging) -> None:
        """Have every answer of the run judged that the judging covers; nothing after a limit was reached."""
        if self.stopped:
            return
        calls = list(owed_calls(self._files.questions(), self._files.answers(), judging, self._files.verdicts()))
        progress = Progress(quiet=self._effort.quiet, right=_is_correct)
        self._run(judging.judges, calls, self.judgements, self.answers.spent, progress)

    def spending(self) -> Iterator[str]:
        """What each model and each judge has spent, a line each."""
        for role, journal in (("model", self.answers), ("judge", self.judgements)):
            for name, spent in _by_model(journal.rows()).items():
                yield (
                    f"{role} {name}: {spent.calls:,} calls, {spent.prompt:,} + {spent.completion:,} tokens,"
                    f" {dollars(spent.cost)}, {spent.retries} retries"
                )

    def failures(self) -> Iterator[str]:
        """What failed for reasons that are no answer, a line each; what earlier judges left undone is not owed."""
        owed = set(self.owed)
        for role, journal in (("answer", self.answers), ("judgement", self.judgements)):
            for row in journal.rows():
                if row.reply is None and (row.unit in owed or not row.owed):
                    yield f"{role} {row.unit}: {row.status}: {row.error or ''}"

    def _run(
        self,
        models: Sequence[ModelSettings],
        calls: Sequence[Call],
        journal: Journal[CallRow],
        other: Spent,
        progress: Progress,
    ) -> None:
        if not self._effort.quiet:
            print(f"Calling {', '.join(model.name for model in models)}", file=sys.stderr)
        job = CallJob(tuple(models), self._effort.concurrency)
        limits = _RunLimits(self._effort.max_cost, self._effort.max_tokens_total, other)
        executor = LocalExecutor(self._effort.concurrency)
        summary = carry_out(run_units(job, calls, journal, executor, progress, limits), self.command)
        self.stopped = summary.stopped
        self.owed += summary.owed


def _is_correct(row: Row) -> bool | None:
    if not isinstance(row, CallRow) or row.reply is None:
        return None
    return label_of(row.reply, "robust") == CORRECT


def _by_model(rows: Iterable[CallRow]) -> dict[str, Spent]:
    spent: dict[str, Spent] = {}
    for row in rows:
        spent.setdefault(row.model, Spent()).merge(row.spent)
    return spent
