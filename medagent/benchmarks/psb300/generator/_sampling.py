"""Samples the tasks of psb-300: half with something due. Only patients on whom both rule sets agree take part."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.clinical.sampling import HALF, Candidate, HospitalCharts, Share, candidate, numbered
from medagent.benchmarks.clinical.tasks import Task
from refsol.clinical.chart import Chart
from refsol.clinical.task_type import Solution
from refsol.errors import DataFault
from refsol.psb300 import RULE_SETS, TYPES, RuleConstants, chart_of

_FILE = Path(__file__).with_name("wording.toml")
_KINDS = ("Procedure", "Condition", "MedicationRequest", "ServiceRequest")
_CODES = ("HEARTRATE", "TSH", "FT4", "QTCINTERVAL")
_AFTER_READING = (timedelta(minutes=30), timedelta(hours=7), timedelta(hours=4), timedelta(hours=13))
"""The delays between a patient's last heart rate and the now of a task about heart rates."""
SCARCE: Share = (1, 10)
"""The share of heart-rate tasks without a reading. It is not more, because a constant answer is right in these."""


@cache
def wording() -> dict[str, Any]:
    """The context and the instructions of each type."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def hospital_of(lines: Iterable[str]) -> HospitalCharts:
    """The patients of a hospital and the resources that the rules read."""
    kinds = [f'"resourceType":"{kind}"' for kind in _KINDS]
    return HospitalCharts.read(lines, [*kinds, *(f'"{code}"' for code in _CODES)])


def tasks(hospital: HospitalCharts, now: datetime, rng: SeededRandom, per_type: int) -> Iterator[Task]:
    """`per_type` tasks of each type. Raises UserError if the hospital contains too few patients for them."""
    for kind in TYPES:
        words = wording()[kind]
        share = SCARCE if kind == "task3" else HALF
        patients, texts = candidates(kind, hospital, now), words["instructions"]
        for name, person, number in numbered(kind, patients, share, per_type, len(texts), rng):
            yield Task(
                id=name,
                type=kind,
                patient=person.mrn,
                text=texts[number].replace("{mrn}", person.mrn),
                context=f"It's {person.now.isoformat()} now. {words['context']}",
            )


def candidates(kind: str, hospital: HospitalCharts, now: datetime) -> Iterator[Candidate]:
    """The candidates of a type."""
    for patient in hospital.living:
        for moment in _moments(kind, patient["id"], hospital, now):
            yield from _judged(kind, patient["id"], hospital, moment)


def _moments(kind: str, mrn: str, hospital: HospitalCharts, now: datetime) -> Iterator[datetime]:
    if kind != "task3":
        yield now
        return
    readings = hospital.resources.search("Observation", patient=mrn, code="HEARTRATE")
    times = [datetime.fromisoformat(reading["effectiveDateTime"]) for reading in readings]
    for after in _AFTER_READING if times else ():
        yield min(max(times) + after, now).replace(second=0, microsecond=0)


def _judged(kind: str, mrn: str, hospital: HospitalCharts, now: datetime) -> Iterator[Candidate]:
    """The candidate, if both rule sets agree, and the reply that is right by `fair` is right by both."""
    task = {"id": f"{kind}_1", "eval_MRN": mrn, "context": f"It's {now.isoformat()} now."}
    constants, facts = RuleConstants(cut_off=None, default_now=now), hospital.resources
    official, fair = (chart_of(task, facts, rules, now, constants) for rules in RULE_SETS.values())
    try:
        sampled, due = candidate(TYPES[kind], official), TYPES[kind].ruled(fair)
    except DataFault:
        return
    if sampled is None:
        return
    right = Solution.of(due, fair)
    verdicts = [TYPES[kind].judge(chart, right.reply).correct for chart in (official, fair)]
    agree = due.branch == "query" or sampled.rare == (due.branch == "no order")
    if verdicts == [True, True] and agree:
        yield replace(sampled, branch=_branch(sampled, right.answer, official, fair))


def _branch(candidate: Candidate, answer: list[Any], official: Chart, fair: Chart) -> str:
    """The branch that the rules take; for an answer, which of its values are absent."""
    if answer:
        return f"absent: {[value is None for value in answer]}"
    first, second = (next((searched.used for searched in chart.searched), ()) for chart in (official, fair))
    same = [*map(id, first)] == [*map(id, second)]
    return f"{candidate.branch}{'' if same else '; the last stored is another'}"
