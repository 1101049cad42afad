"""Makes sets of twins: each item of a set twice, over two charts on which no reply is right on both; or three times,
over one chart once and over the other twice.

A set of twins is a folder of its benchmark, like one of `medagent data new`. Its tasks have the fields `twin` and
`change`, its questions the columns `twin` and `removed_fhir_ids`. The patients are in the folder, unless they are the
package's.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from shutil import copyfile
from typing import Any, Generic, Protocol, TypeVar

from fhir_server.synthetic.bundled import DIGEST as BUNDLED_DIGEST
from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.clinical.items import OpenSet
from medagent.benchmarks.clinical.sets import BESIDE, write_set
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.generated_sets import HOSPITAL
from medagent.core.errors import UserError
from medagent.core.number_formats import counted
from medagent.core.tell import Tell, untold
from medagent.engine.data_sets import Generation
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_data.store import stored_lines
from refsol.clinical.pairs import Case, Hospital, Pair, pairs
from refsol.clinical.recorded import recorded, result_lines
from refsol.clinical.sources import Amendment
from refsol.clinical.twins import changed


class _Task(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def amendment(self) -> Amendment: ...


T = TypeVar("T", bound=_Task)


@dataclass(frozen=True, slots=True)
class TwinItem(Generic[T]):
    """A twin: the task that it was made from, its new id, the name that its twins share, and its change."""

    task: T
    id: str
    twin: str
    change: Amendment


@dataclass(frozen=True, slots=True)
class Twins(Generic[T]):
    """The twins of some tasks, in their order, and for each type the number of pairs, or `triples`, and why tasks were
    left out.
    """

    items: Sequence[TwinItem[T]]
    pairs: Mapping[str, int]
    left_out: Mapping[str, Counter[str]]
    triples: bool = False

    @property
    def noun(self) -> str:
        """What twins are together."""
        return "triples" if self.triples else "pairs"

    @property
    def size(self) -> tuple[int, int]:
        """The number of pairs or triples, and of items."""
        return sum(self.pairs.values()), len(self.items)

    @property
    def words(self) -> Iterator[str]:
        """A line for each type."""
        for kind, count in self.pairs.items():
            reasons = self.left_out[kind]
            more = "; ".join(f"{number}: {reason}" for reason, number in sorted(reasons.items()))
            left_out = counted(sum(reasons.values()), "items")
            yield f"{kind}: {counted(count, self.noun)}, {left_out} left out{f' ({more})' if more else ''}"


def check_originals(tasks: Sequence[_Task]) -> None:
    """Raises UserError for tasks whose charts already differ from the data: they get no twins."""
    if any(task.amendment for task in tasks):
        raise UserError("the set contains twins or injected instructions; make twins of a set without them")


def by_rules(hospital: Hospital, case: Callable[[T], Case]) -> Callable[[T], list[Pair] | str]:
    """The possible twins of a task whose rule decides on a patient of the hospital."""
    return lambda task: pairs(case(task), hospital, Random(f"twins {task!r}"))


def twins_of(
    tasks: Sequence[T],
    options_of: Callable[[T], list[Pair] | str],
    *,
    triples: bool = False,
    tell: Tell = untold,
) -> Twins[T]:
    """Make the twins of some tasks, of their possible ones (or the reason why there is none). `tell` gets the number of
    finished tasks and of all.

    The same tasks and patients give the same twins. Raises UserError for no pair.
    """
    possible: dict[str, list[tuple[T, list[Pair]]]] = {task.type: [] for task in tasks}
    left_out: dict[str, Counter[str]] = {task.type: Counter() for task in tasks}
    for done, task in enumerate(tasks, 1):
        options = options_of(task)
        tell(done, len(tasks))
        if isinstance(options, str):
            left_out[task.type][options] += 1
        else:
            possible[task.type].append((task, options))
    if not any(possible.values()):
        raise UserError(
            "no item could get a twin: " + "; ".join(reason for reasons in left_out.values() for reason in reasons)
        )
    sampled = _triples if triples else _sampled
    items = [item for kind, options in possible.items() for item in sampled(kind, _balanced(options))]
    return Twins(items, {kind: len(options) for kind, options in possible.items()}, left_out, triples)


_WEIGHT = 3
"""How much more the number of readings counts than the branch: it can be wrong in all pairs of a type together."""


def _balanced(possible: Sequence[tuple[T, list[Pair]]]) -> list[tuple[T, Pair]]:
    """One pair for each task, so that each branch of the rule occurs about equally often before and after the change,
    and the changed chart has more readings about as often as fewer: otherwise these would tell which twin is changed.
    """
    lacking = Counter(options[0].before for _, options in possible)
    surplus = 0
    chosen: dict[str, Pair] = {}
    for task, options in sorted(possible, key=lambda candidate: len(candidate[1])):
        gains = [lacking[pair.after] - _WEIGHT * surplus * pair.more for pair in options]
        pair = chosen[task.id] = options[gains.index(max(gains))]
        lacking[pair.after] -= 1
        surplus += pair.more
    return [(task, chosen[task.id]) for task, _ in possible]


def _sampled(kind: str, chosen: Sequence[tuple[T, Pair]]) -> Iterator[TwinItem[T]]:
    """The twins of a type in random order, with ids and names that do not tell which one is changed."""
    rng = _seeded(chosen)
    names = _names(f"{kind}_twin", len(chosen), rng)
    both = [
        TwinItem(task, "", name, tuple(change))
        for name, (task, pair) in zip(names, chosen, strict=True)
        for change in ((), pair.change)
    ]
    for number, item in enumerate(rng.shuffled(both), 1):
        yield replace(item, id=f"{kind}_{number}")


def _triples(kind: str, chosen: Sequence[tuple[T, Pair]]) -> Iterator[TwinItem[T]]:
    """The triples of a type in random order. Each chart of a pair occurs once or twice, and the six orders in which
    they follow each other equally often, so that an agent that changes its reply in a fixed order wins a sixth of them.
    """
    rng = _seeded(chosen)
    names = _names(f"{kind}_triple", len(chosen), rng)
    tasks = {name: task for name, (task, _) in zip(names, chosen, strict=True)}
    orders = _orders(len(chosen), rng)
    changes = {
        name: iter([_in_order(pair)[place] for place in order])
        for name, (_, pair), order in zip(names, chosen, orders, strict=True)
    }
    for number, name in enumerate(rng.shuffled(names * 3), 1):
        yield TwinItem(tasks[name], f"{kind}_{number}", name, tuple(next(changes[name])))


_ORDERS = ((0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1))
"""The orders in which the two charts of a triple follow each other."""


def _orders(count: int, rng: SeededRandom) -> list[tuple[int, ...]]:
    """`count` orders, each equally often, or once more."""
    whole, more = divmod(count, len(_ORDERS))
    return rng.shuffled([*_ORDERS * whole, *rng.shuffled(list(_ORDERS))[:more]])


def _in_order(pair: Pair) -> list[Amendment]:
    """The changes of both charts: first the one with nothing due, otherwise by their branches. An order of the two then
    means the same replies in all triples of a type.
    """
    charts = [(pair.due[0], pair.before, ()), (pair.due[1], pair.after, pair.change)]
    return [change for *_, change in sorted(charts, key=lambda chart: chart[:2])]


def _seeded(chosen: Sequence[tuple[T, Pair]]) -> SeededRandom:
    return SeededRandom(int.from_bytes(hashlib.sha256("".join(repr(task) for task, _ in chosen).encode()).digest()))


def _names(begin: str, count: int, rng: SeededRandom) -> list[str]:
    return [f"{begin}{number}" for number in rng.shuffled(list(range(1, count + 1)))]


def write_twins(
    opened: OpenSet,
    case: Callable[[Task], Case],
    patients: EhrFile,
    folder: Path,
    *,
    whole: bool,
    triples: bool = False,
    tell: Tell = untold,
) -> Twins[Task]:
    """Write the twins of a set's tasks into a folder, with the patients, unless these are the bundled hospital's."""
    tasks = opened.tasks
    hospital = open_hospital(patients.path)
    if patients.digest != BUNDLED_DIGEST:
        copy_patients(patients.path, folder)
    twins = twins_of(tasks.tasks, by_rules(hospital, case), triples=triples, tell=tell)
    items = [_task(item, case(item.task).answer(changed(hospital.source, item.change))) for item in twins.items]
    for name in BESIDE:
        if (file := tasks.beside(name)) is not None:
            copyfile(file, folder / name)
    generated = tasks.manifest.generated or Generation.of_twins(tasks.digest, len(hospital.patients))
    parts = {
        part: tuple(item.id for item in twins.items if item.task.id in ids)
        for part, ids in tasks.manifest.parts.items()
    }
    name = f"{'triples' if triples else 'twins'}-{tasks.digest[:12]}"
    counts = Counter(task.type for task in items)
    stated = {
        "name": name,
        "generated": generated.twins(tasks.digest),
        "parts": parts,
        "accounts": {
            kind: account.model_copy(update={"items": counts[kind]})
            for kind, account in tasks.manifest.accounts.items()
            if counts[kind]
        },
    }
    cases = [(case(task.alone), task.change) for task in items]
    reads = recorded(cases, hospital.source, opened.examples, complete=whole, whole=whole)
    write_set(folder, tasks.manifest.model_copy(update=stated), items, result_lines(reads), (HOSPITAL, *BESIDE))
    return twins


def _task(item: TwinItem[Task], answer: Mapping[str, Any]) -> Task:
    """The task of an item, with the right answer by its own chart, if its fields state one."""
    fields = {**item.task.fields, **answer}
    stated = {"id": item.id, "twin": item.twin, "change": item.change, "one_page": None, "fields": fields}
    return item.task.model_copy(update=stated)


def open_hospital(file: Path) -> Hospital:
    """The hospital in a file of the embedded server."""
    return Hospital([json.loads(line) for line in stored_lines(file)])


def copy_patients(file: Path, folder: Path) -> None:
    """Write the patients in a file of the embedded server into a set's folder."""
    with (folder / HOSPITAL).open("w", encoding="utf-8", newline="\n") as target:
        target.writelines(f"{line.rstrip()}\n" for line in stored_lines(file))
