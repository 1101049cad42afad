"""The tool calls in a model's reply: their limits, their arguments, and what is sent back of invalid ones.

Strict servers answer 400 to a conversation with arguments that are not a JSON object, and a name without a limit would
fill the journal. So an invalid call is answered with the error, and sent back in a form that every server accepts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NoReturn

from medagent.models.base import RecordedCall, ToolCall
from refsol.json_values import unicode_json

LONGEST_NAME, LONGEST_ID = 200, 1_000
"""The most characters of a call's name and id."""
SHOWN = 200
"""The characters that are stored of a longer one."""
MOST_ARGUMENTS = 2_000_000
"""The most characters of arguments that are parsed; parsing more would delay all other episodes."""


class ArgumentsError(ValueError):
    """The arguments of a call are not a JSON object. The text is the reply to the model."""


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call; an empty text means none. Raises ArgumentsError."""
    if len(text) > MOST_ARGUMENTS:
        raise ArgumentsError(f"the arguments are over {MOST_ARGUMENTS:,} characters")
    try:
        arguments = json.loads(unicode_json(text).strip() or "{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ArgumentsError("the arguments must be a JSON object")
    return arguments


def _refuse_constant(name: str) -> NoReturn:
    """JSON has no NaN and no Infinity, which Python's parser accepts."""
    raise ValueError(f"{name} is not a JSON value")


def returned_arguments(text: str) -> str:
    """The arguments to send back: unchanged if they are a JSON object, otherwise `{}`."""
    try:
        parse_arguments(text)
    except ArgumentsError:
        return "{}"
    return text if text.strip() else "{}"


def recorded_call(call: ToolCall, reply: int | None = None, text: str | None = None) -> RecordedCall:
    """A call as it is stored. See `RecordedCall` for `reply` and `text`."""
    cut = within_limits(call)
    call_record = RecordedCall(cut.name, cut.arguments, cut.id, reply, text)
    if len(call.name) > LONGEST_NAME:
        return replace(call_record, too_long="name", characters=len(call.name))
    if len(call.id) > LONGEST_ID:
        return replace(call_record, too_long="id", characters=len(call.id))
    return call_record


def excess(call: RecordedCall) -> str | None:
    """Why a call is over a limit; None if it is within both."""
    if call.too_long is None:
        return None
    limit = {"name": LONGEST_NAME, "id": LONGEST_ID}[call.too_long]
    return f"the {call.too_long} of a tool call has {call.characters or 0:,} characters; the limit is {limit:,}"


def within_limits(call: ToolCall) -> ToolCall:
    """The call, with a name or an id that is over its limit cut."""
    return replace(call, name=shortened(call.name, LONGEST_NAME), id=shortened(call.id, LONGEST_ID))


def shortened(text: str, limit: int) -> str:
    """The text; if it is over the limit, its first characters and its length."""
    return text if len(text) <= limit else f"{text[:SHOWN]}… ({len(text):,} characters)"
