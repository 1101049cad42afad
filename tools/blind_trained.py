"""Can an agent that reads no chart learn from other sets what is right? It must not: then the dealing tells the answer.

It trains on task sets from secret seeds and is tested on others. It sees everything that a prompt shows before the
first action: the wording, the number of the task, its place in the list, the form of dates and hours, the digits of the
MRN. For each type it learns which behaviour (answer or orders) is right most often for each value of each of these. Its
score is compared with that of the behaviour that is right most often for the type, whatever the prompt shows.

Run: `python -m tools.blind_trained [--benchmark psb-300] [--train 20] [--test 5]`. Exit code 1 if it is better by more
than two standard errors.
"""

from __future__ import annotations

import argparse
import math
import re
import secrets
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from medagent.benchmarks.dealing import candidate

_MRN = re.compile(r"[A-Z]{0,2}-?\d{4,8}(?:-[A-Z]\d{2})?")
_NAMES = re.compile(r"\b[^\W\d_a-z][\w'’-]+,? [^\W\d_a-z][\w'’-]+")
_DIGITS = re.compile(r"\d+")
_HELD_OUT = 4
"""Every fourth training set chooses what the agent looks at."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A task as an agent sees it, its place in the list, and the right behaviour."""

    kind: str
    text: str
    place: int
    mrn: str
    right: str

    @property
    def features(self) -> Mapping[str, str]:
        """What the agent can look at."""
        wording = _DIGITS.sub("0", _NAMES.sub("NAME", _MRN.sub("MRN", self.text)))
        return {
            "nothing": "",
            "wording": wording,
            "first words": " ".join(wording.split()[:3]),
            "form": re.sub(r"\w+", "x", self.text),
            "place": str(self.place),
            "third": str(self.place % 3),
            "half": str(self.place // 15),
            "last digit": self.mrn[-1:],
            "first digit": self.mrn[1:2],
            "length": str(len(self.text) // 10),
        }


Guess = Mapping[str, str]
"""For each value of a feature, the behaviour that is right most often."""


def learn(items: Sequence[Shown], feature: str) -> Guess:
    """What is right most often for each value of a feature."""
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    for one in items:
        tally[one.features[feature]][one.right] += 1
    return {value: counts.most_common(1)[0][0] for value, counts in tally.items()}


def right(items: Sequence[Shown], feature: str, guess: Guess, default: str) -> int:
    """How many items a guess gets right."""
    return sum(guess.get(one.features[feature], default) == one.right for one in items)


def score(train: Sequence[Sequence[Shown]], test: Sequence[Shown]) -> tuple[int, int]:
    """How many items of one type the trained agent gets right, and the best behaviour of the type."""
    fitted = [one for number, items in enumerate(train) if number % _HELD_OUT for one in items]
    held = [one for number, items in enumerate(train) if not number % _HELD_OUT for one in items]
    every = [*fitted, *held]
    best = learn(every, "nothing")[""]
    features = tuple(every[0].features)
    chosen = max(features, key=lambda name: right(held, name, learn(fitted, name), best))
    return right(test, chosen, learn(every, chosen), best), right(test, "nothing", {}, best)


def medagentbench(folder: Path) -> Iterator[Shown]:
    """A new set of MedAgentBench."""
    from medagent.benchmarks.medagentbench.generator.write import SetOptions, make
    from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
    from refsol.medagentbench import KeyEhr
    from refsol.medagentbench.grade import chart_of, type_of
    from refsol.medagentbench.rules import OFFICIAL

    make(folder, SetOptions(seed=secrets.token_hex(16)))
    dataset = load_dataset(str(folder), "v2")
    assert dataset.key is not None
    facts = KeyEhr(dataset.key)
    for number, task in enumerate(dataset.tasks):
        fields = task.model_dump()
        dealt = candidate(type_of(fields), chart_of(fields, facts, OFFICIAL, dataset.constants))
        assert dealt is not None
        text = task.instruction.replace(task.eval_MRN or " ", "MRN")
        stated = "" if task.type == "task1" else task.eval_MRN or ""
        yield Shown(task.type, text, number % 30, stated, dealt.right)


def psb300(folder: Path) -> Iterator[Shown]:
    """A new set of psb-300."""
    from medagent.benchmarks.made_folders import HOSPITAL, Order
    from medagent.benchmarks.psb300.generator._deal import hospital_of
    from medagent.benchmarks.psb300.generator.write import GENERATOR
    from medagent.benchmarks.psb300.tasks import load_tasks
    from refsol.psb300 import RULE_SETS, TYPES, chart_of

    GENERATOR.make(folder, Order(secrets.token_hex(16)))
    tasks = load_tasks(str(folder))
    with (folder / HOSPITAL).open(encoding="utf-8") as lines:
        facts = hospital_of(lines).resources
    for number, task in enumerate(tasks.tasks):
        clock = tasks.constants.default_now
        chart = chart_of(task.model_dump(), facts, RULE_SETS["official"], clock, tasks.constants)
        dealt = candidate(TYPES[task.type], chart)
        assert dealt is not None
        text = f"{task.context}\n{task.instruction}".replace(task.eval_MRN, "MRN")
        yield Shown(task.type, text, number % 30, task.eval_MRN, dealt.right)


SETS: Mapping[str, Callable[[Path], Iterator[Shown]]] = {"medagentbench": medagentbench, "psb-300": psb300}


def main() -> int:
    """Print the two scores of each type and of all. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--benchmark", choices=tuple(SETS), default="medagentbench")
    parser.add_argument("--train", type=int, default=20, help="sets to train on (default: 20)")
    parser.add_argument("--test", type=int, default=5, help="sets to test on (default: 5)")
    options = parser.parse_args()
    made = SETS[options.benchmark]
    sets = []
    for _ in range(options.train + options.test):
        with TemporaryDirectory() as folder:
            sets.append(list(made(Path(folder) / "set")))
    trained = constant = count = 0
    for kind in dict.fromkeys(one.kind for one in sets[0]):
        of_kind = [[one for one in items if one.kind == kind] for items in sets]
        test = [one for items in of_kind[options.train :] for one in items]
        found, best = score(of_kind[: options.train], test)
        print(f"{kind:8} trained {found:4} of {len(test)}, best behaviour {best:4}")
        trained, constant, count = trained + found, constant + best, count + len(test)
    error = math.sqrt(trained * (1 - trained / count) + constant * (1 - constant / count))
    print(f"all      trained {trained} of {count} ({trained / count:.1%})")
    print(f"best behaviour of each type: {constant} ({constant / count:.1%})")
    print(f"difference {trained - constant}, two standard errors {2 * error:.0f}")
    return int(trained - constant > 2 * error)


if __name__ == "__main__":
    sys.exit(main())
