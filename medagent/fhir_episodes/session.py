"""One episode: reset → act → … → outcome. The only place where an action meets FHIR.

`Session` does not depend on models or networks; the text protocol, tool calling and replay are adapters on it. It
follows the published loop (observed behaviour): how to read a message, what to reply, and when the episode ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from medagent.agents.base import excess_text
from medagent.agents.skills import skill_files
from medagent.core.errors import SessionEndedError
from medagent.fhir_data.record import EhrSession, FhirRequest, Reply, TooMuchError, diagnostics
from medagent.fhir_episodes._calculator import CalculationError, calculated
from medagent.fhir_episodes.fhir_base import API_BASE, FhirBase, escaped
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.reads import Handling, Read, handled, read_page
from medagent.fhir_episodes.requests_words import ActionError, prepare
from medagent.fhir_episodes.task import TaskWords
from medagent.fhir_episodes.writes import StatedWrite, stated_write
from medagent.models.base import RecordedCall
from medagent.models.wording import fill, strip_thinking
from refsol.changes import Change
from refsol.json_values import as_object, json_value, unicode_json, unicode_text

Status = Literal[
    "completed",
    "invalid_action",
    "cut",
    "empty",
    "round_limit",
    "context_limit",
    "model_error",
    "refused",
    "fhir_error",
    "cancelled",
]
CarriedOut = Literal["ack", "creates", "execute"]
"""Which writes are carried out: none (a POST is acknowledged, as published), creates, or all of FHIR."""
Loop = Literal["published", "lenient"]
"""How the text protocol replies to invalid actions: with the published runner's texts, or with a hint."""

NOT_AVAILABLE: Literal["not available"] = "not available"
StateDifference = list[Change] | Literal["not available"] | None
"""The created, changed and deleted resources in order; over a server of others, only its replies are known."""
MAX_ROUNDS = 8
SKILL = "SKILL"
"""The first word of the action that reads a file of a skill."""
ATTEMPTS = 3
"""With hints, the messages in a row without an action until an episode ends."""
NO_ACTION = (
    "This message was not carried out: it is not an action. Begin your message with GET, POST or FINISH(, without text "
    "before it."
)
MAX_BODY = 2_000_000
"""The most characters of a write's body; parsing more would delay all other episodes."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the transcript. `dispatched` is the text that was acted on, if it is not the raw `content`."""

    role: Literal["agent", "user"]
    content: str
    dispatched: str | None = None
    reasoning: str | None = None
    program: int | None = None
    """For a request: the number of the program that made it."""
    call: RecordedCall | None = None
    """The tool call that the content was made from."""
    characters: int | None = None
    """The length of a model's message that is over the limit, and of which `content` is the beginning."""


@dataclass(frozen=True, slots=True)
class Write:
    """The result of one POST: the shown URL, and the stored resource or the server's error.

    If no server could compute what it would have stored, `stored` is False and `resource` is the posted JSON.
    """

    url: str
    resource: dict[str, Any] | None = None
    refused: str | None = None
    stored: Literal[False] | None = None

    @property
    def not_stored(self) -> str:
        """Why no server stored the resource, as shown to readers; empty if one did, or would have."""
        return "acknowledged, not sent" if self.stored is False else self.refused or ""


@dataclass(frozen=True, slots=True)
class Program:
    """One message of an agent that acts in code. `code` is None without a program; `limit` is the reached limit."""

    message: str
    output: str
    code: str | None = None
    limit: str | None = None
    reasoning: str | None = None
    call: RecordedCall | None = None


@dataclass(slots=True)
class Outcome:
    """The outcome of an episode: `status` is None while it runs, `answer` is the verbatim argument of FINISH."""

    status: Status | None = None
    answer: str | None = None
    transcript: list[Turn] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    rounds: int = 0
    malformed: int = 0
    """The number of messages that could not be read as an action."""
    programs: list[Program] = field(default_factory=list)
    changes: StateDifference = None
    """What the episode has changed in the record; None if it carries out no writes."""
    reads: list[Read] = field(default_factory=list)
    """Each GET with the ids in its reply, if the benchmark's rules record them."""
    error: str | None = None
    """The error that ended the agent, if its messages do not show it."""


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The rules for every episode of a run."""

    api_base: str = API_BASE
    max_rounds: int = MAX_ROUNDS
    writes: CarriedOut = "ack"
    strip_thinking: bool = False
    loop: Loop = "published"
    """Applies to the text protocol only: the published runner does not offer tools."""
    hints: bool = False
    """Whether a message that is not an action gets a hint, and only the third in a row ends the episode."""
    handling: Handling | None = None
    """How a GET is changed before it is sent; the ids in its reply are recorded. None: no change and no record."""


class Session:
    """One episode of `task` over `ehr`; `reset`, then `act` until `done`, then `outcome`."""

    cut_off = ""
    """What the model is told of a message that its token limit cut off. Empty: the message is acted on."""

    def __init__(self, task: TaskWords, ehr: EhrSession, protocol: Protocol, rules: SessionRules) -> None:
        self.task = task
        self._ehr = ehr
        self._protocol = protocol
        self._rules = rules
        self._base = FhirBase(rules.api_base)
        self._published = rules.loop == "published" and protocol.kind == "text"
        self._skill_files = skill_files(protocol.skills) if protocol.kind == "tools" else {}
        self._calculates = any(tool.method == "CALCULATE" for tool in protocol.tools)
        self._outcome = Outcome()
        self._begun = False
        self._without_action = 0
        self.failed = False
        """Whether the reply to the last action is an error: of the FHIR server, or in the format of the action."""

    def reset(self) -> str:
        """Start (again) with a fresh overlay, and return the first message for the agent.

        An external FHIR server does not support overlays: earlier writes to it stay.
        """
        if self._begun:
            self._ehr.reset()
        self._begun = True
        self._without_action = 0
        prompt = self._protocol.first_message(self._base.shown, self.task.context, self.task.instruction)
        self._outcome = Outcome(transcript=[Turn("user", prompt)])
        self._note_changes()
        return prompt

    def _note_changes(self) -> None:
        if self._rules.writes != "ack":
            changes = self._ehr.changes()
            self._outcome.changes = NOT_AVAILABLE if changes is None else changes

    @property
    def all_writes(self) -> bool:
        """Whether all writes of FHIR are carried out, not only POSTs to a type."""
        return self._rules.writes == "execute"

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._outcome.status is not None

    def outcome(self) -> Outcome:
        """The outcome so far."""
        return self._outcome

    async def act(self, message: str, reasoning: str | None = None, call: RecordedCall | None = None) -> str:
        """Take one message of the agent and return the reply ("" if it ends the episode). `call` is the tool call that
        the message was made from.

        Raises FhirUnavailableError if the FHIR server fails after all retries; the transcript keeps the messages
        before. Raises SessionEndedError before the start and after the end of an episode.
        """
        self._check_open()
        self._outcome.rounds += 1
        return await self._respond(unicode_text(message), reasoning, call)

    def refuse(
        self,
        message: str,
        problem: str,
        reasoning: str | None = None,
        call: RecordedCall | None = None,
        *,
        malformed: bool = True,
    ) -> str:
        """Record a message that is not an action (a malformed tool call, a cut-off program) and the reply to it."""
        self._check_open()
        self._outcome.rounds += 1
        self._outcome.malformed += malformed
        return self._refuse(unicode_text(message), problem, reasoning, call)

    def reject(self, turn: Turn) -> None:
        """End the episode with a model's message over the limit."""
        self._check_open()
        self._outcome.rounds += 1
        self._outcome.error = excess_text(turn.characters or 0)
        self._record_rejected(turn)
        self._end("invalid_action")

    def _record_rejected(self, turn: Turn) -> None:
        self._outcome.transcript.append(turn)

    async def _respond(self, message: str, reasoning: str | None, call: RecordedCall | None) -> str:
        dispatched = strip_thinking(message) if self._rules.strip_thinking else message
        self._outcome.transcript.append(
            Turn("agent", message, dispatched if dispatched != message else None, reasoning, call=call)
        )
        self.failed = False
        action = clean(dispatched)
        reply = await self._dispatched(action)
        if reply is None and not self.done:
            return self._not_an_action()
        self._without_action = 0
        return "" if reply is None else self._reply(reply)

    async def _dispatched(self, action: str) -> str | None:
        """The reply to an action. None if it ends the episode, or if it is none."""
        if action.startswith("GET"):
            return await self._get(action[3:].strip())
        if stated := self._further_write(action):
            return await self._carry_out(stated)
        if action.startswith("POST"):
            return await self._post(action)
        if self._skill_files and action.startswith(f"{SKILL} "):
            return self._skill_file(action.removeprefix(f"{SKILL} "))
        if self._calculates and action.startswith("CALCULATE "):
            return self._calculate(action)
        if action.startswith("FINISH("):
            self._outcome.answer = action[len("FINISH(") : -1]
            self._end("completed")
        return None

    def _not_an_action(self) -> str:
        """The hint, or "" if the message ends the episode."""
        self._without_action += 1
        if not self._rules.hints or self._without_action == ATTEMPTS:
            return self._end("invalid_action")
        self.failed = True
        return self._reply(NO_ACTION)

    def give_up(self) -> None:
        """End the episode of an agent that sends no further message."""
        self._end("invalid_action")

    def _refuse(self, message: str, problem: str, reasoning: str | None, call: RecordedCall | None) -> str:
        self._outcome.transcript.append(Turn("agent", message, reasoning=reasoning, call=call))
        return self._reply(self._tool_error(problem))

    def _skill_file(self, path: str) -> str:
        """A further file of a skill, or an error that lists the files."""
        text = self._skill_files.get(path)
        return self._tool_error(f"no such file; the files are {', '.join(self._skill_files)}") if text is None else text

    def _calculate(self, action: str) -> str:
        try:
            return calculated(action.removeprefix("CALCULATE "))
        except CalculationError as error:
            return self._tool_error(str(error))

    def _tool_error(self, problem: str) -> str:
        self.failed = True
        return fill(self._protocol.tool_error, error=problem)

    def _check_open(self) -> None:
        if not self._begun:
            raise SessionEndedError("the episode was not started: call reset first")
        if self.done:
            raise SessionEndedError(f"the episode has ended ({self._outcome.status}): call reset for another one")

    def _reply(self, text: str) -> str:
        self._outcome.transcript.append(Turn("user", text))
        if self._outcome.rounds >= self._rules.max_rounds:
            self._end("round_limit")
        return text

    def _end(self, status: Status) -> str:
        self._outcome.status = status
        return ""

    async def _get(self, url: str) -> str:
        try:
            body = await (self._published_get(url) if self._published else self._lenient_get(url))
        except (ActionError, TooMuchError) as error:
            self.failed = True
            return fill(self._protocol.get_error, error=str(error))
        return fill(self._protocol.get_reply, body=body)

    async def _published_get(self, url: str) -> str:
        """The body. Raises ActionError, with the published runner's text, for all errors.

        A URL outside the base gets the reply of the published setup without a request: there, the server does not serve
        other pages, and no other server runs.
        """
        request = prepare(url + "&_format=json")
        target = self._base.below(request.parts)
        if target is None:
            if not self._base.same_server(request.parts):
                raise ActionError(request.refused_connection())
            raise ActionError(request.not_tls() if request.parts.scheme == "https" else request.http_error(404, ""))
        reply = await self._fetch(target, url)
        if not reply.ok:
            raise ActionError(request.http_error(reply.status, reply.reason))
        return self._base.renamed(reply.text, request.parts)

    async def _lenient_get(self, url: str) -> str:
        """The body. Raises ActionError with the server's error, or with the reason why the URL is invalid."""
        requested = url
        if self._protocol.format_parameter == "append":
            url += "&_format=json"
        else:
            url += ("&" if "?" in url else "?") + "_format=json"
        reply = await self._fetch(self._base.target(url), requested)
        if not reply.ok:
            raise ActionError(self._http_error(reply, url))
        return reply.text

    async def _fetch(self, target: str, requested: str) -> Reply:
        """The reply to a GET of a path and query below the base; it is recorded if the rules say so."""
        if self._rules.handling is None:
            return await self._ehr.get(target)
        sent = handled(target, self._rules.handling)
        try:
            reply = await self._ehr.get(sent)
        except TooMuchError as error:
            self._outcome.reads.append(Read(requested, sent, refused=str(error)))
            raise
        self._outcome.reads.append(read_of(requested, sent, reply))
        return reply

    def _http_error(self, reply: Reply, url: str) -> str:
        return fill(
            self._protocol.http_error,
            status=str(reply.status),
            kind="Server" if reply.status >= 500 else "Client",
            reason=reply.reason,
            url=escaped(url),
            diagnostics=diagnostics(reply),
        )

    def _further_write(self, action: str) -> StatedWrite | None:
        """The write of a message, if it is none of the published protocol and the episode carries it out."""
        stated = stated_write(action) if self.all_writes else None
        return None if stated is None or (stated.method == "POST" and self._creates(stated)) else stated

    def _creates(self, stated: StatedWrite) -> bool:
        try:
            return stated.creates(self._base.target(stated.url))
        except ActionError:  # `_post` replies with the reason
            return not stated.conditions

    async def _carry_out(self, stated: StatedWrite) -> str:
        """Carry out a write that is not in the published protocol; returns the reply."""
        try:
            reply = await self._carried_out(stated)
        except ActionError as error:
            self.failed = True
            return fill(self._protocol.write_refused, method=stated.method, error=str(error))
        return fill(self._protocol.write_done, method=stated.method, status=str(reply.status), body=reply.text)

    async def _carried_out(self, stated: StatedWrite) -> Reply:
        """The server's reply to a write. Raises ActionError if it is refused."""
        target = self._base.target(stated.url)
        if stated.method != "DELETE":
            self._check_json(stated.body)
        reply = await self._written(FhirRequest(stated.method, target, stated.body, stated.conditions))
        if not reply.ok:
            raise ActionError(f"HTTP status {reply.status}. {diagnostics(reply)}")
        return reply

    async def _written(self, request: FhirRequest) -> Reply:
        try:
            reply = await self._ehr.write(request)
        except TooMuchError as error:
            return Reply(413, "", str(error))
        self._note_changes()
        return reply

    async def _post(self, action: str) -> str:
        try:
            number = await self._create(action)
        except ActionError as error:
            self.failed = True
            return self._invalid(str(error))
        return fill(self._protocol.post_accepted, id=number)

    async def _create(self, action: str) -> str:
        """Acknowledge or carry out a POST; returns the id for the reply. Raises ActionError if it is refused."""
        url, _, body = action[4:].partition("\n")
        url = url.strip()
        self._check_json(body)
        return await (self._preview(url, body) if self._rules.writes == "ack" else self._execute(url, body))

    def _check_json(self, body: str) -> None:
        if len(body) > MAX_BODY:
            raise ActionError(f"the body is over {MAX_BODY:,} characters")
        try:
            json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ActionError("" if self._published else f"the lines after the url are not JSON ({error})") from None

    def _invalid(self, reason: str) -> str:
        return self._protocol.post_invalid + (f": {reason}" if reason else "")

    async def _execute(self, url: str, body: str) -> str:
        """Carry out a POST; returns the new resource's id. Raises ActionError if the server refuses it."""
        write = _result(url, await self._written(FhirRequest("POST", self._base.target(url), body)))
        number = self._recorded_write(write)
        if write.refused is not None:
            raise ActionError(write.refused)
        return number

    async def _preview(self, url: str, body: str) -> str:
        """Record what the server would store for a POST that is only acknowledged; returns the id for the reply.

        Raises ActionError for a URL outside the base if the loop is lenient; the published loop does not check it.
        """
        try:
            target = self._base.target(url)
        except ActionError as error:
            if not self._published:
                raise
            return self._recorded_write(Write(url, refused=f"not sent: {error}"))
        try:
            reply = await self._ehr.preview(target, body)
        except TooMuchError as error:
            return self._recorded_write(Write(url, refused=f"not carried out: {error}"))
        if reply is None:
            return self._recorded_write(_posted(url, body))
        return self._recorded_write(_result(url, reply))

    def _recorded_write(self, write: Write) -> str:
        """Record the result of a POST; returns the stored resource's id, or the POST's number if there is none."""
        self._outcome.writes.append(write)
        stored = {} if write.stored is False else write.resource or {}
        return str(stored.get("id", len(self._outcome.writes)))


def clean(message: str) -> str:
    """The action in a message, as the published loop reads it: without fences of tool code and outer blanks."""
    return message.strip().replace("```tool_code", "").replace("```", "").strip()


def read_of(requested: str, sent: str, reply: Reply) -> Read:
    """A GET with the ids in its reply, or its error."""
    if not reply.ok:
        return Read(requested, sent, refused=f"HTTP status {reply.status}. {diagnostics(reply)}")
    return Read(requested, sent, read_page(reply.text).ids)


def _posted(url: str, body: str) -> Write:
    """A POST that is only acknowledged, and of which no server can tell what it would have stored."""
    resource = json_value(unicode_json(body))
    if not isinstance(resource, dict):
        return Write(url, refused="not sent: the body is not a JSON object")
    return Write(url, resource, stored=False)


def _result(url: str, reply: Reply) -> Write:
    resource = _created(reply)
    return Write(url, resource, None if resource is not None else f"HTTP status {reply.status}. {diagnostics(reply)}")


def _created(reply: Reply) -> dict[str, Any] | None:
    return as_object(json_value(unicode_json(reply.text))) if reply.status == 201 else None
