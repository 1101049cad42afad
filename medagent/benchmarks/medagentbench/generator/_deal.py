"""Deals tasks from charts, so that every branch has its share in v2 and in v1 (the first third of each type).

No patient matches in a sixth of task1. In a sixth of task4 and task6 there is no reading, and in a sixth of task9 no
low level. A quarter of task5 and half of task10 need no order. In a tenth of task7 there is no reading.

Each type is dealt several times. The deal is used in which the most frequent right answer or order is rarest. As a
result, doing nothing is right in at most a tenth of the tasks, and the best agent that reads nothing in about a fifth.
The rules of refsol tell the branch of a chart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.people import FAMILIES, FEMALE, MALE
from medagent.benchmarks.medagentbench.generator._charts import Chart, Charts
from medagent.benchmarks.medagentbench.generator._phrases import (
    NOT_FOUND,
    contexts,
    instruction,
    wordings,
    written_date,
)
from medagent.benchmarks.medagentbench.tasks.manifest import Split
from medagent.core.errors import UserError
from refsol.medagentbench.constants import Constants
from refsol.medagentbench.grade import evaluate_unanswered
from refsol.medagentbench.tasks import Evaluation

EDGE = timedelta(hours=1)
"""A chart is an edge case if its last reading is this near to the start of the window."""


@dataclass(frozen=True, slots=True)
class Deal:
    """How a type is dealt: the rarer branches, their share of the tasks (1, 6 is a sixth), and the other branches."""

    rarer: tuple[str, ...]
    share: tuple[int, int]
    others: tuple[str, ...]

    def order(self, dice: Dice, count: int) -> list[str]:
        """The branch of each task. The rarer branches have their share in the first third and in the rest."""
        part, whole = self.share
        common = rare = 0
        out = []
        for place in range(count):
            if (place + 1) * part // whole > place * part // whole:
                out.append(self.rarer[rare % len(self.rarer)])
                rare += 1
            else:
                out.append(self.others[common % len(self.others)])
                common += 1
        first = count // 3
        return dice.shuffled(out[:first]) + dice.shuffled(out[first:])


DEALS = {
    "task1": Deal(
        ("same name", "unknown", "same birth date"), (1, 6), ("found", "found", "namesake", "found", "found", "found")
    ),
    "task2": Deal((), (0, 1), ("on", "before", "after")),
    "task3": Deal((), (0, 1), ("any",)),
    "task4": Deal(("none",), (1, 6), ("some",)),
    "task5": Deal(("normal", "none"), (1, 4), ("severe", "moderate", "mild")),
    "task6": Deal(("none",), (1, 6), ("some",)),
    "task7": Deal(("none",), (1, 10), ("some",)),
    "task8": Deal((), (0, 1), ("any",)),
    "task9": Deal(("normal", "normal", "none"), (1, 6), ("low",)),
    "task10": Deal(("recent",), (1, 2), ("old", "none", "old")),
}


TRIES = 24
"""How often a type is dealt, to choose the deal in which the most frequent right behaviour is rarest."""


@dataclass(frozen=True, slots=True)
class Hand:
    """A chart dealt to a branch, and the number of its wording."""

    branch: str
    chart: Chart
    wording: int


class Dealer:
    """Deals the tasks of one set."""

    def __init__(self, dice: Dice, constants: Constants, charts: Charts, split: Split | None) -> None:
        self._dice, self._constants, self._facts, self._split = dice, constants, charts, split
        self._charts = charts.living()
        self._contexts = contexts(constants)

    def tasks(self, per_type: int) -> Iterator[dict[str, Any]]:
        """`per_type` tasks of each type. Raises UserError if the hospital has too few patients for them."""
        yield from self._look_ups(per_type)
        for kind in list(DEALS)[1:]:
            for place, hand in enumerate(self._varied(kind, self._branches(kind), per_type)):
                yield self._task(kind, place, hand.wording, {"mrn": hand.chart.mrn}, eval_MRN=hand.chart.mrn)

    def _task(self, kind: str, place: int, wording: int, words: dict[str, str], **rest: Any) -> dict[str, Any]:
        templates = wordings(kind, self._split)
        text = instruction(templates[wording % len(templates)], self._constants, place, words)
        return {"id": f"{kind}_{place + 1}", "instruction": text, "context": self._contexts[kind], **rest}

    def _varied(self, kind: str, branches: dict[str, list[Chart]], count: int) -> list[Hand]:
        """The best of several deals: the most frequent right behaviour is rarest, in v1 and in v2."""
        behaviours: dict[str, Hashable] = {}

        def frequent(hands: list[Hand]) -> int:
            for hand in hands:
                if hand.chart.mrn not in behaviours:
                    behaviours[hand.chart.mrn] = self._behaviour(kind, hand)
            done = [behaviours[hand.chart.mrn] for hand in hands]
            first = Counter(done[: count // 3]).most_common(1)
            return Counter(done).most_common(1)[0][1] + 3 * (first[0][1] if first else 0)

        if kind in ("task3", "task8"):
            return list(self._dealt(kind, branches, count))
        return min((list(self._dealt(kind, branches, count)) for _ in range(TRIES)), key=frequent)

    def _behaviour(self, kind: str, hand: Hand) -> Hashable:
        """The right behaviour for a chart: the answer, or the order if only the order is graded."""
        evaluation = self._evaluated(kind, hand.chart)
        if kind == "task5":
            return "nothing" if hand.branch in ("normal", "none") else hand.branch
        if kind == "task9" and evaluation.branch != "order":
            return "nothing"
        if kind == "task10":
            return evaluation.branch
        return str(evaluation.because.facts[0].value if kind == "task9" else evaluation.accepted)

    def _dealt(self, kind: str, branches: dict[str, list[Chart]], count: int) -> Iterator[Hand]:
        """One chart for each task, edge cases first chosen.

        In a train split a patient may occur several times, each time with another wording.
        """
        order = DEALS[kind].order(self._dice, count)
        hands: dict[str, Iterator[Hand]] = {}
        for branch in dict.fromkeys(order):
            fitting = self._dice.shuffled(branches.get(branch, []))
            needed = order.count(branch)
            turns = len(wordings(kind, self._split)) if self._split == "train" else 1
            if needed > len(fitting) * turns:
                raise UserError(
                    f"{kind} needs {needed} patients in the branch {branch!r}, but the hospital has {len(fitting)} "
                    f"(each usable for {turns} wordings): raise --patients or lower --per-type"
                )
            fitting.sort(key=lambda chart: not self._at_edge(kind, chart))
            chosen = self._dice.shuffled(fitting[:needed])
            hands[branch] = iter(
                [Hand(branch, chart, seat + turn) for turn in range(turns) for seat, chart in enumerate(chosen)]
            )
        return (next(hands[branch]) for branch in order)

    def _branches(self, kind: str) -> dict[str, list[Chart]]:
        """The charts in each branch of a type."""
        of: Callable[[Chart], str] = {"task2": self._birthday, "task3": _any, "task8": _any}.get(
            kind, lambda chart: self._ruled(kind, chart)
        )
        charts: dict[str, list[Chart]] = {}
        for chart in self._charts:
            charts.setdefault(of(chart), []).append(chart)
        return charts

    def _ruled(self, kind: str, chart: Chart) -> str:
        """The branch of a chart by the rules."""
        evaluation = self._evaluated(kind, chart)
        if evaluation.because.facts[0].value is None:
            return "none"
        if kind == "task5":
            value = float(evaluation.because.facts[0].value)
            names = ("severe", "moderate", "mild")
            limits = [level for level, _ in self._constants.magnesium_doses]
            below = [name for name, limit in zip(names, limits, strict=True) if value < limit]
            return "normal" if evaluation.branch == "no order" else (*below, "mild")[0]
        if kind == "task9":
            return "low" if evaluation.branch == "order" else "normal"
        if kind == "task10":
            return "old" if evaluation.branch == "order" else "recent"
        return "some"

    def _evaluated(self, kind: str, chart: Chart) -> Evaluation:
        evaluation = evaluate_unanswered({"id": f"{kind}_1", "eval_MRN": chart.mrn}, self._facts, self._constants)
        if evaluation is None:
            raise ValueError(f"the rules of {kind} give no verdict on the chart of {chart.mrn}")
        return evaluation

    def _birthday(self, chart: Chart) -> str:
        today = self._constants.now.date()
        day, this_day = (chart.birth.month, chart.birth.day), (today.month, today.day)
        return "on" if day == this_day else "before" if day < this_day else "after"

    def _at_edge(self, kind: str, chart: Chart) -> bool:
        """Whether the type's last reading is near the start of its window, or exactly at a threshold."""
        constants = self._constants
        start, doses = constants.window_start, {level for level, _ in constants.magnesium_doses}
        lab, since, levels = {
            "task4": (constants.magnesium, start, doses),
            "task5": (constants.magnesium, start, doses),
            "task6": (constants.glucose, start, set[float]()),
            "task9": (constants.potassium, None, {constants.potassium_low}),
            "task10": (constants.a1c, constants.a1c_start, set[float]()),
        }.get(kind, (None, None, set[float]()))
        if lab is None:
            return False
        last = max(chart.readings.get(lab.code, ()), key=lambda reading: str(reading.time), default=None)
        if last is None:
            return False
        timed = since is not None and abs(datetime.fromisoformat(str(last.time)) - since) < EDGE
        return timed or last.value in levels

    def _look_ups(self, count: int) -> Iterator[dict[str, Any]]:
        """The tasks of task1: look up a patient by name and birth date. In a sixth of them no patient matches."""
        known = self._facts.names
        namesakes = {chart.mrn for chart in self._charts if _has_namesake(chart, self._charts)}
        pools = dict.fromkeys(DEALS["task1"].rarer, self._charts)
        pools["namesake"] = [chart for chart in self._charts if chart.mrn in namesakes]
        pools["found"] = [chart for chart in self._charts if chart.mrn not in namesakes]
        for place, hand in enumerate(self._dealt("task1", pools, count)):
            chart = hand.chart
            person = (chart.given, chart.family, chart.birth)
            while hand.branch in DEALS["task1"].rarer and person in known:
                person = _near_miss(self._dice, hand.branch, chart)
            words = {"given": person[0], "family": person[1], "birth": written_date(person[2], place)}
            answer = {"sol": [chart.mrn], "eval_MRN": chart.mrn} if person in known else {"sol": [NOT_FOUND]}
            yield self._task("task1", place, hand.wording, words, **answer)


def _any(_: Chart) -> str:
    return "any"


def _has_namesake(chart: Chart, charts: Sequence[Chart]) -> bool:
    return any(
        other.mrn != chart.mrn
        and other.family == chart.family
        and (other.given == chart.given or other.birth == chart.birth)
        for other in charts
    )


def _near_miss(dice: Dice, branch: str, chart: Chart) -> tuple[str, str, date]:
    """A name and birth date similar to the patient's, or (`unknown`) unrelated ones."""
    first, family, birth = chart.given, chart.family, chart.birth
    if branch in ("same name", "unknown"):
        birth += timedelta(days=dice.pick((-365, -30, -10, -1, 1, 9, 31, 365)))
    if branch == "same birth date":
        first = dice.pick([name for name in (FEMALE if first in FEMALE else MALE) if name != first])
    if branch == "unknown":
        first, family = dice.pick(FEMALE + MALE), dice.pick(FAMILIES)
    return first, family, birth
