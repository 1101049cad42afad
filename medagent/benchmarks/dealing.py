"""Deals the tasks of a set from the charts of a hospital. It is the same for all benchmarks with task types.

The rule of a type runs on every living patient. The rarer outcome (no order is due, or a reading is missing) gets its
share, both in the first third of the tasks and in the rest. Within each outcome, the branches of the rule take turns,
and charts at an edge come first. A type is dealt several times; the deal is used in which the most frequent right
behaviour is rarest. Wordings are dealt without regard to branches, so that a text does not tell what is right.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from fhir_server.synthetic.dice import Dice
from medagent.core.errors import UserError
from refsol.clinical.chart import Chart
from refsol.clinical.evidence import branch_words, is_edge
from refsol.clinical.sources import Resources
from refsol.clinical.task_type import Solution, TaskType
from refsol.errors import DataFault

Share = tuple[int, int]
"""The share of the rarer outcome: (1, 6) is a sixth."""
HALF: Share = (1, 2)
_NOBODY = {True: "with nothing due or measured", False: "with something due or measured"}
"""What to call the patients of an outcome if there are none."""
TRIES = 24
"""How often a type is dealt, to choose the deal in which the most frequent right behaviour is rarest."""


class Hospital(NamedTuple):
    """The resources of a hospital that rules read, and its Patients as JSON. `living` are those that did not die."""

    resources: Resources
    patients: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, lines: Iterable[str], marks: Sequence[str]) -> Hospital:
        """Read the lines of a hospital: all Patients, and the other lines that contain one of these texts."""
        marks = ('"resourceType":"Patient"', *marks)
        read = [json.loads(line) for line in lines if any(mark in line for mark in marks)]
        patients = [one for one in read if one["resourceType"] == "Patient"]
        return cls(Resources(read), patients)

    @property
    def living(self) -> list[Mapping[str, Any]]:
        """The Patients that tasks may be about."""
        return [one for one in self.patients if "deceasedDateTime" not in one and not one.get("deceasedBoolean")]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A patient for a task: the branch of the rule, whether it belongs to the rarer outcome, and the right behaviour.

    `fields` are further fields of the task, `words` further words of its text.
    """

    mrn: str
    now: datetime
    branch: str
    rare: bool
    right: str
    edge: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


def candidate(kind: TaskType, chart: Chart) -> Candidate | None:
    """A patient as a candidate for a type; None if the chart allows no ruling."""
    try:
        ruling = kind.ruled(chart)
    except DataFault:
        return None
    solution = Solution.of(ruling, chart)
    orders = [] if ruling.branch == "no order" else [body for _, body in solution.posts]
    answer = [] if ruling.branch == "order" else solution.answer
    right = json.dumps([answer, orders]).replace(chart.patient, "{mrn}")
    absent = ruling.branch == "query" and any(not look.used for look in chart.looked)
    rare = absent or ruling.branch == "no order"
    return Candidate(chart.patient, chart.now, branch_words(chart), rare, right, is_edge(chart))


class Dealt(NamedTuple):
    """The tasks of a type in their order, what is missing, and the number of candidates per branch."""

    chosen: Sequence[Candidate]
    missing: Sequence[str]
    branches: Mapping[str, int]


def deal(candidates: Sequence[Candidate], share: Share, count: int, dice: Dice, turns: int = 1) -> Dealt:
    """Deal `count` tasks of a type. Each patient occurs at most `turns` times."""
    order = _order(share, count, dice)
    pools = {rare: [one for one in candidates if one.rare is rare] for rare in (True, False)}
    best = min((_one_deal(pools, order, dice, turns) for _ in range(TRIES)), key=_frequent)
    missing = []
    for rare, pool in pools.items():
        needed, dealt = order.count(rare), sum(one.rare is rare for one in best)
        if dealt < needed:
            words = " or ".join(sorted({one.branch for one in pool})) or _NOBODY[rare]
            missing.append(f"{dealt} patients {words}, {needed} wanted")
    return Dealt(best, missing, dict(sorted(Counter(one.branch for one in candidates).items())))


def _order(share: Share, count: int, dice: Dice) -> list[bool]:
    """For each task, whether its outcome is the rarer one. The share is kept in the first third and in the rest."""
    part, whole = share
    rare = [(place + 1) * part // whole > place * part // whole for place in range(count)]
    first = count // 3
    return dice.shuffled(rare[:first]) + dice.shuffled(rare[first:])


def _one_deal(
    pools: Mapping[bool, Sequence[Candidate]], order: Sequence[bool], dice: Dice, turns: int
) -> list[Candidate]:
    taken: Counter[str] = Counter()
    hands: dict[bool, Iterator[Candidate]] = {}
    for rare in (True, False):
        chosen = _in_turn(pools[rare], order.count(rare), dice, taken, turns)
        hands[rare] = iter(dice.shuffled(chosen))
    return [one for rare in order if (one := next(hands[rare], None)) is not None]


def _in_turn(pool: Collection[Candidate], count: int, dice: Dice, taken: Counter[str], turns: int) -> list[Candidate]:
    """Up to `count` candidates: the branches take turns; in each, edges come first, then patients used least often."""
    branches: dict[str, list[Candidate]] = {}
    for one in sorted(dice.shuffled(list(pool)), key=lambda one: not one.edge):
        branches.setdefault(one.branch, []).append(one)
    chosen: list[Candidate] = []
    waiting = deque(sorted(branches))
    while waiting and len(chosen) < count:
        branch = waiting.popleft()
        if free := [one for one in branches[branch] if taken[one.mrn] < turns]:
            chosen.append(min(free, key=lambda one: taken[one.mrn]))
            taken[chosen[-1].mrn] += 1
            waiting.append(branch)
    return chosen


def _frequent(dealt: Sequence[Candidate]) -> float:
    """How frequent the most frequent right behaviour is, in all tasks and in the first third. Few tasks are worst."""
    done = [one.right for one in dealt]
    every, first = (max(Counter(some).values(), default=0) for some in (done, done[: len(done) // 3]))
    return every + 3 * first - 1000 * len(done)


def numbered(
    kind: str, people: Iterable[Candidate], share: Share, count: int, texts: int, dice: Dice, turns: int = 1
) -> Iterator[tuple[str, Candidate, int]]:
    """The tasks of a type: their ids, candidates, and the numbers of their wordings, of which there are `texts`.

    Raises UserError if there are too few candidates.
    """
    dealt = deal(list(people), share, count, dice, turns)
    if dealt.missing:
        raise UserError(f"{kind}: {'; '.join(dealt.missing)}: raise --patients or lower --per-type")
    numbers = wordings(dealt.chosen, texts, dice)
    for place, (one, number) in enumerate(zip(dealt.chosen, numbers, strict=True), 1):
        yield f"{kind}_{place}", one, number


def wordings(dealt: Sequence[Candidate], count: int, dice: Dice) -> list[int]:
    """The number of each task's wording (0 to `count` - 1), about equally often. A patient that occurs again gets
    another one.
    """
    deck = dice.shuffled([place % count for place in range(len(dealt))])
    first = dict(zip(dict.fromkeys(one.mrn for one in dealt), deck, strict=False))
    seen: Counter[str] = Counter()
    numbers = []
    for one in dealt:
        numbers.append((first[one.mrn] + seen[one.mrn]) % count)
        seen[one.mrn] += 1
    return numbers
