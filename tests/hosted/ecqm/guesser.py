"""Guesses a case's populations from everything in its chart that is not clinical: names, ids, order, numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class Known(NamedTuple):
    """A case of which the guesser may know the populations."""

    measure: str
    populations: tuple[str, ...]
    chart: Sequence[dict[str, Any]]


def signs(chart: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """What can be seen of a chart without reading what is in it."""
    for resource in chart:
        names = resource.get("name", [])
        for name in names if isinstance(names, list) else [names]:
            words = [name.get("family"), *name.get("given", [])] if isinstance(name, dict) else [name]
            yield from (("name", str(word)) for word in words)
        yield "id", str(resource["id"])[:3]
    yield "first", chart[0]["resourceType"]
    yield "last", chart[-1]["resourceType"]
    yield "number", str(len(chart))
    for kind, number in Counter(resource["resourceType"] for resource in chart).items():
        yield "number", kind, str(number)


def right_guesses(cases: Sequence[Known]) -> int:
    """How many cases a naive Bayes classifier guesses right that was trained on all other cases of the measure."""
    seen = [set(signs(case.chart)) for case in cases]
    right = 0
    for place, case in enumerate(cases):
        of_list: dict[tuple[str, ...], list[set[tuple[str, ...]]]] = {}
        for number, other in enumerate(cases):
            if number != place and other.measure == case.measure:
                of_list.setdefault(other.populations, []).append(seen[number])
        known = seen[place] & set().union(*(signs for listed in of_list.values() for signs in listed))
        right += max(of_list, key=lambda name: likelihood(known, of_list[name])) == case.populations
    return right


def likelihood(known: set[tuple[str, ...]], examples: Sequence[set[tuple[str, ...]]]) -> float:
    """The logarithm of how likely these signs are for a list with these examples, times a constant."""
    shares = [(sum(sign in example for example in examples) + 1) / (len(examples) + 2) for sign in known]
    return math.log(len(examples)) + sum(map(math.log, shares))


def most_frequent(cases: Sequence[Known]) -> int:
    """How many cases have the most frequent list of their measure."""
    of_measure: dict[str, Counter[tuple[str, ...]]] = {}
    for case in cases:
        of_measure.setdefault(case.measure, Counter())[case.populations] += 1
    return sum(counts.most_common(1)[0][1] for counts in of_measure.values())
