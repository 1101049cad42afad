"""An overlay that begins with a chart answers like one over data that have always contained its resources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from fhir_server import Server
from fhir_server.clock import SteppingClock
from fhir_server.errors import ServerError
from fhir_server.ids import IdSource
from fhir_server.server import Overlay
from tests.fhir_server.test_amend import GETS, NOW, PATIENT, READINGS, get, reading, send

BASE = READINGS[:2]
CHART = [PATIENT, *READINGS[2:]]


def lines(resources: Sequence[Any]) -> str:
    return "\n".join(json.dumps(resource) for resource in resources)


@contextmanager
def server(resources: Sequence[Any] = BASE) -> Iterator[Server]:
    with Server.open(None, "http://localhost/fhir") as opened:
        opened.load(lines(resources).splitlines(), ids=IdSource("load"), clock=SteppingClock(NOW))
        yield opened


def answers(overlay: Overlay) -> list[tuple[int, Any]]:
    """The replies to all GETs, without what says when and by whom a resource was stored, and when it was asked."""
    return [(status, without_times(json.loads(body))) for status, body, _ in (get(overlay, target) for target in GETS)]


def without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [without_times(element) for element in value]
    if isinstance(value, dict):
        left_out = ("lastUpdated", "source", "id", "lastModified", "etag", "link", "diagnostics")
        return {name: without_times(element) for name, element in value.items() if name not in left_out}
    return value


def test_an_overlay_with_a_chart_answers_as_one_over_all_the_data() -> None:
    with server([*BASE, *CHART]) as whole, whole.overlay("seed", NOW) as overlay:
        expected = answers(overlay)
    with server() as parts, parts.overlay("seed", NOW, (), lines(CHART)) as overlay:
        assert answers(overlay) == expected


def test_charts_with_the_same_ids_do_not_meet() -> None:
    first, second = reading("c", "4.4", 7), reading("c", "9.9", 8, patient="p2")
    with (
        server() as opened,
        opened.overlay("one", NOW, (), lines([first])) as first_overlay,
        opened.overlay("two", NOW, (), lines([second])) as second_overlay,
        opened.overlay("none", NOW) as none,
    ):
        assert '"value": 4.4' in get(first_overlay, "/Observation/c")[1]
        assert '"value": 9.9' in get(second_overlay, "/Observation/c")[1]
        assert get(none, "/Observation/c")[0] == 404
        assert json.loads(get(second_overlay, "/Observation?patient=p2&_summary=count")[1])["total"] == 1


def test_a_chart_replaces_resources_of_the_data_with_its_ids() -> None:
    with server() as opened, opened.overlay("seed", NOW, (), lines([reading("a", "7.7", 4)])) as overlay:
        assert '"value": 7.7' in get(overlay, "/Observation/a")[1]
        assert json.loads(get(overlay, "/Observation?patient=p1&_summary=count")[1])["total"] == len(BASE)
        assert overlay.replaced() == []


def test_only_the_writes_of_requests_are_changes() -> None:
    with server() as opened, opened.overlay("seed", NOW, (), lines(CHART)) as overlay:
        assert overlay.replaced() == overlay.created() == []
        assert send(overlay, "PUT", "/Observation/c", reading("c", "5.0", 7)) == 200
        assert send(overlay, "DELETE", "/Observation/d") == 200
        assert send(overlay, "POST", "/Observation", reading("x", "6.0", 7)) == 201
        changes = {name: (before, after) for _, name, before, after in overlay.replaced()}
        assert '"value": 4.4' in str(changes["c"][0])
        assert '"value": 5.0' in str(changes["c"][1])
        assert changes["d"][0] is not None
        assert changes["d"][1] is None
        assert [before for name, (before, _) in changes.items() if name not in "cd"] == [None]
        assert len(overlay.created()) == 1


def test_ids_of_the_server_do_not_meet_numbers_of_a_chart() -> None:
    with server([PATIENT]) as opened, opened.overlay("seed", NOW, (), lines([reading("70", "4.4", 7)])) as overlay:
        assert send(overlay, "POST", "/Observation", reading("x", "6.0", 7)) == 201
        assert [name for _, name, _ in overlay.created()] == ["71"]


@pytest.mark.parametrize("chart", ["", "\n\n"])
def test_an_empty_chart_adds_nothing(chart: str) -> None:
    with server() as opened, opened.overlay("seed", NOW, (), chart) as overlay:
        assert json.loads(get(overlay, "/Observation?_summary=count")[1])["total"] == len(BASE)


@pytest.mark.parametrize(
    ("chart", "problem"),
    [
        ("{", "line 1 of the chart"),
        (f'{lines([PATIENT])}\n\n{{"resourceType": "Ward", "id": "w"}}', "line 3 of the chart"),
        ('{"resourceType": "Patient"}', "needs an id"),
        (lines([PATIENT, PATIENT]), "Patient/p1: is in the chart twice"),
    ],
)
def test_a_chart_that_cannot_be_loaded_is_an_error(chart: str, problem: str) -> None:
    with server() as opened:
        for _ in range(2):
            with pytest.raises(ServerError, match=problem):
                opened.overlay("seed", NOW, (), chart)
        with opened.overlay("seed", NOW, (), lines(CHART)) as overlay:
            assert get(overlay, "/Patient/p1")[0] == 200
