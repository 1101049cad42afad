"""Samples the tasks of a set from the charts of a hospital. It is the same for all benchmarks with task types.

The rule of a type runs on every living patient. The rarer outcome (no order is due, or a reading is missing) gets its
share, both in the first third of the tasks and in the rest. Within each outcome, the branches of the rule take turns,
and charts at an edge come first. A type is sampled several times; the sample is used in which the most frequent right
behaviour is rarest. Wordings are sampled without regard to branches, so that a text does not tell what is right.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.core.errors import UserError
from refsol.clinical.chart import Chart
from refsol.clinical.evidence import branch_words, is_edge
from refsol.clinical.floor import is_idle_right
from refsol.clinical.sources import Resources
from refsol.clinical.task_type import Solution, TaskType
from refsol.errors import DataFault
from refsol.verdict import Branch

Share = tuple[int, int]
"""The share of the rarer outcome: (1, 6) is a sixth."""
HALF: Share = (1, 2)
NONE: Share = (0, 1)
_QUERY = {True: "no data for the answer", False: "data for the answer"}
_ORDER = {True: "nothing due", False: "something due"}
_EITHER = {True: "nothing due or measured", False: "something due or measured"}
"""What to call the patients of an outcome if there are none: of a type that asks, that orders, or that may do both."""
TRIES = 24
"""How often a type is sampled, to choose the sample in which the most frequent right behaviour is rarest."""


class HospitalCharts(NamedTuple):
    """The resources of a hospital that rules read, and its Patients as JSON. `living` are those that did not die."""

    resources: Resources
    patients: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, lines: Iterable[str], marks: Sequence[str]) -> HospitalCharts:
        """Read the lines of a hospital: all Patients, and the other lines that contain one of these texts."""
        marks = ('"resourceType":"Patient"', *marks)
        read = [json.loads(line) for line in lines if any(mark in line for mark in marks)]
        patients = [resource for resource in read if resource["resourceType"] == "Patient"]
        return cls(Resources(read), patients)

    @property
    def living(self) -> list[Mapping[str, Any]]:
        """The Patients that tasks may be about."""
        return [patient for patient in self.patients if is_living(patient)]


def is_living(patient: Mapping[str, Any]) -> bool:
    """Whether a Patient did not die."""
    return "deceasedDateTime" not in patient and not patient.get("deceasedBoolean")


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
    hidden: bool = False
    """Whether an agent that opens one page of each search, without sorting, is wrong."""
    ruling: Branch = "query"
    """What is right: an answer to a query, an order, or no order."""
    due: bool = True
    """Whether something is due, an order or an answer: to do nothing is wrong."""
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
    absent = ruling.branch == "query" and any(not searched.used for searched in chart.searched)
    rare = absent or ruling.branch == "no order"
    person = Candidate(chart.patient, chart.now, branch_words(chart), rare, right, is_edge(chart), ruling=ruling.branch)
    return replace(person, due=not is_idle_right(ruling, chart))


def share_of(candidates: Sequence[Candidate]) -> Share:
    """The share of the rarer outcome: a half, so that no outcome is the usual one. A query for which everybody has the
    data (sex, age) has only one outcome, which gets all tasks.
    """
    is_sure = all(person.ruling == "query" and not person.rare for person in candidates)
    return NONE if candidates and is_sure else HALF


def is_alike(candidates: Sequence[Candidate]) -> bool:
    """Whether the same answer, without an order, is right for several patients, and for all of them."""
    is_ordering = any(person.ruling == "order" for person in candidates)
    return len(candidates) > 1 and not is_ordering and len({person.right for person in candidates}) == 1


class Sampled(NamedTuple):
    """The tasks of a type in their order, what is missing, and the number of candidates per branch."""

    chosen: Sequence[Candidate]
    missing: Sequence[str]
    branches: Mapping[str, int]


def sample(
    candidates: Sequence[Candidate], share: Share, count: int, rng: SeededRandom, turns: int = 1, hidden: Share = NONE
) -> Sampled:
    """Sample `count` tasks of a type. Each patient occurs at most `turns` times.

    `hidden` is the least share of tasks whose deciding data are not on the first page of a search, if the patients
    allow it.
    """
    order = _order(share, count, rng)
    least = -(-hidden[0] * count // hidden[1])
    pools = {rare: [person for person in candidates if person.rare is rare] for rare in (True, False)}
    best = min((_one_sample(pools, order, least, rng, turns) for _ in range(TRIES)), key=_frequent)
    missing = []
    for rare, pool in pools.items():
        needed, sampled = order.count(rare), sum(person.rare is rare for person in best)
        if sampled < needed:
            words = " or ".join(sorted({f"'{person.branch}'" for person in pool})) or _nobody(rare, candidates)
            missing.append(f"wanted {needed} patients with {words}; the data have {sampled}")
    return Sampled(best, missing, dict(sorted(Counter(person.branch for person in candidates).items())))


def _nobody(rare: bool, candidates: Sequence[Candidate]) -> str:
    """What to call the patients of an outcome that nobody has."""
    rulings = {person.ruling for person in candidates}
    if rulings == {"query"}:
        return _QUERY[rare]
    return _ORDER[rare] if rulings and "query" not in rulings else _EITHER[rare]


def _order(share: Share, count: int, rng: SeededRandom) -> list[bool]:
    """For each task, whether its outcome is the rarer one. The share is kept in the first third and in the rest."""
    part, whole = share
    rare = [(place + 1) * part // whole > place * part // whole for place in range(count)]
    first = count // 3
    return rng.shuffled(rare[:first]) + rng.shuffled(rare[first:])


def _one_sample(
    pools: Mapping[bool, Sequence[Candidate]], order: Sequence[bool], hidden: int, rng: SeededRandom, turns: int
) -> list[Candidate]:
    taken: Counter[str] = Counter()
    sampled: dict[bool, Iterator[Candidate]] = {}
    for rare in (True, False):
        count, first = order.count(rare), list[Candidate]()
        if hidden and not rare:
            behind = [person for person in pools[rare] if person.hidden]
            first = _in_turn(behind, min(hidden, count), rng, taken, turns)
        rest = _in_turn(pools[rare], count - len(first), rng, taken, turns)
        sampled[rare] = iter(rng.shuffled([*first, *rest]))
    return [person for rare in order if (person := next(sampled[rare], None)) is not None]


def _in_turn(
    pool: Collection[Candidate], count: int, rng: SeededRandom, taken: Counter[str], turns: int
) -> list[Candidate]:
    """Up to `count` candidates: the branches take turns; in each, edges come first, then patients used least often."""
    branches: dict[str, list[Candidate]] = {}
    for person in sorted(rng.shuffled(list(pool)), key=lambda person: not person.edge):
        branches.setdefault(person.branch, []).append(person)
    chosen: list[Candidate] = []
    waiting = deque(sorted(branches))
    while waiting and len(chosen) < count:
        branch = waiting.popleft()
        if free := [person for person in branches[branch] if taken[person.mrn] < turns]:
            chosen.append(min(free, key=lambda person: taken[person.mrn]))
            taken[chosen[-1].mrn] += 1
            waiting.append(branch)
    return chosen


def _frequent(sampled: Sequence[Candidate]) -> float:
    """How frequent the most frequent right behaviour is, in all tasks and in the first third. Few tasks are worst."""
    done = [person.right for person in sampled]
    every, first = (max(Counter(behaviours).values(), default=0) for behaviours in (done, done[: len(done) // 3]))
    return every + 3 * first - 1000 * len(done)


def numbered(
    kind: str,
    people: Iterable[Candidate],
    share: Share,
    count: int,
    texts: int,
    rng: SeededRandom,
    turns: int = 1,
    hidden: Share = NONE,
) -> Iterator[tuple[str, Candidate, int]]:
    """The tasks of a type: their ids, candidates, and the numbers of their wordings, of which there are `texts`.

    Raises UserError if there are too few candidates.
    """
    sampled = sample(list(people), share, count, rng, turns, hidden)
    if sampled.missing:
        raise UserError(f"{kind}: {'; '.join(sampled.missing)}: raise --patients or lower --per-type")
    numbers = wordings(sampled.chosen, texts, rng)
    for place, (person, number) in enumerate(zip(sampled.chosen, numbers, strict=True), 1):
        yield f"{kind}_{place}", person, number


def wordings(sampled: Sequence[Candidate], count: int, rng: SeededRandom) -> list[int]:
    """The number of each task's wording (0 to `count` - 1), about equally often. A patient that occurs again gets
    another one.
    """
    deck = rng.shuffled([place % count for place in range(len(sampled))])
    first = dict(zip(dict.fromkeys(person.mrn for person in sampled), deck, strict=False))
    seen: Counter[str] = Counter()
    numbers = []
    for person in sampled:
        numbers.append((first[person.mrn] + seen[person.mrn]) % count)
        seen[person.mrn] += 1
    return numbers
