"""A panel's judgement of one unit: the labels that a grader reads."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["judged", "unreadable", "failed", "owed"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judge's reply to one query, and the label read from it.

    `reply` is None if there is none: the call was not made yet, or failed. `label` is None if the reply is missing or
    cannot be read. `query` is the query's name; a benchmark with one query per unit leaves it empty.
    """

    reply: str | None = None
    label: str | None = None
    query: str = ""
    failed: bool = False
    """Whether the call was made but failed."""

    @property
    def state(self) -> State:
        """`judged` with a label, `unreadable` with only a reply, `failed` if the call failed, otherwise `owed`."""
        if self.label is not None:
            return "judged"
        if self.reply is not None:
            return "unreadable"
        return "failed" if self.failed else "owed"


@dataclass(frozen=True, slots=True)
class Judged:
    """All verdicts of one panel on one unit, by judge, in the order of the queries.

    If queries depend on earlier labels, there are as many verdicts as the labels required. A judge without a verdict
    was not called, because nothing in the unit needs a judge.
    """

    verdicts: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str | None]:
        """Each judge's label for its last query; None if it is unreadable or owed."""
        return {judge: verdicts[-1].label for judge, verdicts in self.verdicts.items() if verdicts}

    @property
    def replies(self) -> dict[str, str | None]:
        """Each judge's reply to its last query; None if it is owed."""
        return {judge: verdicts[-1].reply for judge, verdicts in self.verdicts.items() if verdicts}

    def of(self, query: str) -> dict[str, Verdict]:
        """Each judge's verdict on one query, if it was asked."""
        verdicts = [(judge, verdict) for judge, of_judge in self.verdicts.items() for verdict in of_judge]
        return {judge: verdict for judge, verdict in verdicts if verdict.query == query}

    @property
    def votes(self) -> list[tuple[str, bool | None, str, str]]:
        """Each judge's labels and replies, for people. Only the benchmark knows which label is for the answer."""
        votes: list[tuple[str, bool | None, str, str]] = []
        for judge, verdicts in self.verdicts.items():
            for verdict in verdicts:
                label = verdict.label or verdict.state
                votes.append(
                    (judge, None, f"{verdict.query}: {label}" if verdict.query else label, verdict.reply or "")
                )
        return votes

    @property
    def made(self) -> bool:
        """Whether every call was made, including those that failed."""
        return all(
            verdict.reply is not None or verdict.failed for verdicts in self.verdicts.values() for verdict in verdicts
        )

    @property
    def majority(self) -> str | None:
        """The label of more than half of all judges, counting those without a label; None if there is none."""
        votes = Counter(label for label in self.labels.values() if label is not None)
        return next((label for label, count in votes.items() if 2 * count > len(self.labels)), None)

    @property
    def state(self) -> State:
        """`judged` with all labels, else `owed` if a call is missing, `failed` if one failed, or `unreadable`."""
        states = {verdict.state for verdicts in self.verdicts.values() for verdict in verdicts}
        if "owed" in states:
            return "owed"
        if states == {"failed"}:
            return "failed"
        return "judged" if states <= {"judged"} else "unreadable"

    @property
    def complete(self) -> bool:
        """Whether the unit can be scored: all labels exist, or the missing ones cannot change the majority.

        A unit that is not complete is unscored and owed, never wrong.
        """
        return self.state == "judged" or self.majority is not None

    @property
    def digest(self) -> str:
        """SHA-256 of all replies and labels, which shows whether a stored score is based on them."""
        replies = {
            judge: [(verdict.query, verdict.reply, verdict.label) for verdict in each]
            for judge, each in self.verdicts.items()
        }
        return hashlib.sha256(json.dumps(replies, sort_keys=True).encode()).hexdigest()
