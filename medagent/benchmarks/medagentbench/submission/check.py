"""Checks a pack without calling its model.

Every episode is replayed on the named data set, the results files and the report are recomputed from the journal, and
the run is graded. This verifies everything that follows from the agent's messages. The messages themselves, and who
wrote them, are claims: a check cannot tell invented messages from real ones if the rest of the pack follows from them.

A pack is untrusted input. Its settings are checked by type, its data set must be a bundled or imported one, and no
other file that it names is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medagent.benchmarks.base import DEFAULT
from medagent.benchmarks.clinical.items import TaskItem
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.results.files import result_item, results_path
from medagent.benchmarks.medagentbench.settings import AGENTS, MedAgentBenchSettings
from medagent.benchmarks.medagentbench.submission.pack import (
    PackFile,
    PackSettings,
    Rows,
    data_set_protocol,
    episode_problems,
    packed_protocol,
    unpacked,
)
from medagent.benchmarks.medagentbench.tasks.dataset import constants_of, load_dataset, named, own_key, ref, set_of_run
from medagent.core.errors import UserError
from medagent.core.number_formats import counted
from medagent.engine.folder import read_run
from medagent.engine.journal import Journal
from medagent.engine.plan import JOURNAL
from medagent.engine.report import Report, read_report
from medagent.engine.results import graded_report
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_data.record import Ehr
from medagent.fhir_episodes.episode import EhrChoice, EpisodeRow
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.session import Session, SessionRules, Turn
from medagent.fhir_episodes.tools import Toolbox, ToolError
from medagent.models.base import ToolCall
from medagent.models.calls import excess
from medagent.reports.leaderboard import Checks
from refsol.files import DuplicateKeyError, unique
from refsol.json_values import as_object

_SAMPLING = ("api", "temperature", "max-tokens", "trial-seed", "extra", "cache")
_SAME_END = {"cut": "invalid_action", "empty": "invalid_action"}
"""Statuses that a replay cannot tell apart: only the model's endpoint knows the difference."""
_SHOWN = 12
"""Shown characters of a digest or of a field's name."""
_LONGEST = 60
"""Shown characters of a value."""
_REPORTED = (
    "data",
    "settings",
    "versions",
    "started",
    "ended",
    "slowest",
    "overall",
    "spent",
    "spending",
    "unpriced",
    "endings",
    "finish_reasons",
    "failed",
    "owed",
    "ungraded",
    "journals",
)
"""The fields of `report.json` that follow from `run.json` and the journal."""


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
    needless: list[str] = field(default_factory=list)
    """Needs no check, with the reason."""
    no_replay: str = ""
    """Why the episodes could not be replayed. Empty if they were."""
    tasks: int = 0
    """The number of tasks of the data set."""
    report: Report | None = None
    """The report under the official rules. None if there is a problem."""

    @property
    def checks(self) -> Checks:
        """The lists in the form that the leaderboard shows."""
        return Checks(self.verified, self.claimed, self.unchecked, self.no_replay, self.needless)


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
            digests = f"digest {str(settings.tasks_digest)[:_SHOWN]} instead of {tasks.digest[:_SHOWN]}"
            checked.problems.append(f"the run used another task set than {tasks.name} {tasks.part}: {digests}")
            return checked
        rows, repeated = _episodes(folder)
        strange, missing = episode_problems(tasks, rows, run["places"].get("trials"))
        checked.tasks = len(tasks.tasks)
        checked.unchecked += [f"{len(missing)} episodes: the pack is of a part"] if missing and about.partial else []
        checked.problems += [
            *_run_file_problems(run, about, settings, tasks),
            *strange,
            *([] if about.partial else missing),
            *(f"{unit}: another row follows its completed one" for unit in repeated.pop("completed", [])),
            *_settings_problems(settings, rows),
            *_results_problems(folder, tasks, rows, run["settings"].get("round")),
        ]
        _replay(checked, folder, tasks, rows, (name, _patients(name, settings, ehr)))
        if not checked.problems:
            options = {
                **({"dataset": dataset} if dataset else {}),
                **({"ehr": ehr} if ehr and own_key(tasks) is None else {}),
            }
            report = graded_report(MedAgentBench(), folder, options)
            checked.problems += _report_problems(folder, report)
            place = {"folder": str(pack), "data": ref(tasks)}
            checked.report = None if checked.problems else report.model_copy(update=place)
        if not checked.problems and not checked.no_replay:
            checked.verified += ["results files", "score"]
        checked.claimed += _claims(run["settings"])
        if repeated:
            statuses = ", ".join(f"{len(units)} {status}" for status, units in repeated.items())
            checked.unchecked.append(f"earlier attempts of repeated episodes ({statuses})")
        return checked


def _dataset_name(pack: Path, settings: PackSettings) -> str:
    """The data set that a pack names. Raises UserError for a folder, because only the user may name folders to read."""
    name = set_of_run({"dataset": settings.dataset, "tasks-digest": settings.tasks_digest})
    if named(name) is None:
        raise UserError(
            f"{pack}: its data set is the folder {name!a} on the packer's machine; name your copy with --dataset DIR"
        )
    return name


def _patients(name: str, settings: PackSettings, ehr: Path | None) -> EhrFile:
    """The patients of the pack's data set, or of a file. Raises UserError."""
    source = MedAgentBenchSettings(dataset=name, version=settings.version, ehr=ehr)
    return MedAgentBench().patients(source, lambda _: None)


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
    if settings.get("skills"):
        yield "the skills"
    yield from (
        "tokens",
        "cost",
        "times",
        "versions and commit",
        "programs, notes, items and table",
        "that no other run was made and left out",
    )


def _replay(checked: Checked, folder: Path, tasks: TaskSet, rows: Rows, data: tuple[str, EhrFile]) -> None:
    """Replay every episode, if the run's settings allow it. `data` is the data set's name here and its patients."""
    settings, (name, patients) = checked.settings, data
    standard = data_set_protocol(name, settings.version, settings.protocol, all_writes=settings.all_writes or False)
    protocol = _protocol(checked, folder, standard)
    if protocol is None:
        reason = checked.no_replay or "prompts.json is not from this run"
        checked.unchecked.append(f"prompts, replies, orders, endings and answers ({reason})")
        return
    if patients.digest != settings.ehr_digest:
        digests = f"digest {str(settings.ehr_digest)[:_SHOWN]} instead of {patients.digest[:_SHOWN]}"
        checked.problems.append(f"the run used other patients than the data set's: {digests}")
        return
    source = MedAgentBenchSettings(dataset=name, version=settings.version)
    by_id = {item.id: item for item in MedAgentBench().items_of(tasks, source)}
    now = constants_of(tasks).now
    choice = EhrChoice(file=patients.path, digest=patients.digest, now=now, pages=settings.pages)

    replayed: list[EpisodeRow] = []

    async def replay() -> None:
        async with choice.open(settings.api_base) as ehr:
            for unit, row in rows.items():
                if row.task_id not in by_id:
                    continue
                if problem := await _problem_of(row, by_id[row.task_id], ehr, protocol, settings.rules):
                    checked.problems.append(f"{unit}: {problem}")
                else:
                    replayed.append(row)

    asyncio.run(replay())
    replies = sum(turn.role == "user" for row in replayed for turn in row.transcript)
    episodes = f"{counted(len(replayed), 'episodes')} ({replies} messages)"
    checked.verified += [
        f"prompts, replies, orders, endings and answers of {episodes} on {tasks.name} {tasks.part}",
        *(["its own prompts, which are in the pack"] if protocol.digest != standard.digest else []),
    ]
    most = max((row.rounds for row in rows.values()), default=0)
    if any(row.status == "round_limit" for row in rows.values()):
        checked.verified.append(f"max-rounds {settings.max_rounds}")
    else:
        reached = f"max-rounds {settings.max_rounds}: no episode reached it (most messages: {most})"
        checked.needless.append(f"{reached}, so it needs no check")


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


async def _problem_of(row: EpisodeRow, item: TaskItem, ehr: Ehr, protocol: Protocol, rules: SessionRules) -> str | None:
    """The first difference between a row and the replay of its messages, or None."""
    async with ehr.session(row.unit, item.change) as record:
        session = Session(item.task, record, protocol, rules)
        session.reset()
        for turn in row.transcript:
            if turn.role == "agent" and not session.done:
                await _act(session, turn, protocol, rules)
        outcome = session.outcome()
    if differs := _first_difference(row.transcript, outcome.transcript):
        return differs
    status = _SAME_END.get(row.status, row.status)
    if outcome.status is not None and status != outcome.status:
        return f"its status is {row.status}, but its messages lead to {outcome.status}"
    if outcome.status is None and status in ("completed", "invalid_action", "round_limit"):
        return f"its status is {row.status}, but its messages do not lead to it"
    if row.answer != (outcome.answer if outcome.status == "completed" else None):
        return "the answer differs from the one in FINISH"
    if row.created != outcome.writes:
        return "the writes differ from those that the server makes of the POSTs"
    if row.changes is not None and row.changes != outcome.changes:
        return "the state difference differs from the one that the writes lead to"
    return None


async def _act(session: Session, turn: Turn, protocol: Protocol, rules: SessionRules) -> None:
    """Send one message. What was refused in the run is refused with the same text."""
    if turn.characters is not None:
        session.reject(turn)
        return
    call = turn.call if protocol.kind == "tools" else None
    if call is not None and turn.content == call.written:
        problem = excess(call)
        try:
            Toolbox.of(protocol, rules.api_base).action(ToolCall(call.id, call.name, call.arguments))
        except ToolError as error:
            problem = problem or str(error)
        if problem is not None:
            session.refuse(turn.content, problem)
            return
    await session.act(turn.content)


def _first_difference(recorded: Sequence[Turn], again: Sequence[Turn]) -> str | None:
    for number, (before, after) in enumerate(zip(recorded, again, strict=False), 1):
        if (before.role, before.content, before.dispatched) != (after.role, after.content, after.dispatched):
            what = "the reply" if after.role == "user" else "the agent's message"
            if number == 1:
                what = "the prompt"
            return f"message {number}: {what} differs from the one that the data set and the protocol give"
    if len(recorded) != len(again):
        return f"contains {len(recorded)} messages, but its agent's messages lead to {len(again)}"
    return None


def _run_file_problems(
    run: Mapping[str, Any], about: PackFile, settings: PackSettings, tasks: TaskSet
) -> Iterator[str]:
    """Contradictions between `run.json`, `pack.json` and the data set."""
    if about.benchmark != DEFAULT:
        yield f"is a pack of {about.benchmark}; only packs of {DEFAULT} can be checked"
    for name, value in about.model_dump(include={"benchmark", "data", "versions"}).items():
        if run[name] != value:
            yield f"pack.json: `{name}` differs from run.json: {_different(value, run[name])}"
    named_data, data = as_object(run["data"]), ref(tasks).model_dump()
    for name in ("name", "version", "digest"):  # the remarks of other versions of medagent may differ
        if named_data.get(name) != data[name]:
            yield f"run.json: the data's {name} is {_short(named_data.get(name))} instead of {_short(data[name])}"
    generated = tasks.manifest.generated
    seed = generated.seed_sha256 if generated else None
    if settings.seed_digest != seed or about.seed_sha256 != seed:
        yield f"the seed's digest differs from the one of {tasks.name} {tasks.part}"


def _different(value: Any, expected: Any) -> str:
    """What differs between two values: the first of their fields that do, otherwise the values."""
    if isinstance(value, Mapping) and isinstance(expected, Mapping):
        name = next(name for name in {**value, **expected} if value.get(name) != expected.get(name))
        return f"{str(name)[:_SHOWN]} is {_short(value.get(name))} instead of {_short(expected.get(name))}"
    return f"{_short(value)} instead of {_short(expected)}"


def _short(value: Any) -> str:
    """The beginning of a value, in ASCII."""
    text = ascii(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _episodes(folder: Path) -> tuple[Rows, dict[str, list[str]]]:
    """The last row of each episode, and the episodes with several rows, by the statuses of their earlier ones."""
    journal = Journal(folder / JOURNAL, EpisodeRow, writable=False, received=True)
    try:
        return {row.unit: row for row in journal.rows()}, journal.repeated
    finally:
        journal.close()


def _settings_problems(settings: PackSettings, rows: Rows) -> Iterator[str]:
    """Settings that contradict the rows: a run of a model contains model calls, a run of a bundled agent does not."""
    if settings.model is not None and settings.agent in AGENTS and settings.agent != "text":
        yield f"run.json: the model is {settings.model!a}, but the agent {settings.agent} does not use a model"
    for unit, row in rows.items():
        calls = row.spent.calls
        if settings.model is None and settings.agent in AGENTS and calls:
            yield f"{unit}: contains {calls} model calls, but the run's agent {settings.agent} makes none"
        elif settings.model is not None and settings.agent is None:
            needed = row.rounds if settings.protocol != "tools" else min(row.rounds, 1)
            if calls < needed:
                yield f"{unit}: contains {row.rounds} messages of {settings.model!a}, but {calls} model calls"


def _results_problems(folder: Path, tasks: TaskSet, rows: Rows, label: object) -> Iterator[str]:
    """Differences between the results files and the journal."""
    by_id = {task.id: task for task in tasks.tasks}
    trials: dict[int, dict[str, Any]] = {}
    for row in rows.values():
        if row.task_id in by_id:
            trials.setdefault(row.trial, {})[row.task_id] = result_item(row, by_id[row.task_id])
    held = sum(path.name.startswith("results") for path in folder.iterdir())
    if held != len(trials):
        yield f"there are {held} results files for {len(trials)} trials"
    for trial, items in trials.items():
        path = results_path(folder, trial)
        try:
            document = json.loads(path.read_bytes(), object_pairs_hook=unique)
            listed = document["results"]
            stored = {item["task_id"]: item for item in listed}
            head = (document["version"], document["round"], document["total_tasks"])
        except DuplicateKeyError as error:
            yield f"{path.name}: {error}"
            continue
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            yield f"{path.name}: cannot be read"
            continue
        expected = (tasks.part, str(label), len(items))
        for name, value, right in zip(("version", "round", "total_tasks"), head, expected, strict=True):
            if value != right:
                yield f"{path.name}: {name} is {_short(value)} instead of {_short(right)}"
        if len(listed) != len(items) or set(stored) != set(items):
            yield f"{path.name}: its episodes differ from the journal's: {_episodes_words(stored, items, listed)}"
        for task_id in sorted(set(stored) & set(items)):
            if stored[task_id] != items[task_id]:
                yield f"{path.name}: {task_id} differs from the journal: {_different(stored[task_id], items[task_id])}"


def _episodes_words(stored: Mapping[str, Any], items: Mapping[str, Any], listed: Sequence[Any]) -> str:
    """How the episodes of a results file differ from those of the journal."""
    if missing := sorted(set(items) - set(stored)):
        return f"{missing[0]} is missing ({len(missing)} in all)"
    if surplus := sorted(set(stored) - set(items)):
        return f"{_short(surplus[0])} is not in the journal ({len(surplus)} in all)"
    return f"{len(listed)} entries for {len(items)} episodes"


def _report_problems(folder: Path, composed: Report) -> Iterator[str]:
    """Differences between `report.json` and a report that is recomputed from the other files."""
    stored = read_report(folder)
    if stored is None:
        yield "report.json: is missing"
        return
    for name in _REPORTED:
        if getattr(stored, name) != getattr(composed, name):
            values = (report.model_dump(mode="json", include={name})[name] for report in (stored, composed))
            what = _different(*values)
            yield f"report.json: `{name}` differs from the value computed from run.json and the journal: {what}"
