"""Compares the orders that were due with those that were placed, field by field, from a verdict's checks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from medagent.engine.blocks import Field, Order, OrdersBlock
from medagent.engine.scores import Check
from refsol.history import Post
from refsol.json_values import json_value
from refsol.medagentbench.matchers import lookup
from refsol.verdict import MISSING

_STEP = re.compile(r"\[(\d+)\]|([^.\[]+)")
_URL = " url"
_ABSENT = "–"


def orders_block(checks: Sequence[Check], posts: Sequence[Post]) -> OrdersBlock | None:
    """The orders of an episode. None if no order was due and none was placed. `posts` are the accepted posts."""
    due = list(_due(checks))
    orders = [_due_order(checks, posts[place] if place < len(posts) else None) for place, checks in enumerate(due)]
    orders += [
        Order(_resource(post), (), post.payload, is_placed=True, is_due=False, others=list(_leaves(post.payload)))
        for post in posts[len(due) :]
    ]
    return OrdersBlock(orders) if orders else None


def _due(checks: Sequence[Check]) -> Iterator[list[Check]]:
    """The checks of each order. The first check of an order is that of its URL."""
    current: list[Check] = []
    for check in checks:
        if check.name.endswith(_URL):
            if current:
                yield current
            current = [check]
        elif current and check.name.startswith(current[0].name.removesuffix(_URL) + " "):
            current.append(check)
    if current:
        yield current


def _due_order(checks: Sequence[Check], post: Post | None) -> Order:
    resource = checks[0].name.removesuffix(_URL)
    payload = MISSING if post is None else post.payload
    fields, looked_at = [], []
    for check in checks:
        name = check.name.removeprefix(f"{resource} ")
        if name == "url":
            placed = _ABSENT if post is None else post.url
            fields.append(Field("POST", _plain(check.expected), placed, check.passed))
            continue
        looked_at.append(name)
        fields += _fields(name, check, lookup(payload, _path(name)))
    others = [] if post is None else [(path, text) for path, text in _leaves(payload) if not _under(path, looked_at)]
    return Order(resource, fields, None if post is None else post.payload, post is not None, True, others)


def _fields(name: str, check: Check, placed: Any) -> Iterator[Field]:
    """The field of a check. If an object differs, a field for each of its leaves."""
    expected = json_value(check.expected)
    if not check.passed and isinstance(expected, dict) and isinstance(placed, dict):
        required, placed_leaves = dict(_leaves(expected)), dict(_leaves(placed))
        for leaf in dict.fromkeys([*required, *placed_leaves]):
            one, other = required.get(leaf, _ABSENT), placed_leaves.get(leaf, _ABSENT)
            yield Field(f"{name}.{leaf}", one, other, one == other)
        return
    yield Field(name, _plain(check.expected), _ABSENT if placed is MISSING else _text(placed), check.passed)


def _path(name: str) -> tuple[str | int, ...]:
    return tuple(int(number) if number else step for number, step in _STEP.findall(name))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each leaf of a JSON value with its path. Parts nested deeper than 12 levels are shown as text."""
    if isinstance(value, dict) and value and path.count(".") < 12:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and path.count("[") < 12:
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{place}]")
    else:
        yield path or "(whole)", _text(value)


def _under(path: str, names: Sequence[str]) -> bool:
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in names)


def _resource(post: Post) -> str:
    kind = post.payload.get("resourceType") if isinstance(post.payload, dict) else None
    return kind if isinstance(kind, str) else "POST"


def _plain(expected: str) -> str:
    """The expected value. If it is a JSON string, its text without quotes."""
    value = json_value(expected)
    return value if isinstance(value, str) else expected


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "a value that cannot be shown"
