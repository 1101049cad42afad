"""`medagent a2a green` and `medagent a2a purple`: the two agents, and each on a port.

The green agent assesses the purple agent that a message points to, and answers with scores and verdicts. The purple
agent is a chat model with one conversation per A2A context.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from medagent.agents.choice import NO_MODEL, ModelChoice, keyed
from medagent.core.errors import MedagentError, UserError
from medagent.core.options import checked
from medagent.core.version import __version__
from medagent.engine.settings import RunSettings
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.http_episodes import HttpEpisodes, http_options
from medagent.integrations.a2a._assess import Assessment, Assessor, outcome, summary
from medagent.integrations.web import Port, serve
from medagent.models.base import ChatModel, Message

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The second is from A2A 0.2, and the `agentbeats` package asks for it."""
REMEMBERED = 10_000
"""How many conversations are kept; the least recently used are dropped first."""


class Green(AgentExecutor):  # type: ignore[misc]  # the a2a package may be missing where types are checked
    """Answers each request with an A2A task, whose artifact is the outcome of the assessment."""

    def __init__(self, assessor: Assessor) -> None:
        self._assessor = assessor

    async def execute(self, context: Any, event_queue: Any) -> None:
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        try:
            request = Assessment.read(context.get_user_input())
        except UserError as error:
            await updater.reject(updater.new_agent_message([new_text_part(str(error))]))
            return
        await updater.start_work(updater.new_agent_message([new_text_part(f"assessing {request.address}")]))
        news: asyncio.Queue[str] = asyncio.Queue()
        passing = asyncio.create_task(_pass_on(news, updater))
        try:
            report = await self._assessor.run(request, task.id, tell=news.put_nowait)
            await news.join()
        except MedagentError as error:
            await updater.failed(updater.new_agent_message([new_text_part(str(error))]))
            return
        finally:
            passing.cancel()
        result = outcome(report)
        parts = [
            new_text_part(summary(result), media_type="text/plain"),
            new_data_part(result, media_type="application/json"),
        ]
        await updater.add_artifact(parts, name="assessment")
        await updater.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """See `AgentExecutor.cancel`. The run is cancelled too; its finished episodes are kept."""
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def _pass_on(news: asyncio.Queue[str], updater: Any) -> None:
    """Send an update for each finished task."""
    while True:
        text = await news.get()
        await updater.start_work(updater.new_agent_message([new_text_part(text)]))
        news.task_done()


class Purple(AgentExecutor):  # type: ignore[misc]  # the a2a package may be missing where types are checked
    """Answers each message with the model's reply to the conversation so far."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._conversations: OrderedDict[str, list[Message]] = OrderedDict()

    async def execute(self, context: Any, event_queue: Any) -> None:
        messages = self._conversations.setdefault(context.context_id, [])
        self._conversations.move_to_end(context.context_id)
        if len(self._conversations) > REMEMBERED:
            self._conversations.popitem(last=False)
        messages.append(Message("user", context.get_user_input()))
        completion = await self._model.complete(messages, session=context.context_id)
        messages.append(completion.message)
        await event_queue.enqueue_event(new_text_message(completion.text, context_id=context.context_id))

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """See `AgentExecutor.cancel`. An answer is one message, so there is nothing to cancel."""


def create_app(executor: Any, address: str, name: str, description: str, *media_types: str) -> Any:
    """The ASGI application of an agent with one skill, which carries the agent's description. `media_types` are the
    types of its answers besides plain text.
    """
    interfaces = [
        AgentInterface(url=f"{address}/", protocol_binding="JSONRPC", protocol_version=version)
        for version in ("1.0", "0.3")
    ]
    card = AgentCard(
        name=name,
        description=description,
        version=__version__,
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain", *media_types],
        skills=[AgentSkill(id=name, name=name, description=description, tags=["medicine", "FHIR"])],
    )
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card)
    cards = [route for path in CARD_PATHS for route in create_agent_card_routes(card, card_url=path)]
    routes = [*cards, *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)]
    return Starlette(routes=routes)


async def serve_green(benchmark: FhirBenchmark[Any], options: dict[str, Any], port: Port) -> None:
    """Serve the green agent until a signal comes; `options` are the options of `medagent run`. Raises UserError."""
    checked(benchmark.Settings, options)
    with port.opened() as (listener, address):
        data = {name: value for name, value in options.items() if name in http_options(benchmark)}
        with HttpEpisodes(benchmark, address, data) as episodes:
            words = (
                f"Assesses an agent on {benchmark.name}: send its address, or a request as JSON (participants, config)."
            )
            app = create_app(
                Green(Assessor(benchmark, options, episodes)), address, "medagent-green", words, "application/json"
            )
            await serve(with_records(port.guarded(app), episodes), listener, address)


async def serve_purple(options: dict[str, Any], port: Port) -> None:
    """Serve the purple agent until a signal comes; `options` are the options of `medagent run`. Raises UserError."""
    settings = checked(RunSettings, options)
    if settings.chat is None:
        raise UserError(f"{NO_MODEL.partition('. ')[0]}: --model NAME")
    with port.opened() as (listener, address):
        model = ModelChoice.of(keyed([settings.chat])[0]).open(settings.concurrency)
        try:
            words = f"The model {model.name}, with one conversation per context."
            app = create_app(Purple(model), address, "medagent-purple", words)
            await serve(port.guarded(app), listener, address)
        finally:
            await model.aclose()


def with_records(app: Any, episodes: HttpEpisodes) -> Any:
    """The application, with the private FHIR bases below `/episodes`, each with its own token."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        below = scope["type"] == "http" and scope["path"].startswith("/episodes/")
        await (episodes.app if below else app)(scope, receive, send)

    return wrapped
