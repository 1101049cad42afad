"""Checks a pack without calling its model.

Every episode is replayed on the named data set, the results files and the report are recomputed from the journal, and
the run is graded. This verifies everything that follows from the agent's messages. The messages themselves, and who
wrote them, are claims: a check cannot tell invented messages from real ones if the rest of the pack follows from them.

A pack is untrusted input. Its settings are checked by type, its data set must be a bundled or imported one, and no
other file that it names is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.inventory import patients_file
from medagent.benchmarks.medagentbench.submission._consistency import (
    Rows,
    episode_problems,
    repeated,
    report_problems,
    results_problems,
    run_file_problems,
    settings_problems,
)
from medagent.benchmarks.medagentbench.submission._replay import problem_of
from medagent.benchmarks.medagentbench.submission._settings import PackSettings, data_set_protocol, packed_protocol
from medagent.benchmarks.medagentbench.submission.pack import PackFile, unpacked
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, Dataset, load_dataset, named
from medagent.core.errors import UserError
from medagent.engine.folder import read_run
from medagent.engine.journals import Run
from medagent.engine.report import Report
from medagent.engine.results import graded_report
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_episodes.episode import EhrChoice, EpisodeRow
from medagent.fhir_episodes.protocol import Protocol
from medagent.reports.leaderboard import Checks

_SAMPLING = ("api", "temperature", "max-tokens", "trial-seed", "extra", "cache")


@dataclass(slots=True)
class Checked:
    """The result of a check: problems, lists of verified, claimed and unchecked parts, and the recomputed report."""

    pack: PackFile
    settings: PackSettings
    problems: list[str] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)
    """Verified by replay."""
    claimed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """Could not be checked."""
    no_replay: str = ""
    """Why the episodes could not be replayed. Empty if they were."""
    report: Report | None = None
    """The report under the official rules. None if there is a problem."""

    @property
    def checks(self) -> Checks:
        """The lists in the form that the leaderboard shows."""
        return Checks(self.verified, self.claimed, self.unchecked, self.no_replay)


def check(pack: Path, *, dataset: str | None = None, ehr: Path | None = None) -> Checked:
    """Check a pack against its data set, or against `dataset`. `ehr` is a file of patients for a set without them.

    Raises UserError if the file is not a pack or the data set is missing.
    """
    with unpacked(pack) as (folder, about):
        run = read_run(folder)
        settings = PackSettings.of(pack, run["settings"])
        checked = Checked(about, settings)
        name = dataset or _dataset_name(pack, settings)
        tasks = load_dataset(name, settings.version)
        if tasks.digest != settings.tasks_digest:
            checked.problems.append(f"the run used another task set than {tasks.name} {tasks.version}")
            return checked
        rows = {row.unit: row for row in Run(folder).rows(EpisodeRow)}
        doubled, attempts = repeated(folder)
        checked.problems += [
            *run_file_problems(run, about, settings, tasks),
            *episode_problems(tasks, rows, run.get("places", {}).get("trials")),
            *doubled,
            *settings_problems(settings, rows),
            *results_problems(folder, tasks, rows, run["settings"].get("round")),
        ]
        _replay(checked, folder, tasks, rows, (name, patients_file(tasks, ehr)))
        if not checked.problems:
            options = {"dataset": dataset, "ehr": ehr if tasks.key is None else None}
            stated = {option: value for option, value in options.items() if value is not None}
            report = graded_report(MedAgentBench(), folder, stated)
            checked.problems += report_problems(folder, report)
            checked.report = None if checked.problems else report.model_copy(update={"folder": str(pack)})
        checked.claimed += _claims(run["settings"])
        if attempts:
            statuses = ", ".join(f"{count} {status}" for status, count in attempts.items())
            checked.unchecked.append(f"earlier attempts of repeated episodes ({statuses})")
        return checked


def _dataset_name(pack: Path, settings: PackSettings) -> str:
    """The data set that a pack names. Raises UserError for a folder, because only the user may name folders to read."""
    name = settings.dataset or BUNDLED
    if named(name) is None:
        raise UserError(
            f"{pack}: its data set is the folder {name!a} on the packer's machine; name your copy with --dataset DIR"
        )
    return name


def _claims(settings: dict[str, object]) -> Iterator[str]:
    """The claims of a pack that nothing verifies, with the values that tables show."""
    sampling = [f"{name} {settings[name]}" for name in _SAMPLING if settings.get(name) is not None]
    for name in ("agent", "model"):
        if settings.get(name):
            yield f"{name} {settings[name]}"
    if sampling:
        yield f"sampling ({', '.join(sampling)})"
    yield "the agent's messages"
    if settings.get("system-digest"):
        yield "the system prompt"
    yield from ("tokens", "cost", "times", "versions and commit", "that no other run was made and left out")


def _replay(checked: Checked, folder: Path, tasks: Dataset, rows: Rows, data: tuple[str, EhrFile]) -> None:
    """Replay every episode, if the run's settings allow it. `data` is the data set's name here and its patients."""
    settings, (name, patients) = checked.settings, data
    standard = data_set_protocol(name, settings.version, settings.protocol)
    protocol = _protocol(checked, folder, standard)
    if protocol is None:
        reason = checked.no_replay or "prompts.json is not from this run"
        checked.unchecked.append(f"prompts, replies, orders, endings and answers ({reason})")
        return
    if patients.digest != settings.ehr_digest:
        checked.problems.append("the run used other patients than the data set's")
        return
    by_id = {task.id: task for task in tasks.tasks}
    choice = EhrChoice(file=patients.path, digest=patients.digest, now=tasks.constants.now)

    async def replay() -> None:
        async with choice.open(settings.api_base) as ehr:
            for unit, row in rows.items():
                if row.task_id in by_id and (
                    problem := await problem_of(row, by_id[row.task_id], ehr, protocol, settings.rules)
                ):
                    checked.problems.append(f"{unit}: {problem}")

    asyncio.run(replay())
    replies = sum(turn.role == "user" for row in rows.values() for turn in row.transcript)
    checked.verified += [
        f"prompts, replies, orders, endings and answers of {len(rows)} episodes ({replies} messages) on "
        f"{tasks.name} {tasks.version}",
        "results files",
        "score",
        *(["its own prompts, which are in the pack"] if protocol.digest != standard.digest else []),
    ]
    most = max((row.rounds for row in rows.values()), default=0)
    if any(row.status == "round_limit" for row in rows.values()):
        checked.verified.append(f"max-rounds {settings.max_rounds}")
    else:
        checked.unchecked.append(f"max-rounds {settings.max_rounds}: no episode reached it (most messages: {most})")


def _protocol(checked: Checked, folder: Path, standard: Protocol) -> Protocol | None:
    """The protocol to replay episodes. If that is not possible, None, and `no_replay` or a problem says why."""
    settings = checked.settings
    if settings.fhir:
        checked.no_replay = "the run used its own FHIR server, which is not available"
    elif settings.protocol == "code":
        checked.no_replay = "the run's agent acts in code, and programs from packs are not run"
    elif standard.digest == settings.prompts_digest:
        return standard
    elif (carried := packed_protocol(folder)) is None:
        checked.no_replay = "the run used its own prompts, which are not in the pack"
    elif carried.digest != settings.prompts_digest:
        checked.problems.append("prompts.json: its digest differs from the prompts-digest in run.json")
        return None
    else:
        return carried
    return None
