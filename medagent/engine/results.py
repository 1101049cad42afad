"""The `Report` of a run's folder: composed from its journals and scores, stored as `report.json`.

The stored report is used if the journals and the inputs of the scores have not changed. Otherwise the report is
composed again from the stored scores; stale and missing scores are computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from medagent.core.errors import MedagentError, UserError
from medagent.core.installed import grading_digest
from medagent.core.waiting import blocking
from medagent.engine._memory import few_collections
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import read_run
from medagent.engine.journals import Journals, Run, states_of
from medagent.engine.learning import LEARNED, LEARNING
from medagent.engine.plan import JOURNAL
from medagent.engine.report import DataRef, ItemOutcome, Report, TableLine
from medagent.engine.report_file import ITEMS, REPORT, Basis, StoredReport, read_report
from medagent.engine.rows import FAILED, Spent
from medagent.engine.score_book import SCORES, ScoreBook
from medagent.engine.scores import Figures, Grader, Scored, mean_line
from medagent.engine.scoring import NO_VERDICT, UNREAD, Scoring
from medagent.engine.side_by_side import beside
from refsol.errors import RefsolError


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a run after its stages: the owed units, the total number of units, and why it ended early."""

    owed: Sequence[str] = ()
    total: int = 0
    stopped: str | None = None
    exceeded: str | None = None
    """The limit that the whole run exceeds."""
    command: str = ""
    """The command that continues the run."""
    reused: int = 0
    """The number of units that were already finished."""


@dataclass(frozen=True, slots=True)
class Graded:
    """A graded run: its units with their scores, its figures, the rule set, and the digests of the inputs."""

    scores: Sequence[Scored]
    figures: Figures
    rules: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[str] = ()
    allow_unread: float = 0.0
    """The share of judged answers that may lack a readable label."""

    @property
    def unread(self) -> Sequence[Scored]:
        """The units whose judges' replies cannot be read."""
        return [one for one in self.scores if one.score is None and one.status == UNREAD]

    @property
    def too_many_unread(self) -> str:
        """A message if too many units lack a readable label, so that the run is not complete; otherwise empty."""
        judged = sum(one.score is not None or one.status in (UNREAD, "failed") for one in self.scores)
        if len(self.unread) <= self.allow_unread * judged:
            return ""
        return (
            f"{len(self.unread) / judged:.1%} of {judged} judged answers have no readable label, more than the "
            f"{self.allow_unread:.1%} of --allow-unread; repeat the command to judge them again"
        )


def compose(
    benchmark: Benchmark[Any, Any], folder: Path, graded: Graded, journals: Journals, standing: Standing
) -> Report:
    """Make the report of a run's folder."""
    endings: Counter[str] = Counter()
    failed: list[str] = []
    owed = set(standing.owed)
    spending: dict[str, Spent] = {}
    unusual: dict[str, list[str]] = {}
    for role, journal in journals.items():
        if role != LEARNING:
            endings.update(journal.endings())
        unusual |= journal.unusual
        for unit, status, error in journal.failures():
            if unit in owed or status == FAILED:
                failed.append(f"{unit}: {status}: {error}")
        spending.update({f"{role} {who}".strip(): spent for who, spent in journal.spent_by.items()})
    run, figures = read_run(folder), graded.figures
    return Report(
        benchmark=benchmark.name,
        folder=str(folder),
        data=DataRef.model_validate(run.get("data") or {"name": ""}),
        settings=run["settings"],
        versions=run.get("versions", {}),
        rule_set=graded.rules,
        digests=dict(graded.digests),
        started=min(filter(None, (journal.began for _, journal in journals.items())), default=""),
        ended=max((journal.ended for _, journal in journals.items()), default=""),
        measure=figures.measure,
        figure=figures.figure,
        count=figures.count,
        table=tuple(figures.table),
        overall=figures.overall or _overall(graded.scores),
        items=tuple(_outcome(one, unusual) for one in graded.scores),
        notes=(
            *figures.notes,
            *benchmark.notes(Run(folder, journals)),
            *ungraded_notes(graded.scores),
            *filter(None, [graded.too_many_unread]),
        ),
        finish_reasons=dict(Counter(chain.from_iterable(unusual.values())).most_common()),
        spent=journals.spent,
        unpriced=sum(journal.unpriced for _, journal in journals.items()),
        spending=spending,
        slowest=max((journal.slowest for _, journal in journals.items()), default=0.0),
        endings=dict(endings.most_common()),
        failed=tuple(failed),
        owed=tuple(standing.owed),
        ungraded=sum(_is_ungraded(one) for one in graded.scores)
        - (0 if graded.too_many_unread else len(graded.unread)),
        unusable=figures.unusable or _all_failed(benchmark.unit_noun, endings, failed),
        stopped=standing.stopped or standing.exceeded,
        command=standing.command,
        reused=standing.reused,
        files=(*graded.files, *journals.states(), SCORES, ITEMS, "run.json", REPORT),
        learned=_learned(journals),
        journals=dict(journals.states()),
        **figures.details,
    )


def _learned(journals: Journals) -> tuple[str, ...]:
    return tuple(row.unit for row in journals[LEARNED].rows() if row.is_complete) if LEARNED in journals else ()


def _overall(scores: Sequence[Scored]) -> TableLine | None:
    """The mean of all items, for a grader without an overall line; None if no item is graded."""
    return mean_line("overall", scores) if any(one.value is not None for one in scores) else None


def _is_ungraded(one: Scored) -> bool:
    """Whether a finished unit has no score because its grader failed or its judges reached no verdict."""
    return one.status in NO_VERDICT if one.score is None else not one.score.graded


def _all_failed(noun: str, endings: Mapping[str, int], failed: Sequence[str]) -> str:
    """A message with the most common error if the agent failed in all units; otherwise empty."""
    if not failed or set(endings) != {FAILED}:
        return ""
    ((error, _),) = Counter(line.partition(": ")[2] for line in failed).most_common(1)
    return f"All {endings[FAILED]} {noun} ended as {error}. The score is not a measurement. To retry: --retry {FAILED}."


def _outcome(one: Scored, unusual: Mapping[str, Sequence[str]]) -> ItemOutcome:
    """The outcome of a unit with its unusual finish reasons, each once."""
    reasons = unusual.get(one.unit)
    return replace(one.outcome, finish_reasons=tuple(dict.fromkeys(reasons))) if reasons else one.outcome


@few_collections()
def report_of(benchmark: Benchmark[Any, Any], folder: Path, book: ScoreBook | None = None) -> Report:
    """The stored report of a run's folder if the journals have not changed, otherwise a recomputed one, which is not
    written. `book` has known scores; by default the stored ones.

    Raises UserError if the folder is not a run's, or is damaged.
    """
    stored = read_report(folder)
    if stored is not None and is_unchanged(benchmark, folder, stored):
        return stored.report
    with Journals.of_folder(folder, benchmark.journals) as journals:
        try:
            graded = blocking(_scored(benchmark, folder, journals, {}, book or ScoreBook(folder / SCORES)))
        except (MedagentError, RefsolError) as error:
            graded = Graded(_rows(benchmark, journals), Figures(notes=[f"Not graded yet: {error}"]))
        return compose(benchmark, folder, graded, journals, Standing(_owed(journals)))


def ranked_report(benchmark: Benchmark[Any, Any], folder: Path) -> Report:
    """The stored report of a run's folder if it has all units and nothing has changed. Otherwise every unit is scored
    again, and the report is not written. Raises UserError like `graded_report`.
    """
    stored = read_report(folder)
    if stored is not None and len(stored.report.items) == stored.basis.units:
        with benchmark.grader(benchmark.source(Run(folder), {}), benchmark.rule_sets[0]) as grader:
            digests = grader.digests
        if is_unchanged(benchmark, folder, stored, digests):
            return stored.report.model_copy(update={"folder": str(folder)})
    return graded_report(benchmark, folder, {})


@few_collections()
def graded_report(benchmark: Benchmark[Any, Any], folder: Path, options: Mapping[str, Any]) -> Report:
    """Score every unit of a run's folder again and return the report. `options` are those of grading. Nothing is
    written.

    Raises UserError if the data in `run.json` is missing or has another digest.
    """
    with Journals.of_folder(folder, benchmark.journals) as journals:
        graded = blocking(_scored(benchmark, folder, journals, options))
        return compose(benchmark, folder, graded, journals, Standing(_owed(journals)))


@few_collections()
def scores_of(benchmark: Benchmark[Any, Any], folder: Path, options: Mapping[str, Any]) -> list[Scored]:
    """The units of a run's folder with their scores, for exports. Raises UserError."""
    with Journals.of_folder(folder, benchmark.journals) as journals:
        return list(blocking(_scored(benchmark, folder, journals, options, ScoreBook(folder / SCORES))).scores)


async def _scored(
    benchmark: Benchmark[Any, Any],
    folder: Path,
    journals: Journals,
    options: Mapping[str, Any],
    book: ScoreBook | None = None,
) -> Graded:
    """Score the units of a folder by the rule set in `options`, or the benchmark's first. `book` has known scores."""
    run_file, run = read_run(folder), Run(folder, journals)
    source = benchmark.source(run, options)
    check_data(folder, run_file, benchmark.data(source))
    items = {item.id: item for item in benchmark.items(source)}
    own = str(options.get("rules") or benchmark.rule_sets[0])
    others: dict[str, Sequence[Scored]] = {}
    also = [name for name in benchmark.rule_sets if options.get("side_by_side") and name != own]
    for name in also:
        with benchmark.grader(source, name) as other:
            others[name] = await _scores(benchmark, run, journals, items, other)
    with benchmark.grader(source, own) as grader:
        scores = await _scores(benchmark, run, journals, items, grader, book)
        figures = grader.figures(scores)
        if others:
            figures = beside(figures, own, scores, others)
        allowed = benchmark.allow_unread(source)
        return Graded(scores, figures, grader.rules, grader.digests, allow_unread=allowed)


async def _scores(
    benchmark: Benchmark[Any, Any],
    run: Run,
    journals: Journals,
    items: Mapping[str, Any],
    grader: Grader[Any],
    book: ScoreBook | None = None,
) -> list[Scored]:
    scoring = Scoring(items, grader, journals[JOURNAL], book, benchmark.judged(run))
    return in_order(items, await scoring.of_units(journals[JOURNAL].units))


def in_order(items: Iterable[str], scores: Iterable[Scored]) -> list[Scored]:
    """Scores trial by trial, each trial in the order of the benchmark's items."""
    places = {item: place for place, item in enumerate(items)}
    return sorted(scores, key=lambda one: (one.trial, places[one.item.id]))


def check_data(folder: Path, run: Mapping[str, Any], data: DataRef) -> None:
    """Raises UserError if a run's items are not those of `data`."""
    recorded = (run.get("data") or {}).get("digest")
    if recorded and data.digest and recorded != data.digest:
        raise UserError(
            f"{folder / 'run.json'}: the run's data has the digest {recorded[:12]}, but {data.name} {data.version} has "
            f"{data.digest[:12]}; pass the run's data with the options of medagent grade"
        )


def basis_of(benchmark: Benchmark[Any, Any], journals: Journals, request: str = "") -> Basis:
    """The inputs of a report that is composed now. `request` is the digest of the command's settings."""
    return Basis(grading_digest(type(benchmark)), request, sum(1 for _ in journals[JOURNAL].units))


def is_unchanged(
    benchmark: Benchmark[Any, Any], folder: Path, stored: StoredReport, digests: Mapping[str, str] | None = None
) -> bool:
    """Whether the inputs of a stored report are unchanged: journals, items, grading code, and the digests of the
    scores' inputs (`digests` if a grader is open). Missing data does not count as a change.
    """
    code = grading_digest(type(benchmark))
    if not code or code != stored.basis.code or not stored.holds(folder, ITEMS):
        return False
    if states_of(folder, benchmark.journals) != stored.report.journals:
        return False
    if digests is None:
        try:
            with benchmark.grader(benchmark.source(Run(folder), {}), benchmark.rule_sets[0]) as grader:
                digests = grader.digests
        except (MedagentError, RefsolError):
            return True
    return dict(digests) == stored.report.digests


def _rows(benchmark: Benchmark[Any, Any], journals: Journals) -> list[Scored]:
    """The units of a run that cannot be graded, with their statuses."""
    journal = journals[JOURNAL]
    rows = [(unit, *benchmark.named(unit)) for unit in journal.units]
    return [Scored(item, trial, unit, journal.status(unit) or "") for unit, item, trial in rows]


def _owed(journals: Journals) -> list[str]:
    return [unit for _, journal in journals.items() for unit in journal.owed()]


def ungraded_notes(scores: Sequence[Scored]) -> Iterator[str]:
    """Notes about units that could not be graded, the first ones by name."""
    ungraded = [(one.unit, one.score.reason) for one in scores if one.score is not None and not one.score.graded]
    yield from (f"Not graded: {unit!a}: {reason}" for unit, reason in ungraded[:_LISTED])
    if len(ungraded) > _LISTED:
        yield f"Not graded: {len(ungraded) - _LISTED} more"


_LISTED = 20
