"""The judgements in a run's folder: who judged with what prompt, what is owed, and what was said of each unit.

`judgings.jsonl` has a panel per line, the latest last. `judgements.jsonl` is a journal of the run engine. Its units are
digests of the judge and the messages that it was sent. So a corrected gold answer or another prompt asks again exactly
where it changes something, and nothing depends on a row's position.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from pydantic import ValidationError

from medagent.agents.calls import Call
from medagent.core.errors import UserError
from medagent.engine.files import write_changed
from medagent.engine.journal import last_rows
from medagent.engine.journals import Run
from medagent.judging.judged import Judged, Verdict
from medagent.judging.panel import Panel, panel_type
from medagent.judging.rows import JUDGEMENTS, ExchangeRow
from medagent.judging.rubric import JudgedBenchmark, P, Query, Rubric, Subject
from medagent.models.base import Message

PANELS = "judgings.jsonl"

# The settings of a judge that decide its replies; addresses and patience do not.
_IDENTITY = {"name", "api", "temperature", "max_tokens", "extra"}


class Judging(Generic[P]):
    """The panels and judgements of a folder; a missing file is empty. Raises UserError naming a damaged line."""

    def __init__(self, folder: Path, rubric: Rubric[P]) -> None:
        self.folder = folder
        self.rubric = rubric
        self._path = folder / PANELS

    def panels(self) -> list[Panel[P]]:
        """All panels, the latest last. A last line without its newline was cut off by a crash, or is being written."""
        if not self._path.exists():
            return []
        kind, panels = panel_type(self.rubric), []
        for number, line in enumerate(self._path.read_bytes().splitlines(keepends=True), 1):
            if line.endswith(b"\n"):
                try:
                    panels.append(kind.model_validate_json(line))
                except ValidationError:
                    raise UserError(f"{self._path}:{number}: is damaged; repair or remove that line") from None
        return panels

    def judges(self) -> list[str]:
        """The names of all judges of all panels."""
        return sorted({name for panel in self.panels() for name in panel.names})

    def add(self, panel: Panel[P]) -> None:
        """Make a panel the latest one, unless it is that already."""
        panels = self.panels()
        if panels[-1:] != [panel.anonymous()]:
            self._write([*panels, panel.anonymous()])

    def drop(self, judge: str) -> None:
        """Remove every panel that has a judge; earlier panels decide again. Its calls stay in the journal.

        Raises UserError if no panel has the judge, or if no panel would be left.
        """
        panels = self.panels()
        left = [panel for panel in panels if judge not in panel.names]
        if len(left) == len(panels):
            raise UserError(f"{self.folder}: has no judge {judge}; it has {', '.join(self.judges()) or 'none'}")
        if not left:
            raise UserError(f"{self.folder}: every panel has {judge}; judge again with another one before you drop it")
        self._write(left)

    def owed(self, panel: Panel[P], subjects: Iterable[Subject], *, failed: bool = True) -> list[Call]:
        """The calls of a panel without a label, each once: not made yet, unreadable, and `failed` ones if wanted."""
        work = _PanelAtWork(self.rubric, panel, _Replies(self.folder))
        calls: dict[str, Call] = {}
        for subject in subjects:
            for judge, exchanges in work.exchanges(subject).items():
                for query, key, verdict in exchanges:
                    if verdict.label is None and (failed or not verdict.failed) and key not in calls:
                        before = (Message("system", query.system),) if query.system else ()
                        calls[key] = Call(work.replies.next_key(key), query.text, judge, before=before)
        return list(calls.values())

    def judged(self, subjects: Iterable[Subject], judge: str | None = None) -> Iterator[Decision[P]]:
        """What decides about each answer; with `judge`, what that one said. Units that no panel covers are left out.

        Of several panels, the latest one decides whose judges all replied about the unit. Without such a panel, it is
        the one that comes nearest: its labels decide already, or it has a reply at all.
        """
        replies = _Replies(self.folder)
        work = [
            _PanelAtWork(self.rubric, panel, replies, judge)
            for panel in reversed(self.panels())
            if judge is None or judge in panel.names
        ]
        for subject in subjects:
            decisions = (one.decision(subject) for one in work if one.panel.covers(subject.unit))
            best = max(decisions, key=lambda one: one.rank, default=None)
            if best is not None:
                yield best

    def _write(self, panels: Sequence[Panel[P]]) -> None:
        write_changed(self._path, "".join(panel.model_dump_json() + "\n" for panel in panels))


def judgements_of(run: Run, benchmark: JudgedBenchmark) -> dict[str, Judged]:
    """What the judges of a run said, by unit; units that no panel covers are left out. Raises UserError."""
    judging = Judging(run.path, benchmark.rubric)
    return {one.subject.unit: one.judged for one in judging.judged(benchmark.subjects(run))}


@dataclass(frozen=True, slots=True)
class Decision(Generic[P]):
    """What a panel said of one answer."""

    subject: Subject
    panel: Panel[P]
    judged: Judged

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """How much of it is there, for choosing between panels."""
        replied = any(reply is not None for reply in self.judged.replies.values())
        return self.judged.state != "owed", self.judged.complete, replied


class _Replies:
    """The replies in a folder's journal by the digests of their calls; a call that is made again replaces the reply."""

    def __init__(self, folder: Path) -> None:
        self._replies: dict[str, str | None] = {}
        self._made: dict[str, int] = {}
        path = folder / JUDGEMENTS
        for row in last_rows(path, ExchangeRow) if path.exists() else ():
            if row.status == "cancelled":
                continue
            key = row.unit.partition("#")[0]
            self._replies.setdefault(key, None)
            if row.reply is not None:
                self._replies[key] = row.reply
                self._made[key] = self._made.get(key, 0) + 1

    def get(self, key: str) -> str | None:
        """The reply to a call; None if it was not made or failed."""
        return self._replies.get(key)

    def failed(self, key: str) -> bool:
        """Whether a call was made, and has no reply."""
        return key in self._replies and self._replies[key] is None

    def next_key(self, key: str) -> str:
        """The key of the call in the journal, where a call with a reply keeps its row."""
        made = self._made.get(key, 0)
        return f"{key}#{made + 1}" if made else key


class _PanelAtWork(Generic[P]):
    """A panel and the replies to it."""

    def __init__(self, rubric: Rubric[P], panel: Panel[P], replies: _Replies, judge: str | None = None) -> None:
        self.panel = panel
        self.replies = replies
        self._rubric = rubric
        self._rule = panel.rule or rubric.rules[0]
        judges = [one for one in panel.judges if judge in (None, one.name)]
        self._judges = {one.name: one.model_dump_json(include=_IDENTITY) for one in judges}

    def exchanges(self, subject: Subject) -> dict[str, list[tuple[Query, str, Verdict]]]:
        """What each judge is asked about an answer, with the digest of the call and what came of it."""
        if not self.panel.covers(subject.unit):
            return {}
        first = self._rubric.queries(subject, self.panel.prompt, {})
        return {judge: self._exchanges(subject, first, identity) for judge, identity in self._judges.items()}

    def decision(self, subject: Subject) -> Decision[P]:
        """What the judges said of an answer."""
        said = {judge: tuple(one[2] for one in made) for judge, made in self.exchanges(subject).items()}
        return Decision(subject, self.panel, Judged(said))

    def _exchanges(self, subject: Subject, queries: Sequence[Query], identity: str) -> list[tuple[Query, str, Verdict]]:
        made = [self._exchange(query, identity) for query in queries]
        for _ in range(self._rubric.rounds - 1):
            labels = {query.name: verdict.label for query, _, verdict in made if verdict.label is not None}
            following = self._rubric.queries(subject, self.panel.prompt, labels)
            made = [self._exchange(query, identity) for query in following]
        return made

    def _exchange(self, query: Query, identity: str) -> tuple[Query, str, Verdict]:
        key = hashlib.sha256(json.dumps([identity, query.system, query.text]).encode()).hexdigest()
        reply = self.replies.get(key)
        label = None if reply is None else self._rubric.read(reply, query.rule or self._rule)
        return query, key, Verdict(reply, label, query.name, self.replies.failed(key))
