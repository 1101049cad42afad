"""One episode: reset → act → … → outcome. The only place where an action meets FHIR.

`Session` knows no model and no network; the text protocol, tool calling and replay are adapters on it. It decides as
the published loop does (observed behaviour): what a message means, what is answered, when the episode ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, unquote, urlsplit

from medagent.benchmarks.medagentbench.prompts.protocol import Protocol
from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.errors import MedagentError, SessionEndedError
from medagent.fhir_data.http import TooLargeError
from medagent.fhir_data.record import EhrSession, Reply, diagnostics
from medagent.models.wording import fill, strip_thinking
from medagent.wire import Text
from refsol.medagentbench.constants import PUBLISHED

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
Writes = Literal["ack", "execute"]

MAX_ROUNDS = 8
# What the `requests` library leaves unescaped when it prepares a URL, so that a URL reads as the published runner's.
_URL_SAFE = "!#$%&'()*+,/:;=?@[]~"


class ActionError(MedagentError):
    """An action that is not carried out; its text is what the agent is told."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the transcript. `dispatched` is what was acted on where that is not the raw `content`."""

    role: Literal["agent", "user"]
    content: Text
    dispatched: Text | None = None
    reasoning: Text | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """What became of one POST: the shown URL, the resource as stored, or what the server said instead."""

    url: Text
    resource: dict[str, Any] | None = None
    refused: Text | None = None


@dataclass(slots=True)
class Outcome:
    """What an episode left: `status` is None while it runs, `answer` what FINISH held, verbatim."""

    status: Status | None = None
    answer: str | None = None
    transcript: list[Turn] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class SessionRules:
    """What holds for every episode of a run."""

    api_base: str = PUBLISHED.base
    max_rounds: int = MAX_ROUNDS
    writes: Writes = "ack"
    strip_thinking: bool = False


class Session:
    """One episode of `task` over `ehr`; `reset`, then `act` until `done`, then `outcome`."""

    def __init__(self, task: Task, ehr: EhrSession, protocol: Protocol, rules: SessionRules) -> None:
        self.task = task
        self._ehr = ehr
        self._protocol = protocol
        self._rules = rules
        self._base = FhirBase(rules.api_base)
        self._outcome = Outcome()
        self._posts = 0
        self._begun = False

    def reset(self) -> str:
        """Start (again), over a fresh copy of the record, and return the first message the agent reads.

        On an external FHIR server there is one record for all: what was written to it stays.
        """
        if self._begun:
            self._ehr.reset()
        self._begun = True
        prompt = self._protocol.first_message(self._base.shown, self.task.context, self.task.instruction)
        self._outcome = Outcome(transcript=[Turn("user", prompt)])
        self._posts = 0
        return prompt

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._outcome.status is not None

    def outcome(self) -> Outcome:
        """What the episode left so far."""
        return self._outcome

    async def act(self, message: str, reasoning: str | None = None) -> str:
        """Take one message of the agent's and return the reply to it ("" when the episode has ended).

        Raises FhirUnavailableError when the FHIR server fails for good; the transcript keeps what came before. Raises
        SessionEndedError before the beginning and after the end of an episode.
        """
        self._check_open()
        dispatched = strip_thinking(message) if self._rules.strip_thinking else message
        self._outcome.transcript.append(
            Turn("agent", message, dispatched if dispatched != message else None, reasoning)
        )
        self._outcome.rounds += 1
        action = clean(dispatched)
        if action.startswith("GET"):
            reply = await self._get(action[3:].strip())
        elif action.startswith("POST"):
            reply = await self._post(action)
        elif action.startswith("FINISH("):
            self._outcome.answer = action[len("FINISH(") : -1]
            return self._end("completed")
        else:
            return self._end("invalid_action")
        return self._reply(reply)

    def refuse(self, message: str, problem: str) -> str:
        """Record a message that could not be read as an action (a malformed tool call) and the reply to it."""
        self._check_open()
        self._outcome.transcript.append(Turn("agent", message))
        self._outcome.rounds += 1
        return self._reply(fill(self._protocol.tool_error, error=problem))

    def _check_open(self) -> None:
        if not self._begun:
            raise SessionEndedError("the episode has not begun: call reset first")
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
            target = self._base.target(self._with_format(url))
            reply = await self._ehr.get(target)
        except ActionError as error:
            return fill(self._protocol.get_error, error=str(error))
        except TooLargeError:
            return fill(
                self._protocol.get_error, error="the answer is over 20 MB; ask for less, for instance by _count"
            )
        if reply.ok:
            return fill(self._protocol.get_reply, body=reply.text)
        return fill(self._protocol.get_error, error=self._http_error(reply, self._with_format(url)))

    def _with_format(self, url: str) -> str:
        if self._protocol.format_parameter == "append":
            return url + "&_format=json"
        return url + ("&" if "?" in url else "?") + "_format=json"

    def _http_error(self, reply: Reply, url: str) -> str:
        return fill(
            self._protocol.http_error,
            status=str(reply.status),
            kind="Server" if reply.status >= 500 else "Client",
            reason=reply.reason,
            url=quote(url, safe=_URL_SAFE, errors="replace"),
            diagnostics=diagnostics(reply),
        )

    async def _post(self, action: str) -> str:
        url, _, body = action[4:].partition("\n")
        url = url.strip()
        try:
            json.loads(body)
            target = self._base.target(url)
            number = await self._write(url, target, body)
        except (ValueError, RecursionError) as error:
            return fill(self._protocol.post_invalid, reason=f"the lines after the url are not JSON ({error})")
        except ActionError as error:
            return fill(self._protocol.post_invalid, reason=str(error))
        return fill(self._protocol.post_accepted, id=number)

    async def _write(self, url: str, target: str, body: str) -> str:
        """Carry a POST out where the rules say so; the id to be named. Raises ActionError where it is refused."""
        self._posts += 1
        if self._rules.writes == "ack" and not self._ehr.private:
            self._outcome.writes.append(Write(url, refused="not sent: writes are only acknowledged"))
            return str(self._posts)
        try:
            reply = await self._ehr.post(target, body)
        except TooLargeError:
            reply = Reply(500, "", "the answer is over 20 MB")
        resource = _created(reply)
        if resource is not None:
            self._outcome.writes.append(Write(url, resource))
            return str(resource.get("id", self._posts))
        refusal = f"HTTP status {reply.status}. {diagnostics(reply)}"
        self._outcome.writes.append(Write(url, refused=refusal))
        if self._rules.writes == "execute":
            raise ActionError(refusal)
        return str(self._posts)


class FhirBase:
    """The FHIR base shown to the agent; says which URLs are inside it and what they are called below it."""

    def __init__(self, shown: str) -> None:
        self.shown = shown if shown.endswith("/") else shown + "/"
        parts = urlsplit(self.shown)
        self._origin = (parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme))
        self._root = _segments(parts.path)

    def target(self, url: str) -> str:
        """The path below the base with its query, escaped for the wire: `/Patient?name=Mary%20Ann`.

        Inside means the base's scheme, host and port, and a path that, its dots resolved, is the base's or below it.
        Raises ActionError for every other URL: it is never fetched.
        """
        try:
            parts = urlsplit(url)
            origin = (parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme))
        except ValueError as error:
            raise ActionError(f"{url} is not a URL: {error}") from None
        segments = _segments(parts.path)
        if origin != self._origin or segments[: len(self._root)] != self._root:
            raise ActionError(f"{url} is not under the FHIR base {self.shown}; nothing else is reachable")
        below = "".join("/" + segment for segment in segments[len(self._root) :])
        query = f"?{parts.query}" if parts.query else ""
        return quote(below + query, safe=_URL_SAFE, errors="replace")


_PORTS = {"http": 80, "https": 443}


def _segments(path: str) -> list[str]:
    """The path's segments as written, with `.` and `..` (escaped ones too) resolved as RFC 3986, 5.2.4 does."""
    resolved: list[str] = []
    for segment in path.split("/"):
        plain = unquote(segment)
        if plain == "..":
            resolved = resolved[:-1]
        elif plain not in {"", "."}:
            resolved.append(segment)
    return resolved


def clean(message: str) -> str:
    """The action in a message, as the published loop reads it: fences of tool code taken out, blanks stripped."""
    return message.strip().replace("```tool_code", "").replace("```", "").strip()


def _created(reply: Reply) -> dict[str, Any] | None:
    if reply.status != 201:
        return None
    try:
        resource = json.loads(reply.text)
    except (ValueError, RecursionError):
        return {}
    return resource if isinstance(resource, dict) else {}
