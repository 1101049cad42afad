"""An episode as a unit of the run engine: an agent meets a session, and what happened becomes a journal row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from medagent.benchmarks.medagentbench.agents.base import Agent, Policy
from medagent.benchmarks.medagentbench.ehr.base import Ehr
from medagent.benchmarks.medagentbench.prompts.protocol import Protocol
from medagent.benchmarks.medagentbench.session import Outcome, Rules, Session, Turn, Write, clean
from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.clock import wall_clock
from medagent.engine.rows import Row
from medagent.errors import EpisodeError
from medagent.models.base import ChatModel
from medagent.models.limiter import EndpointStats
from medagent.models.settings import ModelSettings
from medagent.models.wording import strip_thinking
from medagent.wire import Text


@dataclass(frozen=True, slots=True)
class EpisodeUnit:
    """One trial of one task."""

    task: Task
    trial: int = 1

    @property
    def key(self) -> str:
        """`task5_7#1`."""
        return f"{self.task.id}#{self.trial}"


class EpisodeRow(Row):
    """A row of `episodes.jsonl`. `created` says, POST by POST, what the server stored or why it did not."""

    task_id: str
    trial: int = 1
    answer: Text | None = None
    rounds: int = 0
    malformed: int = 0
    """Tool calls that could not be read as an action."""
    thinking: bool = False
    """Whether the episode would have needed --strip-thinking: a message opened with a think block and an action."""
    transcript: list[Turn] = Field(default_factory=list)
    created: list[Write] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """Which agent acts, and what it needs."""

    kind: str
    model: ModelSettings | None = None
    answers: Mapping[str, str] | None = None
    messages: Mapping[str, list[str]] | None = None


@dataclass(frozen=True, slots=True)
class EhrChoice:
    """The embedded server's file, or an external server's address. `digest` names the file's data in the settings."""

    file: Path | None = None
    digest: str | None = None
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: Path | None = None

    @asynccontextmanager
    async def open(self, shown: str) -> AsyncIterator[Ehr]:
        """Open it for a run; `shown` is the FHIR base that agents see."""
        if self.file is not None:
            from medagent.benchmarks.medagentbench.ehr.embedded import EmbeddedEhr

            embedded = EmbeddedEhr.open(self.file, shown)
            try:
                yield embedded
            finally:
                embedded.close()
        else:
            from medagent.benchmarks.medagentbench.ehr.http import HttpEhr

            async with HttpEhr(self.url, shown, headers=dict(self.headers), ca_file=self.ca_file) as http:
                yield http


@dataclass(frozen=True, slots=True)
class EpisodeJob:
    """Everything a process needs to run episodes."""

    agent: AgentChoice
    ehr: EhrChoice
    protocol: Protocol
    rules: Rules
    concurrency: int

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EpisodeWorker]:
        """See `Job.open`."""
        async with AsyncExitStack() as stack:
            ehr = await stack.enter_async_context(self.ehr.open(self.rules.api_base))
            model: ChatModel | None = None
            stats: Sequence[EndpointStats] = ()
            if self.agent.model is not None:
                from medagent.models import open_model

                model = open_model(self.agent.model, concurrency=self.concurrency)
                stack.push_async_callback(model.aclose)
                stats = (model.stats,)
            yield EpisodeWorker(self._agent(model), ehr, self.protocol, self.rules, stats)

    def _agent(self, model: ChatModel | None) -> Agent:
        if model is not None:
            from medagent.benchmarks.medagentbench.agents.text import TextAgent
            from medagent.benchmarks.medagentbench.agents.tools import ToolsAgent

            return (
                ToolsAgent(model, self.protocol, self.rules.api_base)
                if self.protocol.kind == "tools"
                else TextAgent(model)
            )
        from medagent.benchmarks.medagentbench.agents.fixed import ConstantAgent, ReplayAgent
        from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent

        if self.agent.kind == "replay":
            return ReplayAgent(self.agent.messages or {})
        if self.agent.kind == "reference":
            return ReferenceAgent(self.rules.api_base)
        return ConstantAgent(self.agent.answers or {})


@dataclass(frozen=True, slots=True)
class EpisodeWorker:
    """Runs episodes; see `Worker`."""

    agent: Agent
    ehr: Ehr
    protocol: Protocol
    rules: Rules
    stats: Sequence[EndpointStats] = ()

    async def run(self, unit: EpisodeUnit) -> EpisodeRow:
        """One episode from reset to outcome. Failures that are not the agent's end it with their status."""
        started, clock = wall_clock(), time.monotonic()
        outcome, error, malformed = Outcome(), None, 0
        policy = self.agent.start(unit.task, key=unit.key, seed=None if unit.trial == 1 else unit.trial)
        try:
            async with self.ehr.session(unit.key) as fhir:
                session = Session(unit.task, fhir, self.protocol, self.rules)
                observation = session.reset()
                outcome = session.outcome()
                malformed = await _play(session, policy, observation)
        except EpisodeError as failure:
            outcome.status, error = failure.status, str(failure)
            policy.spent.add_failure(failure)
        except asyncio.CancelledError:
            outcome.status = "cancelled"
        return EpisodeRow(
            unit=unit.key,
            status=outcome.status or "round_limit",
            error=error,
            spent=policy.spent,
            started=started,
            timestamp=wall_clock(),
            seconds=round(time.monotonic() - clock, 3),
            task_id=unit.task.id,
            trial=unit.trial,
            answer=outcome.answer if outcome.status == "completed" else None,
            rounds=outcome.rounds,
            malformed=malformed,
            thinking=any(_needs_stripping(turn) for turn in outcome.transcript),
            transcript=outcome.transcript,
            created=outcome.writes,
        )


async def _play(session: Session, policy: Policy, observation: str) -> int:
    """Let the policy act until the session is done; the number of malformed moves."""
    malformed = 0
    while not session.done:
        move = await policy.next(observation)
        if move.problem is not None:
            malformed += 1
            observation = session.refuse(move.text, move.problem)
        else:
            observation = await session.act(move.text, move.reasoning)
    return malformed


def _needs_stripping(turn: Turn) -> bool:
    if turn.role != "agent":
        return False
    action = clean(strip_thinking(turn.content))
    return clean(turn.content) != action and action.startswith(("GET", "POST", "FINISH("))
