"""Makes sets of twins: each item of a set twice, over two charts on which no reply is right on both.

A set of twins is a folder of its benchmark, like one of `medagent data new`. Its tasks have the fields `twin` and
`change` (see `_task_files.ChartTask`), its questions the columns `twin` and `removed_fhir_ids`. The patients are in the
folder, unless they are the package's.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Generic, Protocol, TypeVar

from fhir_server.synthetic.dice import Dice
from medagent.benchmarks.made_folders import HOSPITAL, MANIFEST
from medagent.core.errors import UserError
from medagent.core.figures import counted
from medagent.fhir_data.store import stored_lines
from refsol.clinical.pairs import Case, Hospital, Pair, pairs
from refsol.clinical.sources import Amendment


class _Task(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def amendment(self) -> Amendment: ...


T = TypeVar("T", bound=_Task)


@dataclass(frozen=True, slots=True)
class Half(Generic[T]):
    """One of two twins: the task that it was made from, its new id, the name of both, and the change of its chart."""

    task: T
    id: str
    twin: str
    change: Amendment


@dataclass(frozen=True, slots=True)
class Twins(Generic[T]):
    """The twins of some tasks, in their order, and for each type the number of pairs and why tasks were left out."""

    halves: Sequence[Half[T]]
    pairs: Mapping[str, int]
    left_out: Mapping[str, Counter[str]]

    @property
    def words(self) -> Iterator[str]:
        """A line for each type."""
        for kind, count in self.pairs.items():
            reasons = self.left_out[kind]
            more = "; ".join(f"{number}: {reason}" for reason, number in sorted(reasons.items()))
            left_out = counted(sum(reasons.values()), "items")
            yield f"{kind}: {counted(count, 'pairs')}, {left_out} left out{f' ({more})' if more else ''}"


def by_rules(hospital: Hospital, case: Callable[[T], Case]) -> Callable[[T], list[Pair] | str]:
    """The possible twins of a task whose rule decides on a patient of the hospital."""
    return lambda task: pairs(case(task), hospital, Random(f"twins {task!r}"))


def twins_of(tasks: Sequence[T], options_of: Callable[[T], list[Pair] | str]) -> Twins[T]:
    """Make the twins of some tasks, of their possible ones (or the reason why there is none).

    The same tasks and patients give the same twins. Raises UserError for no pair, and for tasks whose charts already
    differ from the data.
    """
    if any(task.amendment for task in tasks):
        raise UserError("the set contains twins or injected instructions; make twins of a set without them")
    possible: dict[str, list[tuple[T, list[Pair]]]] = {task.type: [] for task in tasks}
    left_out: dict[str, Counter[str]] = {task.type: Counter() for task in tasks}
    for task in tasks:
        options = options_of(task)
        if isinstance(options, str):
            left_out[task.type][options] += 1
        else:
            possible[task.type].append((task, options))
    if not any(possible.values()):
        raise UserError(
            "no item could get a twin: " + "; ".join(reason for some in left_out.values() for reason in some)
        )
    halves = [half for kind, some in possible.items() for half in _dealt(kind, _balanced(some))]
    return Twins(halves, {kind: len(some) for kind, some in possible.items()}, left_out)


def _balanced(possible: Sequence[tuple[T, list[Pair]]]) -> list[tuple[T, Pair]]:
    """One pair for each task, so that each branch of the rule occurs about equally often before and after the change:
    otherwise the branch would tell which twin is changed.
    """
    lacking = Counter(options[0].before for _, options in possible)
    chosen: dict[str, Pair] = {}
    for task, options in sorted(possible, key=lambda one: len(one[1])):
        chosen[task.id] = max(options, key=lambda pair: lacking[pair.after])
        lacking[chosen[task.id].after] -= 1
    return [(task, chosen[task.id]) for task, _ in possible]


def _dealt(kind: str, chosen: Sequence[tuple[T, Pair]]) -> Iterator[Half[T]]:
    """The halves of a type in random order, with ids and names that do not tell which one is changed."""
    dice = Dice(int.from_bytes(hashlib.sha256("".join(repr(task) for task, _ in chosen).encode()).digest()))
    names = [f"{kind}_twin{number}" for number in dice.shuffled(list(range(1, len(chosen) + 1)))]
    both = [
        Half(task, "", name, tuple(change))
        for name, (task, pair) in zip(names, chosen, strict=True)
        for change in ((), pair.change)
    ]
    for number, half in enumerate(dice.shuffled(both), 1):
        yield replace(half, id=f"{kind}_{number}")


def open_hospital(file: Path) -> Hospital:
    """The hospital in a file of the embedded server."""
    return Hospital([json.loads(line) for line in stored_lines(file)])


def copy_patients(file: Path, folder: Path) -> None:
    """Write the patients in a file of the embedded server into a set's folder."""
    with (folder / HOSPITAL).open("w", encoding="utf-8", newline="\n") as target:
        target.writelines(f"{line.rstrip()}\n" for line in stored_lines(file))


def is_of_twins(folder: Path) -> bool:
    """Whether a folder is a set of twins."""
    return (folder / MANIFEST).is_file() and '"name": "twins-' in (folder / MANIFEST).read_text(encoding="utf-8")
