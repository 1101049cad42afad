"""PromptCBLUE as a benchmark: one call per line of the test file, then the official parser and scorer.

`test_predictions.json` is derived from the journal after every line is answered. Before that, there is only
`test_predictions.partial.json`, and nothing is scored: a missing answer is not a wrong answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from medagent.agents.calls import Call, CallJob, trial_keys
from medagent.agents.single_turn import Examples, few_shot, who_answers
from medagent.benchmarks.promptcblue._grader import LineGrader, answer_text, official_scores, paired_score
from medagent.benchmarks.promptcblue._items import (
    DataFile,
    DataLine,
    LineItem,
    LineRow,
    check_gold,
    data_of,
    line_items,
)
from medagent.benchmarks.promptcblue.settings import PromptcblueSettings, read_card
from medagent.core.writing import note, write_changed
from medagent.engine.benchmark import Benchmark, Say
from medagent.engine.blocks import Block
from medagent.engine.folder import Run
from medagent.engine.plan import Plan, Stage
from medagent.engine.report import DataRef, Report, ShownMessage
from medagent.engine.results import scores_of
from medagent.engine.scores import Grader, Paired, Score, Scored
from medagent.engine.settings import selected
from medagent.models.base import Message
from medagent.models.wording import fill
from refsol.answers import AskedItem
from refsol.promptcblue import parse_file
from refsol.promptcblue.public import EDITIONS

PREDICTIONS, PARTIAL = "test_predictions", "test_predictions.partial"
RESULTS, SCORES = "results", "scores"


class Promptcblue(Benchmark[PromptcblueSettings, LineRow]):
    """16 or 18 Chinese medical tasks, with one call per line."""

    name = "promptcblue"
    has_verdicts = False
    example = "medagent run promptcblue --model gpt-4o-mini --round r1"
    Settings = PromptcblueSettings
    row = LineRow
    unit_noun = "lines"

    def items(self, source: PromptcblueSettings) -> Sequence[LineItem]:
        settings = source
        return line_items(data_of(settings), settings)

    def data(self, source: PromptcblueSettings) -> DataRef:
        whole = data_of(source)
        note = f"edition: {whole.edition.name}"
        return DataRef(name="PromptCBLUE", version=source.data.name, digest=whole.digest, note=note)

    def grader(self, source: PromptcblueSettings, rules: str) -> Grader[LineRow]:
        return LineGrader(source)

    async def plan(self, settings: PromptcblueSettings, say: Say) -> Plan:
        """See `Benchmark.plan`. Raises ProblemsError with all problems of the test file or the gold."""
        whole = data_of(settings)
        for warning in whole.warnings:
            say(str(warning))
        if settings.right_answers is not None:
            check_gold(whole, settings.right_answers)
        asked_items = [_asked_item(line) for line in whole.lines]
        examples = few_shot(settings, asked_items)
        who = who_answers(settings, asked_items)
        keys = selected([line.key for line in whole.lines if line.key not in examples.taken], settings, _task)
        calls = _calls(whole, keys, settings, examples)
        folder = settings.run_folder("promptcblue", who.label)
        job = CallJob({"": who.batched(settings.batches(folder))}, settings.concurrency, LineRow, tell_unusable=True)
        return Plan(
            settings=settings,
            folder=folder,
            data=self.data(settings),
            stages=(Stage(job, lambda: calls),),
            items=self.items(settings),
            decides={
                "data-digest": whole.digest,
                **settings.decides(),
                "edition": next(name for name, edition in EDITIONS.items() if edition is whole.edition),
                **who.digests(),
                **(read_card(settings.card).settings() if settings.card else {}),
            },
            command=self.command,
        )

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """Write the predictions. If there is a gold, parse and score them."""
        if not scores:
            return ()
        source: PromptcblueSettings = scores[0].item.source
        trials = sorted({score.trial for score in scores})
        if any(score.score is None for score in scores):
            for name in (PREDICTIONS, RESULTS, SCORES):
                (run.path / f"{name}.json").unlink(missing_ok=True)
            _write_predictions(run, source, PARTIAL, [score for score in scores if score.trial == 1])
            return [f"{PARTIAL}.json"]
        (run.path / f"{PARTIAL}.json").unlink(missing_ok=True)
        files = []
        for trial in trials:
            in_trial = [score for score in scores if score.trial == trial]
            name = _trial_name(PREDICTIONS, trial)
            _write_predictions(run, source, name, in_trial)
            files.append(f"{name}.json")
            if source.right_answers is not None and (run.path / files[-1]).stat().st_size:
                files += _write_scores(run, source, in_trial, trial)
        return files

    def paired(self, first: Run, second: Run) -> Paired | None:
        """See `Benchmark.paired`. The resampled score is the official score."""
        data = data_of(self.source(first, {}))
        before, after = (scores_of(self, run.path) for run in (first, second))
        return paired_score(before, after, data.tasks, data.edition)

    def blocks(self, item: LineItem, row: LineRow, score: Score | None) -> Sequence[Block]:
        from medagent.benchmarks.promptcblue._details import line_blocks

        return list(line_blocks(item, row))

    def panels(self, report: Report, scores: Sequence[Scored]) -> Sequence[Block]:
        from medagent.benchmarks.promptcblue._details import task_panels

        return list(task_panels(report))

    def messages(self, row: LineRow) -> Sequence[ShownMessage]:
        """The answer."""
        return [] if row.answer is None else [ShownMessage("answer", row.answer, row.reasoning)]


def _task(key: str) -> str:
    return key.partition("#")[0]


def _asked_item(line: DataLine) -> AskedItem:
    """A line as an item that recorded answers are matched with. Its target is the right answer if it is a text."""
    value, target = line.value, line.value.get("target")
    ids = frozenset([str(value["sample_id"])] if "sample_id" in value else [])
    gold = target if isinstance(target, str) and target.strip() else None
    return AskedItem(line.key, value["input"], ids, line.task, gold)


def _calls(data: DataFile, keys: list[str], settings: PromptcblueSettings, examples: Examples) -> list[Call]:
    """One call per line and trial, trial by trial."""
    template = settings.template
    before = {task.name: _turns(template, examples.of(task.name)) for task in data.tasks}
    lines = {line.key: line for line in data.lines}
    calls = []
    for key, (unit, trial) in zip(keys * settings.trials, trial_keys(keys, settings.trials), strict=True):
        line = lines[key]
        message = fill(template, input=line.value["input"])
        item = {name: value for name, value in line.value.items() if name != "target"}  # the right answer, if known
        calls.append(Call(unit, message, trial=trial, item=item, before=before[line.task]))
    return calls


def _turns(template: str, examples: Sequence[tuple[str, str]]) -> tuple[Message, ...]:
    pairs = (
        (Message("user", fill(template, input=question)), Message("assistant", answer)) for question, answer in examples
    )
    return tuple(message for pair in pairs for message in pair)


def _trial_name(name: str, trial: int) -> str:
    return name if trial == 1 else f"{name}.{trial}"


def _write_predictions(run: Run, source: PromptcblueSettings, name: str, scores: Sequence[Scored]) -> None:
    """The answered lines in the order of the test file, with `target` filled in. An equal file is not rewritten."""
    items = {score.unit: score.item for score in scores}
    lines = [
        json.dumps({**items[row.unit].line.value, "target": answer_text(row, source)}, ensure_ascii=False)
        for row in run.rows(LineRow, units=items)
        if row.answer is not None
    ]
    write_changed(run.path / f"{name}.json", "".join(f"{line}\n" for line in lines))


def _write_scores(run: Run, source: PromptcblueSettings, scores: Sequence[Scored], trial: int) -> list[str]:
    """The structured answers and, if all tasks are there, the official scores. Raises ProblemsError."""
    names = [f"{_trial_name(name, trial)}.json" for name in (PREDICTIONS, RESULTS, SCORES)]
    predictions, results, official = (run.path / name for name in names)
    data = data_of(source)
    note(results)
    parse_file(predictions, results, data.edition)
    whole = official_scores(scores, data.tasks, data.edition)[0]
    if not whole.official:
        return names[1:2]
    write_changed(official, json.dumps(whole.to_json(), ensure_ascii=False, indent=2) + "\n")
    return names[1:]
