"""Solvers: an item runs under Inspect as the unit of a run, with Inspect's model.

If the agent is the reason why an item ended, its row says so. All other failures are raised, so that Inspect's own
rules for errors and retries apply.
"""

from __future__ import annotations

import time
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    execute_tools,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall, ToolInfo

from medagent.agents.base import ChatAgent
from medagent.core.clock import wall_clock
from medagent.core.errors import EpisodeError
from medagent.engine.boundary import PluginError
from medagent.engine.rows import OWED, Row
from medagent.fhir_episodes.episode import EpisodeJob, name_unusable, play
from medagent.fhir_episodes.session import Turn
from medagent.integrations.inspect._model import InspectModel, completion
from medagent.integrations.inspect._records import OpenRecord, open_record, record_of, set_times, store_row
from medagent.integrations.inspect.source import MODEL, source_of
from medagent.integrations.inspect.tools import parameters, tool_def
from medagent.models.settings import ModelSettings


@solver
def private_record(benchmark: str, options: dict[str, Any]) -> Solver:
    """Opens a private copy of the record, sets the task's first message, and offers the FHIR tools."""
    source = source_of(benchmark, options)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        opened = await open_record(state, source)
        job: EpisodeJob = source.job("")
        system: list[ChatMessage] = [ChatMessageSystem(content=job.protocol.system)] if job.protocol.system else []
        state.messages = [*system, ChatMessageUser(content=opened.prompt)]
        if job.protocol.kind == "tools":
            state.tools = [tool_def(tool).as_tool() for tool in opened.toolbox.tools()]
        return state

    return solve


@solver
def episode(protocol: str = "text") -> Solver:
    """Plays the sample's episode in the same way as `medagent run`."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        opened = record_of(state)
        try:
            await (_play_tools(state, opened) if protocol == "tools" else _play_text(state, opened))
        except (EpisodeError, PluginError) as failure:
            opened.keep()
            _settle(opened.row, failure)
            opened.store()
        return state

    return solve


@solver
def single_unit(benchmark: str, options: dict[str, Any]) -> Solver:
    """Runs one unit of a benchmark: one question, or the extraction of one item."""
    source = source_of(benchmark, options)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        job = source.job(str(get_model()))
        unit = source.unit(str(state.sample_id), state.epoch)
        row: Row = job.row.begin(unit)
        row.started, began = wall_clock(), time.monotonic()
        async with job.open() as worker:
            try:
                await worker.run(unit, row)
            except (EpisodeError, PluginError) as failure:
                _settle(row, failure)
        reply = getattr(row, "reply", None) or getattr(row, "answer", None)
        message = getattr(unit, "message", None)
        if message is not None:
            state.messages = [ChatMessageUser(content=message)]
            if reply is not None:
                state.messages.append(ChatMessageAssistant(content=reply))
        state.output.completion = reply or ""
        set_times(row, began)
        store_row(state.store, source, row)
        return state

    return solve


def _settle(row: Row, failure: EpisodeError | PluginError) -> None:
    """Set a row's status to the one of the failure. Raises failures that the agent did not cause, and Inspect's own
    errors (such as a limit of the sample) unchanged.
    """
    if isinstance(failure, PluginError):
        raise failure.cause
    if failure.status in OWED:
        raise failure
    row.status, row.error = failure.status, str(failure)


async def _play_text(state: TaskState, opened: OpenRecord) -> None:
    """The text protocol: the model's messages are actions."""
    system = [message for message in state.messages if isinstance(message, ChatMessageSystem)]
    agent = ChatAgent(InspectModel(ModelSettings(name=MODEL)), system[0].text if system else "")
    policy = agent.start(opened.session.task, key=opened.row.unit, seed=opened.seed)
    try:
        await play(opened.session, policy, opened.prompt)
    finally:
        opened.keep()
        turns = opened.session.outcome().transcript
        state.messages = [*system, *map(_message, turns)]
        state.output.completion = next((turn.content for turn in reversed(turns) if turn.role == "agent"), "")


async def _play_tools(state: TaskState, opened: OpenRecord) -> None:
    """Tool calling: the calls of a reply are executed in order, one round each."""
    offered = opened.toolbox.tools()
    infos = [ToolInfo(name=tool.name, description=tool.description, parameters=parameters(tool)) for tool in offered]
    tools = {tool.name: tool_def(tool, checked=False) for tool in offered}
    while not opened.session.done:
        output = await get_model().generate(state.messages, tools=infos)
        state.output = output
        reply = completion(output)
        state.messages.append(output.message)
        calls = output.message.tool_calls or []
        if not calls:
            answer = await opened.session.act(reply.text, reply.reasoning)
            name_unusable(opened.session.outcome(), reply.text, reply.finish_reason)
            opened.keep()
            state.messages.append(ChatMessageUser(content=answer))
        for call in calls:
            if opened.session.outcome().status is not None:
                break
            if call.parse_error is None and call.function in tools:
                carried_out = ChatMessageAssistant(content="", tool_calls=[call])
                done = await execute_tools([carried_out], [tools[call.function]])
                state.messages += done.messages
            else:
                state.messages.append(await _unreadable(opened, call))


async def _unreadable(opened: OpenRecord, call: ToolCall) -> ChatMessage:
    """The answer to a call that Inspect would not execute. It counts as one of the agent's messages, as in a run."""
    reply = await opened.call(call.function, call.parse_error or call.arguments)
    return ChatMessageTool(content=reply, tool_call_id=call.id, function=call.function)


def _message(turn: Turn) -> ChatMessage:
    return ChatMessageAssistant(content=turn.content) if turn.role == "agent" else ChatMessageUser(content=turn.content)
