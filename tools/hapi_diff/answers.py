"""The answers of one start of a server to the generated requests, as a file.

The first line of a file contains the settings of the requests. Then there is a line for each request, in order, with
the answer and the next pages. Three starts of HAPI show which answers HAPI varies itself: only rows on which all starts
agree are counted.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.hapi_diff.client import Answer, Case
from tools.hapi_diff.grammar import TIERS, Grammar
from tools.hapi_diff.servers import CHANCE, Side, load, recorded_data


@dataclass(frozen=True, slots=True)
class Plan:
    """Which requests are made: the same plan gives the same ones."""

    count: int = 1000
    seed: int = 1
    tier: str | None = None

    def cases(self) -> Iterator[Case]:
        """The requests, in order."""
        grammar = Grammar(self.seed, [json.loads(line) for line in recorded_data()])
        shares = {name: share for name, (share, _) in TIERS.items()}
        if self.tier is None:
            tiers = grammar.random.choices([*shares], [*shares.values()], k=self.count)
        else:
            tiers = [self.tier] * self.count
        return (grammar.case(tier) for tier in tiers)


def ask(base: str, plan: Plan) -> Iterator[tuple[Case, list[Answer]]]:
    """Loads a fresh server with the recorded data and sends it the requests of a plan."""
    side = Side(base)
    load(side.client)
    for case in plan.cases():
        yield case, side.pages(case)


def write(path: Path, plan: Plan, rows: Iterable[tuple[Case, list[Answer]]]) -> None:
    """Keeps the answers of one start."""
    with lzma.open(path, "wt", encoding="utf-8", preset=1) as file:
        print(json.dumps(asdict(plan)), file=file)
        for _, pages in rows:
            print(json.dumps([[page.status, page.headers, page.raw, page.body] for page in pages]), file=file)


def read(path: Path) -> tuple[Plan, list[list[Answer]]]:
    """The plan and the answers of one start."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        plan = Plan(**json.loads(file.readline()))
        return plan, [
            [Answer(status, headers, body, raw) for status, headers, raw, body in json.loads(line)] for line in file
        ]


def stable(starts: list[list[list[Answer]]]) -> list[list[Answer] | None]:
    """For each request the answers on which all starts agree; None where they do not, or HAPI chooses at random."""
    return [
        rows[0]
        if all([key(page) for page in row] == [key(page) for page in rows[0]] for row in rows)
        and all(page.body != CHANCE for page in rows[0])
        else None
        for rows in map(list, zip(*starts, strict=True))
    ]


def key(answer: Answer) -> tuple[int, str, dict[str, str]]:
    """What is compared of an answer."""
    return answer.status, answer.body, answer.headers
