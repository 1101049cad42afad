"""`medagent run simpleqa` and `medagent simpleqa judge`: both stages through the run engine, then the figures.

The same command again asks and judges what is owed; a finished run costs nothing. Judges, gold and rules are no
settings of a run: they may change, and only what they change is judged anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from medagent.errors import UserError
from medagent.run.files import write_whole
from medagent.run.folder import RunFolder
from medagent.simpleqa import report
from medagent.simpleqa.calls import Call
from medagent.simpleqa.config import Effort, SimpleqaConfig
from medagent.simpleqa.folder import RunFiles, shared_ids
from medagent.simpleqa.judging import Judging, Question
from medagent.simpleqa.stages import Stages
from refsol.simpleqa.data import GoldQuestion, duplicate_ids, read_items
from refsol.simpleqa.export import as_json, rows_as_json
from refsol.simpleqa.prompts import judge_prompt, model_prompt
from refsol.simpleqa.score import label_of, score, self_judged, warnings_of

DONE, OWED = 0, 2
UNPARSED = "unparsed"


def run_simpleqa(config: SimpleqaConfig, effort: Effort) -> int:
    """Ask, judge and score; returns the exit code: 0 done, 2 something is still owed.

    Raises InputError for bad data or prompts before the first call, UserError, StopRunError and KeyboardInterrupt; what
    was finished by then is on disk.
    """
    items = read_items(config.data, config.variant)
    prompt = model_prompt(config.variant, config.model_prompt)
    judging = Judging(judges=config.judges, prompt=judge_prompt(config.judge_prompt))
    names = _names(items)
    languages = config.languages_of(prompt)
    selected = {f"{name}/{language}" for name in names[: config.limit] for language in languages}
    settings = config.settings(prompt, items)
    with RunFolder(
        config.folder, "medagent run simpleqa", settings, places=config.places(), overwrite=config.overwrite
    ) as folder:
        files = RunFiles(config.folder)
        kept = selected | {question.unit for question in files.questions()}
        questions = [question for question in _questions(items, names, prompt.templates) if question.unit in kept]
        files.keep_questions(questions)
        files.add_judging(judging)
        calls = [
            Call(question.unit, config.model.name, prompt.fill(question.language, question.question))
            for question in questions
            if question.unit in selected
        ]
        warnings = [*shared_ids(questions), *self_judged(config.model.name, [judge.name for judge in config.judges])]
        _say(*(f"warning: {warning}" for warning in warnings))
        with Stages(files, effort, folder.command) as stages:
            stages.ask(config.model, calls)
            stages.judge(judging)
            if stages.idle:
                _say(f"{files.path} is finished and stays as it is. Another run: another --round; anew: --overwrite.")
            return _finish(files, stages, effort)


def judge_again(path: Path, judging: Judging, effort: Effort, only: Sequence[str] = ()) -> int:
    """Judge the answers of a run, all or `only` some, and score; returns the exit code as `run_simpleqa`.

    `only` holds ids (of the data, or line numbers) or `unparsed`: where a judge's label is missing.
    """
    files = RunFiles(path)
    if not files.exist():
        raise UserError(f"{path}: not a run of `medagent run simpleqa`")
    with RunFolder(path, "medagent simpleqa judge", files.settings()):
        if only:
            judging = judging.model_copy(update={"only": sorted(_chosen(files, only))})
        if judging.only != []:
            files.add_judging(judging)
        warnings = self_judged(str(files.settings().get("model")), [judge.name for judge in judging.judges])
        _say(*(f"warning: {warning}" for warning in warnings))
        with Stages(files, effort, "the same command") as stages:
            stages.judge(judging)
            if stages.idle:
                _say("Every verdict was kept already; no call was made.")
            return _finish(files, stages, effort)


def _names(items: Sequence[GoldQuestion]) -> list[str]:
    """A name for each item: its id, with the line where several rows share the id."""
    shared = duplicate_ids(items)
    return [f"{item.id}#{item.line}" if item.id in shared else item.id for item in items]


def _questions(items: Sequence[GoldQuestion], names: Sequence[str], languages: Iterable[str]) -> Iterator[Question]:
    listed = list(languages)
    for item, name in zip(items, names, strict=True):
        for language in listed:
            yield Question(
                unit=f"{name}/{language}",
                id=item.id,
                language=language,
                line=item.line,
                question=item.question,
                gold=item.answer,
                group=item.group,
            )


def _chosen(files: RunFiles, only: Sequence[str]) -> Iterator[str]:
    """The units that `only` names."""
    wanted = set(only) - {UNPARSED}
    questions = files.questions()
    if unknown := sorted(wanted - {question.id for question in questions}):
        raise UserError(f"--only {unknown[0]}: no question of {files.path} has this id")
    unparsed = set()
    if UNPARSED in only:
        unparsed = {
            (row.id, row.language)
            for row in files.judged_set().rows
            if not row.judged
            or any(reply is None or label_of(reply, "robust") is None for reply in row.judged.values())
        }
    return (
        question.unit
        for question in questions
        if question.id in wanted or (question.name, question.language) in unparsed
    )


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def _finish(files: RunFiles, stages: Stages, effort: Effort) -> int:
    if stages.stopped:
        _say(
            f"{stages.stopped}; {len(stages.owed)} calls are still owed.",
            f"Continue with a higher limit, or none: {stages.command}",
        )
        return OWED
    judged = files.judged_set()
    sections = score(judged.rows)
    document = as_json(judged, sections, "robust", warnings_of(judged, "robust"))
    results = {**document, "rows": rows_as_json(judged, "robust")}
    write_whole(files.path / "results.json", json.dumps(results, ensure_ascii=False, indent=2) + "\n")
    if effort.as_json:
        report.print_json(document)
        return OWED if stages.owed else DONE
    report.print_scores(judged, sections, "robust")
    failures = list(stages.failures())
    if failures:
        print(f"Failed and not graded: {len(failures)}")
        print("\n".join(f"  {line}" for line in failures[:5]))
    if stages.owed:
        print(f"Continue: {stages.command}")
    print("\n".join(stages.spending()))
    names = "results.json, episodes.jsonl, judgements.jsonl, judgings.jsonl, questions.jsonl, run.json"
    print(f"Files: {files.path}/ ({names})")
    return OWED if stages.owed else DONE
