"""Replays an episode: sends the agent's recorded messages to a new session and compares the replies with the record.

The embedded server always returns the same bytes. A different reply shows that the recorded one is not from this data
set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.fhir_data.record import Ehr
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.session import Session, SessionRules, Turn
from medagent.fhir_episodes.tools import Toolbox, ToolError
from medagent.models.base import ToolCall

_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_SAME_END = {"cut": "invalid_action", "empty": "invalid_action"}
"""Statuses that a replay cannot tell apart: only the model's endpoint knows the difference."""


async def problem_of(row: EpisodeRow, task: Task, ehr: Ehr, protocol: Protocol, rules: SessionRules) -> str | None:
    """The first difference between a row and the replay of its messages, or None."""
    async with ehr.session(row.unit) as record:
        session = Session(task, record, protocol, rules)
        session.reset()
        for turn in row.transcript:
            if turn.role == "agent" and not session.done:
                await _act(session, turn.content, protocol, rules)
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
    return None


async def _act(session: Session, message: str, protocol: Protocol, rules: SessionRules) -> None:
    """Send one message. With tools, a call that cannot be parsed is refused with the same text as in the run."""
    call = _CALL.fullmatch(message) if protocol.kind == "tools" and not message.startswith("FINISH(") else None
    if call is not None:
        try:
            Toolbox.of(protocol, rules.api_base).action(ToolCall("", call[1], call[2]))
        except ToolError as error:
            session.refuse(message, str(error))
            return
    await session.act(message)


def _first_difference(recorded: Sequence[Turn], again: Sequence[Turn]) -> str | None:
    for number, (one, other) in enumerate(zip(recorded, again, strict=False), 1):
        if (one.role, one.content, one.dispatched) != (other.role, other.content, other.dispatched):
            what = "the prompt" if number == 1 else "the reply" if other.role == "user" else "the agent's message"
            return f"message {number}: {what} differs from the one that the data set and the protocol give"
    if len(recorded) != len(again):
        return f"has {len(recorded)} messages, but its agent's messages lead to {len(again)}"
    return None
