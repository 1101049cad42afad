"""The `Report` of a run's folder, or of a results file, computed from rows and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from medagent.core.errors import MedagentError, UserError
from medagent.core.options import Setting
from medagent.core.version import versions
from medagent.core.waiting import blocking
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import Journals, Run, read_run
from medagent.engine.learning import LEARNED, LEARNING
from medagent.engine.pairs import figures_of
from medagent.engine.patient_data import NOT_SHOWN, has_patient_data
from medagent.engine.plan import JOURNAL
from medagent.engine.report import (
    ITEMS,
    REPORT,
    DataRef,
    ItemOutcome,
    Report,
    TableLine,
    TableSection,
    read_items,
    read_report,
)
from medagent.engine.rows import FAILED, REFUSED, RETRIED, Row, Spent
from medagent.engine.scores import (
    NO_VERDICT,
    SCORES,
    UNREAD,
    Figures,
    Grader,
    Item,
    Score,
    Scored,
    Scoring,
    StoredScores,
    graded,
    mean_line,
)
from refsol.errors import RefsolError
from refsol.stats import wilson


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
    """A graded run: its units with their scores, its tables, the rule set, and the digests of the inputs."""

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
            f"{len(self.unread) / judged:.1%} of {judged} judged answers lack a readable label, more than the "
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
    repeated = journals[JOURNAL].repeated if JOURNAL in journals else {}
    run, figures, quotes = read_run(folder), graded.figures, not has_patient_data(folder)
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
        items=tuple(_outcome(one, unusual) for one in graded.scores),
        notes=(
            *figures.notes,
            *figures.background,
            *benchmark.notes(Run(folder, journals)),
            *ungraded_notes(graded.scores, quotes=quotes),
            *filter(None, [graded.too_many_unread]),
        ),
        finish_reasons=dict(Counter(chain.from_iterable(unusual.values())).most_common()),
        spent=journals.spent,
        unpriced=sum(journal.unpriced for _, journal in journals.items()),
        spending=spending,
        slowest=max((journal.slowest for _, journal in journals.items()), default=0.0),
        endings=dict(endings.most_common()),
        repeated={name: len(units) for name, units in repeated.items() if name in RETRIED and name != REFUSED},
        failed=tuple(failed),
        owed=tuple(standing.owed),
        ungraded=sum(_is_ungraded(one) for one in graded.scores)
        - (0 if graded.too_many_unread else len(graded.unread)),
        unusable=figures.unusable or _all_failed(benchmark.unit_noun, endings, failed, quotes=quotes),
        stopped=standing.stopped or standing.exceeded,
        command=standing.command,
        reused=standing.reused,
        files=(*graded.files, *journals.states(), SCORES, ITEMS, "run.json", REPORT),
        learned=_learned(journals),
        journals=dict(journals.states()),
        **{**figures.report, "overall": figures.overall or _overall(graded.scores)},
    )


def _learned(journals: Journals) -> tuple[str, ...]:
    return tuple(row.unit for row in journals[LEARNED].rows() if row.is_complete) if LEARNED in journals else ()


def _overall(scores: Sequence[Scored]) -> TableLine | None:
    """The mean of all items, for a grader without an overall line; None if no item is graded."""
    return mean_line("overall", scores) if any(one.value is not None for one in scores) else None


def _is_ungraded(one: Scored) -> bool:
    """Whether a finished unit is without a score because its grader failed or its judges reached no verdict."""
    return one.status in NO_VERDICT if one.score is None else not one.score.graded


def _all_failed(noun: str, endings: Mapping[str, int], failed: Sequence[str], *, quotes: bool) -> str:
    """A message with the most common error if the agent failed in all units; otherwise empty. Unless it `quotes`, it
    contains the error's type only.
    """
    if not failed or set(endings) != {FAILED}:
        return ""
    parts = (line.split(": ")[1:] for line in failed)
    ((error, _),) = Counter(": ".join(one if quotes else one[:2]) for one in parts).most_common(1)
    return f"All {endings[FAILED]} {noun} ended as {error}. The score is not a measurement. To retry: --retry {FAILED}."


def _outcome(one: Scored, unusual: Mapping[str, Sequence[str]]) -> ItemOutcome:
    """The outcome of a unit with its unusual finish reasons, each once."""
    reasons = unusual.get(one.unit)
    return replace(one.outcome, finish_reasons=tuple(dict.fromkeys(reasons))) if reasons else one.outcome


@dataclass(frozen=True, slots=True)
class GradedUnit:
    """A unit with its score and its row (or None). `verdicts` are its scores by rule set, its own first, if
    it is right by one and wrong by another; otherwise empty.
    """

    scored: Scored
    row: Row | None
    verdicts: Mapping[str, Score]


def opposed(rules: str, scores: Sequence[Scored], others: Iterable[tuple[str, Scored]]) -> dict[str, dict[str, Score]]:
    """By unit: the scores by `rules` and by other rule sets, if it is right by one and wrong by another."""
    known = {one.unit: one.score for one in scores if one.score}
    verdicts: dict[str, dict[str, Score]] = {}
    for name, other in others:
        own = known.get(other.unit)
        if own and other.score and {own.correct, other.correct} == {True, False}:
            verdicts.setdefault(other.unit, {rules: own})[name] = other.score
    return verdicts


class GradedRun:
    """A run's folder with the score of each unit, and its report. `journals` are its open journals.

    `options` are for grading. `last` is the report of the last command, whose units are owed if they have no row.
    Raises UserError if the data in `run.json` is missing or has another digest.
    """

    def __init__(
        self,
        benchmark: Benchmark[Any, Any],
        folder: Path,
        journals: Journals,
        options: Mapping[str, Any],
        stored: StoredScores,
        last: Report | None = None,
    ) -> None:
        self._benchmark, self._journals = benchmark, journals
        run = Run(folder, journals)
        self._source = benchmark.source(run, options)
        _check_data(folder, run.document, benchmark.data(self._source))
        self._items = {item.id: item for item in benchmark.items(self._source)}
        self._judged = benchmark.judged(run)
        units = dict.fromkeys([*journals[JOURNAL].units, *(last.owed if last else ())])
        own = self._rules = str(options.get("rules") or benchmark.rule_sets[0])
        also = [name for name in benchmark.rule_sets if options.get("side_by_side") and name != own]
        others = {name: self._scores_by(name) for name in also}
        with benchmark.grader(self._source, own) as grader:
            self.scores = self._scores(grader, stored, units)
            figures = figures_of(grader, self.scores)
            if others:
                figures = beside(figures, own, self.scores, others)
            allowed = benchmark.allow_unread(self._source)
            graded = Graded(self.scores, figures, grader.rules, grader.digests, allow_unread=allowed)
        standing = Standing(last.owed, stopped=last.stopped) if last else Standing(_owed(journals))
        self.report = compose(benchmark, folder, graded, journals, standing)

    def units(self) -> Iterator[GradedUnit]:
        """The units: trial by trial, each trial in the order of the benchmark's items."""
        others = (name for name in self._benchmark.rule_sets if name != self._rules)
        verdicts = opposed(self._rules, self.scores, ((name, one) for name in others for one in self._scores_by(name)))
        for one in self.scores:
            row = next(self._journals[JOURNAL].rows([one.unit]), None)
            yield GradedUnit(one, row, verdicts.get(one.unit, {}))

    def _scores_by(self, rules: str) -> list[Scored]:
        with self._benchmark.grader(self._source, rules) as grader:
            return self._scores(grader, StoredScores(), self._journals[JOURNAL].units)

    def _scores(self, grader: Grader[Any], stored: StoredScores, units: Iterable[str]) -> list[Scored]:
        scoring: Scoring[Any] = Scoring(self._items, grader, self._journals[JOURNAL], stored, self._judged)
        return blocking(scoring.of_units(units))


def last_report(folder: Path, journals: Journals) -> Report | None:
    """The report in `report.json` if no row was written since then; otherwise None."""
    report = read_report(folder)
    return report if report is not None and report.journals == journals.states() else None


def report_of(benchmark: Benchmark[Any, Any], folder: Path) -> Report:
    """The report of a run's folder. Units without a stored score are graded; nothing is written.

    If the run's data is missing, the report is that in `report.json`, or one without scores. Raises UserError if the
    folder is not a run's, or is damaged.
    """
    with Journals.of_folder(folder, benchmark.journals) as journals:
        last = last_report(folder, journals)
        try:
            return GradedRun(benchmark, folder, journals, {}, StoredScores(folder / SCORES), last).report
        except (MedagentError, RefsolError) as error:
            if last is not None:
                return last.model_copy(update={"items": read_items(folder)})
            graded = Graded(_rows(benchmark, journals), Figures(notes=[f"Not graded yet: {error}"]))
            return compose(benchmark, folder, graded, journals, Standing(_owed(journals)))


def graded_report(benchmark: Benchmark[Any, Any], folder: Path, options: Mapping[str, Any]) -> Report:
    """Grade every unit of a run's folder again and return the report. `options` are for grading. Nothing is
    written.

    Raises UserError if the data in `run.json` is missing or has another digest.
    """
    with Journals.of_folder(folder, benchmark.journals) as journals:
        return GradedRun(benchmark, folder, journals, options, StoredScores()).report


def scores_of(benchmark: Benchmark[Any, Any], folder: Path) -> list[Scored]:
    """The units of a run's folder with their scores. Raises UserError."""
    with Journals.of_folder(folder, benchmark.journals) as journals:
        return GradedRun(benchmark, folder, journals, {}, StoredScores(folder / SCORES)).scores


def _check_data(folder: Path, run: Mapping[str, Any], data: DataRef) -> None:
    """Raises UserError if a run's items are not the items of `data`."""
    recorded = (run.get("data") or {}).get("digest")
    if recorded and data.digest and recorded != data.digest:
        raise UserError(
            f"{folder / 'run.json'}: the digest of the run's data is {recorded[:12]}, but the digest of {data.name} "
            f"{data.version} is {data.digest[:12]}; pass the run's data with the options of medagent grade"
        )


def _rows(benchmark: Benchmark[Any, Any], journals: Journals) -> list[Scored]:
    """The units of a run that cannot be graded, with their statuses."""
    journal = journals[JOURNAL]
    rows = [(unit, *benchmark.named(unit)) for unit in journal.units]
    return [Scored(item, trial, unit, journal.status(unit) or "") for unit, item, trial in rows]


def _owed(journals: Journals) -> list[str]:
    return [unit for _, journal in journals.items() for unit in journal.owed()]


def ungraded_notes(scores: Sequence[Scored], *, quotes: bool = True) -> Iterator[str]:
    """Notes about units that could not be graded, the first ones by name, with the reason if they may have `quotes`."""
    ungraded = [(one.unit, one.score.reason) for one in scores if one.score is not None and not one.score.graded]
    yield from (f"Not graded: {unit!a}: {reason if quotes else NOT_SHOWN}" for unit, reason in ungraded[:_LISTED])
    if len(ungraded) > _LISTED:
        yield f"Not graded: {len(ungraded) - _LISTED} more"


_LISTED = 20


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """The rows of a results file in its order, each with its item and its trial.

    `source` identifies the data and decides the grading, as for a run. `settings` and `versions` are from a `run.json`
    next to the file.
    """

    source: Any
    data: DataRef
    rows: Sequence[tuple[Item, int, Row]]
    notes: Sequence[str] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)


@dataclass(frozen=True, slots=True)
class GradedFile:
    """The report of a results file, and its scores and graded rows for a page."""

    report: Report
    scores: Sequence[Scored]
    units: Sequence[GradedUnit]


def grade_rows(
    benchmark: Benchmark[Any, Any],
    path: Path,
    file: RecordedRows,
    options: Mapping[str, Any],
    *,
    every_rule: bool = False,
) -> GradedFile:
    """Grade the rows of a results file. `options` are for grading. `every_rule`: also by all other rule sets.

    Raises UserError, InputError.
    """
    own, side_by_side = str(options.get("rules") or benchmark.rule_sets[0]), bool(options.get("side_by_side"))
    others = {}
    for name in benchmark.rule_sets:
        if name != own and (side_by_side or every_rule):
            with benchmark.grader(file.source, name) as other:
                others[name] = blocking(_scores(other, file))
    with benchmark.grader(file.source, own) as grader:
        scores = blocking(_scores(grader, file))
        figures = figures_of(grader, scores)
    if side_by_side:
        figures = beside(figures, own, scores, others)
    report = Report(
        benchmark=benchmark.name,
        folder=str(path),
        data=file.data,
        settings=dict(file.settings),
        versions=dict(file.versions),
        rule_set=grader.rules,
        items=tuple(one.outcome for one in scores),
        notes=(*file.notes, *ungraded_notes(scores), *figures.notes, *figures.background),
        ungraded=sum(one.score is not None and not one.score.graded for one in scores),
        **figures.report,
    )

    verdicts = opposed(own, scores, ((name, one) for name, some in others.items() for one in some))
    rows = zip(scores, file.rows, strict=True)
    return GradedFile(report, scores, [GradedUnit(one, row, verdicts.get(one.unit, {})) for one, (_, _, row) in rows])


async def _scores(grader: Grader[Any], file: RecordedRows) -> list[Scored]:
    return [
        Scored(item, trial, row.unit, row.status, await graded(grader, item, row)) for item, trial, row in file.rows
    ]


_NAMED = 20


def beside(figures: Figures, rules: str, scores: Sequence[Scored], others: Mapping[str, Sequence[Scored]]) -> Figures:
    """The tables, extended with the totals of other rule sets."""
    lines = [_line(name, some) for name, some in {rules: scores, **others}.items()]
    section = TableSection(title="The same items under each rule set", lines=tuple(lines))
    notes = [note for name, some in others.items() for note in _notes(name, scores, some)]
    details = {
        "others": {name: _rate(some) for name, some in others.items()},
        "differing": {name: differing(scores, some) for name, some in others.items()},
    }
    return replace(
        figures,
        table=[*figures.table, section],
        notes=[*notes, *figures.notes],
        details={**figures.details, **details},
    )


def differing(scores: Sequence[Scored], others: Sequence[Scored]) -> list[str]:
    """The items on which two rule sets differ, without items that one of them could not grade."""
    verdicts = {one.unit: one.correct for one in others}
    return [one.item.id for one in scores if {one.correct, verdicts.get(one.unit)} == {True, False}]


def _notes(name: str, scores: Sequence[Scored], others: Sequence[Scored]) -> Iterator[str]:
    if names := differing(scores, others):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"Graded differently by {name}: {', '.join(names[:_NAMED])}{more}"
    ungraded = [one.score.reason for one in others if one.score is not None and one.correct is None]
    if ungraded:
        yield f"Not graded by {name}: {len(ungraded)}, the first because: {ungraded[0]}"


def _rate(scores: Sequence[Scored]) -> dict[str, Any]:
    line = _line("", scores)
    right, ungraded = line.counts["right"], line.more["not graded"]
    return {
        "right": right,
        "wrong": line.n - right,
        "ungraded": ungraded,
        "rate": line.value,
        "rate_of_all": line.more["rate of all"],
        "interval_95": list(line.interval or ()),
    }


def _line(name: str, scores: Sequence[Scored]) -> TableLine:
    outcomes = [one.correct for one in scores]
    right, graded = outcomes.count(True), len(outcomes) - outcomes.count(None)
    bounds = wilson(right, graded)
    return TableLine(
        name=name,
        n=graded,
        value=right / graded if graded else None,
        interval=(bounds.low, bounds.high) if graded else None,
        counts={"right": right},
        more={"not graded": outcomes.count(None), "rate of all": right / len(outcomes) if outcomes else None},
    )
