"""The `Report` of a run's folder, or of a results file, computed from rows and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from medagent.core.errors import NOT_SHOWN, MedagentError, UserError
from medagent.core.number_formats import counted
from medagent.core.options import Setting
from medagent.core.version import versions
from medagent.core.waiting import blocking
from medagent.engine.accounts import lines as account_lines
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import Journals, Run, read_run
from medagent.engine.learning import LEARNED, LEARNING
from medagent.engine.limits import Stop
from medagent.engine.pairs import metrics_of
from medagent.engine.patient_data import has_patient_data
from medagent.engine.plan import JOURNAL
from medagent.engine.recorded_verdicts import RECORDED, RecordedVerdicts
from medagent.engine.report import (
    ITEMS,
    MISSING,
    REPORT,
    STORED,
    BackgroundNote,
    DataRef,
    ItemOutcome,
    Report,
    TableLine,
    TableSection,
    read_items,
    read_report,
)
from medagent.engine.rows import FAILED, REFUSED, RETRIED, FailedUnit, Row, Spent
from medagent.engine.scores import (
    NO_VERDICT,
    SCORES,
    UNREAD,
    Grader,
    Item,
    Metrics,
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
    stopped: Stop | None = None
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
    metrics: Metrics
    rules: str = ""
    rules_version: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[str] = ()
    allow_unread: float = 0.0
    """The share of judged answers that may lack a readable label."""

    @property
    def unread(self) -> Sequence[Scored]:
        """The units whose judges' replies cannot be read."""
        return [score for score in self.scores if score.score is None and score.status == UNREAD]

    @property
    def too_many_unread(self) -> str:
        """A message if too many units lack a readable label, so that the run is not complete; otherwise empty."""
        judged = sum(score.score is not None or score.status in (UNREAD, "failed") for score in self.scores)
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
    endings = _endings(journals)
    failed: list[FailedUnit] = []
    owed = set(standing.owed)
    spending: dict[str, Spent] = {}
    unusual: dict[str, list[str]] = {}
    for role, journal in journals.items():
        unusual |= journal.unusual
        failed += [failure for failure in journal.failures() if failure.unit in owed or failure.status == FAILED]
        spending.update({f"{role} {who}".strip(): spent for who, spent in journal.spent_by.items()})
    run, metrics, quotes = read_run(folder), graded.metrics, not has_patient_data(folder)
    recorded = _recorded(benchmark, graded, journals)
    data = DataRef.model_validate(run.get("data") or {"name": ""})
    of_run = list(benchmark.notes(Run(folder, journals)))
    return Report(
        benchmark=benchmark.name,
        folder=str(folder),
        data=data,
        settings=run["settings"],
        versions=run.get("versions", {}),
        rule_set=graded.rules,
        rules_version=graded.rules_version,
        digests=dict(graded.digests),
        started=min(filter(None, (journal.began for _, journal in journals.items())), default=""),
        ended=max((journal.ended for _, journal in journals.items()), default=""),
        items=_outcomes(graded.scores, unusual),
        patients=len({score.item.patient for score in graded.scores} - {""}),
        notes=(
            *(recorded.notes if recorded else ()),
            *account_lines(data.accounts),
            *_graded_notes(graded, of_run, quotes=quotes),
        ),
        finish_reasons=dict(Counter(chain.from_iterable(unusual.values())).most_common()),
        spent=journals.spent,
        unpriced=sum(journal.unpriced for _, journal in journals.items()),
        spending=spending,
        slowest=max((journal.slowest for _, journal in journals.items()), default=0.0),
        endings=dict(endings.most_common()),
        repeated=_repeated(journals),
        failed=tuple(failed),
        owed=tuple(standing.owed),
        ungraded=_ungraded(graded),
        unusable=metrics.unusable or _all_failed(benchmark.unit_noun, endings, failed, quotes=quotes),
        stopped=standing.stopped.text if standing.stopped else standing.exceeded,
        command=standing.command,
        reused=standing.reused,
        files=(*graded.files, *journals.states(), SCORES, ITEMS, "run.json", REPORT),
        learned=_learned(journals),
        journals=dict(journals.states()),
        **{
            **metrics.report,
            **({RECORDED: recorded.document} if recorded else {}),
            "background": (*metrics.background, *(note for note in of_run if isinstance(note, BackgroundNote))),
            "overall": metrics.overall or _overall(graded.scores),
        },
    )


def _endings(journals: Journals) -> Counter[str]:
    """How many units ended with each status."""
    endings: Counter[str] = Counter()
    for role, journal in journals.items():
        if role != LEARNING:
            endings.update(journal.endings())
    return endings


def _repeated(journals: Journals) -> dict[str, int]:
    """How many units were run again, by the status that was the reason."""
    repeated = journals[JOURNAL].repeated if JOURNAL in journals else {}
    return {name: len(units) for name, units in repeated.items() if name in RETRIED and name != REFUSED}


def _graded_notes(graded: Graded, of_run: Sequence[str], *, quotes: bool) -> Iterator[str]:
    """What a reader of the scores needs to know; `of_run` are the benchmark's own notes."""
    yield from graded.metrics.notes
    yield from graded.metrics.background
    yield from of_run
    yield from ungraded_notes(graded.scores, quotes=quotes)
    if graded.too_many_unread:
        yield graded.too_many_unread


def _ungraded(graded: Graded) -> int:
    """The number of units without a verdict, apart from unreadable labels as long as there are few."""
    ungraded = sum(_is_ungraded(score) for score in graded.scores)
    return ungraded if graded.too_many_unread else ungraded - len(graded.unread)


def _learned(journals: Journals) -> tuple[str, ...]:
    return tuple(row.unit for row in journals[LEARNED].rows() if row.is_complete) if LEARNED in journals else ()


def _recorded(benchmark: Benchmark[Any, Any], graded: Graded, journals: Journals) -> RecordedVerdicts | None:
    """The verdicts of the file with the answers, compared under the benchmark's first rule set. None without any."""
    is_first = len(benchmark.rule_sets) == 1 or graded.rules == benchmark.rule_sets[0]
    if JOURNAL not in journals or not is_first:
        return None
    return RecordedVerdicts.of(graded.scores, journals[JOURNAL].recorded)


def _overall(scores: Sequence[Scored]) -> TableLine | None:
    """The mean of all items, for a grader without an overall line; None if no item is graded."""
    return mean_line("overall", scores) if any(score.value is not None for score in scores) else None


def _is_ungraded(scored: Scored) -> bool:
    """Whether a finished unit is without a score because its grader failed or its judges reached no verdict."""
    return scored.status in NO_VERDICT if scored.score is None else not scored.score.graded


def _all_failed(noun: str, endings: Mapping[str, int], failed: Sequence[FailedUnit], *, quotes: bool) -> str:
    """A message with the most common error if the agent failed in all units; otherwise empty. Unless it `quotes`, it
    contains the error's type only.
    """
    if not failed or set(endings) != {FAILED}:
        return ""
    errors = Counter(f"{failure.status}: {failure.error if quotes else failure.error_type}" for failure in failed)
    ((error, _),) = errors.most_common(1)
    return f"All {endings[FAILED]} {noun} ended as {error}. The score is not a measurement. To retry: --retry {FAILED}."


def _outcomes(scores: Iterable[Scored], unusual: Mapping[str, Sequence[str]]) -> tuple[ItemOutcome, ...]:
    """The outcomes of units with the number of each patient, and with their unusual finish reasons, each once."""
    numbers: dict[str, str] = {}
    outcomes = []
    for score in scores:
        patient = score.item.patient
        number = numbers.setdefault(patient, str(len(numbers) + 1)) if patient else ""
        reasons = tuple(dict.fromkeys(unusual.get(score.unit, ())))
        outcomes.append(replace(score.outcome, patient=number, finish_reasons=reasons))
    return tuple(outcomes)


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
    known = {score.unit: score.score for score in scores if score.score}
    verdicts: dict[str, dict[str, Score]] = {}
    for name, scored in others:
        score = known.get(scored.unit)
        if score and scored.score and {score.correct, scored.correct} == {True, False}:
            verdicts.setdefault(scored.unit, {rules: score})[name] = scored.score
    return verdicts


class ScoredRun:
    """A run's folder whose units can be scored. `journals` are its open journals, `options` are for grading.

    Raises UserError if the data in `run.json` is missing or has another digest.
    """

    def __init__(
        self, benchmark: Benchmark[Any, Any], folder: Path, journals: Journals, options: Mapping[str, Any]
    ) -> None:
        self._benchmark, self._journals = benchmark, journals
        run = Run(folder, journals)
        self._source = benchmark.source(run, options)
        _check_data(folder, run.document, benchmark.data(self._source))
        self._items = {item.id: item for item in benchmark.read_items(self._source)}
        self.judged = benchmark.judged(run)
        """The judgements of its units; None if it is not judged."""

    def scores_by(self, rules: str, stored: StoredScores) -> list[Scored]:
        """The units with their scores by a rule set."""
        with self._benchmark.grader(self._source, rules) as grader:
            return self._scores(grader, stored, self._journals[JOURNAL].units)

    def _scores(self, grader: Grader[Any], stored: StoredScores, units: Iterable[str]) -> list[Scored]:
        scoring: Scoring[Any] = Scoring(self._items, grader, self._journals[JOURNAL], stored, self.judged)
        return blocking(scoring.of_units(units))


class GradedRun(ScoredRun):
    """A run's folder with the score of each unit, and its report.

    `last` is the report of the last command, whose units are owed if they have no row. Raises UserError.
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
        super().__init__(benchmark, folder, journals, options)
        units = dict.fromkeys([*journals[JOURNAL].units, *(last.owed if last else ())])
        rule_set = self._rules = str(options.get("rules") or benchmark.rule_sets[0])
        also = [name for name in benchmark.rule_sets if options.get("side_by_side") and name != rule_set]
        others = {name: self.scores_by(name, StoredScores()) for name in also}
        with benchmark.grader(self._source, rule_set) as grader:
            self.scores = self._scores(grader, stored, units)
            metrics = metrics_of(grader, self.scores)
            if others:
                metrics = beside(metrics, rule_set, self.scores, others)
            allowed = benchmark.allow_unread(self._source)
            rules, version = grader.rules, grader.rules_version
            graded = Graded(self.scores, metrics, rules, version, grader.digests, allow_unread=allowed)
        standing = Standing(_owed(journals))
        if last is not None:
            standing = Standing(last.owed, stopped=Stop(last.stopped) if last.stopped else None)
        self.report = compose(benchmark, folder, graded, journals, standing)

    def units(self) -> Iterator[GradedUnit]:
        """The units: trial by trial, each trial in the order of the benchmark's items."""
        others = (name for name in self._benchmark.rule_sets if name != self._rules)
        verdicts = opposed(
            self._rules,
            self.scores,
            ((name, scored) for name in others for scored in self.scores_by(name, StoredScores())),
        )
        for scored in self.scores:
            row = next(self._journals[JOURNAL].rows([scored.unit]), None)
            yield GradedUnit(scored, row, verdicts.get(scored.unit, {}))


def last_report(folder: Path, journals: Journals) -> Report | None:
    """The report in `report.json` if no row was written since then; otherwise None."""
    report = read_report(folder)
    return report if report is not None and report.journals == journals.states() else None


def report_of(benchmark: Benchmark[Any, Any], folder: Path) -> Report:
    """The report of a run's folder. Units without a stored score are graded; nothing is written.

    If the run's data cannot be read, the report is that in `report.json`, with the reason as the detail STORED, or one
    without scores. Raises UserError if the
    folder is not a run's, or is damaged.
    """
    with Journals.of_folder(folder, benchmark.journals) as journals:
        last = last_report(folder, journals)
        try:
            return GradedRun(benchmark, folder, journals, {}, StoredScores(folder / SCORES), last).report
        except (MedagentError, RefsolError) as error:
            if last is not None:
                return last.model_copy(update={"items": read_items(folder), STORED: str(error)})
            graded = Graded(_rows(benchmark, journals), Metrics(notes=[f"Not graded yet: {error}"]))
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
        return ScoredRun(benchmark, folder, journals, {}).scores_by(
            benchmark.rule_sets[0], StoredScores(folder / SCORES)
        )


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
    ungraded = [
        (score.unit, score.score.reason) for score in scores if score.score is not None and not score.score.graded
    ]
    yield from (f"Not graded: {unit!a}: {reason if quotes else NOT_SHOWN}" for unit, reason in ungraded[:_LISTED])
    if len(ungraded) > _LISTED:
        yield f"Not graded: {len(ungraded) - _LISTED} more"


_LISTED = 20


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """The rows of a results file in its order, each with its item and its trial.

    `source` identifies the data and decides the grading, as for a run. `settings` and `versions` are from a `run.json`
    next to the file. `total` is the number of items that it should contain (0: unknown). `verdicts` are those that the
    file contains, by unit.
    """

    source: Any
    data: DataRef
    rows: Sequence[tuple[Item, int, Row]]
    notes: Sequence[str] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    total: int = 0
    verdicts: Mapping[str, bool] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """The number of items of the data without a row."""
        return max(0, self.total - len({item.id for item, _, _ in self.rows}))


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
    rule_set, side_by_side = str(options.get("rules") or benchmark.rule_sets[0]), bool(options.get("side_by_side"))
    others = {}
    for name in benchmark.rule_sets:
        if name != rule_set and (side_by_side or every_rule):
            with benchmark.grader(file.source, name) as by_rules:
                others[name] = blocking(_scores(by_rules, file))
    with benchmark.grader(file.source, rule_set) as grader:
        scores = blocking(_scores(grader, file))
        metrics = metrics_of(grader, scores)
    if side_by_side:
        metrics = beside(metrics, rule_set, scores, others)
    report = _report_of_file(benchmark, path, file, scores, metrics, grader)
    verdicts = opposed(rule_set, scores, ((name, scored) for name, by_rules in others.items() for scored in by_rules))
    rows = zip(scores, file.rows, strict=True)
    return GradedFile(
        report, scores, [GradedUnit(scored, row, verdicts.get(scored.unit, {})) for scored, (_, _, row) in rows]
    )


def _report_of_file(
    benchmark: Benchmark[Any, Any],
    path: Path,
    file: RecordedRows,
    scores: Sequence[Scored],
    metrics: Metrics,
    grader: Grader[Any],
) -> Report:
    """The report. Recorded verdicts are compared under the benchmark's first rule set, which is the published one."""
    published = grader.rules in ("", benchmark.rule_sets[0])
    recorded = RecordedVerdicts.of(scores, file.verdicts) if published else None
    details: dict[str, Any] = {
        **({MISSING: {"missing": file.missing, "of": file.total}} if file.missing else {}),
        **({RECORDED: recorded.document} if recorded else {}),
    }
    lacking = [f"{file.missing:,} of {counted(file.total, 'items')} are not in the file."] if file.missing else []
    background = {"background": (*lacking, *metrics.background)}
    return Report(
        benchmark=benchmark.name,
        folder=str(path),
        data=file.data,
        settings=dict(file.settings),
        versions=dict(file.versions),
        rule_set=grader.rules,
        rules_version=grader.rules_version,
        items=_outcomes(scores, {}),
        patients=len({score.item.patient for score in scores} - {""}),
        notes=(
            *(recorded.notes if recorded else ()),
            *file.notes,
            *ungraded_notes(scores),
            *metrics.notes,
            *background["background"],
        ),
        ungraded=sum(score.score is not None and not score.score.graded for score in scores),
        **metrics.report | background,
        **details,
    )


async def _scores(grader: Grader[Any], file: RecordedRows) -> list[Scored]:
    return [
        Scored(item, trial, row.unit, row.status, await graded(grader, item, row)) for item, trial, row in file.rows
    ]


_NAMED = 20


def beside(metrics: Metrics, rules: str, scores: Sequence[Scored], others: Mapping[str, Sequence[Scored]]) -> Metrics:
    """The tables, extended with the totals of other rule sets."""
    lines = [_line(name, by_rules) for name, by_rules in {rules: scores, **others}.items()]
    section = TableSection(title="The same items under each rule set", lines=tuple(lines))
    notes = [note for name, by_rules in others.items() for note in _notes(name, scores, by_rules)]
    details = {
        "others": {name: _rate(by_rules) for name, by_rules in others.items()},
        "differing": {name: differing(scores, by_rules) for name, by_rules in others.items()},
    }
    return replace(
        metrics,
        table=[*metrics.table, section],
        notes=[*notes, *metrics.notes],
        details={**metrics.details, **details},
    )


def differing(scores: Sequence[Scored], others: Sequence[Scored]) -> list[str]:
    """The items on which two rule sets differ, without items that one of them could not grade."""
    verdicts = {scored.unit: scored.correct for scored in others}
    return [score.item.id for score in scores if {score.correct, verdicts.get(score.unit)} == {True, False}]


def _notes(name: str, scores: Sequence[Scored], others: Sequence[Scored]) -> Iterator[str]:
    if names := differing(scores, others):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"Graded differently by {name}: {', '.join(names[:_NAMED])}{more}"
    ungraded = [scored.score.reason for scored in others if scored.score is not None and scored.correct is None]
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
    outcomes = [score.correct for score in scores]
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
