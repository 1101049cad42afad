"""An agent that owns its loop: `solve` gets an `Env` and returns the answer.

Each tool call, text action and request to `env.http` is a message of the session, so the journal, limits and grader
treat it like the messages of other agents. `env.http` is a FHIR base on a loopback port, whose address contains a
secret random part; a client gets the server's own replies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from medagent.agents.base import Agent, count_into
from medagent.core.errors import SessionEndedError, UserError
from medagent.core.options import options
from medagent.engine.boundary import blame
from medagent.engine.rows import Spent
from medagent.engine.settings import RunSettings
from medagent.fhir_data.record import EhrSession, FhirRequest, Reply
from medagent.fhir_episodes.fhir_base import READS, refusal
from medagent.fhir_episodes.session import MAX_BODY, Session
from medagent.fhir_episodes.tools import Toolbox, call
from medagent.fhir_episodes.writes import StatedWrite
from medagent.models.base import Completion, Tool, Usage
from medagent.models.prices import find_price
from refsol.changes import Change

if TYPE_CHECKING:
    from aiohttp import web

OWN_LOOP = "agent-loop"
"""The setting in `run.json` that marks a run of an agent with its own loop; its value is `own`."""
_OVER = "The episode has ended."


class Env:
    """The interface of one episode for an agent with `solve`.

    `key` names the episode (`task5_7#1`), `seed` is for sampling (None in the first trial). `http` is the episode's own
    FHIR base, for HTTP clients on this machine.
    """

    def __init__(self, session: Session, toolbox: Toolbox, spent: Spent, http: str, key: str, seed: int | None) -> None:
        self.http = http
        self.key = key
        self.seed = seed
        self._session = session
        self._toolbox = toolbox
        self._spent = spent
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()

    @property
    def tools(self) -> list[Tool]:
        """The FHIR functions and `finish`: name, description and JSON schema of each."""
        return self._toolbox.tools()

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool; returns the reply, or the reason why the call is refused. `finish` ends the episode."""
        return await self._in_turn(lambda: call(self._session, self._toolbox, tool, arguments))

    def function(self, tool: str) -> Callable[..., Awaitable[str]]:
        """A tool as a function, for frameworks that take functions with named arguments."""

        async def called(**arguments: Any) -> str:
            return await self.call(tool, **arguments)

        return called

    async def act(self, message: str) -> str:
        """Take one text action: `GET url`, `POST url` with JSON below (or another write), `FINISH([…])`; returns the
        reply.

        Raises SessionEndedError after the last message of the episode.
        """
        return await self._in_turn(lambda: self._session.act(message))

    async def _in_turn(self, take: Callable[[], Awaitable[str]]) -> str:
        async with self._lock:  # frameworks make calls in parallel
            if self._session.outcome().status == "completed":
                return _OVER
            return await take() or _OVER

    def call_blocking(self, tool: str, /, **arguments: Any) -> str:
        """`call` for another thread than the event loop's, such as a thread of `asyncio.to_thread`.

        Raises RuntimeError in the event loop's own thread, where it would wait for itself.
        """
        if _runs_in_this_thread(self._loop):
            raise RuntimeError(
                "env.call_blocking was called in the event loop's own thread: write `await env.call(…)`, or call it "
                "from a thread of `asyncio.to_thread`"
            )
        return asyncio.run_coroutine_threadsafe(self.call(tool, **arguments), self._loop).result()

    def spend(
        self, *, prompt: int = 0, completion: int = 0, cached: int = 0, cost: float | None = None, model: str = ""
    ) -> None:
        """Count a model call that the agent made itself: tokens, and US dollars (default: by the price table).

        Raises UnitLimitError if the episode has reached a limit.
        """
        usage = Usage(prompt=prompt, completion=completion, cached=cached)
        if cost is None and (price := find_price(model)) is not None:
            cost = price.cost(usage)
        self._spent.add(Completion("", usage, cost=cost, model=model or None))


def _runs_in_this_thread(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # no loop runs here
        return False


async def solve(agent: Agent, task: Any, session: Session, env: Env, spent: Spent) -> None:
    """Let an agent solve a task; its answer ends the session, unless the agent has ended it by `finish`.

    Raises PluginError for any error of the agent before the session has ended.
    """
    prompt = session.reset()
    count_into(spent)
    try:
        with blame("agent"):
            answer = _answer(await agent.solve(task, prompt, env))
    except Exception:
        if session.done:
            return  # an error of the framework after the end does not matter
        raise
    if not session.done:
        await session.act(answer)


def _answer(answer: object) -> str:
    """The last message of an episode. Raises TypeError if the answer is neither a list nor a text."""
    if isinstance(answer, str):
        text = answer.strip()
        return text if text.startswith("FINISH(") else f"FINISH({text})"
    if isinstance(answer, list | tuple):
        return f"FINISH({json.dumps(answer, ensure_ascii=False)})"
    raise TypeError(f"solve returned {type(answer).__name__}, expected the answers: a list, or the text of one")


def check_settings(agent: type[Agent], settings: RunSettings) -> None:
    """Raises UserError for options that do not apply, or cannot be enforced, if an agent owns its loop."""
    name = agent.__name__
    if getattr(settings, "protocol", "text") == "code":
        raise UserError(f"--protocol code: {name} defines `solve`, which acts by tools; leave --protocol out")
    if getattr(settings, "loop", None):
        raise UserError(f"--loop: {name} defines `solve`, which acts by tools; leave --loop out")
    limits = ("max_cost", "max_tokens_total", "unit_cost", "unit_tokens")
    limited = [
        option.written for option in options(type(settings)) if option.name in limits and getattr(settings, option.name)
    ]
    if limited and not agent.reports_use:
        raise UserError(
            f"{limited[0]} cannot be kept: {name} owns its loop, and its token use is unknown. If "
            "`solve` counts every call with env.spend, write `reports_use = True` in the class"
        )


_FHIR = "application/fhir+json"


class Watched:
    """An `EhrSession` that remembers its last reply.

    With `head`, the reply to a GET comes without a body, as for HTTP HEAD.
    """

    def __init__(self, record: EhrSession) -> None:
        self._record = record
        self.last: Reply | None = None
        self.head = False

    @property
    def fixed(self) -> bool:
        return self._record.fixed

    def reset(self) -> None:
        self._record.reset()

    async def get(self, target: str) -> Reply:
        reply = await self._record.get(target)
        self.last = replace(reply, text="") if self.head else reply
        return self.last

    async def write(self, request: FhirRequest) -> Reply:
        self.last = await self._record.write(request)
        return self.last

    async def preview(self, target: str, body: str) -> Reply | None:
        self.last = await self._record.preview(target, body)
        return self.last

    def changes(self) -> list[Change] | None:
        return self._record.changes()


class OwnBases:
    """The open bases. Use `serve_bases`."""

    def __init__(self, shown: str) -> None:
        self._shown = shown.rstrip("/")
        self._open: dict[str, tuple[Session, Watched]] = {}
        self.address = ""

    @contextmanager
    def base(self, session: Session, record: Watched) -> Iterator[str]:
        """The address of a session's base, while the block runs."""
        token = token_urlsafe(16)
        self._open[token] = (session, record)
        try:
            yield f"{self.address}/{token}/fhir"
        finally:
            del self._open[token]

    async def answer(self, request: web.Request) -> web.Response:
        """Carry out a request as a message of its session."""
        token, _, path = request.rel_url.raw_path.lstrip("/").partition("/fhir")
        if token not in self._open:
            return _outcome(404, "no such base: the episode has ended, or the address is wrong")
        session, record = self._open[token]
        if problem := refusal(request.method, path, all_writes=session.all_writes):
            return _outcome(405, problem)
        private_base = f"{self.address}/{token}/fhir"
        body = (await request.text()).replace(private_base, self._shown)
        query = request.rel_url.raw_query_string.replace(private_base, self._shown)
        names = ("If-Match", "If-None-Exist") if session.all_writes else ()
        conditions = tuple((name, request.headers[name]) for name in names if name in request.headers)
        search = f"?{query}" if query and request.method != "POST" else ""
        action = StatedWrite(request.method, f"{self._shown}{path or '/'}{search}", body, conditions).action
        if request.method in READS or path.rstrip("/").endswith("/_search"):
            pairs = "&".join(filter(None, (query, body)))
            action = f"GET {self._shown}{path.rstrip('/').removesuffix('/_search')}?{pairs}".rstrip("?")
        record.last, record.head = None, request.method == "HEAD"
        try:
            text = await session.act(action)
        except SessionEndedError as error:
            return _outcome(410, str(error))
        reply = record.last or Reply(400, _document(text))
        return _response(reply.status, reply.text.replace(self._shown, private_base))


@asynccontextmanager
async def serve_bases(shown: str) -> AsyncIterator[OwnBases]:
    """Serve bases on a free loopback port while the block runs; `shown` is the base that graders know."""
    from aiohttp import web

    bases = OwnBases(shown)
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_route("*", "/{path:.*}", bases.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        bases.address = f"http://{host}:{port}"
        yield bases
    finally:
        await runner.cleanup()


def _outcome(status: int, text: str) -> web.Response:
    return _response(status, _document(text))


def _document(text: str) -> str:
    issue = {"severity": "error", "code": "processing", "diagnostics": text}
    return json.dumps({"resourceType": "OperationOutcome", "issue": [issue]})


def _response(status: int, text: str) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=text, content_type=_FHIR)
