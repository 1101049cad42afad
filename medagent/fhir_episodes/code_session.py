"""A session for agents that act in code: messages contain programs, and the programs' requests are the actions.

The transcript for graders contains one pair of messages per request, in the format of the text protocol, without
programs; programs and their output are stored separately. The output of programs is not trusted.
"""

from __future__ import annotations

import json
import re
import symtable
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from medagent.core.options import Setting
from medagent.fhir_data.record import EhrSession, TooMuchError
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.requests_words import ActionError
from medagent.fhir_episodes.session import Program, Session, SessionRules, Turn, clean
from medagent.fhir_episodes.task import TaskWords
from medagent.fhir_episodes.tools import ToolError
from medagent.fhir_episodes.writes import StatedWrite
from medagent.models.base import RecordedCall, Tool, ToolCall
from medagent.models.wording import BLOCK, fill, without_thinking
from medagent.sandbox.base import CallError, Limits, Surface
from medagent.sandbox.choose import SandboxChoice
from medagent.sandbox.interpreters import Interpreters
from medagent.sandbox.programs import Programs
from refsol.json_values import as_object, json_value

FUNCTIONS = {"get": ("url",), "post": ("url", "body"), "finish": ("value",)}
"""The functions that programs can call, next to `search`, with their parameters."""
WRITES = {
    "put": ("url", "body", "if_match"),
    "patch": ("url", "body", "if_match"),
    "delete": ("url", "if_match"),
    "transaction": ("bundle",),
    "post": ("url", "body", "if_none_exist"),
}
"""The functions of episodes that carry out all writes."""
_CONDITIONS = {"if_match": "If-Match", "if_none_exist": "If-None-Exist"}
"""The parameters that may be left out, with their headers."""
SEARCH = """
_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~,|:$"


def _quoted(value):
    if value is True or value is False:
        value = "true" if value else "false"
    parts = []
    for character in str(value):
        if character in _SAFE:
            parts.append(character)
        else:
            parts.extend([f"%{byte:02X}" for byte in character.encode()])
    return "".join(parts)


class _Page:
    def __init__(self, url):
        bundle = get(url)
        self.total = bundle.get("total")
        self.resources = []
        for entry in bundle.get("entry", []):
            if "resource" in entry and entry.get("search", {}).get("mode") != "outcome":
                self.resources.append(entry["resource"])
        self.following = None
        for link in bundle.get("link", []):
            if link.get("relation") == "next":
                self.following = link.get("url")

    def next(self):
        return _Page(self.following) if self.following else None

    def __iter__(self):
        return iter(self.resources)

    def __len__(self):
        return len(self.resources)

    def __getitem__(self, place):
        return self.resources[place]

    def __repr__(self):
        return repr(self.resources)


def search(type, **params):
    one_page = params.get("_count") is not None
    params = {**params, "_total": params.get("_total", "accurate")} if one_page else {**params, "_count": 200}
    pairs = [f"{_quoted(name)}={_quoted(single)}" for name, value in params.items() if value is not None
             for single in (value if isinstance(value, list) else [value])]
    page = _Page(f"{type}?{'&'.join(pairs)}")
    if one_page:
        return page
    resources = []
    while page is not None:
        resources.extend(page.resources)
        page = page.next()
    return resources


FINISH = finish
"""
"""`search`, which uses `get`, and a second name of `finish`, since the replies to requests write it in capitals. It
uses only features that every sandbox supports. monty does not support `len` of objects: programs for it use
`resources`.
"""
_BLOCK = re.compile(BLOCK, re.MULTILINE | re.DOTALL)
_FINISH = re.compile(r"^[ \t]*FINISH\((?P<answer>.*?)\)[ \t]*$", re.MULTILINE | re.DOTALL)
_LANGUAGES = ("", "python", "python3", "py", "tool_code")
_NO_URL = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class CodeRules:
    """The settings of programs: the sandbox with its limits, the clock, whether the model writes by tool calls, and
    whether programs get functions for all writes.
    """

    sandbox: SandboxChoice
    now: datetime
    tool: bool = False
    all_writes: bool = False

    def decides(self) -> dict[str, Setting]:
        """The settings that affect the rows, next to the options."""
        return {
            "sandbox": self.sandbox.name,
            "sandbox-version": self.sandbox.version,
        }


@dataclass(frozen=True, slots=True)
class CodeWork:
    """An open sandbox and the limits of an episode's programs."""

    interpreters: Interpreters
    limits: Limits
    surface: Surface

    def at(self, now: datetime | None) -> CodeWork:
        """A copy with the clock of a task."""
        return self if now is None else replace(self, surface=replace(self.surface, now=now))


@asynccontextmanager
async def open_code(rules: CodeRules | None, concurrency: int) -> AsyncIterator[CodeWork | None]:
    """Open the sandbox of a run; yields None if no agent acts in code. Raises UserError if it does not work here."""
    if rules is None:
        yield None
        return
    functions = FUNCTIONS | WRITES if rules.all_writes else FUNCTIONS
    surface = Surface(tuple(functions), rules.now, SEARCH, uncounted=("finish",))
    async with rules.sandbox.open(concurrency) as interpreters:
        yield CodeWork(interpreters, rules.sandbox.limits, surface)


@asynccontextmanager
async def open_session(
    task: TaskWords, ehr: EhrSession, protocol: Protocol, rules: SessionRules, code: CodeWork | None
) -> AsyncIterator[Session]:
    """A session of the protocol; its interpreter is ended with it."""
    if code is None:
        yield Session(task, ehr, protocol, rules)
        return
    session = CodeSession(task, ehr, protocol, rules)
    async with Programs(code.interpreters, code.surface, code.limits, session.serve) as programs:
        session.programs = programs
        yield session


class CodeSession(Session):
    """See `Session`. A message is a program, `FINISH(…)`, both (the program runs first), or neither; each counts as a
    round. Programs in `<think>` blocks are drafts, which are not run.
    """

    cut_off = "The token limit cut this message off, so nothing of it was run: write a shorter one."
    programs: Programs
    _answer: str | None = None

    async def _respond(self, message: str, reasoning: str | None, call: RecordedCall | None) -> str:
        """Run the program of a message; returns the reply. Raises SandboxError if the sandbox itself fails."""
        read = without_thinking(message) if call is None else message  # a call contains a program and no other text
        code = program_of(read)
        if code is None and clean(read).startswith("FINISH("):
            self._keep(Program(message, "", reasoning=reasoning, call=call))
            self._outcome.transcript.append(Turn("agent", clean(read)))
            self._outcome.answer = clean(read)[len("FINISH(") : -1]
            return self._end("completed")
        if code is None:
            return self._told(Program(message, self._protocol.no_program, reasoning=reasoning, call=call))
        ran = await self.programs.run(code)
        program = Program(message, self.programs.text(ran) + self._replaced(code), code, ran.limit, reasoning, call)
        beside = _FINISH.search(_BLOCK.sub("", read))
        if self._answer is None and beside is not None:
            self._answer = beside["answer"]
        if self._answer is None:
            return self._told(program)
        self._keep(program)
        self._turn("agent", f"FINISH({self._answer})")
        self._outcome.answer = self._answer
        return self._end("completed")

    def _replaced(self, code: str) -> str:
        """A line for a program that defines the name of a tool, whose calls in it did not reach the tool."""
        tools = {*(FUNCTIONS | WRITES if self.all_writes else FUNCTIONS), "search", "FINISH"}
        names = ", ".join(sorted(tools.intersection(_assigned(code))))
        if not names:
            return ""
        return f"\n[your program defines {names}, the name of a tool; the tools are put back before the next program]"

    def _refuse(self, message: str, problem: str, reasoning: str | None, call: RecordedCall | None) -> str:
        """The message is stored with the programs, as it is not a request."""
        return self._told(Program(message, self._tool_error(problem), reasoning=reasoning, call=call))

    def _record_rejected(self, turn: Turn) -> None:
        self._keep(Program(turn.content, "", reasoning=turn.reasoning))

    async def serve(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry out a program's call. Raises CallError for errors that the program sees."""
        values = self._bound(name, args, kwargs)
        if name == "finish":
            self._answer = json.dumps(values["value"], ensure_ascii=False)
            return None
        url = self._url(values["url"]) if name != "transaction" else self._base.shown
        if name == "get":
            return await self._read(url)
        body = values.get("bundle", values.get("body", ""))
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        conditions = tuple((header, str(values[key])) for key, header in _CONDITIONS.items() if values.get(key))
        if name == "post" and not conditions:
            return await self._write(url, text)
        method = "POST" if name == "transaction" else name.upper()
        return await self._write_further(StatedWrite(method, url, text, conditions))

    async def _read(self, url: str) -> Any:
        self._turn("agent", f"GET {url}")
        try:
            body = await self._lenient_get(url)
        except (ActionError, TooMuchError) as error:
            self._turn("user", fill(self._protocol.get_error, error=str(error)))
            raise CallError(str(error)) from None
        self._turn("user", fill(self._protocol.get_reply, body=body))
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise CallError("the reply is not JSON") from None

    async def _write(self, url: str, body: str) -> str:
        action = f"POST {url}\n{body}"
        self._turn("agent", action)
        try:
            number = await self._create(action)
        except ActionError as error:
            reply = self._invalid(str(error))
            self._turn("user", reply)
            raise CallError(reply) from None
        reply = fill(self._protocol.post_accepted, id=number)
        self._turn("user", reply)
        return reply

    async def _write_further(self, stated: StatedWrite) -> Any:
        """Carry out a write that is not in the published protocol; returns the server's reply."""
        self._turn("agent", stated.action)
        try:
            reply = await self._carried_out(stated)
        except ActionError as error:
            text = fill(self._protocol.write_refused, method=stated.method, error=str(error))
            self._turn("user", text)
            raise CallError(text) from None
        status = str(reply.status)
        self._turn("user", fill(self._protocol.write_done, method=stated.method, status=status, body=reply.text))
        return json_value(reply.text, reply.text)

    def _bound(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name."""
        names = (FUNCTIONS | WRITES if self.all_writes else FUNCTIONS).get(name)
        if names is None:
            raise CallError(f"unknown function {name}")
        values = dict(zip(names, args, strict=False))
        missing = {name for name in names if name not in _CONDITIONS} - {*values, *kwargs}
        if len(args) > len(names) or values.keys() & kwargs.keys() or missing or kwargs.keys() - set(names):
            raise CallError(f"{name}({', '.join(names)}): the arguments do not fit")
        return {**values, **kwargs}

    def _url(self, value: Any) -> str:
        """An absolute URL for an action; a relative URL is below the base."""
        if not isinstance(value, str) or not value:
            raise CallError("the url must be a text")
        url = value if "://" in value else self._base.shown + value.lstrip("/")
        if _NO_URL.search(url):
            raise CallError("a url must not contain blanks or control characters; write %20 for a blank")
        return url

    def _turn(self, role: Literal["agent", "user"], content: str) -> None:
        self._outcome.transcript.append(Turn(role, content, program=self.programs.number))

    def _keep(self, program: Program) -> None:
        self._outcome.programs.append(program)

    def _told(self, program: Program) -> str:
        self._keep(program)
        if self._outcome.rounds >= self._rules.max_rounds:
            self._end("round_limit")
        return program.output


def program_of(message: str) -> str | None:
    """The Python in a message's fenced blocks, in order, as one program; None if there is none."""
    blocks = [match["code"] for match in _BLOCK.finditer(message) if match["language"].lower() in _LANGUAGES]
    return "\n".join(blocks) if blocks else None


def _assigned(code: str) -> list[str]:
    """The names that a program assigns or defines; none if it is not Python."""
    try:
        table = symtable.symtable(code, "program", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()]


def fenced(code: str) -> str:
    """A message with a program in a fence that is longer than any fence in the program."""
    longest = max((len(ticks) for ticks in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{code}\n{fence}"


PYTHON = Tool(
    "python",
    "Runs a Python program and returns what it prints and the value of a last expression. Variables stay.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program."}},
        "required": ["code"],
    },
)


class PythonCalls:
    """See `Calls`: offers the tool, and turns a call of it into a message with a program."""

    def tools(self) -> list[Tool]:
        """The tools that the model gets."""
        return [PYTHON]

    def action(self, call: ToolCall) -> str:
        """The message. Raises ToolError for another tool, or arguments without a program."""
        code = as_object(json_value(call.arguments)).get("code") if call.name == PYTHON.name else None
        if not isinstance(code, str):
            raise ToolError("call python with one argument, code, a text")
        return fenced(code)
