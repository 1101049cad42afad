"""The published output file: writes runs in this format, and grades any such file like a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medagent.benchmarks.fhiragentbench._items import FhirQuestionItem, digest_of, item_of
from medagent.benchmarks.fhiragentbench._outputs import OutputRow, output_of
from medagent.benchmarks.fhiragentbench.sets import PUBLISHED, SYNTHETIC, questions_of
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.core.writing import writing
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import Run
from medagent.engine.report import DataRef, Report
from medagent.engine.results import RecordedRows, grade_rows
from medagent.engine.scores import Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.reports.tables import named
from refsol.fhiragentbench import Output, read_outputs, write_outputs


def graded_file(benchmark: Benchmark[Any, Any], path: Path, options: Mapping[str, Any]) -> Report:
    """Grade an output file by the comparison without a judge. True answers and ids come from the question file.

    As in the published evaluator, rows of other questions are ignored, and two rows of one question count twice. If the
    options name no data set, the ids in the file tell whether it is the bundled or the published one. Raises UserError,
    InputError.
    """
    outputs = read_outputs(path)
    source = checked(FhirAgentBenchSettings, {"dataset": _dataset(outputs), **options})
    questions = {question.id: question for question in questions_of(source.dataset)}
    known = [output for output in outputs if output.question_id in questions]
    if not known:
        raise UserError(
            f"{path}: [0].question_id: {outputs[0].question_id!r} is not a question of {source.dataset}, nor is "
            "the one in any other row; name the data set with --dataset"
        )
    file = RecordedRows(
        source,
        DataRef(name="FHIR-AgentBench", version=source.dataset, digest=digest_of(list(questions.values()))),
        list(_rows(known, {name: item_of(question, source) for name, question in questions.items()})),
        list(_notes(outputs, known)),
        total=len(questions),
    )
    return grade_rows(benchmark, path, file, options).report


def _dataset(outputs: Sequence[Output]) -> str:
    bundled = {question.id for question in questions_of(SYNTHETIC)}
    return SYNTHETIC if any(output.question_id in bundled for output in outputs) else PUBLISHED


def _rows(
    outputs: Sequence[Output], items: Mapping[str, FhirQuestionItem]
) -> Iterator[tuple[FhirQuestionItem, int, OutputRow]]:
    seen = Counter[str]()
    for output in outputs:
        seen[output.question_id] += 1
        trial = seen[output.question_id]
        unit = f"{output.question_id}#{trial}"
        row = OutputRow(unit=unit, status="completed", task_id=output.question_id, trial=trial, output=output)
        yield items[output.question_id], trial, row


def _notes(outputs: Sequence[Output], known: Sequence[Output]) -> Iterator[str]:
    """Notes about unknown questions, and several rows of one question."""
    if others := sorted({output.question_id for output in outputs} - {output.question_id for output in known}):
        yield f"{len(outputs) - len(known)} rows are about other questions and do not count: {named(others, 5)}"
    distinct = {output.question_id for output in known}
    if twice := len(known) - len(distinct):
        yield f"{twice} rows repeat a question of another row. They count too, as in the published evaluator."


def export_outputs(run: Run, source: FhirAgentBenchSettings, scores: Sequence[Scored], out: Path) -> Sequence[Path]:
    """Write an output file for each trial into a folder, which is created if needed. Raises UserError, InputError."""
    questions = {question.id: question for question in questions_of(source.dataset)}
    trials = sorted({score.trial for score in scores})
    files = {trial: out / ("outputs.json" if trials == [1] else f"outputs_{trial}.json") for trial in trials}
    if present := [path for path in files.values() if path.exists()]:
        raise UserError(f"{present[0]}: already exists; name another folder")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for trial, path in files.items():
        rows = (row for row in run.rows(EpisodeRow) if row.trial == trial and not row.owed)
        write_outputs(path, (output_of(row, source) for row in rows), questions)
    return list(files.values())
