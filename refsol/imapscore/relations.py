"""How a label's value and a response's value are related, and who may say so.

Four relations (paper, section 4): e, b and c match, and c costs. `find_relations` compares the values of the terms that
both imaps inform of: equal normal texts are e without asking, a finder is asked for the rest, its silence is u. Finders
are asynchronous because one of them asks a model (`medagent.benchmarks.imapscore`); those here never wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from refsol.imapscore.graph import Linker
from refsol.imapscore.imap import Imap, normal, tidy


class Relation(StrEnum):
    """What the response's value is to the label's value; listed from best to worst match."""

    EXACT = "e"  # the same meaning
    BELONGING = "b"  # more general
    CONTAINMENT = "c"  # more specific
    UNMATCHED = "u"

    @property
    def matches(self) -> bool:
        """Whether this relation counts as a match."""
        return self is not Relation.UNMATCHED

    @property
    def swapped(self) -> Relation:
        """The relation seen from the other side."""
        return _SWAPPED.get(self, self)


_SWAPPED = {Relation.BELONGING: Relation.CONTAINMENT, Relation.CONTAINMENT: Relation.BELONGING}


@dataclass(frozen=True, slots=True)
class ValuePair:
    """A label's value and a response's value of the same term; equal where the normal texts are."""

    term: str = field(compare=False)
    label: str = field(compare=False)
    response: str = field(compare=False)
    key: tuple[str, str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (normal(self.term), normal(self.label), normal(self.response)))

    @property
    def same_text(self) -> bool:
        """Whether both values have the same normal text."""
        return self.key[1] == self.key[2]

    @property
    def swapped(self) -> ValuePair:
        """The pair seen from the other side."""
        return ValuePair(self.term, self.response, self.label)


Relations = Mapping[ValuePair, Relation]


class RelationFinder(Protocol):
    """Relates values; a pair that is missing from the answer is one it says nothing about."""

    async def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """The relations of those `pairs` that this finder knows."""
        ...


@dataclass(frozen=True, slots=True)
class Exact:
    """Knows nothing beyond equal normal texts, which are settled before a finder is asked."""

    async def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """No relation."""
        return {}


@dataclass(frozen=True, slots=True)
class Recorded:
    """Relations read from a file."""

    relations: Relations

    async def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """The recorded relations of `pairs`."""
        return {pair: self.relations[pair] for pair in pairs if pair in self.relations}


@dataclass(frozen=True, slots=True)
class Graph:
    """Relations from the is_a edges between the entities that both values are linked to."""

    linker: Linker

    async def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """e, b or c where both values are linked and the graph relates them; nothing otherwise."""
        found = {}
        for pair in pairs:
            label, response = self.linker.link(tidy(pair.label)), self.linker.link(tidy(pair.response))
            if label & response:
                found[pair] = Relation.EXACT
            elif response & self.linker.graph.ancestors(label):
                found[pair] = Relation.BELONGING
            elif label & self.linker.graph.ancestors(response):
                found[pair] = Relation.CONTAINMENT
        return found


@dataclass(frozen=True, slots=True)
class Chain:
    """Asks each finder for what the ones before it did not match: a graph before a model."""

    finders: Sequence[RelationFinder]

    async def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """For each pair the first finder's e, b or c."""
        found: dict[ValuePair, Relation] = {}
        for finder in self.finders:
            open_pairs = [pair for pair in pairs if pair not in found]
            answer = await finder.find(open_pairs) if open_pairs else {}
            found |= {pair: relation for pair, relation in answer.items() if relation.matches}
        return found


async def find_relations(finder: RelationFinder, label: Imap, response: Imap) -> dict[ValuePair, Relation]:
    """The matching value pairs of the terms in both imaps; `finder` is asked only where the texts differ."""
    informed = response.informed
    pairs = [
        ValuePair(value.term, value.value, other.value)
        for term, values in label.informed.items()
        for value in values
        for other in informed.get(term, ())
    ]
    open_pairs = [pair for pair in pairs if not pair.same_text]
    found = await finder.find(open_pairs) if open_pairs else {}
    related = ((pair, Relation.EXACT if pair.same_text else found.get(pair, Relation.UNMATCHED)) for pair in pairs)
    return {pair: relation for pair, relation in related if relation.matches}
