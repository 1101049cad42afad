"""One episode in one call: an overlay, a session, the grader, the verdict.

    async with medagent.episode("task5_7") as e:
        prompt = e.reset()
        reply = await e.act("GET http://localhost:8080/fhir/…")
        print(e.verdict().correct)

`with medagent.episode(…)` is the same for programs without an event loop, over the embedded server. Every adapter
(training loops, MCP, other harnesses) is built on it. The server, the grader and the prompts are opened once per
process and shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from medagent.core.errors import UserError
from medagent.core.options import checked, option_of, options
from medagent.core.waiting import blocking
from medagent.engine.patient_data import check_own_code
from medagent.engine.scores import Grader, Score, graded
from medagent.engine.settings import mixed
from medagent.fhir_data.embedded import EmbeddedEhr
from medagent.fhir_data.record import Ehr, EhrSession
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import EpisodeRow, server_choice
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.session import Outcome, Session, Turn
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.task import FhirItem, FhirTask
from medagent.fhir_episodes.tools import Toolbox, call
from medagent.models.base import Tool
from medagent.reports.tables import say

E = TypeVar("E", bound="OpenEpisode")
T = TypeVar("T")


class EpisodeSource:
    """The shared parts of one benchmark's episodes, by its settings. Each part is opened at its first use."""

    def __init__(self, benchmark: FhirBenchmark[Any], settings: FhirSettings) -> None:
        self.benchmark = benchmark
        self.settings = settings

    @classmethod
    def of(cls, benchmark: FhirBenchmark[Any], values: Mapping[str, Any]) -> EpisodeSource:
        """The source for these options of the benchmark's episodes. Raises UserError."""
        known = {name: value for name, value in values.items() if value is not None}
        return cls.by(benchmark, checked(benchmark.Settings, known))

    @classmethod
    def by(cls, benchmark: FhirBenchmark[Any], settings: FhirSettings) -> EpisodeSource:
        """The source for these settings of the benchmark. Raises UserError for options that no episode has."""
        for name in sorted(settings.model_fields_set):
            option = option_of(type(settings), name)
            if option is None or "episode" not in option.option.for_:
                known = ", ".join(sorted(option.name for option in options(type(settings), "episode")))
                raise UserError(f"{name}: unknown option of an episode; the options are {known}")
        if settings.protocol not in ("text", "tools"):
            raise UserError(f"--protocol {settings.protocol}: an episode acts by text or tools")
        return _shared(type(benchmark), settings)

    @cached_property
    def items(self) -> Mapping[str, FhirItem]:
        """The items by id. Raises UserError."""
        return {item.id: item for item in self.benchmark.read_items(self.settings)}

    @cached_property
    def mixed(self) -> Mapping[str, FhirItem]:
        """The items by id, in the order of a run, which alternates the types."""
        return {name: self.items[name] for name in mixed(list(self.items), lambda name: self.items[name].group)}

    def item(self, task: Any) -> FhirItem:
        """The item of a task's id, or of a task. Raises UserError for an unknown id."""
        name = task.id if isinstance(task, FhirTask) else task
        known = self.items.get(name) if isinstance(name, str) else None
        return known or self.benchmark.item(self.settings, task)

    @cached_property
    def grader(self) -> Grader[EpisodeRow]:
        """The benchmark's grader. Raises UserError."""
        return self.benchmark.grader(self.settings, self.benchmark.rule_sets[0]).__enter__()

    @cached_property
    def protocol(self) -> Protocol:
        """The texts of the protocol."""
        return self.benchmark.session_protocol(self.settings, self.settings.protocol)

    @cached_property
    def toolbox(self) -> Toolbox:
        """The FHIR functions as tools."""
        return Toolbox.of(self.protocol, self.settings.api_base)

    @cached_property
    def embedded(self) -> EmbeddedEhr:
        """The embedded server with the patients; it stays open until the process ends."""
        return self.open_record(self.settings.api_base)

    def open_record(self, base: str) -> EmbeddedEhr:
        """An embedded server with the patients, for this base. Raises UserError."""
        file = self.benchmark.patients(self.settings, say)
        return EmbeddedEhr.open(file.path, base, self.benchmark.now(self.settings), self.settings.pages)

    def score(self, item: FhirItem, outcome: Outcome) -> Score:
        """The score of an outcome, ended or not."""
        row = EpisodeRow(unit=f"{item.id}#1", status=outcome.status or "unfinished", task_id=item.id)
        row.take(outcome)
        return blocking(graded(self.grader, item, row))


@lru_cache(maxsize=8)
def _shared(kind: type[FhirBenchmark[Any]], settings: FhirSettings) -> EpisodeSource:
    return EpisodeSource(kind(), settings)


class OpenEpisode:
    """The common part of both kinds of episodes. Call `reset`, then `act` or `call` until `done`, then `verdict`."""

    def __init__(self, item: FhirItem, session: Session, source: EpisodeSource) -> None:
        self.task = item.task
        self._item = item
        self._session = session
        self._source = source

    def reset(self) -> str:
        """Start again with a fresh overlay; returns the prompt."""
        return self._session.reset()

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._session.done

    @property
    def failed(self) -> bool:
        """Whether the reply to the last action is an error."""
        return self._session.failed

    @property
    def outcome(self) -> Outcome:
        """The outcome so far: status, answer, transcript, writes, rounds."""
        return self._session.outcome()

    @property
    def transcript(self) -> list[Turn]:
        """All messages so far."""
        return self._session.outcome().transcript

    @property
    def pair(self) -> str:
        """The name that twins share; empty for other items. Do not show it to an agent."""
        return self._item.pair

    @property
    def tools(self) -> list[Tool]:
        """The FHIR functions and `finish`, as tools with JSON schemas."""
        return self._source.toolbox.tools()

    def verdict(self) -> Score:
        """The benchmark's verdict on the outcome so far."""
        return self._source.score(self._item, self._session.outcome())


class Episode(OpenEpisode):
    """An open episode of `async with`."""

    async def act(self, message: str) -> str:
        """Take one message; returns the reply, "" if it ends the episode. Raises SessionEndedError after the end."""
        return await self._session.act(message)

    async def call(self, tool: str, arguments: dict[str, Any] | str) -> str:
        """Take one tool call; returns the reply. If the call cannot be read, the reply is the reason.

        `arguments` may be text from a model, which may be invalid JSON.
        """
        return await call(self._session, self._source.toolbox, tool, arguments)


class SyncEpisode(OpenEpisode):
    """An open episode of `with`, for programs without an event loop, over the embedded server."""

    def act(self, message: str) -> str:
        """Handle one message of the agent; returns the reply, or "" if the episode has ended."""
        return blocking(self._session.act(message))

    def call(self, tool: str, arguments: dict[str, Any] | str) -> str:
        """Handle one tool call; returns the reply."""
        return blocking(call(self._session, self._source.toolbox, tool, arguments))


class EpisodeContext:
    """An episode that is not open yet: a context manager for `with` and `async with`, which can be entered again."""

    def __init__(self, item: FhirItem, key: str, source: EpisodeSource) -> None:
        self._item = item
        self._key = key
        self._source = source
        self._open: list[ExitStack] = []
        self._open_async: list[AsyncExitStack] = []

    async def __aenter__(self) -> Episode:
        settings = self._source.settings
        async with AsyncExitStack() as stack:
            ehr: Ehr = self._source.embedded if settings.fhir is None else await self._server(settings, stack)
            check = self._source.benchmark.chart_check(settings)
            if check is not None:
                await stack.enter_async_context(check.around(self._item.task, ehr, self._key))
            record = await stack.enter_async_context(ehr.session(self._key, self._item.change, self._item.chart))
            episode = self._episode(Episode, record)
            self._open_async.append(stack.pop_all())
        return episode

    async def _server(self, settings: FhirSettings, stack: AsyncExitStack) -> Ehr:
        if settings.private:
            check_own_code("a program that opens episodes", settings.send_patient_data)
        choice = server_choice(settings, self._source.benchmark.now(settings))
        return await stack.enter_async_context(choice.open(settings.api_base))

    async def __aexit__(self, *error: Any) -> None:
        await self._open_async.pop().__aexit__(*error)

    def __enter__(self) -> SyncEpisode:
        if self._source.settings.fhir is not None:
            raise UserError("an external FHIR server needs `async with medagent.episode(…)`")
        with ExitStack() as stack:
            record = stack.enter_context(self._source.embedded.overlay(self._key, self._item.change, self._item.chart))
            episode = self._episode(SyncEpisode, record)
            self._open.append(stack.pop_all())
        return episode

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)

    def _episode(self, kind: type[E], record: EhrSession) -> E:
        session = Session(self._item.task, record, self._source.protocol, self._source.settings.session_rules)
        return kind(self._item, session, self._source)


def open_episode(source: EpisodeSource, task: Any, key: str | None = None) -> EpisodeContext:
    """An episode of a task, or of a task's id; `key` seeds the ids that the server creates. Raises UserError."""
    item = source.item(task)
    return EpisodeContext(item, key or f"{item.id}#1", source)
