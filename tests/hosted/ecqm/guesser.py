"""Guesses a case's populations without reading what is clinical in its chart, each time from all other cases of the
measure.

Run: `python -m tests.hosted.ecqm.guesser` (guesses the cases that `medagent data import` imported).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Chart = Sequence[dict[str, Any]]
Populations = tuple[str, ...]
ADMINISTRATIVE = ("Coverage", "Location", "Organization", "Practitioner", "PractitionerRole", "RelatedPerson")
"""Types of resources that say nothing of a patient's health or care."""


class Known(NamedTuple):
    """A case of which a guesser may know the populations."""

    measure: str
    populations: Populations
    chart: Chart


Guesser = Callable[[Known, Sequence[Known]], Populations]
"""Guesses the populations of a case from the other cases of its measure."""


def most_frequent(case: Known, others: Sequence[Known]) -> Populations:
    """The most frequent list of the other cases; of several, the first in the alphabet."""
    counts = Counter(known.populations for known in others)
    return max(sorted(counts), key=lambda populations: counts[populations])


def by_names(case: Known, others: Sequence[Known]) -> Populations:
    """The likeliest list by names, ids and order: a naive Bayes classifier."""
    of_list: dict[Populations, list[set[tuple[str, str]]]] = {}
    for known in others:
        of_list.setdefault(known.populations, []).append(set(_names(known.chart)))
    seen = {sign for examples in of_list.values() for example in examples for sign in example}
    signs = set(_names(case.chart)) & seen
    return max(sorted(of_list), key=lambda populations: _likelihood(signs, of_list[populations]))


def by_administration(case: Known, others: Sequence[Known]) -> Populations:
    """The list of the cases with the most similar numbers of administrative resources."""
    return _nearest(case, others, ADMINISTRATIVE)


def by_numbers(case: Known, others: Sequence[Known]) -> Populations:
    """The list of the cases with the most similar numbers of resources by type. These numbers are clinical in part: a
    patient without a procedure has not had the procedure that a measure asks for.
    """
    return _nearest(
        case, others, sorted({resource["resourceType"] for known in (case, *others) for resource in known.chart})
    )


NOT_CLINICAL: tuple[Guesser, ...] = (by_names, by_administration)


def right(guesser: Guesser, cases: Sequence[Known]) -> int:
    """How many cases a guesser guesses right that knows all other cases."""
    of_measure: dict[str, list[Known]] = {}
    for case in cases:
        of_measure.setdefault(case.measure, []).append(case)
    return sum(_right(guesser, known) for known in of_measure.values() if len(known) > 1)


def _right(guesser: Guesser, cases: Sequence[Known]) -> int:
    return sum(
        guesser(case, [*cases[:place], *cases[place + 1 :]]) == case.populations for place, case in enumerate(cases)
    )


def _names(chart: Chart) -> Iterator[tuple[str, str]]:
    for resource in chart:
        names = resource.get("name", [])
        for name in names if isinstance(names, list) else [names]:
            words = [name.get("family"), *name.get("given", [])] if isinstance(name, dict) else [name]
            yield from (("name", str(word)) for word in words)
        yield "id", str(resource["id"])[:3]
    yield "first", chart[0]["resourceType"]
    yield "last", chart[-1]["resourceType"]


def _likelihood(signs: set[tuple[str, str]], examples: Sequence[set[tuple[str, str]]]) -> float:
    """The logarithm of how likely these signs are for a list with these examples, times a constant."""
    shares = [(sum(sign in example for example in examples) + 1) / (len(examples) + 2) for sign in signs]
    return math.log(len(examples)) + sum(map(math.log, shares))


def _nearest(case: Known, others: Sequence[Known], types: Sequence[str]) -> Populations:
    numbers = _numbers(case.chart, types)
    distances = [math.dist(numbers, _numbers(known.chart, types)) for known in others]
    closest = min(distances)
    return most_frequent(case, [known for known, far in zip(others, distances, strict=True) if far == closest])


def _numbers(chart: Chart, types: Sequence[str]) -> list[int]:
    counts = Counter(resource["resourceType"] for resource in chart)
    return [counts[kind] for kind in types]


def main() -> None:
    import json

    from medagent_ecqm.benchmark import Ecqm, EcqmSettings

    cases = [
        Known(case.group, case.expected, [json.loads(line) for line in case.chart.splitlines()])
        for case in Ecqm().items(EcqmSettings())
    ]
    for guesser in (most_frequent, *NOT_CLINICAL, by_numbers):
        guessed = right(guesser, cases)
        print(f"{guesser.__name__:18} {guessed:5} of {len(cases):,}  {100 * guessed / len(cases):.1f}%")


if __name__ == "__main__":
    main()
