"""The order in which things that refer to each other are loaded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medagent.fhir_data.push import components


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(0, 12))
    return [draw(st.lists(st.integers(0, size - 1), max_size=4)) for _ in range(size)]


def reachable(edges: list[list[int]], start: int) -> set[int]:
    seen: set[int] = set()
    todo = [start]
    while todo:
        for target in edges[todo.pop()]:
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


@given(graphs())
def test_targets_come_first_and_circles_together(edges: list[list[int]]) -> None:
    found = list(components(edges))
    assert sorted(node for component in found for node in component) == list(range(len(edges)))
    place = {node: number for number, component in enumerate(found) for node in component}
    reach = [reachable(edges, node) for node in range(len(edges))]
    for node, others in enumerate(edges):
        for target in others:
            assert place[target] <= place[node]
    for first in range(len(edges)):
        for second in range(len(edges)):
            together = first == second or (second in reach[first] and first in reach[second])
            assert (place[first] == place[second]) is together


def test_what_does_not_refer_keeps_its_order() -> None:
    assert list(components([[], [], []])) == [[0], [1], [2]]


def test_long_chains_need_no_recursion() -> None:
    size = 50_000
    chain = [[number + 1] for number in range(size - 1)] + [[]]
    assert next(components(chain)) == [size - 1]
    circle = [[(number + 1) % size] for number in range(size)]
    assert len(next(components(circle))) == size
