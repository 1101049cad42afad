"""The session of the published strategies: a message is a tool call, `name(arguments)`, or `FINISH(answer)`.

A reply shows resources as Python prints them, as published. If programs work on the resources, it shows only counts.
The transcript contains only the beginning of long replies. All found ids are recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from medagent.benchmarks.fhiragentbench.strategies._agent import StrategyAgent
from medagent.benchmarks.fhiragentbench.strategies.plan import BY_ID, BY_PATIENT, PROGRAM, REQUEST, SEARCH, Strategy
from medagent.core.errors import FhirUnavailableError
from medagent.fhir_data.record import EhrSession, TooMuchError, diagnostics
from medagent.fhir_episodes.code_session import CodeWork
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.reads import Page, Read, handled, ids_of, read_page, resources_of
from medagent.fhir_episodes.requests_words import ActionError
from medagent.fhir_episodes.session import Session, SessionRules, Turn
from medagent.fhir_episodes.task import FhirTask
from medagent.models.base import ChatModel, RecordedCall, Tool
from medagent.sandbox.base import CallError, Surface
from medagent.sandbox.wording import traceback_text
from refsol.json_values import unicode_json

PAGE = 1000
"""The page size of searches."""
MOST = 50_000
"""The most resources of one call, so that an episode does not read a whole hospital."""
SHOWN = 20_000
"""The most characters of a reply in the transcript."""
ANSWER = "answer"
PRELUDE = "import datetime, json, math, re\nanswer = None\n"
_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
Shows = Literal["resources", "counts"]
Resources = dict[str, list[Any]]


class CallArgumentsError(Exception):
    """The arguments of a call cannot be parsed. The published agents fail on such calls."""


@dataclass(slots=True)
class CallResult:
    """The result of one call: ids by type, resources if they are needed, or the error text."""

    ids: dict[str, list[str]] = field(default_factory=dict)
    resources: Resources = field(default_factory=dict)
    error: str = ""

    @property
    def shown(self) -> dict[str, Any]:
        """The tool's output."""
        return {"error": self.error} if self.error else self.resources


@dataclass(frozen=True, slots=True)
class StrategyActing:
    """See `Acting`. Without a strategy it serves the bundled agents, which see only counts."""

    strategy: Strategy | None = None
    cap: int | None = None
    returns_output: bool = False
    searches: dict[str, CallResult] = field(default_factory=dict, compare=False, repr=False)
    """The results of the bundled agents' searches, by the request as sent: many questions are about one patient."""

    def agent(self, model: ChatModel, words: Protocol) -> StrategyAgent:
        assert self.strategy is not None
        return StrategyAgent(model, self.strategy, words.system, self.cap)

    def session(
        self, task: FhirTask, ehr: EhrSession, words: Protocol, rules: SessionRules, code: CodeWork | None
    ) -> Session:
        return StrategySession(task, ehr, words, rules, self, code)


def _written_call(message: str) -> RecordedCall | None:
    """The call that an agent without a model writes as its message: `name(arguments)`."""
    call = _CALL.fullmatch(message)
    return RecordedCall(call[1], call[2]) if call else None


class StrategySession(Session):
    """An episode in which a published strategy acts."""

    def __init__(
        self,
        task: FhirTask,
        ehr: EhrSession,
        protocol: Protocol,
        rules: SessionRules,
        acting: StrategyActing,
        code: CodeWork | None,
    ) -> None:
        super().__init__(task, ehr, protocol, rules)
        self._acting = acting
        self._code = code
        self._shows: Shows = "resources" if acting.strategy and not acting.strategy.code else "counts"
        self._retrieved: Resources = {}

    def reset(self) -> str:
        self._retrieved = {}
        return super().reset()

    async def _respond(self, message: str, reasoning: str | None, call: RecordedCall | None) -> str:
        """Arguments that cannot be parsed end the episode with `invalid_action`."""
        self._outcome.transcript.append(Turn("agent", message, reasoning=reasoning, call=call))
        if message.startswith("FINISH("):
            self._outcome.answer = message[len("FINISH(") : -1]
            return self._end("completed")
        call_record = call or _written_call(message)
        try:
            reply = await self._called(call_record.name, call_record.arguments) if call_record else None
        except CallArgumentsError as error:
            self._outcome.error = str(error)
            reply = None
        if reply is None:
            return self._end("invalid_action")
        more = f"… {len(reply) - SHOWN:,} more characters" if len(reply) > SHOWN else ""
        self._outcome.transcript.append(Turn("user", reply[:SHOWN] + more))
        return reply

    async def _called(self, name: str, text: str) -> str | None:
        """Carry out a call and return the reply. None if the tool is unknown. Raises CallArgumentsError."""
        if name == PROGRAM.name:
            return await self._program(_arguments(PROGRAM, text)["code"])
        if name == REQUEST.name:
            return self._shown(await self._search(_arguments(REQUEST, text)["query_string"], request=True))
        if name == SEARCH.name:
            return self._shown(await self._search(_arguments(SEARCH, text)["query"]))
        tool = next((known_tool for known_tool in (BY_PATIENT, BY_ID) if known_tool.name == name), None)
        if tool is None:
            return None
        arguments = _arguments(tool, text)
        kind, name_or_id = (arguments[required] for required in tool.parameters["required"])
        parameter = "id" if tool is BY_ID else "patient"
        query = f"{kind}?{parameter}={name_or_id}" if name_or_id else kind
        return self._shown(await self._search(query), kind)

    def _shown(self, result: CallResult, kind: str = "") -> str:
        if self._shows == "resources":
            return str(result.shown)
        if result.error:
            return str(result.shown)
        self._retrieved.update(result.resources)
        if kind:
            return f"retrieved_fhir_resources['{kind}'] ({len(result.ids.get(kind, ()))} items)"
        return ", ".join(f"{kind}: {len(ids)}" for kind, ids in result.ids.items()) or "nothing"

    async def _search(self, query: str, *, request: bool = False) -> CallResult:
        """Read all pages of a search, or the first page of a `request`. The ids are recorded."""
        separator = "&" if "?" in query else "?"
        counted = query if "_count=" in query else f"{query}{separator}_count={PAGE}"
        result, sent = CallResult(), ""
        try:
            sent = handled(self._base.target(self._base.shown + counted), self._rules.handling or "strict")
            result = self._acting.searches.get(sent, result) if self._repeats else result
            if result.ids:
                return self._recorded(query, sent, result)
            async for text, page in self._pages(sent):
                self._take(result, text, page, whole=request)
                if request or sum(map(len, result.ids.values())) > MOST:
                    break
            if sum(map(len, result.ids.values())) > MOST:
                raise ActionError(f"more than {MOST:,} resources match; ask for fewer")
        except (ActionError, TooMuchError) as error:
            result = CallResult(error=str(error))
        if result.ids and self._repeats:
            self._acting.searches[sent] = result
        return self._recorded(query, sent, result)

    @property
    def _repeats(self) -> bool:
        """Whether a search finds the same in other episodes, and only ids of it are needed."""
        return self._acting.strategy is None and self._ehr.fixed

    def _recorded(self, query: str, sent: str, result: CallResult) -> CallResult:
        self._outcome.reads.append(Read(query, sent, result.ids, result.error or None))
        return result

    async def _pages(self, sent: str) -> AsyncIterator[tuple[str, Page]]:
        """The pages, as text and parsed. Raises ActionError if the server refuses the request."""
        while sent:
            reply = await self._ehr.get(sent)
            if not reply.ok:
                raise ActionError(f"HTTP status {reply.status}. {diagnostics(reply)}")
            page = read_page(reply.text)
            yield reply.text, page
            sent = self._base.target(page.next) if page.next else ""

    def _take(self, result: CallResult, text: str, page: Page, *, whole: bool) -> None:
        """Add a page. As published, `text` and `meta` of resources are removed, unless it is a request (`whole`)."""
        if self._acting.strategy is None:
            ids = page.ids
        else:
            document = json.loads(text)
            entries = resources_of(document) if document.get("resourceType") == "Bundle" else []
            for entry in entries:
                if not whole:
                    entry.pop("text", None)
                    entry.pop("meta", None)
                result.resources.setdefault(entry["resourceType"], []).append(entry)
            ids = ids_of(entries)
        for kind, listed in ids.items():
            result.ids.setdefault(kind, []).extend(listed)

    async def _program(self, code: str) -> str:
        """Run a program in a new interpreter. The reply contains its variable `answer`."""
        if self._code is None:
            raise FhirUnavailableError("the sandbox for programs is missing")
        variables = {"retrieved_resources": self._retrieved}
        surface = Surface((), self._code.surface.now, PRELUDE, variables, answer=ANSWER)
        interpreter = await self._code.interpreters.start(surface)
        try:
            ran = await interpreter.run(1, code, _no_calls)
        finally:
            await interpreter.close()
        output: dict[str, Any]
        if ran.failure is not None or ran.ended:
            output = {"error": traceback_text(ran.failure) if ran.failure else f"Stopped: {ran.ended}"}
        elif ran.answer is None:
            output = {"error": "The program ran, and set no variable `answer`."}
        else:
            output = {"answer": ran.answer}
        return str({**output, "output": ran.output} if self._acting.returns_output else output)


async def _no_calls(name: str, *_: Any) -> Any:
    raise CallError(f"there is no function {name}")


def _arguments(tool: Tool, text: str) -> Mapping[str, Any]:
    """Parse the arguments of a call and check them against the schema. Raises CallArgumentsError."""
    try:
        arguments = json.loads(unicode_json(text) or "{}")
    except (ValueError, RecursionError) as error:
        raise CallArgumentsError(f"{tool.name}: the arguments are not JSON: {error}") from None
    known: Mapping[str, Any] = tool.parameters["properties"]
    if not isinstance(arguments, dict) or not set(tool.parameters["required"]) <= arguments.keys() <= known.keys():
        raise CallArgumentsError(f"{tool.name}: takes {', '.join(known)}")
    for name, value in arguments.items():
        if known[name]["type"] == "string" and not isinstance(value, str):
            raise CallArgumentsError(f"{tool.name}: {name} is not text")
    return arguments
