"""The patients of a hospital as candidates for tasks: for each patient and type, whether something is due, and why.

A patient is a candidate only if both rule sets agree and the reference agent is right by both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.evidence import branch_words
from refsol.clinical.faults import DataFault
from refsol.clinical.meanings import plain
from refsol.clinical.rulings import Ruling
from refsol.clinical.task_type import Solution, history_of
from refsol.psb300 import RULE_SETS, TYPES, Constants, Resources, chart_of, grade_item

_KINDS = ("Procedure", "Condition", "MedicationRequest", "ServiceRequest")
_CODES = ("HEARTRATE", "TSH", "FT4", "QTCINTERVAL")
_AFTER_READING = (timedelta(minutes=30), timedelta(hours=7), timedelta(hours=4))
"""The delays between a patient's last heart rate and the now of a task about heart rates."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A patient for a task of one type, with the task's now and the branch of the rules."""

    mrn: str
    now: datetime
    due: bool
    branch: str


class Charts:
    """The living patients of a hospital, with the resources that the rules read."""

    def __init__(self, lines: Iterable[str], now: datetime) -> None:
        self._now = now
        self._resources: list[dict[str, Any]] = []
        self.mrns: list[str] = []
        self._read(lines)
        self._facts = Resources(self._resources)

    def candidates(self, kind: str) -> list[Candidate]:
        """The candidates of a type."""
        return [one for mrn in self.mrns for now in self._moments(kind, mrn) for one in self._judged(kind, mrn, now)]

    def _read(self, lines: Iterable[str]) -> None:
        quoted = tuple(f'"{code}"' for code in _CODES)
        for line in lines:
            kind = line[17 : line.index('"', 17)]  # after {"resourceType":"
            if kind == "Patient":
                patient = json.loads(line)
                if "deceasedDateTime" not in patient:
                    self.mrns.append(patient["id"])
            elif kind in _KINDS or (kind == "Observation" and any(code in line for code in quoted)):
                self._resources.append(json.loads(line))

    def _moments(self, kind: str, mrn: str) -> Iterator[datetime]:
        if kind != "task3":
            yield self._now
            return
        readings = self._facts.search("Observation", patient=mrn, code="HEARTRATE")
        times = [datetime.fromisoformat(one["effectiveDateTime"]) for one in readings]
        if not times:
            return
        for after in _AFTER_READING:
            yield min(max(times) + after, self._now).replace(second=0, microsecond=0)

    def _judged(self, kind: str, mrn: str, now: datetime) -> Iterator[Candidate]:
        """The candidate, if both rule sets agree, and the reply that is right by `fair` is right by both."""
        task = {"id": f"{kind}_1", "eval_MRN": mrn, "context": f"It's {now.isoformat()} now."}
        constants = Constants(cut_off=None, default_now=now)
        official, fair = (chart_of(task, self._facts, rules, now, constants) for rules in RULE_SETS.values())
        try:
            ruling, due = TYPES[kind].ruled(official), TYPES[kind].ruled(fair)
        except DataFault:
            return
        right = Solution.of(due, fair)
        history = [*history_of(right.posts, constants.acknowledgement)]
        verdicts = [
            grade_item(task, history, right.answer, self._facts, clock=now, rules=rules, constants=constants).correct
            for rules in RULE_SETS
        ]
        if verdicts == [True, True] and ruling.branch == due.branch:
            yield Candidate(mrn, now, ruling.branch == "order", _branch(ruling, official, fair))


def _branch(ruling: Ruling, official: Chart, fair: Chart) -> str:
    """The branch that the rules take. Tasks are dealt in the order of these names."""
    if ruling.answers:
        return f"absent: {[one is None for one in plain(ruling.answers[0])]}"
    first, other = (next((one.used for one in chart.looked), ()) for chart in (official, fair))
    same = [*map(id, first)] == [*map(id, other)]
    return f"{branch_words(official)} ({ruling.branch}{'' if same else '; the last stored is another'})"
