"""Episodes for agents with their own HTTP client: each gets a private FHIR base and is graded by its writes.

    with medagent.serve_episodes() as server, server.open("task5_7") as e:
        my_agent(e.prompt)                  # or by e.base and e.headers, and the words of e.task
        e.finish(["S9214313"])
    print(e.verdict().correct, e.outcome().writes)

The requests to a base become a transcript of the text protocol: a read is a GET, and a stored resource is an accepted
POST below the base that graders know. So an episode gets the same verdict as the same actions in `medagent run`.
Updates, patches, deletions and transactions are refused, unless the option `writes` is `execute`.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from medagent.core.closing import Closing
from medagent.core.errors import SessionEndedError, UserError
from medagent.core.options import options as options_of
from medagent.engine.scores import Score
from medagent.fhir_data.embedded import changes_of
from medagent.fhir_data.record import Reply, diagnostics
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episodes import EpisodeSource
from medagent.fhir_episodes.fhir_base import READS, is_type, refusal
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.reads import Read, handled
from medagent.fhir_episodes.session import Outcome, Status, Turn, Write, read_of
from medagent.fhir_episodes.task import FhirItem
from medagent.fhir_episodes.writes import StatedWrite
from medagent.models.wording import fill
from refsol.changes import Change

if TYPE_CHECKING:
    from fhir_server.app import App
    from fhir_server.episodes import Exchange, Record

_ACTS = ("fhir", "allow_writes", "protocol", "loop", "max_rounds", "strip_thinking")
"""The options of an episode that do not apply over HTTP."""
End = tuple[Status, str, str | None]
"""How an episode ended: its status, the agent's last message, the answers."""


@contextmanager
def serve_on(benchmark: FhirBenchmark[Any], host: str, port: int, options: Mapping[str, Any]) -> Iterator[HttpEpisodes]:
    """Serve episodes on a port (0: a free one), in a thread, while the block runs.

    The options are `api_base`, and the options of `medagent.episode` that select tasks and patients. Raises UserError.
    """
    from fhir_server.processes.http import serving

    try:
        listener = socket.create_server((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host}:{port}: {error}; choose another port") from None
    address = f"http://{host}:{listener.getsockname()[1]}"
    with listener, HttpEpisodes(benchmark, address, options) as episodes, serving(episodes.app, listener):
        yield episodes


class HttpEpisodes(Closing):
    """Opens episodes below `address`, the http address (without a path) at which you serve `app`. A context manager.

    It takes the options of `serve_on`. Raises UserError.
    """

    def __init__(self, benchmark: FhirBenchmark[Any], address: str, options: Mapping[str, Any]) -> None:
        from fhir_server.app import create_app
        from fhir_server.episodes import Episodes

        if idle := sorted(set(options) - set(http_options(benchmark))):
            raise UserError(f"{idle[0]}: episodes over HTTP take {', '.join(http_options(benchmark))}")
        self.source = EpisodeSource.of(benchmark, options)
        self.protocol = benchmark.session_protocol(self.source.settings, "http")
        self._ehr = self.source.open_record(f"{address.rstrip('/')}/fhir")
        self._episodes = Episodes(self._ehr.server)
        self.app: App = create_app(self._episodes)

    def open(self, task: Any, *, key: str | None = None) -> HttpEpisode:
        """An episode of a task (or of its id) with a fresh overlay; `key` seeds the ids that the server creates.

        Raises UserError for an unknown task.
        """
        item = self.source.item(task)
        now = self.source.benchmark.now(self.source.settings)
        handling = self.source.settings.session_rules.handling or "strict"
        rewrite = partial(handled, handling=handling)
        refuse = partial(refusal, all_writes=self.all_writes)
        record = self._episodes.open(
            seed=key or f"{item.id}#1",
            now=now,
            refuse=refuse,
            rewrite=rewrite,
            amendment=item.change,
            chart=item.chart,
        )
        return HttpEpisode(item, record, self)

    @property
    def all_writes(self) -> bool:
        """Whether agents may make all writes of FHIR, not only creates."""
        return self.source.settings.carried_out == "execute"

    def changes(self, record: Record) -> list[Change]:
        """The state difference of an episode, ended or not."""
        return changes_of(self._episodes.replaced(record))

    def drop(self, record: Record) -> None:
        """Drop an episode's overlay; further requests to it get 404."""
        self._episodes.close(record.id)

    def close(self) -> None:
        """Drop all overlays."""
        self._episodes.close_all()
        self._ehr.close()


class HttpEpisode(Closing):
    """An open episode: pass on `prompt`, or `base` and `headers`; `finish` with the answers; then read the `verdict`.

    A context manager. The overlay is dropped at the end of the block or of the episode; the outcome stays available.
    """

    def __init__(self, item: FhirItem, record: Record, episodes: HttpEpisodes) -> None:
        self.task = item.task
        self._item = item
        self._record = record
        self._episodes = episodes
        self._end: End | None = None

    @property
    def base(self) -> str:
        """The private FHIR base."""
        return self._record.base

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every request needs: the token of the base."""
        return {"Authorization": f"Bearer {self._record.token}"}

    @property
    def prompt(self) -> str:
        """The first message: the base and its token, the context, the question, and how to end."""
        return self._prompt(self.base, self._record.token)

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._end is not None

    def finish(self, answers: list[Any] | str) -> None:
        """End with the answers, as a list or as the text of one. Raises SessionEndedError if it already ended."""
        text = answers if isinstance(answers, str) else json.dumps(answers, ensure_ascii=False)
        self.end(*_finished(text))

    def end(self, status: Status, message: str, answer: str | None = None) -> None:
        """End with the agent's last message. Raises SessionEndedError if it already ended."""
        if self._end is not None:
            raise SessionEndedError(f"the episode has ended ({self._end[0]})")
        self._end = (status, message, answer)
        self.close()

    def outcome(self) -> Outcome:
        """The outcome so far, in the format of the text protocol; `status` is None until the episode ends."""
        shown = self._episodes.source.settings.api_base.rstrip("/")
        private_base = re.compile(rf"https?://[^/\s\"]+/episodes/{self._record.id}/fhir")
        exchanges = [_ShownExchange(exchange, private_base, shown) for exchange in list(self._record.exchanges)]
        outcome = _outcome(self._prompt(shown, "…"), exchanges, self._end, self._episodes.protocol)
        if self._episodes.source.settings.session_rules.handling is not None:
            outcome.reads = [exchange.as_read for exchange in exchanges if exchange.read is not None]
        if self._episodes.all_writes:
            outcome.changes = self._episodes.changes(self._record)
        return outcome

    def verdict(self) -> Score:
        """The benchmark's verdict on the outcome so far."""
        return self._episodes.source.score(self._item, self.outcome())

    def close(self) -> None:
        """Drop the overlay."""
        self._episodes.drop(self._record)

    def _prompt(self, base: str, token: str) -> str:
        return self._episodes.protocol.first_message(base, self._item.context, self._item.question, token)


def http_options(benchmark: FhirBenchmark[Any]) -> list[str]:
    """The options of a benchmark's episodes that apply over HTTP."""
    return [option.name for option in options_of(benchmark.Settings, "episode") if option.name not in _ACTS]


@dataclass(frozen=True, slots=True)
class _ShownExchange:
    """An exchange as the transcript shows it: the private base, on any host, is replaced by the `shown` one."""

    exchange: Exchange
    base: re.Pattern[str]
    shown: str

    @property
    def body(self) -> str:
        return self.base.sub(self.shown, self.exchange.body.decode("utf-8", "replace"))

    @property
    def answer(self) -> str:
        return self.base.sub(self.shown, self.exchange.answer.decode("utf-8", "replace"))

    @property
    def read(self) -> str | None:
        """The URL of a read; for a search by POST, with the form as its query. None for a creation."""
        path, _, query = self.exchange.target.partition("?")
        if self.exchange.method in READS:
            return self.shown + self.exchange.target
        if not path.rstrip("/").endswith("/_search"):
            return None
        pairs = "&".join(part for part in (query, self.body) if part)
        return f"{self.shown}{path.rstrip('/').removesuffix('/_search')}?{pairs}"

    @property
    def as_read(self) -> Read:
        """A read with the ids in its reply."""
        exchange = self.exchange
        return read_of(str(self.read), exchange.sent, Reply(exchange.status, self.answer))


def outcome_of(exchanges: Sequence[Exchange], answers: str | None, shown: str) -> Outcome:
    """The outcome of an episode from its log; `shown` is its base, and `answers` is None if it is not finished."""
    base = re.compile(re.escape(shown))
    shown_exchanges = [_ShownExchange(exchange, base, shown) for exchange in exchanges]
    protocol = load_protocol("http").with_writes()
    return _outcome("", shown_exchanges, None if answers is None else _finished(answers), protocol)


def _finished(answers: str) -> End:
    return "completed", f"FINISH({answers})", answers


def _outcome(prompt: str, exchanges: Sequence[_ShownExchange], end: End | None, protocol: Protocol) -> Outcome:
    """The exchanges in the format of the text protocol."""
    outcome = Outcome(transcript=[Turn("user", prompt)])
    for exchange in exchanges:
        _add(outcome, exchange, protocol)
    if end is not None:
        outcome.status, message, outcome.answer = end
        outcome.transcript.append(Turn("agent", message))
    outcome.rounds = sum(turn.role == "agent" for turn in outcome.transcript)
    return outcome


def _add(outcome: Outcome, shown: _ShownExchange, protocol: Protocol) -> None:
    """Add an exchange to an outcome."""
    exchange = shown.exchange
    if shown.read is not None:
        outcome.transcript += [Turn("agent", f"GET {shown.read}"), Turn("user", shown.answer)]
        return
    path, _, query = exchange.target.partition("?")
    url = f"{shown.shown}/{path.strip('/')}"
    if exchange.method != "POST" or exchange.conditions or not is_type(path):
        stated = StatedWrite(exchange.method, url + (f"?{query}" if query else ""), shown.body, exchange.conditions)
        outcome.transcript += [Turn("agent", stated.action), Turn("user", _further_reply(shown, protocol))]
        return
    if exchange.stored:
        resource = exchange.stored[0].resource or {}
        outcome.writes.append(Write(url, resource))
        reply = fill(protocol.post_accepted, id=str(resource.get("id", "")))
    else:
        problem = f"HTTP status {exchange.status}. {diagnostics(Reply(exchange.status, shown.answer))}"
        outcome.writes.append(Write(url, refused=problem))
        reply = f"{protocol.post_invalid}: {problem}"
    outcome.transcript += [Turn("agent", f"POST {url}\n{_as_json(shown)}"), Turn("user", reply)]


def _further_reply(shown: _ShownExchange, protocol: Protocol) -> str:
    """The reply to a write that is not a plain creation."""
    method, reply = shown.exchange.method, Reply(shown.exchange.status, shown.answer)
    if reply.ok:
        return fill(protocol.write_done, method=method, status=str(reply.status), body=reply.text)
    return fill(protocol.write_refused, method=method, error=f"HTTP status {reply.status}. {diagnostics(reply)}")


def _as_json(shown: _ShownExchange) -> str:
    """The body as sent; if it is not JSON (but XML, for example), the stored resource."""
    try:
        json.loads(shown.body)
    except (ValueError, RecursionError):
        stored = shown.exchange.stored
        return json.dumps(stored[0].resource, ensure_ascii=False) if stored else shown.body
    return shown.body
