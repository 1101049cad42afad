"""One episode in one call: a private copy of the record, a session, the facts, the verdict.

    async with medagent.episode("task5_7") as e:
        prompt = e.reset()
        reply = await e.act("GET http://localhost:8080/fhir/…")
        print(e.verdict().correct)

`with medagent.episode(…)` is the same for programs without an event loop, over the embedded server. Every adapter
(training loops, MCP, other harnesses) stands on it. What is expensive to open (the server, the facts, the prompts) is
opened once a process and shared.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from medagent.benchmarks.medagentbench.agents.tools import Toolbox, ToolError
from medagent.benchmarks.medagentbench.prompts.protocol import Protocol, load_protocol
from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.results.write import post_history
from medagent.benchmarks.medagentbench.session import (
    MAX_ROUNDS,
    Loop,
    Outcome,
    Session,
    SessionRules,
    Turn,
    Writes,
)
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task, load_dataset, load_tasks_file
from medagent.core.errors import UserError
from medagent.fhir_data.record import Ehr, EhrSession
from medagent.models.base import Tool, ToolCall
from refsol.medagentbench import Facts, Verdict, grade_item
from refsol.medagentbench.constants import PUBLISHED, Constants

if TYPE_CHECKING:
    from medagent.fhir_data.embedded import EmbeddedEhr

E = TypeVar("E", bound="Episode")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EpisodeOptions:
    """What an episode runs over, as `medagent run` has it; `key` seeds the ids that the server makes up."""

    dataset: str = "synthetic"
    version: str = "v2"
    tasks_file: Path | None = None
    ehr: Path | None = None
    fhir: str | None = None
    protocol: Literal["text", "tools"] = "text"
    writes: Writes = "ack"
    max_rounds: int = MAX_ROUNDS
    api_base: str = PUBLISHED.base
    strip_thinking: bool = False
    loop: Loop | None = None

    def __post_init__(self) -> None:
        if self.loop and self.protocol == "tools":
            raise UserError("loop has no meaning with the protocol tools: the published runner has no tools")

    @property
    def rules(self) -> SessionRules:
        """What holds for the episode."""
        loop = self.loop or "published"
        return SessionRules(self.api_base, self.max_rounds, self.writes, self.strip_thinking, loop)


def episode(task: Task | str, *, key: str | None = None, **options: Any) -> EpisodeContext:
    """An episode of a task (or of its id in the data set), to be entered by `async with` or `with`.

    Options are the fields of `EpisodeOptions`. Raises UserError for an unknown task or data that cannot be used.
    """
    wanted = options_of(options)
    found = task if isinstance(task, Task) else task_of(wanted, task)
    return EpisodeContext(found, key or f"{found.id}#1", wanted)


def tasks(**options: Any) -> Sequence[Task]:
    """The tasks of a data set; options as `episode` has them. Raises UserError."""
    return dataset_of(options_of(options)).tasks


def options_of(given: dict[str, Any]) -> EpisodeOptions:
    """The options of a call; paths may be texts. Raises UserError for one that is not there."""
    if unknown := sorted(set(given) - {field.name for field in fields(EpisodeOptions)}):
        raise UserError(f"{unknown[0]}: there is no such option of an episode")
    paths = {name: Path(given[name]) for name in ("tasks_file", "ehr") if given.get(name) is not None}
    return EpisodeOptions(**{**given, **paths})


class Episode:
    """An open episode. `reset` first, then `act` or `call` until `done`, then `verdict`."""

    def __init__(
        self, task: Task, session: Session, facts: Facts, toolbox: Toolbox, base: str, constants: Constants
    ) -> None:
        self.task = task
        self._constants = constants
        self._session = session
        self._facts = facts
        self._toolbox = toolbox
        self._base = base

    def reset(self) -> str:
        """Start over a fresh copy of the record; returns the prompt."""
        return self._session.reset()

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._session.done

    @property
    def outcome(self) -> Outcome:
        """What the episode left so far: status, answer, transcript, writes, rounds."""
        return self._session.outcome()

    @property
    def transcript(self) -> list[Turn]:
        """All messages so far."""
        return self._session.outcome().transcript

    @property
    def tools(self) -> list[Tool]:
        """The FHIR functions and `finish`, as tools with JSON schemas."""
        return self._toolbox.tools()

    async def act(self, message: str) -> str:
        """Take one message; returns the reply, "" when the episode has ended. Raises SessionEndedError after that."""
        return await self._session.act(message)

    async def call(self, tool: str, arguments: dict[str, Any] | str) -> str:
        """Take one tool call; returns the reply. A call that cannot be read is answered with the reason.

        `arguments` may be the text that a model wrote, which need not be JSON.
        """
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        try:
            action = self._toolbox.action(ToolCall("", tool, text))
        except ToolError as error:
            return self._session.refuse(f"{tool}({text})", str(error))
        return await self._session.act(action)

    def verdict(self) -> Verdict:
        """The official verdict on the episode as it stands."""
        return verdict_of(self.task, self._session.outcome(), self._facts, self._base, self._constants)


class SyncEpisode(Episode):
    """The same for programs without an event loop; only over the embedded server, which never waits."""

    def act(self, message: str) -> str:  # type: ignore[override]  # the twin without `await`
        """See `Episode.act`."""
        return _now(super().act(message))

    def call(self, tool: str, arguments: dict[str, Any] | str) -> str:  # type: ignore[override]  # without `await`
        """See `Episode.call`."""
        return _now(super().call(tool, arguments))


class EpisodeContext:
    """An episode that is not open yet; a context manager of both kinds."""

    def __init__(self, task: Task, key: str, options: EpisodeOptions) -> None:
        self._task, self._key, self._options = task, key, options
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Episode:
        ehr: Ehr
        if self._options.fhir is None:
            ehr = _embedded(self._options)
        else:
            from medagent.benchmarks.medagentbench.settings import server_headers
            from medagent.fhir_data.http import HttpEhr

            server = HttpEhr(self._options.fhir, self._options.api_base, headers=server_headers([]))
            ehr = await self._stack.enter_async_context(server)
        record = await self._stack.enter_async_context(ehr.session(self._key))
        return self._opened(Episode, record)

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    def __enter__(self) -> SyncEpisode:
        if self._options.fhir is not None:
            raise UserError("an external FHIR server needs `async with medagent.episode(…)`")
        ehr = _embedded(self._options)
        return self._opened(SyncEpisode, _now(self._stack.enter_async_context(ehr.session(self._key, blocking=True))))

    def __exit__(self, *error: Any) -> None:
        _now(self._stack.__aexit__(*error))

    def _opened(self, kind: type[E], record: EhrSession) -> E:
        options = self._options
        protocol = _protocol(options.protocol, _beside(options, "protocol.toml"), _beside(options, "functions.json"))
        session = Session(self._task, record, protocol, options.rules)
        toolbox = Toolbox.of(protocol, options.api_base)
        constants = dataset_of(options).constants
        return kind(self._task, session, facts_of(options), toolbox, options.api_base, constants)


def verdict_of(task: Task, outcome: Outcome, facts: Facts, base: str, constants: Constants) -> Verdict:
    """The official verdict on what an episode left."""
    answer = outcome.answer if outcome.status == "completed" else None
    history = post_history(outcome.transcript)
    return grade_item(task.model_dump(), answer, history, facts, base=base, constants=constants)


def _now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    work.close()
    raise RuntimeError("the embedded server waited for something")


@lru_cache(maxsize=8)
def dataset_of(options: EpisodeOptions) -> Dataset:
    """The data set of the options. Raises UserError."""
    if options.tasks_file is not None:
        return load_tasks_file(options.tasks_file)
    return load_dataset(options.dataset, options.version)


def task_of(options: EpisodeOptions, task_id: str) -> Task:
    """A task by its id. Raises UserError."""
    dataset = dataset_of(options)
    found = next((task for task in dataset.tasks if task.id == task_id), None)
    if found is None:
        raise UserError(f"unknown task id {task_id!r} in {dataset.name} {dataset.version}")
    return found


def _beside(options: EpisodeOptions, name: str) -> Path | None:
    if name == "protocol.toml" and options.protocol != "text":
        return None
    return dataset_of(options).beside(name)


@lru_cache(maxsize=8)
def _protocol(name: str, file: Path | None, functions: Path | None) -> Protocol:
    return load_protocol(name, file=file, functions=functions)


@lru_cache(maxsize=4)
def _embedded(options: EpisodeOptions) -> Any:
    """An open embedded server; it stays open as long as the process."""
    return open_record(options, options.api_base)


def open_record(options: EpisodeOptions, base: str) -> EmbeddedEhr:
    """The patients of the options in an embedded server under a base. Raises UserError."""
    from medagent.benchmarks.medagentbench.inventory import patients_file
    from medagent.fhir_data.embedded import EmbeddedEhr

    dataset = dataset_of(options)
    file = patients_file(dataset, options.ehr)
    return EmbeddedEhr.open(file.path, base, dataset.constants.now)


@lru_cache(maxsize=8)
def facts_of(options: EpisodeOptions) -> Facts:
    """What verdicts rest on: the data set's key where its own patients are used, else the record that is read."""
    dataset = dataset_of(options)
    if options.fhir is not None:
        return grading.facts(dataset, fhir=options.fhir, ehr=None, key=None)
    if options.ehr is None:
        return grading.facts(dataset, fhir=None, ehr=None, key=None)
    from medagent.benchmarks.medagentbench.facts import embedded_facts
    from medagent.fhir_data.embedded import imported_file

    return embedded_facts(imported_file(options.ehr).path)
