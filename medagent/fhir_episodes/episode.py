"""An episode as a unit of the run engine: an agent acts in a session, and the outcome becomes a journal row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Protocol, Self

from pydantic import Field, model_validator

from medagent.agents.base import Agent, ChatAgent, Policy, learn_from, next_move
from medagent.agents.choice import AgentChoice
from medagent.engine.boundary import blame
from medagent.engine.learning import Feedback
from medagent.engine.report import REQUESTS, ShownMessage
from medagent.engine.rows import Row, Spent
from medagent.fhir_data.record import Ehr, EhrSession, Pages
from medagent.fhir_episodes.code_session import CodeRules, CodeWork, PythonCalls, open_code, open_session
from medagent.fhir_episodes.own_loop import Env, OwnBases, Watched, serve_bases, solve
from medagent.fhir_episodes.protocol import Protocol as Words
from medagent.fhir_episodes.reads import Read
from medagent.fhir_episodes.session import (
    Outcome,
    Program,
    Session,
    SessionRules,
    StateDifference,
    Turn,
    Write,
    clean,
)
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.task import FhirTask
from medagent.fhir_episodes.tools import Toolbox, ToolsAgent
from medagent.models.base import ChatModel
from medagent.models.endings import CUT
from medagent.models.limiter import EndpointStats
from medagent.models.wording import strip_thinking
from refsol.changes import Change
from refsol.clinical.sources import Amendment
from refsol.history import ACCEPTED, HistoryMessage, Post, extract_posts, sent_posts

NO_FINISH = "play ended without FINISH"


@dataclass(frozen=True, slots=True)
class EpisodeUnit:
    """One trial of one task."""

    task: FhirTask
    trial: int = 1
    seed: int | None = None
    """The model's sampling seed."""
    change: Amendment = field(default=(), repr=False)
    """See `FhirItem.change`. Agents do not see it."""
    chart: str = field(default="", repr=False)
    """See `FhirItem.chart`."""

    @property
    def key(self) -> str:
        """`task5_7#1`."""
        return f"{self.task.id}#{self.trial}"


class EpisodeRow(Row):
    """A row of `episodes.jsonl`. `created` has the stored resource of each POST, or why there is none."""

    task_id: str
    trial: int = 1
    answer: str | None = None
    rounds: int = 0
    malformed: int = 0
    """The number of tool calls that could not be read as an action."""
    thinking: bool = False
    """Whether the episode would have needed --strip-thinking: a message opened with a think block and an action."""
    transcript: list[Turn] = Field(default_factory=list)
    created: list[Write] = Field(default_factory=list)
    changes: StateDifference = None
    """The state difference: what the episode changed in the record, if its writes were carried out."""
    programs: list[Program] | None = None
    """The programs of an agent that acts in code, in order; the transcript has their requests."""
    reads: list[Read] | None = None
    """Each GET with the ids in its reply, if the benchmark grades reads."""

    @classmethod
    def begin(cls, unit: EpisodeUnit) -> Self:
        return cls(unit=unit.key, status="completed", task_id=unit.task.id, trial=unit.trial)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """Refuse a row whose unit does not match its task and trial."""
        if self.unit != f"{self.task_id}#{self.trial}":
            raise ValueError("unit is not of this task and trial")
        return self

    @property
    def history(self) -> tuple[HistoryMessage, ...]:
        """The messages as graders read them: the text that was acted on."""
        acted = [turn.content if turn.dispatched is None else turn.dispatched for turn in self.transcript]
        return tuple(HistoryMessage(turn.role, text) for turn, text in zip(self.transcript, acted, strict=True))

    @property
    def post_history(self) -> Sequence[HistoryMessage]:
        """Every agent message that contains `POST` and the message that followed it, as results files have them."""
        history = self.history
        messages = list[HistoryMessage]()
        for place, message in enumerate(history):
            if message.is_attempt:
                messages += history[place : place + 2]
        return messages

    @property
    def posts(self) -> Sequence[Post]:
        """The accepted POSTs."""
        return extract_posts(self.history, ACCEPTED)

    @property
    def writes(self) -> Sequence[Change]:
        """The state difference. If it is not known, what the accepted POSTs create."""
        if isinstance(self.changes, list):
            return self.changes
        return [Change("created", None, post.payload) for post in self.posts if isinstance(post.payload, dict)]

    @property
    def attempts(self) -> Sequence[Change]:
        """What the POSTs would have created, which includes those that the server refused."""
        posts = sent_posts(self.history)
        return [Change("created", None, post.payload) for post in posts if isinstance(post.payload, dict)]

    def take(self, outcome: Outcome) -> None:
        """Copy the outcome of an episode, ended or not."""
        self.answer = outcome.answer if outcome.status == "completed" else None
        self.rounds = outcome.rounds
        self.malformed = outcome.malformed
        self.thinking = any(_needs_stripping(turn) for turn in outcome.transcript)
        self.transcript = outcome.transcript
        self.created = outcome.writes
        self.changes = outcome.changes
        self.programs = outcome.programs or None
        self.reads = outcome.reads or None
        self.error = self.error or outcome.error


class Acting(Protocol):
    """A benchmark's own protocol, as a picklable description."""

    def agent(self, model: ChatModel, words: Words) -> Agent:
        """The agent that lets a model act."""

    def session(
        self, task: FhirTask, ehr: EhrSession, words: Words, rules: SessionRules, code: CodeWork | None
    ) -> Session:
        """The session that carries out the agent's actions."""


@dataclass(frozen=True, slots=True)
class Scripted(ABC):
    """A benchmark's own agent, as a picklable description. `kind` is its name."""

    kind: str

    @property
    def label(self) -> str:
        """Its name in tables and folders."""
        return self.kind

    @abstractmethod
    def agent(self, base: str) -> Agent:
        """Make the agent. `base` is the FHIR base that it is shown."""

    @asynccontextmanager
    async def open(self, concurrency: int, base: str = "") -> AsyncIterator[tuple[Agent, Sequence[EndpointStats]]]:
        yield self.agent(base), ()


class ChartCheck(ABC):
    """Checks that an item's chart is still the one of its set, as a picklable description."""

    @abstractmethod
    async def check(self, task: FhirTask, ehr: EhrSession) -> None:
        """Raises ChartChangedError if the chart has changed."""

    @asynccontextmanager
    async def around(self, task: FhirTask, ehr: Ehr, key: str) -> AsyncIterator[None]:
        """Check at the start and at the end of an episode. Its writes are not seen."""
        async with ehr.session(key) as unwritten:
            await self.check(task, unwritten)
        yield
        async with ehr.session(key) as unwritten:
            await self.check(task, unwritten)


@dataclass(frozen=True, slots=True)
class EhrChoice:
    """The embedded server's file, or an external server's address. `digest` names the file's data in the settings."""

    file: Path | None = None
    digest: str | None = None
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: Path | None = None
    now: datetime = field(kw_only=True)
    """The clock of the embedded server, or of the private layers."""
    private: bool = False
    """Whether an external server gets only reads, and writes go into a private layer of each episode."""
    pages: Pages | None = None
    """How the embedded server pages results; None: as HAPI."""

    @asynccontextmanager
    async def open(self, shown: str) -> AsyncIterator[Ehr]:
        """Open it for a run; `shown` is the FHIR base that agents see."""
        if self.file is not None:
            from medagent.fhir_data.embedded import EmbeddedEhr

            embedded = EmbeddedEhr.open(self.file, shown, self.now, self.pages)
            try:
                yield embedded
            finally:
                embedded.close()
        else:
            from medagent.fhir_data.http import HttpEhr

            server = HttpEhr(
                self.url, shown, headers=dict(self.headers), ca_file=self.ca_file, hides_targets=self.private
            )
            async with server as http:
                if not self.private:
                    yield http
                    return
                from medagent.fhir_data.private.session import PrivateEhr

                yield PrivateEhr(http, shown, self.now)


def server_choice(settings: FhirSettings, now: datetime) -> EhrChoice:
    """The external server of these settings, which name one. Raises UserError."""
    return EhrChoice(
        url=settings.fhir or "",
        headers=tuple(settings.fhir_headers.items()),
        ca_file=settings.ca_file,
        now=now,
        private=settings.private,
    )


@dataclass(frozen=True, slots=True)
class EpisodeJob:
    """Everything a process needs to run episodes."""

    agent: AgentChoice | Scripted
    ehr: EhrChoice
    protocol: Words
    rules: SessionRules
    concurrency: int
    row: type[EpisodeRow] = EpisodeRow
    code: CodeRules | None = None
    """The settings of programs, if the agent acts in code."""
    acting: Acting | None = None
    """The benchmark's own protocol, if the run uses it."""
    own_loop: bool = False
    """Whether the agent owns its loop."""
    chart_check: ChartCheck | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EpisodeWorker]:
        async with AsyncExitStack() as stack:
            ehr = await stack.enter_async_context(self.ehr.open(self.rules.api_base))
            agent, stats = await stack.enter_async_context(self.agent.open(self.concurrency, self.rules.api_base))
            code = await stack.enter_async_context(open_code(self.code, self.concurrency))
            bases = await stack.enter_async_context(serve_bases(self.rules.api_base)) if self.own_loop else None
            yield EpisodeWorker(
                self._told(agent), ehr, self.protocol, self.rules, stats, code, self.acting, bases, self.chart_check
            )

    @property
    def learns(self) -> bool:
        """Whether the agent learns from scores."""
        return isinstance(self.agent, AgentChoice) and self.agent.learns

    @property
    def files(self) -> Sequence[Path]:
        """The embedded server's file."""
        return (self.ehr.file,) if self.ehr.file is not None else ()

    def moved(self, places: Mapping[Path, Path]) -> Self:
        return replace(self, ehr=replace(self.ehr, file=places[self.ehr.file])) if self.ehr.file else self

    def _told(self, agent: Agent) -> Agent:
        """A chat agent with the protocol's system prompt and tools; other agents are returned unchanged."""
        if not isinstance(agent, ChatAgent):
            return agent
        if self.acting is not None:
            return self.acting.agent(agent.model, self.protocol)
        if self.code is not None and self.code.tool:
            return ToolsAgent(agent.model, self.protocol.system, PythonCalls())
        if self.protocol.kind == "tools":
            return ToolsAgent(agent.model, self.protocol.system, Toolbox.of(self.protocol, self.rules.api_base))
        return ChatAgent(agent.model, self.protocol.system)


@dataclass(frozen=True, slots=True)
class EpisodeWorker:
    """Runs episodes; see `Worker`."""

    agent: Agent
    ehr: Ehr
    protocol: Words
    rules: SessionRules
    stats: Sequence[EndpointStats] = ()
    code: CodeWork | None = None
    acting: Acting | None = None
    bases: OwnBases | None = None
    """The HTTP bases for agents that own their loop; None for other agents."""
    chart_check: ChartCheck | None = None

    async def run(self, unit: EpisodeUnit, row: EpisodeRow) -> None:
        """One episode from reset to outcome; on an error the row has the transcript so far."""
        around = self.chart_check.around(unit.task, self.ehr, unit.key) if self.chart_check else nullcontext()
        async with around:
            await self._act(unit, row)

    async def _act(self, unit: EpisodeUnit, row: EpisodeRow) -> None:
        if self.bases is not None:
            await self._solve(unit, row, self.bases)
            return
        with blame("agent"):
            policy = self.agent.start(unit.task, key=unit.key, seed=unit.seed)
            row.spent = policy.spent
        async with (
            self.ehr.session(unit.key, unit.change, unit.chart) as fhir,
            self._session(unit.task, fhir) as session,
        ):
            observation = session.reset()
            try:
                await play(session, policy, observation)
            finally:
                row.take(session.outcome())
        row.status = session.outcome().status or "round_limit"

    async def learn(self, unit: EpisodeUnit, row: EpisodeRow, feedback: Feedback, spent: Spent) -> None:
        await learn_from(self.agent, unit.task, row, feedback, spent)

    def _session(self, task: FhirTask, ehr: EhrSession) -> AbstractAsyncContextManager[Session]:
        if self.acting is None:
            return open_session(task, ehr, self.protocol, self.rules, self.code and self.code.at(task.now))
        return nullcontext(self.acting.session(task, ehr, self.protocol, self.rules, self.code))

    async def _solve(self, unit: EpisodeUnit, row: EpisodeRow, bases: OwnBases) -> None:
        """An episode of an agent that owns its loop."""
        toolbox = Toolbox.of(self.protocol, self.rules.api_base)
        async with self.ehr.session(unit.key, unit.change, unit.chart) as fhir:
            record = Watched(fhir)
            session = Session(unit.task, record, self.protocol, self.rules)
            with bases.base(session, record) as http:
                env = Env(session, toolbox, row.spent, http, unit.key, unit.seed)
                try:
                    await solve(self.agent, unit.task, session, env, row.spent)
                finally:
                    row.take(session.outcome())
        row.status = session.outcome().status or "round_limit"


async def play(session: Session, policy: Policy, observation: str) -> None:
    """Let the policy act until the session is done."""
    while not session.done:
        move = await next_move(policy, observation)
        if move.characters is not None:
            session.reject(Turn("agent", move.text, reasoning=move.reasoning, characters=move.characters))
            return
        if move.problem is not None:
            observation = session.refuse(move.text, move.problem, move.reasoning, move.call)
            if move.finish_reason == CUT:  # the next call would be cut off too
                session.outcome().status = "cut"
        elif move.finish_reason == CUT and session.cut_off:
            observation = session.refuse(move.text, session.cut_off, move.reasoning, move.call, malformed=False)
        else:
            observation = await session.act(move.text, move.reasoning, move.call)
        name_unusable(session.outcome(), move.text, move.finish_reason)
        if move.ended and not session.done:
            session.give_up()
        if move.ended and session.outcome().status == "invalid_action":
            session.outcome().error = NO_FINISH


def name_unusable(outcome: Outcome, message: str, finish_reason: str | None) -> None:
    """Give an episode its own status if its last message was cut off or empty, rather than an invalid action. An answer
    that was cut off does not count as an answer.
    """
    if finish_reason == CUT:
        if outcome.status in ("invalid_action", "round_limit"):
            outcome.status = "cut"
        elif outcome.status == "completed" and not clean(message).endswith(")"):
            outcome.status, outcome.answer = "cut", None
    elif outcome.status == "invalid_action" and finish_reason is not None and not message.strip():
        outcome.status = "empty"


def _needs_stripping(turn: Turn) -> bool:
    if turn.role != "agent" or "<think>" not in turn.content:
        return False
    action = clean(strip_thinking(turn.content))
    return clean(turn.content) != action and action.startswith(("GET", "POST", "FINISH("))


def conversation(row: EpisodeRow, *, requests: bool = False) -> Iterator[ShownMessage]:
    """The messages; with `requests`, also one message with the requests of each program."""
    if row.programs is None:
        yield from (ShownMessage(turn.role, turn.content, turn.reasoning, turn.call) for turn in row.transcript)
        return
    by_program = {number: list(turns) for number, turns in groupby(row.transcript, lambda turn: turn.program)}
    yield from (ShownMessage(turn.role, turn.content) for turn in by_program.pop(None, [])[:1])
    number = 0
    for program in row.programs:
        yield ShownMessage("agent", program.message, program.reasoning, program.call)
        if program.code is not None:
            number += 1
            turns = [turn for turn in by_program.get(number, []) if not turn.content.startswith("FINISH(")]
            if requests and turns:
                yield _folded(turns)
        if program.output:
            yield ShownMessage("user", program.output)


def _folded(turns: list[Turn]) -> ShownMessage:
    count = sum(turn.role == "agent" for turn in turns)
    lines = [f"{count} request{'s' if count != 1 else ''}", *(turn.content for turn in turns)]
    return ShownMessage(REQUESTS, "\n".join(lines))
