"""Who answers in a run, as a description that pickles: a model, a class of somebody's, or both."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medagent.agents.base import Agent, AgentContext, CountedModel, owns_loop
from medagent.agents.chat import ChatAgent
from medagent.agents.known import KnownAgent, KnownAnswers
from medagent.agents.misfits import check_agent, check_file
from medagent.core import plugins
from medagent.core.errors import UserError
from medagent.core.options import Names
from medagent.core.plugins import Plugin
from medagent.core.suggest import did_you_mean
from medagent.engine.settings import RunSettings
from medagent.models.base import ChatModel
from medagent.models.limiter import EndpointStats
from medagent.models.prices import Price, find_price
from medagent.models.settings import ModelSettings

AGENTS, MODELS = "medagent.agents", "medagent.models"
"""The entry-point groups of agents and of models."""
NO_MODEL = (
    "no model is given. Three ways on: set a key (export OPENAI_API_KEY=…) and pass --model NAME; "
    "set a base URL (export OPENAI_BASE_URL=http://localhost:8000/v1, or --base-url URL) "
    "and pass --model NAME; "
    "or run without a model: --agent "
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model: an endpoint's, or a class of somebody's (`plugin`)."""

    settings: ModelSettings
    plugin: Plugin | None = None
    batches: Path | None = None
    """The file of its batches, where it is asked through a provider's batch API."""
    price: Price | None = None
    """What an endpoint's calls cost, by the table of who runs; None: unknown."""

    @classmethod
    def of(cls, settings: ModelSettings) -> ModelChoice:
        """The model that settings name, where this process's environment says it is: another worker's says nothing.

        Raises UserError for an import path that leads nowhere, and for a price table that cannot be read.
        """
        plugin = plugins.find(settings.name, MODELS)
        if plugin is not None or settings.name.startswith("scripted:"):
            return cls(settings, plugin)
        from medagent.models.keys import located

        return cls(located(settings, os.environ), price=find_price(settings.name))

    @property
    def label(self) -> str:
        """What tables and folders call it."""
        return _label(self.settings.name, self.plugin)

    def open(self, concurrency: int) -> ChatModel:
        """The model itself, to be closed by `aclose`. Raises UserError where it cannot be used."""
        model = self._opened(concurrency)
        if self.settings.cache is None:
            return model
        from medagent.agents.reply_cache import CachedModel

        return CachedModel(model, self.settings, self.settings.cache, self.plugin.digest if self.plugin else None)

    def _opened(self, concurrency: int) -> ChatModel:
        if self.batches is not None:
            if self.plugin is not None or self.settings.name.startswith("scripted:"):
                raise UserError(f"--batch: {self.settings.name} is behind no batch API")
            from medagent.engine.files import note
            from medagent.models.batches.model import BatchModel

            note(self.batches)
            return BatchModel(self.settings, self.batches, concurrency=concurrency, price=self.price)
        if self.plugin is None:
            from medagent.models import open_model

            return open_model(self.settings, concurrency=concurrency, price=self.price)
        model: ChatModel = _made(self.plugin, self.settings)
        return model

    async def check(self, concurrency: int) -> None:
        """Open it once: a missing key, script or class is found before anything is made. Raises UserError."""
        await self.open(concurrency).aclose()


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """A class of somebody's that answers, or a model, or the first with the second at its hand; or `known` answers.
    `system` is the message before a model's conversations.
    """

    model: ModelChoice | None = None
    agent: Plugin | None = None
    known: KnownAnswers | None = None
    system: str = ""

    @classmethod
    def of(
        cls, settings: RunSettings, own: Names = (), beside: Sequence[ModelSettings] = (), system: str = ""
    ) -> AgentChoice:
        """Who answers by a run's settings; `own` are the names of the benchmark's agents, `beside` the other models of
        the run, which share its keys. Raises UserError.
        """
        check_prices([*([settings.chat] if settings.chat else []), *beside], settings.max_cost)
        model = ModelChoice.of(keyed([settings.chat, *beside])[0]) if settings.chat is not None else None
        agent = plugins.find(settings.agent, AGENTS) if settings.agent is not None else None
        if settings.agent is not None and agent is None:
            check_file(settings.agent)
            raise UserError(
                f"unknown agent {settings.agent!r}; known: {', '.join(own) or 'none by name'}; "
                "a class of yours: --agent FILE.py:Name or package.module:Name." + did_you_mean(settings.agent, own)
            )
        if agent is not None:
            check_agent(agent.path, agent.load())
        if agent is None and model is None:
            raise UserError(NO_MODEL + (own[1] if len(own) > 1 else "FILE.py:Name"))
        return cls(model, agent, system=system)

    def batched(self, batches: Path | None) -> AgentChoice:
        """The same, its model through a batch API whose batches that file holds (None: not). Raises UserError."""
        if batches is None:
            return self
        if self.model is None or self.agent is not None:
            raise UserError("--batch: is for a model alone")
        return replace(self, model=replace(self.model, batches=batches))

    @property
    def label(self) -> str:
        """What tables and folders call who answers: the class, else the model."""
        if self.known is not None:
            return self.known.label
        if self.agent is not None:
            return _label(self.agent.path, self.agent)
        assert self.model is not None
        return self.model.label

    @property
    def own_loop(self) -> type[Agent] | None:
        """The class of an agent that owns its loop, None for any other."""
        loaded: type[Agent] | None = self.agent.load() if self.agent is not None else None
        return loaded if loaded is not None and owns_loop(loaded) else None

    def digests(self) -> dict[str, str | None]:
        """The digests of the sources that decide what is answered, and the agent's path as it is known."""
        return {
            **({"agent": self.agent.path} if self.agent else {}),
            "agent-digest": self.agent.digest if self.agent else None,
            "model-digest": self.model.plugin.digest if self.model and self.model.plugin else None,
        }

    @asynccontextmanager
    async def open(self, concurrency: int, base: str = "") -> AsyncIterator[tuple[Agent, Sequence[EndpointStats]]]:
        """The agent, ready to start policies, and its endpoints. `base` is the FHIR base that it is shown."""
        model = self.model.open(concurrency) if self.model else None
        try:
            yield self._agent(model, base), (model.stats,) if model else ()
        finally:
            if model is not None:
                await model.aclose()

    def _agent(self, model: ChatModel | None, base: str) -> Agent:
        if self.known is not None:
            return KnownAgent(self.known)
        if self.agent is not None:
            made: Agent = _made(self.agent, AgentContext(CountedModel(model) if model is not None else None, base))
            return made
        assert model is not None
        return ChatAgent(model, self.system)


def keyed(models: Sequence[ModelSettings]) -> list[ModelSettings]:
    """The models of one run, the first one first, each with the variable that holds its key. Raises UserError."""
    from medagent.models.keys import assign_keys

    return assign_keys(models, os.environ)


def check_prices(models: Sequence[ModelSettings], max_cost: float | None) -> None:
    """Raises UserError where `--max-cost` cannot be kept, since a model has no price; a class states its own costs."""
    if max_cost is None:
        return
    for model in models:
        if plugins.find(model.name, MODELS) is None and find_price(model.name) is None:
            raise UserError(
                f"--max-cost cannot be kept: {model.name} has no price. A price table of yours can name one "
                "(docs/models.md), or limit tokens: --max-tokens-total"
            )


def _made(plugin: Plugin, argument: Any) -> Any:
    """An instance of a plug-in's class. Raises UserError where it cannot be made."""
    try:
        return plugin.load()(argument)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{plugin.path}: cannot be made: {type(error).__name__}: {error}") from error


def _label(name: str, plugin: Plugin | None) -> str:
    """A model's own name, or the name of a class with the beginning of where it comes from."""
    if plugin is None:
        return name
    return plugin.path.rpartition(":")[2]
