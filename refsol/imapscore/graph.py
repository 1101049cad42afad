"""A graph of medical entities with names and is_a edges, and the linker that finds a value's entities.

A value is linked by its exact normal name, otherwise by the most similar name. Names are never linked if they differ in
digits, Roman numerals and other single-letter designators, negations or hyper-/hypo-: "type 1 diabetes mellitus" and
"type 2 diabetes mellitus" are 95.8% similar. A name may belong to several entities. Two values are related if any of
their entities are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refsol.errors import InputError
from refsol.imapscore._extra import need
from refsol.imapscore.imap import normal

MAX_DEPTH = 5
RANKED_THRESHOLD = 80
"""The similarity that a name must have to be a candidate for an encoder."""
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity: its id, its names (the preferred one first, then exact synonyms), and the ids of its parents."""

    id: str
    names: tuple[str, ...]
    parents: tuple[str, ...] = ()


class EntityGraph:
    """Entities by id and by normal name, with their ancestors.

    A parent that is not an entity is left out with a warning. A cycle raises InputError with its entities.
    """

    def __init__(self, entities: Iterable[Entity], source: str = "graph") -> None:
        self.entities = {entity.id: entity for entity in entities}
        self.warnings: list[str] = []
        self.parents: dict[str, tuple[str, ...]] = {}
        by_name: dict[str, set[str]] = {}
        for entity in self.entities.values():
            self.parents[entity.id] = tuple(parent for parent in entity.parents if parent in self.entities)
            for parent in dict.fromkeys(entity.parents):
                if parent not in self.entities:
                    self.warnings.append(f"{source}: {entity.id} is_a {parent}, which is not in the graph: left out")
            for name in entity.names:
                by_name.setdefault(normal(name), set()).add(entity.id)
        by_name.pop("", None)
        self.by_name: Mapping[str, frozenset[str]] = {name: frozenset(ids) for name, ids in by_name.items()}
        if cycle := self._cycle():
            raise InputError(f"{source}: is_a runs in a cycle: {' → '.join(cycle)}; remove one of these edges")

    def ancestors(self, ids: Iterable[str], depth: int = MAX_DEPTH) -> frozenset[str]:
        """The ancestors of `ids`, up to `depth` steps up, without roots, which are too general."""
        above: set[str] = set()
        level = set(ids)
        for _ in range(depth):
            level = {parent for child in level for parent in self.parents[child]} - above
            above |= level
        return frozenset(entity for entity in above if self.parents[entity])

    def _cycle(self) -> list[str]:
        """The ids on a cycle of is_a edges, or nothing. Depth first, without recursion, because ontologies are deep."""
        done: set[str] = set()
        for start in self.parents:
            path: dict[str, Any] = {}
            stack = [(start, iter(self.parents[start]))] if start not in done else []
            while stack:
                entity, parents = stack[-1]
                path[entity] = None
                parent = next(parents, None)
                if parent is None:
                    stack.pop()
                    del path[entity]
                    done.add(entity)
                elif parent in path:
                    ids = list(path)
                    return [*ids[ids.index(parent) :], parent]
                elif parent not in done:
                    stack.append((parent, iter(self.parents[parent])))
        return []


class Linker:
    """Finds the entities that a value names. Similarity is rapidfuzz's ratio, 0 to 100.

    Raises InputError if rapidfuzz is not installed.
    """

    def __init__(self, graph: EntityGraph, threshold: float = 95) -> None:
        self.graph = graph
        self._linked: dict[str, frozenset[str]] = {}
        self._candidates = _SimilarNames(list(graph.by_name), threshold)

    def link(self, value: str) -> frozenset[str]:
        """The ids of the entities that `value` names. Empty if no name is similar enough."""
        key = normal(value)
        if key not in self._linked:
            self._linked[key] = self.graph.by_name.get(key) or self._alike(key)
        return self._linked[key]

    def open_candidates(self, value: str) -> list[str]:
        """The names among which an encoder may choose, the most similar first. Empty if the value is already linked or
        equals a name.
        """
        key = normal(value)
        if key in self._linked or key in self.graph.by_name:
            return []
        return [name for name in self._candidates.above(key) if not differ(key, name)]

    def settle(self, value: str, name: str) -> None:
        """Link a value to the entities of a name."""
        self._linked[normal(value)] = self.graph.by_name[name]

    def _alike(self, key: str) -> frozenset[str]:
        """The entities of the most similar name that does not differ in an essential part (`differ`)."""
        for name in self._candidates.above(key):
            if not differ(key, name):
                return self.graph.by_name[name]
        return _NOTHING


class _SimilarNames:
    """An index of names by rapidfuzz's ratio, which is 100 (1 - d / (m + n)) for texts of m and n characters that are d
    insertions and deletions apart.

    If d is at most k, one of the k + 1 pieces of a name occurs whole in the other text, at most k places away. So names
    are indexed by their pieces, and only names that share a piece are compared.
    """

    def __init__(self, names: Sequence[str], threshold: float) -> None:
        self._process = need("rapidfuzz.process")
        self._fuzz = need("rapidfuzz.fuzz")
        self._threshold = threshold
        self._by_length: dict[int, dict[tuple[int, str], list[str]]] = {}  # by length: names by place and piece
        for name in names:
            pieces = self._by_length.setdefault(len(name), {})
            for start, end in self._pieces(len(name)):
                pieces.setdefault((start, name[start:end]), []).append(name)

    def above(self, key: str) -> Collection[str]:
        """The names whose similarity reaches the threshold, the most similar first."""
        hits = self._process.extract(
            key, self._sharing(key), scorer=self._fuzz.ratio, score_cutoff=self._threshold, limit=None
        )
        return [name for name, _, _ in sorted(hits, key=lambda hit: (-hit[1], hit[0]))]

    def _sharing(self, key: str) -> list[str]:
        """The names of a length that can reach the threshold and share a piece with `key`."""
        names: dict[str, None] = {}
        for length, pieces in self._by_length.items():
            if 200 * min(length, len(key)) >= self._threshold * (length + len(key)):
                most = self._most(length)
                for start, end in self._pieces(length):
                    for place in range(max(0, start - most), min(start + most, len(key)) + 1):
                        names.update(dict.fromkeys(pieces.get((start, key[place : place + end - start]), ())))
        return list(names)

    def _most(self, length: int) -> int:
        """The largest number of insertions and deletions between a name and a text that is similar enough; at least the
        name's length if the threshold is so low."""
        return length if self._threshold <= 0 else min(length, int(2 * length * (100 / self._threshold - 1) + 1e-9))

    def _pieces(self, length: int) -> list[tuple[int, int]]:
        """The start and end of each piece of a name. Names share their empty pieces, which occur at a low threshold."""
        count = self._most(length) + 1
        return [(i * length // count, (i + 1) * length // count) for i in range(count)]


_DESIGNATORS = re.compile(r"\d+(?:\.\d+)?|[一二三四五六七八九十]|(?<![a-z'’])(?:[a-z]|[ivx]{2,})(?![a-z])")
_NEGATIONS = re.compile(r"\b(?:no|not|without|never|absent|negative|free)\b|\bnon|[无非不未没]")
_DIRECTIONS = re.compile(r"hyper|hypo|[高低]|亢进|减退")
_NEGATING_PREFIXES = ("a", "an", "un", "in", "im", "ir", "dis", "non")


def differ(first: str, second: str) -> bool:
    """Whether two normal texts differ in a number, a designator, a negation or hyper-/hypo-, however similar."""
    for pattern in (_DESIGNATORS, _NEGATIONS, _DIRECTIONS):
        if pattern.findall(first) != pattern.findall(second):
            return True
    words, others = set(first.split()), set(second.split())
    return _negates(words - others, others) or _negates(others - words, words)


def _negates(words: Collection[str], others: Collection[str]) -> bool:
    """Whether one of `words` is one of `others` with a negating prefix (atypical, typical)."""
    return any(word.removeprefix(prefix) in others for word in words for prefix in _NEGATING_PREFIXES)
