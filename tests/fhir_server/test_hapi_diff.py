"""The requests of tools/hapi_diff: the same for the same seed, from all of its sources, and never a fault here."""

from __future__ import annotations

from itertools import cycle

import pytest

from fhir_server import Server
from tests.fhir_server.test_live import send
from tools.hapi_diff.answers import Plan, stable
from tools.hapi_diff.client import Answer, Case, Client
from tools.hapi_diff.grammar import TIERS
from tools.hapi_diff.servers import CHANCE, Side
from tools.hapi_diff.standard import EXAMPLES

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason=f"{EXAMPLES} is missing")


def test_the_same_seed_gives_the_same_requests_of_every_kind() -> None:
    first, second = ([*Plan(1500, seed=5).cases()] for _ in range(2))
    assert first == second
    assert {case.rule for case in first} == {rule for _, kinds in TIERS.values() for rule, _ in kinds}


def test_none_of_them_is_a_fault() -> None:
    with Server.open(None) as server:
        for case in Plan(400, seed=6).cases():
            request = {"method": case.method, "url": case.url, "headers": case.headers, "body": case.body}
            assert send(server, request).status < 500, case


@pytest.mark.parametrize(
    ("case", "bodies", "chance"),
    [
        (Case("POST", "Encounter"), ["HAPI-1094: a", "HAPI-1094: b"], True),
        (Case("POST", "Encounter"), ["HAPI-1094: a"], False),
        (Case("GET", "Patient?_sort=gender"), ["a", "a", "a", "a", "a", "a", "a", "b"], True),
        (Case("GET", "Patient?_sort=_id"), ["a"], False),
    ],
)
def test_what_hapi_names_by_chance_is_not_counted(case: Case, bodies: list[str], chance: bool) -> None:
    """HAPI names another one of several references that lead nowhere each time, and orders equal keys in any way."""
    answers = cycle(bodies)

    class Scripted(Client):
        def send(self, case: Case) -> Answer:
            text = next(answers)
            return Answer(400, {}, text, text)

    side = Side("http://localhost:1/fhir")
    side.client = Scripted("http://localhost:1/fhir")
    rows = side.pages(case)
    assert (rows[0].body == CHANCE) == chance
    assert stable([[rows], [rows]]) == [None if chance else rows]
