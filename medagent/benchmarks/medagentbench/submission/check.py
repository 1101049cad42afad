"""What can be said of a pack without asking its model again.

The journal is held against itself (every episode is done again over the named data set), the results files are made
again from it and compared, and graded. What the model said is all that is believed: replies made up so that everything
else follows from them cannot be told from real ones.

A pack is a stranger's: its settings are checked by type, it names a data set by an installed name only, and nothing
outside it is read that it names.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.inventory import patients_file
from medagent.benchmarks.medagentbench.results.paths import results_path
from medagent.benchmarks.medagentbench.results.write import result_item
from medagent.benchmarks.medagentbench.submission.pack import PackFile, unpacked
from medagent.benchmarks.medagentbench.submission.replay import problem_of
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, Dataset, load_dataset, named
from medagent.core.errors import UserError
from medagent.engine.journals import Run
from medagent.engine.report import TableLine
from medagent.engine.results import graded_report
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_episodes.episode import EhrChoice, EpisodeRow
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.session import SessionRules


class PackSettings(BaseModel):
    """The settings in a pack's `run.json` that a check goes by."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-"))

    version: Literal["v1", "v2"]
    dataset: str | None = None
    tasks_digest: str | None = None
    prompts_digest: str | None = None
    ehr_digest: str | None = None
    fhir: str | None = None
    protocol: Literal["text", "tools"] | None = None
    loop: Literal["published", "lenient"] | None = None
    api_base: str
    max_rounds: int = Field(ge=1)
    writes: Literal["ack", "execute"] | None = None
    strip_thinking: bool | None = None
    max_tokens: int | None = None


UNVERIFIABLE = "what the model said: made-up replies that fit together cannot be found"


@dataclass(slots=True)
class Checked:
    """What a check found: problems, what was verified, what could not be, and the score graded anew."""

    pack: PackFile
    settings: PackSettings
    problems: list[str] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=lambda: [UNVERIFIABLE])
    score: TableLine | None = None
    """Overall, under the official rules; None where the results cannot be graded."""


def check(pack: Path, *, dataset: str | None = None, ehr: Path | None = None) -> Checked:
    """Check a pack against its data set, or the one that `dataset` names; `ehr` has the patients of one that does not
    bring them.

    Raises UserError for what is no pack, or where the data set is not here.
    """
    with unpacked(pack) as (folder, about):
        run = Run(folder)
        settings = _settings(pack, run)
        found = Checked(about, settings)
        tasks = load_dataset(dataset or _dataset_name(pack, settings), settings.version)
        if tasks.digest != settings.tasks_digest:
            found.problems.append(f"the run was over another task set than {tasks.name} {tasks.version}")
            return found
        rows = {row.unit: row for row in run.rows(EpisodeRow)}
        found.problems += _missing(tasks, rows)
        found.problems += _other_results(folder, tasks, rows)
        _replay(found, tasks, rows, patients_file(tasks, ehr))
        if not found.problems:
            options = {"dataset": dataset, "ehr": ehr if tasks.key is None else None}
            given = {name: value for name, value in options.items() if value is not None}
            found.score = graded_report(MedAgentBench(), folder, given).overall
        return found


def _settings(pack: Path, run: Run) -> PackSettings:
    """The settings of a pack's run. Raises UserError for one of a wrong type."""
    try:
        return PackSettings.model_validate(run.settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{pack}: run.json: settings.{place}: {first['msg']}") from None


def _dataset_name(pack: Path, settings: PackSettings) -> str:
    """The data set that a pack names. Raises UserError for a folder: only the user says which folders are read."""
    name = settings.dataset or BUNDLED
    if named(name) is None:
        raise UserError(f"{pack}: its data set is the folder {name!a} of whoever packed it; name yours: --dataset DIR")
    return name


def _missing(dataset: Dataset, rows: Mapping[str, EpisodeRow]) -> Iterator[str]:
    """Episodes that are not in the journal, or not done: a pack is of all tasks."""
    trials = max((row.trial for row in rows.values()), default=1)
    units = {f"{task.id}#{trial}" for task in dataset.tasks for trial in range(1, trials + 1)}
    for unit in sorted(units - set(rows)):
        yield f"{unit}: there is no episode of it"
    for unit, row in rows.items():
        if unit not in units or unit != f"{row.task_id}#{row.trial}":
            yield f"{unit}: is no task of the data set"
        elif row.owed:
            yield f"{unit}: is not done ({row.status})"


def _other_results(folder: Path, dataset: Dataset, rows: Mapping[str, EpisodeRow]) -> Iterator[str]:
    """Where the results files say otherwise than the journal."""
    tasks = {task.id: task for task in dataset.tasks}
    trials: dict[int, dict[str, Any]] = {}
    for row in rows.values():
        if row.task_id in tasks:
            trials.setdefault(row.trial, {})[row.task_id] = result_item(row, tasks[row.task_id])
    held = sum(path.name.startswith("results") for path in folder.iterdir())
    if held != len(trials):
        yield f"there are {held} results files of {len(trials)} trials"
    for trial, items in trials.items():
        path = results_path(folder, trial)
        try:
            listed = json.loads(path.read_bytes())["results"]
            kept = {item["task_id"]: item for item in listed}
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            yield f"{path.name}: cannot be read"
            continue
        if len(listed) != len(items) or set(kept) != set(items):
            yield f"{path.name}: does not hold the journal's episodes"
        for task_id in sorted(set(kept) & set(items)):
            if kept[task_id] != items[task_id]:
                yield f"{path.name}: {task_id} is not what the journal has"


def _replay(found: Checked, dataset: Dataset, rows: Mapping[str, EpisodeRow], patients: EhrFile) -> None:
    """Do every episode again, as far as the run's settings allow."""
    settings = found.settings
    protocol = _protocol(settings.protocol or "text", dataset)
    if settings.fhir:
        found.unverified.append("the server's replies: the run had a FHIR server of its own")
        return
    if protocol.digest != settings.prompts_digest:
        found.unverified.append("prompts and replies: the run had wording of its own")
        return
    if patients.digest != settings.ehr_digest:
        found.problems.append("the run had other patients than the data set")
        return
    rules = SessionRules(
        settings.api_base,
        settings.max_rounds,
        settings.writes or "ack",
        settings.strip_thinking or False,
        settings.loop or "published",
    )
    tasks = {task.id: task for task in dataset.tasks}
    choice = EhrChoice(file=patients.path, digest=patients.digest, now=dataset.constants.now)

    async def replay() -> None:
        async with choice.open(rules.api_base) as ehr:
            for unit, row in rows.items():
                if row.task_id in tasks and (
                    problem := await problem_of(row, tasks[row.task_id], ehr, protocol, rules)
                ):
                    found.problems.append(f"{unit}: {problem}")

    asyncio.run(replay())
    replies = sum(turn.role == "user" for row in rows.values() for turn in row.transcript)
    found.verified.append(f"{len(rows)} episodes done again over {dataset.name} {dataset.version}: {replies} messages")
    found.verified.append("the results files, made again from the journal")


def _protocol(name: str, dataset: Dataset) -> Protocol:
    file = dataset.beside("protocol.toml") if name == "text" else None
    return load_protocol(name, file=file, functions=dataset.beside("functions.json"))
