"""The calls to judges and their results, keyed by what the judge saw."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from medagent.agents.calls import Call, CallJob
from medagent.agents.choice import AgentChoice, ModelChoice
from medagent.judging.judged import Judged, Verdict
from medagent.judging.panel import Panel
from medagent.judging.rows import ExchangeRow
from medagent.judging.rubric import P, Query, Rubric, Subject
from medagent.models.base import Message

# The settings of a judge that decide its replies; addresses, timeouts and retries do not.
_IDENTITY = {"name", "api", "temperature", "max_tokens", "extra"}


class Replies:
    """Replies by the digests of their calls. A repeated call replaces the earlier reply."""

    def __init__(self, replies: Iterable[tuple[str, str | None]] = ()) -> None:
        self._replies: dict[str, str | None] = {}
        self._reply_counts: dict[str, int] = {}
        for unit, reply in replies:
            self.add(unit, reply)

    def add(self, unit: str, reply: str | None) -> None:
        """Add the reply of a call by its key in the journal; None for a failed call."""
        key = unit.partition("#")[0]
        if reply is None:
            self._replies.setdefault(key, None)
        else:
            self._replies[key] = reply
            self._reply_counts[key] = self._reply_counts.get(key, 0) + 1

    def get(self, key: str) -> str | None:
        """The reply to a call; None if it was not made or failed."""
        return self._replies.get(key)

    def failed(self, key: str) -> bool:
        """Whether a call was made but did not get a reply."""
        return key in self._replies and self._replies[key] is None

    def next_key(self, key: str) -> str:
        """The key of a call in the journal. A call with a reply keeps its row, so a repetition gets a number."""
        replies = self._reply_counts.get(key, 0)
        return f"{key}#{replies + 1}" if replies else key


@dataclass(frozen=True, slots=True)
class Exchange:
    """A query, the key of its call, and the result."""

    query: Query
    key: str
    verdict: Verdict


class PanelCalls(Generic[P]):
    """The calls of a panel, or of one `judge` of it, with the replies so far."""

    def __init__(self, rubric: Rubric[P], panel: Panel[P], replies: Replies, judge: str | None = None) -> None:
        self.panel = panel
        self._replies = replies
        self._rubric = rubric
        self._rule = rubric.known_rule(panel.rule)
        judges = [settings for settings in panel.judges if judge in (None, settings.name)]
        self._judges = {judge.name: judge.model_dump_json(include=_IDENTITY) for judge in judges}

    def judged(self, subject: Subject) -> Judged:
        """The panel's judgement of an answer."""
        return Judged(
            {
                judge: tuple(exchange.verdict for exchange in exchanges)
                for judge, exchanges in self._exchanges(subject).items()
            }
        )

    def owed(self, subjects: Iterable[Subject], *, failed: bool = True) -> Iterator[Call]:
        """The calls without a label, each once: not made yet, unreadable and, with `failed`, failed ones."""
        seen: set[str] = set()
        for subject in subjects:
            if self.panel.covers(subject.unit):
                for judge, exchanges in self._exchanges(subject).items():
                    for exchange in exchanges:
                        if (
                            exchange.verdict.label is None
                            and (failed or not exchange.verdict.failed)
                            and exchange.key not in seen
                        ):
                            seen.add(exchange.key)
                            yield self._call(judge, exchange)

    def _call(self, judge: str, exchange: Exchange) -> Call:
        before = (Message("system", exchange.query.system),) if exchange.query.system else ()
        return Call(self._replies.next_key(exchange.key), exchange.query.text, judge, before=before)

    def _exchanges(self, subject: Subject) -> dict[str, list[Exchange]]:
        first = self._rubric.queries(subject, self.panel.prompt, {})
        return {judge: self._rounds(subject, first, identity) for judge, identity in self._judges.items()}

    def _rounds(self, subject: Subject, queries: Sequence[Query], identity: str) -> list[Exchange]:
        exchanges = [self._exchange(query, identity) for query in queries]
        for _ in range(self._rubric.rounds - 1):
            labels = {
                exchange.query.name: exchange.verdict.label
                for exchange in exchanges
                if exchange.verdict.label is not None
            }
            following = self._rubric.queries(subject, self.panel.prompt, labels)
            exchanges = [self._exchange(query, identity) for query in following]
        return exchanges

    def _exchange(self, query: Query, identity: str) -> Exchange:
        seen = f"{identity}\0{query.system}\0{query.text}"
        key = hashlib.sha256(seen.encode()).hexdigest()
        reply = self._replies.get(key)
        label = None if reply is None else self._rubric.verdict(reply, query.rule or self._rule)
        return Exchange(query, key, Verdict(reply, label, query.name, self._replies.failed(key)))


def call_job(panel: Panel[P], concurrency: int, batches: Path | None = None) -> CallJob[ExchangeRow]:
    """The job that calls the judges of a panel, through a batch API if `batches` names the file of its batches."""
    judges = {judge.name: AgentChoice(ModelChoice.of(judge)).batched(batches) for judge in panel.judges}
    return CallJob(judges, concurrency, ExchangeRow)


async def ask(rubric: Rubric[P], panel: Panel[P], subject: Subject) -> Judged:
    """Have one answer judged immediately, without a folder. Raises the errors of a judge's call."""
    replies = Replies()
    calls = PanelCalls(rubric, panel, replies)
    async with call_job(panel, 1).open() as worker:
        for _ in range(rubric.rounds + rubric.retries):
            for call in list(calls.owed([subject])):
                row = ExchangeRow.begin(call)
                await worker.run(call, row)
                replies.add(call.key, row.reply)
    return calls.judged(subject)
