"""PromptCBLUE as a benchmark: a call a line of the test file, then the official parser and scorer.

`test_predictions.json` is derived from the journal once every line has its answer. Until then there is only
`test_predictions.partial.json`, and nothing is parsed or scored: an unanswered line is not a wrong answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from medagent.agents.base import Move
from medagent.agents.calls import Call, CallJob, trial_keys
from medagent.agents.single_turn import Examples, allowed_of, few_shot, who_answers
from medagent.agents.unusable import MOST, Unusable, count_unusable, kind_of
from medagent.benchmarks.base import Benchmark, failure_lines, selected
from medagent.benchmarks.promptcblue.card import read_card
from medagent.benchmarks.promptcblue.data import DataFile, check_gold, read_data
from medagent.benchmarks.promptcblue.lines import DataLine
from medagent.benchmarks.promptcblue.rows import LineRow
from medagent.benchmarks.promptcblue.settings import MINI, PromptcblueSettings
from medagent.benchmarks.promptcblue.tables import trial_table
from medagent.core.errors import UserError
from medagent.core.lazy import LazySequence
from medagent.engine.files import write_changed, write_changed_parts
from medagent.engine.folder import read_run
from medagent.engine.job import LazyUnits
from medagent.engine.journals import JournalKind, Run
from medagent.engine.plan import JOURNAL, Plan, Stage
from medagent.engine.report import DataRef, ItemOutcome, ItemView, Report, ShownMessage
from medagent.engine.run import Findings, Say, Standing
from medagent.models.base import Message
from medagent.models.wording import fill, strip_thinking
from medagent.reports.page.blocks import Details
from refsol.answers import AskedItem
from refsol.promptcblue import parse_file, score_files
from refsol.promptcblue.files import read_structured
from refsol.promptcblue.metrics import Measured, main_figure
from refsol.promptcblue.score import Scores, score

PREDICTIONS, PARTIAL = "test_predictions", "test_predictions.partial"
RESULTS, SCORES = "results", "scores"


@dataclass(frozen=True, slots=True)
class PredictionContext:
    """What a run is written and graded from: the test file, the lines of it that are asked, the gold (None: not
    scored).
    """

    whole: DataFile
    data: DataFile
    gold: Path | None
    strip_thinking: bool
    trials: int
    allow_empty: float = MOST


class Promptcblue(Benchmark):
    """16 or 18 Chinese medical tasks, by one call a line."""

    name = "promptcblue"
    example = "medagent run promptcblue --model gpt-4o-mini --round r1"
    Settings = PromptcblueSettings
    journals: ClassVar[Mapping[str, JournalKind]] = {JOURNAL: JournalKind(LineRow)}
    unit_noun = "lines"

    async def plan(self, settings: Any, say: Say) -> Plan:
        """See `Benchmark.plan`. Raises ProblemsError with all that is wrong with the test file or the gold."""
        whole = read_data(settings.data, settings.encoding)
        gold = settings.right_answers
        for warning in whole.warnings:
            say(str(warning))
        if gold is not None:
            check_gold(whole, gold)
        items = LazySequence(len(whole.lines), lambda place: _asked_item(whole.lines[place]))
        examples = few_shot(settings, items)
        who = who_answers(settings, items)
        keys = selected([key for key in whole.lines.line_keys() if key not in examples.taken], settings, _task)
        data = replace(whole, lines=whole.lines.of(set(keys)))
        calls = _calls(data, keys, settings, examples)
        folder = settings.run_folder("promptcblue", who.label)
        job = CallJob({"": who.batched(settings.batches(folder))}, settings.concurrency, LineRow, tell_unusable=True)
        allowed = 1.0 if settings.agent == "empty" else settings.allow_empty
        return Plan(
            settings=settings,
            folder=folder,
            data=DataRef(name="PromptCBLUE", version=settings.data.name, digest=whole.digest),
            stages=(Stage(job, lambda: calls, group=lambda row: _task(row.unit)),),
            decides={
                "data-digest": whole.digest,
                **settings.decides(),
                **who.digests(),
                **(read_card(settings.card).settings() if settings.card else {}),
            },
            command="medagent run promptcblue",
            context=PredictionContext(whole, data, gold, settings.strip_thinking, settings.trials, allowed),
        )

    def finish(self, plan: Plan, run: Run, standing: Standing) -> Findings:
        """Write the predictions; with a gold, parse and score them."""
        basis: PredictionContext = plan.context
        if standing.owed:
            for name in (PREDICTIONS, RESULTS, SCORES):
                (run.path / f"{name}.json").unlink(missing_ok=True)
            _write_predictions(run, basis, PARTIAL, 1)
            note = f"lines are owed, so nothing is parsed or scored; the others: {run.path / PARTIAL}.json"
            return Findings(
                notes=[f"{len(standing.owed)} of {standing.total} {note}"], files=("episodes.jsonl", "run.json")
            )
        (run.path / f"{PARTIAL}.json").unlink(missing_ok=True)
        for trial in range(1, basis.trials + 1):
            _write_predictions(run, basis, _trial_name(PREDICTIONS, trial), trial)
        return _scored(run, basis)

    def grade(self, run: Run) -> Findings:
        """Parse and score a finished folder by the test file and the gold that its command named."""
        places = read_run(run.path).get("places", {})
        if not (run.path / f"{PREDICTIONS}.json").is_file():
            raise UserError(f"{run.path}: has no {PREDICTIONS}.json yet: lines are owed")
        if not data_of(places).is_file():
            raise UserError(f"{data_of(places)}: the test file of {run.path} is not there any more")
        gold = gold_of(run.path)
        whole = read_data(data_of(places), places.get("encoding") or "utf-8")
        data = replace(whole, lines=whole.lines.of(set(run.units())))
        trials = places.get("trials") or 1
        stripped = run.settings.get("strip-thinking") is True
        return _scored(run, PredictionContext(whole, data, gold, stripped, trials, allowed_of(run.path)))

    def details(self, run: Run, report: Report, **wanted: Any) -> Details:
        """See `Benchmark.details`."""
        from medagent.benchmarks.promptcblue.details import line_details

        places = read_run(run.path).get("places", {})
        return line_details(run, report, data_of(places), gold_of(run.path))

    def messages(self, row: LineRow) -> Sequence[ShownMessage]:
        """The answer."""
        return [] if row.answer is None else [ShownMessage("answer", row.answer, row.reasoning)]

    def show(self, run: Run, item: str) -> ItemView:
        """One line: its prompt where the test file is still there, the answer, what the parser made of it."""
        row = next(run.rows(LineRow, units=[item]), None)
        if row is None:
            raise UserError(f"{run.path}: holds no episode {item}")
        said = []
        places = read_run(run.path).get("places", {})
        if data_of(places).is_file():
            line = read_data(data_of(places), places.get("encoding") or "utf-8").lines.find(item)
            said = [ShownMessage("input", line.value["input"])] if line is not None else []
        said += self.messages(row)
        lines = [f"status: {row.status}" + (f" ({row.error})" if row.error else "")]
        if row.finish_reason:
            lines.append(f"finish reason: {row.finish_reason}")
        lines += [
            f"score: {one.score:.4f}" for one in self.grade(run).items if _key(one) == item and one.score is not None
        ]
        return ItemView(said, [*lines, *failure_lines(row)])


def _task(key: str) -> str:
    return key.partition("#")[0]


def data_of(places: Mapping[str, Any]) -> Path:
    """The test file of a run, by the places in its `run.json`."""
    return Path(places["data"]) if places.get("data") else MINI / "test.jsonl"


def gold_of(folder: Path) -> Path | None:
    """The right answers that a run's folder names. Raises UserError where the folder is no run's."""
    places = read_run(folder).get("places", {})
    bundled = MINI / "gold.json" if data_of(places) == MINI / "test.jsonl" else None
    return Path(places["gold"]) if places.get("gold") else bundled


def _asked_item(line: DataLine) -> AskedItem:
    """A line as an answer from elsewhere may know it; its target is the right answer where it is a text."""
    value, target = line.value, line.value.get("target")
    ids = frozenset([str(value["sample_id"])] if "sample_id" in value else [])
    gold = target if isinstance(target, str) and target.strip() else None
    return AskedItem(line.key, value["input"], ids, line.task, gold)


def _calls(data: DataFile, keys: Sequence[str], settings: PromptcblueSettings, examples: Examples) -> LazyUnits[Call]:
    """A call a line and trial, trial by trial."""
    template = settings.template
    before = {task.name: _turns(template, examples.of(task.name)) for task in data.tasks}
    units = [key for key, _ in trial_keys(keys, settings.trials)]

    def call(place: int) -> Call:
        line = data.lines.find(units[place])
        assert line is not None
        message = fill(template, input=line.value["input"])
        return Call(units[place], message, trial=place // len(keys) + 1, item=line.value, before=before[line.task])

    return LazyUnits(units, call)


def _turns(template: str, examples: Sequence[tuple[str, str]]) -> tuple[Message, ...]:
    said = ((Message("user", fill(template, input=asked)), Message("assistant", answer)) for asked, answer in examples)
    return tuple(message for pair in said for message in pair)


def _key(outcome: ItemOutcome) -> str:
    return outcome.item if outcome.trial == 1 else f"{outcome.item}#{outcome.trial}"


def _trial_name(name: str, trial: int) -> str:
    return name if trial == 1 else f"{name}.{trial}"


def _write_predictions(run: Run, basis: PredictionContext, name: str, trial: int) -> None:
    """The answered lines in the order of the test file, `target` filled; a file that says so already stays."""

    def lines() -> Iterator[str]:
        keys = (key if trial == 1 else f"{key}#{trial}" for key in basis.data.lines.line_keys())
        for row in run.rows(LineRow, units=keys):
            line = basis.data.lines.find(row.unit)
            if row.answer is not None and line is not None:
                target = strip_thinking(row.answer) if basis.strip_thinking else row.answer
                yield json.dumps({**line.value, "target": target}, ensure_ascii=False) + "\n"

    write_changed_parts(run.path / f"{name}.json", lines)


def _scored(run: Run, basis: PredictionContext) -> Findings:
    """Parse the predictions of each trial, and score them where there is a gold."""
    files = [f"{PREDICTIONS}.json"]
    unusable = _unusable(run, basis)
    empty = [trial for trial in range(1, basis.trials + 1) if not _predictions(run, trial).stat().st_size]
    if basis.gold is None or empty:
        lines = basis.data.lines
        items = [ItemOutcome(item=key, group=task) for key, task in zip(lines.line_keys(), lines.tasks, strict=True)]
        note = "Not scored: pass --gold FILE for that."
        return Findings(
            items=items,
            notes=[*([] if empty else [note]), *unusable.notes],
            files=(*files, "episodes.jsonl", "run.json", "report.json"),
            unusable=f"Not scored: no line has an answer in trial {empty[0]}" if empty else unusable.fault,
        )
    notes: list[str] = []
    items = []
    trials: list[Scores] = []
    for trial in range(1, basis.trials + 1):
        results = run.path / f"{_trial_name(RESULTS, trial)}.json"
        notes += map(str, parse_file(_predictions(run, trial), results))
        scores = _score(results, basis)
        notes += map(str, scores.warnings)
        if scores.official:
            write_changed(
                run.path / f"{_trial_name(SCORES, trial)}.json",
                json.dumps(scores.to_json(), ensure_ascii=False, indent=2) + "\n",
            )
        items += _outcomes(basis, scores, trial)
        trials.append(scores)
    files += [f"{RESULTS}.json", *([f"{SCORES}.json"] if trials[0].official else [])]
    table = trial_table(trials)
    return Findings(
        table=table,
        overall=table[-1].lines[0],
        items=items,
        notes=[*dict.fromkeys(notes), *unusable.notes],
        files=(*files, "episodes.jsonl", "run.json", "report.json"),
        unusable=unusable.fault,
        measure="points",
        figure="F1 or R-L",
        details={"scores": trials[0].to_json(details=True)},
    )


def _predictions(run: Run, trial: int) -> Path:
    return run.path / f"{_trial_name(PREDICTIONS, trial)}.json"


def _unusable(run: Run, basis: PredictionContext) -> Unusable:
    """The answers with nothing to score, and thinking that was left in those that have something."""
    answered = 0
    thinking: list[str] = []

    def moves() -> Iterator[tuple[str, Move]]:
        nonlocal answered
        for row in run.rows(LineRow):
            if row.answer is not None:
                answered += 1
                move = Move(row.answer, row.reasoning, finish_reason=row.finish_reason)
                if kind_of(move) is None and strip_thinking(move.text) != move.text:
                    thinking.append(row.unit)
                yield row.unit, move

    found = count_unusable(moves(), basis.allow_empty)
    if basis.strip_thinking or not thinking:
        return found
    note = (
        f"{len(thinking)} of {answered} answers begin with a <think> block, which is scored as part of them (first: "
        f"{thinking[0]}); without it: medagent grade promptcblue --answers {run.path} --strip-thinking --round NAME"
    )
    too_many = len(thinking) > basis.allow_empty * answered
    return Unusable((*found.notes, note), found.fault or (f"{len(thinking)} answers keep their thinking" * too_many))


def _score(results: Path, basis: PredictionContext) -> Scores:
    """The scores of a results file; of a part of the test file against the same part of the gold."""
    assert basis.gold is not None
    if len(basis.data.lines) == len(basis.whole.lines):
        return score_files(results, basis.gold, basis.data.tasks)
    wanted = _wanted(basis)
    tasks = tuple(task for task in basis.data.tasks if wanted[task.name])
    return score(wanted, read_structured(results).value, tasks)


def _wanted(basis: PredictionContext) -> dict[str, list[dict[str, Any]]]:
    """The gold of the lines that are asked: a task's answers stand in the order of its lines."""
    assert basis.gold is not None
    gold = read_structured(basis.gold).value
    asked = set(basis.data.lines.line_keys())
    kept: dict[str, list[bool]] = {task: [] for task in gold}
    for key, task in zip(basis.whole.lines.line_keys(), basis.whole.lines.tasks, strict=True):
        kept[task].append(key in asked)
    return {task: [one for one, keep in zip(gold[task], kept[task], strict=False) if keep] for task in gold}


def sample_scores(measured: Measured[Any] | None) -> list[float | None]:
    """The main figure of each sample alone, 0 to 1; right is also to find nothing where nothing is. None: no figure."""
    scores: list[float | None] = []
    for part in measured.parts if measured is not None else ():
        score = 1.0 if part == (0, 0, 0) else main_figure(measured.combine([part])) if measured else math.nan
        scores.append(None if math.isnan(score) else score)
    return scores


def _outcomes(basis: PredictionContext, scores: Scores, trial: int) -> Iterable[ItemOutcome]:
    """A score an item; samples stand in the order of the task's lines."""
    places = {one.task.name: iter(sample_scores(one.measured)) for one in scores.tasks}
    for key, task in zip(basis.data.lines.line_keys(), basis.data.lines.tasks, strict=True):
        yield ItemOutcome(item=key, trial=trial, group=task, score=next(places.get(task, iter(())), None))
