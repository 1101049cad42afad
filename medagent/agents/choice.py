"""The model or agent of a run, as a description that can be pickled: a model, a user class, or both."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from medagent.agents.base import Agent, AgentContext, ChatAgent, CountedModel, Move, learning, owns_loop
from medagent.agents.skills import Skill
from medagent.core import plugins
from medagent.core.code_digest import UNKNOWN, code_digest, has_file, state_of
from medagent.core.errors import ModelError, UserError
from medagent.core.options import Names, Setting, as_setting
from medagent.core.plugins import Plugin
from medagent.core.suggest import did_you_mean
from medagent.engine.learning import agent_folder
from medagent.engine.rows import Spent
from medagent.engine.settings import RunSettings
from medagent.models.base import ChatModel
from medagent.models.limiter import EndpointStats
from medagent.models.prices import Price, find_price
from medagent.models.settings import ModelSettings

AGENTS, MODELS = "medagent.agents", "medagent.models"
"""The entry-point groups of agents and of models."""
NO_MODEL = (
    "no model is given. Choose one: set a key (export OPENAI_API_KEY=…) and pass --model NAME; "
    "set a base URL (export OPENAI_BASE_URL=http://localhost:8000/v1, or --base-url URL) "
    "and pass --model NAME; "
    "or run without a model: --agent "
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model: an endpoint's, or a user class (`plugin`)."""

    settings: ModelSettings
    plugin: Plugin | None = None
    batches: Path | None = None
    """The file of its batches, if it is called through a provider's batch API."""
    price: Price | None = None
    """The price of an endpoint's calls, by the price table of the person who runs it; None: unknown."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the class besides its settings."""

    @classmethod
    def of(cls, settings: ModelSettings, arguments: Mapping[str, Any] | None = None) -> ModelChoice:
        """The model that settings name, with the endpoint from this process's environment, which a worker may lack.

        Raises UserError for an invalid import path, an unreadable price table, or arguments for a model that is not a
        class.
        """
        plugin = plugins.find(settings.name, MODELS)
        check_arguments("model", plugin, arguments)
        if plugin is not None or settings.name.startswith("scripted:"):
            return cls(settings, plugin, arguments=arguments or {})
        from medagent.models.keys import located

        settings = located(settings, os.environ)
        return cls(settings, price=find_price(settings.name, settings.base_urls[0]))

    @property
    def label(self) -> str:
        """Its name in tables and folders."""
        return self.settings.name if self.plugin is None else self.plugin.name

    def open(self, concurrency: int) -> ChatModel:
        """Open the model; the caller closes it with `aclose`. Raises UserError if it cannot be used."""
        model = self._opened(concurrency)
        if self.settings.cache is None:
            return model
        from medagent.agents.reply_cache import CachedModel

        return CachedModel(model, self.settings, self.settings.cache, self._identity())

    def _opened(self, concurrency: int) -> ChatModel:
        if self.batches is not None:
            if self.plugin is not None or self.settings.name.startswith("scripted:"):
                raise UserError(f"--batch: {self.settings.name} does not offer a batch API; leave --batch out")
            from medagent.core.writing import note
            from medagent.models.batches.model import BatchModel

            note(self.batches)
            return BatchModel(self.settings, self.batches, concurrency=concurrency, price=self.price)
        if self.plugin is None:
            from medagent.models import open_model

            return open_model(self.settings, concurrency=concurrency, price=self.price)
        if self.plugin.instance is not None:
            return _SharedModel(self.plugin.instance)
        model: ChatModel = _instance_of(self.plugin, self.settings, self.arguments)
        return model

    def _identity(self) -> str | None:
        """The digest of a class, which is part of its cached replies' keys. Raises UserError if there is none."""
        digest = _digest(self.plugin, self.arguments)
        if digest is not None and digest.startswith(UNKNOWN):
            raise UserError(f"--cache: replies of {self.label} cannot be cached: {digest}")
        return digest

    async def check(self, concurrency: int) -> None:
        """Open and close it, to find a missing key, script or class before the run starts. Raises UserError."""
        await self.open(concurrency).aclose()


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """A user class, a model, or a user class that uses the model; or `known` answers. `system` is the first message of
    a model's conversations, `skills` are for a user class.
    """

    model: ModelChoice | None = None
    agent: Plugin | None = None
    known: KnownAnswers | None = None
    system: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the class besides its context."""
    skills: tuple[Skill, ...] = ()

    @classmethod
    def of(
        cls, settings: RunSettings, bundled: Names = (), beside: Sequence[ModelSettings] = (), system: str = ""
    ) -> AgentChoice:
        """The model or agent in a run's settings. `bundled` are the names of the benchmark's agents. `beside` are the
        other models of the run, which share its keys. Raises UserError.
        """
        check_prices([*([settings.chat] if settings.chat else []), *beside], settings.max_cost)
        chat = settings.chat
        if chat is None:
            check_arguments("model", None, settings.model_arg)
        model = ModelChoice.of(keyed([chat, *beside])[0], settings.model_arg) if chat is not None else None
        agent = plugins.find(settings.agent, AGENTS) if settings.agent is not None else None
        if settings.agent is not None and agent is None:
            check_file(settings.agent)
            raise UserError(
                f"unknown agent {settings.agent!r}; known: {', '.join(bundled) or 'none by name'}; "
                "for your own class: --agent FILE.py:Name or package.module:Name."
                + did_you_mean(settings.agent, bundled)
            )
        if agent is not None:
            check_agent(agent.path, agent.load())
        check_arguments("agent", agent, settings.agent_arg)
        if agent is not None and learning(agent.load()) is not None and not settings.sequential:
            raise UserError(f"--agent {settings.agent}: the agent learns from each score; pass --sequential score")
        if agent is None and model is None:
            raise UserError(NO_MODEL + (bundled[1] if len(bundled) > 1 else "FILE.py:Name"))
        return cls(model, agent, system=system, arguments=settings.agent_arg)

    def batched(self, batches: Path | None) -> AgentChoice:
        """The same with its model behind a batch API, whose file is `batches` (None: unchanged). Raises UserError."""
        if batches is None:
            return self
        if self.model is None or self.agent is not None:
            raise UserError("--batch: works only with a model and without an agent")
        return replace(self, model=replace(self.model, batches=batches))

    @property
    def label(self) -> str:
        """The name in tables and folders: the class, otherwise the model."""
        if self.known is not None:
            return self.known.label
        if self.agent is not None:
            return self.agent.name + self._cell
        assert self.model is not None
        return self.model.label

    @property
    def learns(self) -> bool:
        """Whether the agent learns from scores."""
        return self.agent is not None and learning(self.agent.load()) is not None

    @property
    def own_loop(self) -> type[Agent] | None:
        """The class of an agent with its own loop; None for any other."""
        loaded: type[Agent] | None = self.agent.load() if self.agent is not None else None
        return loaded if loaded is not None and owns_loop(loaded) else None

    @property
    def _cell(self) -> str:
        """The start of the digest, which distinguishes classes of the same name from a notebook's cells."""
        digest = _digest(self.agent, self.arguments) or UNKNOWN
        is_cell = self.agent is not None and not has_file(self.agent.load())
        return f"-{digest[:8]}" if is_cell and not digest.startswith(UNKNOWN) else ""

    def digests(self) -> dict[str, Setting]:
        """The digests of the code that decides the answers, the agent's path if known, and instances' attributes."""
        model = self.model.plugin if self.model else None
        return {
            **({"agent": self.agent.path} if self.agent else {}),
            **_state("agent-arg", self.agent),
            **_state("model-arg", model),
            "agent-digest": _digest(self.agent, self.arguments),
            "model-digest": _digest(model, self.model.arguments if self.model else {}),
        }

    @asynccontextmanager
    async def open(self, concurrency: int, base: str = "") -> AsyncIterator[tuple[Agent, Sequence[EndpointStats]]]:
        """The agent, ready to start policies, and its endpoints. `base` is the FHIR base URL that it is shown."""
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
            counted = CountedModel(model) if model is not None else None
            agent: Agent = _instance_of(
                self.agent, AgentContext(counted, base, agent_folder.get(), self.skills), self.arguments
            )
            return agent
        assert model is not None
        return ChatAgent(model, self.system)


def keyed(models: Sequence[ModelSettings]) -> list[ModelSettings]:
    """The models of one run, the answering one first, each with the variable of its key. Raises UserError."""
    from medagent.models.keys import assign_keys

    return assign_keys(models, os.environ)


def check_prices(models: Sequence[ModelSettings], max_cost: float | None) -> None:
    """Raises UserError if `--max-cost` cannot be kept because the price of a model is unknown.

    A class states its costs.
    """
    if max_cost is None:
        return
    from medagent.models.keys import base_urls

    for model in models:
        address = base_urls(model, os.environ)[0]
        if plugins.find(model.name, MODELS) is None and find_price(model.name, address) is None:
            raise UserError(
                f"--max-cost cannot be kept: the price of {model.name} is unknown. Add it to your price table "
                "(docs/models.md), or limit tokens: --max-tokens-total"
            )


class _SharedModel:
    """A model passed by a program, which also closes it."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name
        self.stats = model.stats
        self.complete = model.complete

    async def aclose(self) -> None:
        """Does nothing: the model is shared, and the run closes it."""


def check_arguments(name: str, plugin: Plugin | None, arguments: Mapping[str, Any] | None) -> None:
    """Raises UserError for arguments that nothing uses."""
    if arguments and plugin is None:
        raise UserError(f"--{name}-arg: works only with a class (--{name} FILE.py:Name)")
    if arguments and plugin is not None and plugin.instance is not None:
        raise UserError(f"{name}_arg: {plugin.path} is an instance, which already got its arguments; pass the class")


def _digest(plugin: Plugin | None, arguments: Mapping[str, Any]) -> str | None:
    """The digest of a class with its arguments, or of an instance with its attributes; None without a class."""
    if plugin is None:
        return None
    held = arguments if plugin.instance is None else state_of(plugin.instance)
    return code_digest(plugin.load(), held)


def _state(flag: str, plugin: Plugin | None) -> dict[str, Setting]:
    """The attributes of an instance, in the format of a class's arguments."""
    if plugin is None or plugin.instance is None:
        return {}
    return {flag: as_setting(state_of(plugin.instance))}


def _instance_of(plugin: Plugin, argument: Any, arguments: Mapping[str, Any]) -> Any:
    """An instance of a plug-in's class. Raises UserError if it cannot be created."""
    if plugin.instance is not None:
        copied = copy(plugin.instance)
        copied.context = argument
        return copied
    try:
        return plugin.load()(argument, **arguments)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{plugin.path}: cannot be created: {type(error).__name__}: {error}") from error


_CLASS = re.compile(r"^class +(\w+) *[(:]", re.MULTILINE)


def check_file(name: str) -> None:
    """Raises UserError that lists the classes if an agent's name is a Python file without a class name."""
    if not name.endswith(".py"):
        return
    try:
        classes = _CLASS.findall(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{name}: no such file; pass a file and a class: --agent FILE.py:Name") from None
    if not classes:
        raise UserError(f"{name}: does not define a class; add one: {_example('MyAgent')}")
    raise UserError(f"{name}: the class is missing; write --agent {name}:{classes[-1]} (classes: {', '.join(classes)})")


def check_agent(path: str, loaded: object) -> None:
    """Raises UserError with what to write if an import path leads to something that is not a subclass of Agent."""
    name = path.rpartition(":")[2]
    if not isinstance(loaded, type):
        kind = "a function" if callable(loaded) else f"a value of type {type(loaded).__name__}"
        raise UserError(f"{path}: is {kind}, not a class; write a class: {_example(name.title().replace('_', ''))}")
    if not issubclass(loaded, Agent):
        raise UserError(f"{path}: is not a subclass of medagent.Agent; write: {_example(name)}")
    loops = [loop for loop in ("play", "solve", "start") if getattr(loaded, loop) is not getattr(Agent, loop)]
    if "solve" in loops and len(loops) > 1:
        raise UserError(f"{path}: defines {' and '.join(f'`{loop}`' for loop in loops)}; define exactly one of them")
    if "solve" in loops and not iscoroutinefunction(loaded.solve):
        raise UserError(f"{path}: `solve` is not async; write: async def solve(self, task, prompt, env):")


def _example(name: str) -> str:
    return f"class {name}(medagent.Agent): with a method `def play(self, task, prompt):` that yields messages"


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """The answers by unit, and the name of their source for tables and folders. `source` is for messages."""

    label: str
    source: str
    moves: Mapping[str, Move]


class KnownAgent(Agent):
    """Replies with the known answers."""

    def __init__(self, known: KnownAnswers) -> None:
        super().__init__()
        self._known = known

    def start(self, task: Any, *, key: str, seed: int | None) -> _KnownPolicy:
        return _KnownPolicy(self._known, key)


class _KnownPolicy:
    def __init__(self, known: KnownAnswers, key: str) -> None:
        self._known = known
        self._key = key
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        """The answer. Raises ModelError if there is none: the unit is owed and not wrong."""
        move = self._known.moves.get(self._key)
        if move is None:
            raise ModelError(f"{self._known.source}: contains no answer for this unit")
        return move
