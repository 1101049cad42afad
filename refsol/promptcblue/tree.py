"""Scores of decision trees (Text2DT), as the scorer published with the 18-task edition computes them.

A tree is a list of nodes in preorder, each with `role` (C: a condition with two branches, D: a decision), `logical_rel`
and `triples`. Folding finds its structure: the first condition followed by two decisions, without a condition between,
becomes a decision with these two as branches. This is repeated. If the tree cannot be folded to its root, the branches
found so far count. The main score is 1 minus the edit distance divided by its maximum; it can be negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refsol.errors import InputError

Node = Mapping[str, Any]
Step = tuple[str, str, frozenset[tuple[str, ...]]] | str
_ROUNDS = 101
"""The number of times the published scorer tries to fold."""
_TINY = 1e-6
"""The published scorer adds this to every count."""


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """The edit ratio (the main score), and F1 over nodes and over paths."""

    edit_ratio: float
    node_f1: float
    path_f1: float


@dataclass(frozen=True, slots=True)
class TreePart:
    """The contribution of one sample: edits, their maximum, and (right, predicted, gold) counts of nodes and paths."""

    edits: int
    most_edits: int
    nodes: tuple[int, int, int]
    paths: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Tree:
    """Nodes (role, logical relation, triples in lower case), the two branches of each, and each one's parent."""

    nodes: tuple[tuple[str, str, frozenset[tuple[str, ...]]], ...]
    branches: Mapping[int, tuple[int, int]]
    above: Mapping[int, tuple[int, str]]


def compare_trees(gold_nodes: Sequence[Node], predicted_nodes: Sequence[Node]) -> TreePart:
    """The contribution of one sample. Raises InputError for a tree without nodes."""
    if not gold_nodes or not predicted_nodes:
        raise InputError("a decision tree without nodes")
    gold, tree = _folded(gold_nodes), _folded(predicted_nodes)
    with_triples = [[node for node in side.nodes if node[2]] for side in (tree, gold)]
    right = sum(node == gold_node for node in with_triples[0] for gold_node in with_triples[1])
    triples = [len(frozenset().union(*(node[2] for node in side.nodes))) for side in (tree, gold)]
    most = sum(count + 2 * len(nodes) for count, nodes in zip(triples, with_triples, strict=True))
    return TreePart(_edits(tree, gold), most, (right, *map(len, with_triples)), _paths(tree, gold))  # type: ignore[arg-type]  # two lists


def tree_figures(parts: Sequence[TreePart]) -> TreeFigures:
    """The scores of some samples. Raises InputError if no tree contains a triple."""
    most = sum(part.most_edits for part in parts)
    if not most:
        raise InputError("no decision tree contains a triple, so there is nothing to score")
    edits = sum(part.edits for part in parts)
    return TreeFigures(1 - edits / most, _f1([part.nodes for part in parts]), _f1([part.paths for part in parts]))


def _f1(counts: Sequence[tuple[int, int, int]]) -> float:
    right, predicted, gold = (sum(column) + _TINY for column in zip(*counts, strict=True))
    precision, recall = right / predicted, right / gold
    return float(2 * precision * recall / (precision + recall))


def _folded(nodes: Sequence[Node]) -> _Tree:
    values = tuple(
        (
            str(node["role"]),
            str(node["logical_rel"]),
            frozenset(tuple(part.lower() for part in triple) for triple in node["triples"]),
        )
        for node in nodes
    )
    roles = [role for role, _, _ in values]
    branches: dict[int, tuple[int, int]] = {}
    above: dict[int, tuple[int, str]] = {}
    for _ in range(_ROUNDS):
        condition = None if roles[0] == "D" else _foldable(roles)
        if condition is None:
            break
        place, left, right = condition
        branches[place] = (left, right)
        for branch, side in ((left, "L"), (right, "R")):
            above.setdefault(branch, (place, side))
        roles[place] = "D"
        roles[place + 1 : right + 1] = ["X"] * (right - place)
    return _Tree(values, branches, above)


def _foldable(roles: Sequence[str]) -> tuple[int, int, int] | None:
    """The places of the first condition that two decisions follow before the next condition, and of these two."""
    for place, role in enumerate(roles):
        if role != "C":
            continue
        decisions: list[int] = []
        for after in range(place + 1, len(roles)):
            if roles[after] == "C":
                break
            if roles[after] == "D":
                decisions.append(after)
                if len(decisions) == 2:
                    return place, decisions[0], decisions[1]
    return None


def _distance(node: tuple[str, str, frozenset[Any]], gold_node: tuple[str, str, frozenset[Any]]) -> int:
    return (node[0] != gold_node[0]) + (node[1] != gold_node[1]) + len(node[2] ^ gold_node[2])


def _edits(tree: _Tree, gold: _Tree) -> int:
    """The edit distance: walks both trees together and counts all nodes of a branch that is in only one tree."""
    edits = 0
    pairs = [(0, 0)]
    while pairs:
        here, there = pairs.pop()
        edits += _distance(tree.nodes[here], gold.nodes[there])
        ours, theirs = tree.branches.get(here), gold.branches.get(there)
        if ours and theirs:
            pairs += zip(reversed(ours), reversed(theirs), strict=True)
        elif ours or theirs:
            edits += _whole(tree if ours else gold, ours or theirs or (0, 0))
    return edits


def _whole(tree: _Tree, roots: tuple[int, int]) -> int:
    """The number of edits that create these branches."""
    nothing: tuple[str, str, frozenset[Any]] = ("", "null", frozenset())
    edits, left = 0, list(roots)
    while left:
        place = left.pop()
        edits += _distance(tree.nodes[place], nothing)
        left += tree.branches.get(place, ())
    return edits


def _paths(tree: _Tree, gold: _Tree) -> tuple[int, int, int]:
    """The numbers of right, predicted and gold paths from leaf to root. At a leaf without a parent, the comparison
    ends: no path is right, and the paths found so far are counted.
    """
    paths, whole = _leaf_paths(tree)
    gold_paths: list[list[Step]] = []
    if whole:
        gold_paths, whole = _leaf_paths(gold)
    right = sum(path in gold_paths for path in paths) if whole else 0
    return right, len(paths), len(gold_paths)


def _leaf_paths(tree: _Tree) -> tuple[list[list[Step]], bool]:
    paths: list[list[Step]] = []
    for leaf in range(len(tree.nodes)):
        if leaf in tree.branches:
            continue
        path: list[Step] = [tree.nodes[leaf]]
        place = leaf
        while place != 0:
            if place not in tree.above:
                return paths, False
            place, side = tree.above[place]
            path += [side, tree.nodes[place]]
        paths.append(path)
    return paths, True
