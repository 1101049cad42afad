"""Can an agent that reads no chart learn from other sets what is right? It must not: then the sampling shows it.

It trains on task sets from secret seeds and is tested on others. It sees everything that a prompt shows before the
first action: the wording, the number of the task, its place in the list, dates and their format, the digits of the MRN.
For each type it learns which behaviour (answer or orders) is right most often for each value of each of these. Its
score is compared with that of the behaviour that is right most often for the type, whatever the prompt shows.

Run: `python -m tools.blind_trained [--benchmark psb-300] [--seed TEXT] [--train 20] [--test 5]`. The benchmark may be a
file of your own task types, FILE.py. Exit code 1 if the trained agent is better by more than two standard errors.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import secrets
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from medagent.benchmarks.base import find
from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.clinical.sampling import candidate
from medagent.engine.data_sets import SetOptions

_MRN = re.compile(r"[A-Z]{0,2}-?\d{4,8}(?:-[A-Z]\d{2})?")
_NAMES = re.compile(r"\b[^\W\d_a-z][\w'’-]+,? [^\W\d_a-z][\w'’-]+")
_DIGITS = re.compile(r"\d+")
_DECADES = re.compile(r"\b((?:19|20)\d)\d\b")
_HELD_OUT = 4
"""Every fourth training set chooses what the agent looks at."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A task as an agent sees it, its place in the list, what is right, and whether the blind floor has it right."""

    kind: str
    text: str
    place: int
    mrn: str
    right: str
    blind: bool

    @property
    def features(self) -> Mapping[str, str]:
        """What the agent can look at."""
        wording = _DIGITS.sub("0", _NAMES.sub("NAME", _MRN.sub("MRN", self.text)))
        return {
            "nothing": "",
            "wording": wording,
            "first words": " ".join(wording.split()[:3]),
            "decades": " ".join(_DECADES.findall(self.text)),
            "form": re.sub(r"\w+", "x", self.text),
            "place": str(self.place),
            "third": str(self.place % 3),
            "half": str(self.place // 15),
            "last digit": self.mrn[-1:],
            "first digit": self.mrn[1:2],
            "length": str(len(self.text) // 10),
        }


class Result(NamedTuple):
    """How many of `n` items the trained agent has right, the best behaviour of each type, exactly one of these two, and
    the blind floor.
    """

    trained: int
    best: int
    differing: int
    blind: int
    n: int

    @property
    def error(self) -> float:
        """The standard error of the paired difference between the trained agent and the best behaviour, in items."""
        return math.sqrt(self.differing - (self.trained - self.best) ** 2 / self.n)

    @property
    def tells(self) -> bool:
        """Whether the trained agent is better than the best behaviour by more than two standard errors."""
        return self.trained - self.best > 2 * self.error


Guess = Mapping[str, str]
"""For each value of a feature, the behaviour that is right most often."""


def learn(items: Sequence[Shown], feature: str) -> Guess:
    """What is right most often for each value of a feature."""
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        tally[item.features[feature]][item.right] += 1
    return {value: counts.most_common(1)[0][0] for value, counts in tally.items()}


def right(items: Sequence[Shown], feature: str, guess: Guess, default: str) -> list[bool]:
    """Whether a guess gets each item right."""
    return [guess.get(item.features[feature], default) == item.right for item in items]


def score(train: Sequence[Sequence[Shown]], test: Sequence[Shown]) -> Result:
    """The result of one type."""
    fitted = [item for number, items in enumerate(train) if number % _HELD_OUT for item in items]
    held = [item for number, items in enumerate(train) if not number % _HELD_OUT for item in items]
    every = [*fitted, *held]
    best = learn(every, "nothing")[""]
    features = tuple(every[0].features)
    chosen = max(features, key=lambda name: sum(right(held, name, learn(fitted, name), best)))
    trained, constant = right(test, chosen, learn(every, chosen), best), right(test, "nothing", {}, best)
    differing = sum(learned != fixed for learned, fixed in zip(trained, constant, strict=True))
    return Result(sum(trained), sum(constant), differing, sum(item.blind for item in test), len(test))


def measure(benchmark: str, seeds: Sequence[str], train: int) -> Mapping[str, Result]:
    """The result of each type. The first `train` of the seeds make the sets to train on, the others those to test on.

    `benchmark` is the name of a benchmark of task types, or a file of task types.
    """
    made, sets = cast(ClinicalBenchmark[Any], find(benchmark)), []
    for seed in seeds:
        with TemporaryDirectory() as folder:
            sets.append(list(new_set(made, Path(folder) / "set", seed)))
    results = {}
    for kind in dict.fromkeys(item.kind for item in sets[0]):
        of_kind = [[item for item in items if item.kind == kind] for items in sets]
        test = [item for items in of_kind[train:] for item in items]
        results[kind] = score(of_kind[:train], test)
    return results


def overall(results: Mapping[str, Result]) -> Result:
    """The result of all types."""
    return Result(*map(sum, zip(*results.values(), strict=True)))


def new_set(benchmark: ClinicalBenchmark[Any], folder: Path, seed: str) -> Iterator[Shown]:
    """A new set of a benchmark. No agent can write an MRN that it has not read."""
    benchmark.generator().make(folder, SetOptions(seed=seed))
    source = benchmark.named_source(str(folder), None)
    opened, rules = benchmark.open_set(source), next(iter(benchmark.rules))
    floors = benchmark.baselines(opened, rules)
    for number, item in enumerate(benchmark.items_of(opened.tasks, source)):
        task = item.stored
        sampled = candidate(benchmark.task_type(opened.tasks, task), benchmark.chart_of(opened, task, rules))
        assert sampled is not None
        right = sampled.right if item.mrn else json.dumps(task.fields)
        blind = floors.outcomes(task.id)["blind"] is True
        yield Shown(task.type, item.words, number % 30, item.mrn, right, blind)


def main() -> int:
    """Print the two scores of each type and of all. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--benchmark", default="medagentbench", help="a benchmark of task types, or FILE.py")
    parser.add_argument("--train", type=int, default=20, help="sets to train on (default: 20)")
    parser.add_argument("--test", type=int, default=5, help="sets to test on (default: 5)")
    parser.add_argument("--seed", default=secrets.token_hex(16), help="makes the sets (default: a secret one)")
    options = parser.parse_args()
    seeds = [f"{options.seed} {number}" for number in range(options.train + options.test)]
    results = measure(options.benchmark, seeds, options.train)
    for kind, result in results.items():
        print(
            f"{kind:8} trained {result.trained:4} of {result.n}, "
            f"best behaviour {result.best:4}, blind floor {result.blind:4}"
        )
    every = overall(results)
    print(f"all      trained {every.trained} of {every.n} ({every.trained / every.n:.1%})")
    print(f"best behaviour of each type: {every.best} ({every.best / every.n:.1%})")
    print(f"blind floor: {every.blind} ({every.blind / every.n:.1%})")
    print(f"difference {every.trained - every.best}, two standard errors {2 * every.error:.0f}")
    return int(every.tells)


if __name__ == "__main__":
    sys.exit(main())
