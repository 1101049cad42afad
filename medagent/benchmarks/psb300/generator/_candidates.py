"""The patients of a hospital as candidates for tasks: for each patient and type, whether something is due, and why.

A patient is a candidate only if both rule sets agree and the reference agent is right by both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from medagent.benchmarks.psb300.agents.decisions import decide
from refsol.psb300 import ChartFacts, ChartFault, Constants, Ruling, evaluate, grade_item
from refsol.psb300.grade import SEARCHES

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
        self._facts = ChartFacts(self._resources)

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
        readings = self._facts.search("Observation", mrn, "HEARTRATE")
        times = [datetime.fromisoformat(one["effectiveDateTime"]) for one in readings]
        if not times:
            return
        for after in _AFTER_READING:
            yield min(max(times) + after, self._now).replace(second=0, microsecond=0)

    def _judged(self, kind: str, mrn: str, now: datetime) -> Iterator[Candidate]:
        """The candidate, if both rule sets agree on the chart and the reference agent is right by both."""
        task = {"id": f"{kind}_1", "eval_MRN": mrn, "context": f"It's {now.isoformat()} now."}
        constants = Constants(cut_off=None, default_now=now)
        results = [list(map(dict, self._facts.search(s.kind, mrn, s.code, s.status))) for s in SEARCHES[kind]]
        try:
            official = evaluate(task, self._facts, clock=now, rules="official", constants=constants)
            fair = evaluate(task, self._facts, clock=now, rules="fair", constants=constants)
            answers, orders = decide(kind, now, results)
        except (ChartFault, KeyError, TypeError, ValueError):
            return
        history = _history(mrn, answers, orders)
        result = json.dumps(answers)
        verdicts = [
            grade_item(task, history, result, self._facts, clock=now, rules=rules, constants=constants).correct
            for rules in ("official", "fair")
        ]
        if verdicts == [True, True] and official.branch == fair.branch:
            yield Candidate(mrn, now, official.branch == "order", _branch(official, fair))


def _history(mrn: str, answers: Sequence[Any], orders: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The messages of an agent that places these orders and gives these answers."""
    fixed = {"status": "active", "intent": "order", "subject": {"reference": f"Patient/{mrn}"}}
    messages = []
    for order in orders:
        post = f"POST http://localhost:8080/fhir/{order['resourceType']}\n{json.dumps({**fixed, **order})}"
        messages += [{"role": "agent", "content": post}, {"role": "user", "content": "POST request accepted"}]
    return [*messages, {"role": "agent", "content": f"FINISH({json.dumps(answers)})"}]


def _branch(official: Ruling, fair: Ruling) -> str:
    """A name for the branch that the rules take: their conclusion, and the roles of the deciding facts.

    Tasks are dealt in the order of these names, so a changed sentence or role in refsol.psb300 changes the data sets.
    """
    if official.accepted:
        absent = [mean is None for mean in official.accepted[0]]
        return f"absent: {absent}"
    roles = sorted({fact.role for fact in official.because.facts})
    conclusion = re.split(r";|→", official.because.sentence)[-1].strip()
    readings = min(len(official.because.facts), 2) if "decides" in roles else 0
    other = official.evidence.resources[:1] != fair.evidence.resources[:1]
    return f"{conclusion} ({', '.join(roles)}; {readings}{'; the last stored is another' if other else ''})"
