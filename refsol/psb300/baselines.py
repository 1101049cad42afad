"""Scores of agents that read nothing: `nop` does nothing, `constant` answers, `blind` answers or orders.

For each type, `constant` gives the answer that is right most often without a POST. `blind` does what is right most
often, out of what the task text allows: nothing, that answer, or the orders that the text spells out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from refsol.errors import FactsError
from refsol.history import Post
from refsol.psb300._facts import Facts
from refsol.psb300._reply import Reply
from refsol.psb300._rules import RuleName
from refsol.psb300._ruling import Ruling
from refsol.psb300.chart import ChartFault
from refsol.psb300.grade import PUBLISHED, Constants, TaskError, evaluate, judge, task_type

Behaviour = tuple[str, tuple[tuple[str, Mapping[str, Any]], ...]]
"""An answer's JSON text, and posts. A post is a resource type and its fields, without type, intent and subject."""

NOTHING: Behaviour = ("[]", ())


def baselines(
    tasks: Sequence[Mapping[str, Any]],
    facts: Facts,
    *,
    clock: datetime,
    rules: RuleName = "official",
    constants: Constants = PUBLISHED,
) -> dict[str, dict[str, bool]]:
    """Whether each task (by id) is right under `nop`, `constant` and `blind`. Ungradable tasks are left out."""
    groups = _groups(tasks, facts, clock, rules, constants)
    results: dict[str, dict[str, bool]] = {"nop": {}, "constant": {}, "blind": {}}
    for kind, group in groups.items():
        answers = [(answer, ()) for answer in _answers(ruling for _, ruling in group.values())]
        orders = [("[]", posts) for posts in _ORDERS.get(kind, ())]
        for name, choices in (("nop", []), ("constant", answers), ("blind", [*answers, *orders])):
            outcomes = [_outcomes(group, behaviour) for behaviour in (NOTHING, *choices)]
            best = max(outcomes, key=_right)
            results[name].update(best)
    return results


def constant_answers(
    tasks: Sequence[Mapping[str, Any]],
    facts: Facts,
    *,
    clock: datetime,
    rules: RuleName = "official",
    constants: Constants = PUBLISHED,
) -> dict[str, str]:
    """For each type, the answer of `constant` as JSON: the one that is right most often without a POST."""
    answers = {}
    for kind, group in _groups(tasks, facts, clock, rules, constants).items():
        choices = ["[]", *_answers(ruling for _, ruling in group.values())]
        right = {answer: _right(_outcomes(group, (answer, ()))) for answer in choices}
        answers[kind] = max(choices, key=right.__getitem__)
    return answers


def _groups(
    tasks: Sequence[Mapping[str, Any]], facts: Facts, clock: datetime, rules: RuleName, constants: Constants
) -> dict[str, dict[str, tuple[str, Ruling | None]]]:
    """By type and task id: the patient and the ruling. The ruling is None if the chart makes every reply wrong."""
    groups: dict[str, dict[str, tuple[str, Ruling | None]]] = {}
    for task in tasks:
        try:
            ruling = evaluate(task, facts, clock=clock, rules=rules, constants=constants)
        except ChartFault:
            ruling = None
        except (TaskError, FactsError):
            continue
        groups.setdefault(task_type(task), {})[str(task["id"])] = (str(task["eval_MRN"]), ruling)
    return groups


def _answers(rulings: Iterable[Ruling | None]) -> list[str]:
    """The most frequent accepted answer, as JSON. Empty if no answer is graded."""
    tally = Counter(json.dumps(answer) for ruling in rulings if ruling is not None for answer in ruling.accepted)
    return [answer for answer, _ in tally.most_common(1)]


def _outcomes(group: Mapping[str, tuple[str, Ruling | None]], behaviour: Behaviour) -> dict[str, bool]:
    answer, posts = behaviour
    return {
        task: ruling is not None and judge(ruling, _reply(patient, answer, posts)).correct is True
        for task, (patient, ruling) in group.items()
    }


def _right(outcomes: Mapping[str, bool]) -> int:
    return sum(outcomes.values())


def _reply(patient: str, answer: str, posts: Sequence[tuple[str, Mapping[str, Any]]]) -> Reply:
    subject = {"reference": f"Patient/{patient}"}
    sent = tuple(
        Post(kind, {"resourceType": kind, "status": "active", "intent": "order", "subject": subject, **fields})
        for kind, fields in posts
    )
    return Reply(answer, bool(sent), unanswered=False, accepted=sent)


def _service(code: str, **more: Any) -> tuple[str, Mapping[str, Any]]:
    return "ServiceRequest", {"code": {"coding": [{"code": code}]}, **more}


def _drug(text: str, status: str = "active") -> tuple[str, Mapping[str, Any]]:
    return "MedicationRequest", {"medicationCodeableConcept": {"text": text}, "status": status}


_CT = "74177"
_LABS = (_service("TSH"), _service("FT4"))
_ORDERS: dict[str, tuple[tuple[tuple[str, Mapping[str, Any]], ...], ...]] = {
    "task1": ((_service(_CT, reasonCode=[{"text": "Renal mass follow-up"}]),),),
    "task2": (
        (_drug("heparin 5000 units"),),
        (_drug("heparin", "stopped"),),
        (_drug("heparin 5000 units"), _drug("heparin", "stopped")),
    ),
    "task4": ((_service("NUR1373"),),),
    "task5": ((_service(_CT), _service("CON417")),),
    "task6": (_LABS, (_drug("levothyroxine 25 mcg"), *_LABS)),
    "task7": ((_service("445118002"), _drug("ondansetron", "stopped")), (_service("445118002"),)),
    "task8": ((_drug("naloxone nasal spray 4 mg"),),),
    "task9": ((_service("90686"),),),
    "task10": ((_service("91320", medicationCodeableConcept={"text": "COVID-19 vaccine"}),),),
}
"""By type, the orders that the task text spells out, so that they can be placed without reading the chart."""
