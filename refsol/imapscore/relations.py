"""The relation between a label's value and a response's value, and the finders that determine it.

Of the four relations (paper, section 4), e, b and c match; c reduces the score. `find_relations` compares the values of
the terms in both imaps: equal normal texts are e, the finders relate the rest, and a pair that none of them relates is
u. A caller that has to wait for relations (from a model) gets them for the `open_pairs` and passes them to
`matching_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from refsol.imapscore.graph import Linker
from refsol.imapscore.imap import Imap, normal, tidy


class Relation(StrEnum):
    """The relation of the response's value to the label's value, from the best to the worst match."""

    EXACT = "e"  # the same meaning
    BELONGING = "b"  # more general
    CONTAINMENT = "c"  # more specific
    UNMATCHED = "u"

    @property
    def matches(self) -> bool:
        """Whether this relation counts as a match."""
        return self is not Relation.UNMATCHED


@dataclass(frozen=True, slots=True)
class ValuePair:
    """A label's value and a response's value of the same term. Pairs are equal if their normal texts are."""

    term: str = field(compare=False)
    label: str = field(compare=False)
    response: str = field(compare=False)
    key: tuple[str, str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (normal(self.term), normal(self.label), normal(self.response)))

    @property
    def same_text(self) -> bool:
        """Whether the normal texts of both values are equal."""
        return self.key[1] == self.key[2]


Relations = Mapping[ValuePair, Relation]


class RelationFinder(Protocol):
    """Relates values. A pair that is missing from the result is unknown to the finder."""

    def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """The relations of the `pairs` that this finder knows."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded relations, from a file."""

    relations: Relations

    def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """The recorded relations of `pairs`."""
        return {pair: self.relations[pair] for pair in pairs if pair in self.relations}


@dataclass(frozen=True, slots=True)
class Graph:
    """Relations from the is_a edges between the entities to which both values are linked."""

    linker: Linker

    def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """The pairs whose values are linked and related in the graph, as e, b or c."""
        relations = {}
        for pair in pairs:
            label, response = self.linker.link(tidy(pair.label)), self.linker.link(tidy(pair.response))
            if label & response:
                relations[pair] = Relation.EXACT
            elif response & self.linker.graph.ancestors(label):
                relations[pair] = Relation.BELONGING
            elif label & self.linker.graph.ancestors(response):
                relations[pair] = Relation.CONTAINMENT
        return relations


def find_relations(label: Imap, response: Imap, finders: Sequence[RelationFinder] = ()) -> dict[ValuePair, Relation]:
    """The matching value pairs of the terms in both imaps. Each finder gets the pairs that earlier ones left open."""
    relations: dict[ValuePair, Relation] = {}
    for finder in finders:
        if pairs := open_pairs(label, response, relations):
            relations.update(finder.find(pairs))
    return matching_pairs(label, response, relations)


def open_pairs(label: Imap, response: Imap, relations: Relations) -> list[ValuePair]:
    """The value pairs of the terms in both imaps whose texts differ and that do not match in `relations`."""
    return [
        pair
        for pair in _value_pairs(label, response)
        if not pair.same_text and not relations.get(pair, Relation.UNMATCHED).matches
    ]


def matching_pairs(label: Imap, response: Imap, relations: Relations) -> dict[ValuePair, Relation]:
    """The value pairs of the terms in both imaps that match, by text or in `relations`."""
    related = {
        pair: Relation.EXACT if pair.same_text else relations.get(pair, Relation.UNMATCHED)
        for pair in _value_pairs(label, response)
    }
    return {pair: relation for pair, relation in related.items() if relation.matches}


def _value_pairs(label: Imap, response: Imap) -> Iterator[ValuePair]:
    informed = response.informed
    for term, values in label.informed.items():
        for value in values:
            for response_value in informed.get(term, ()):
                yield ValuePair(value.term, value.value, response_value.value)
