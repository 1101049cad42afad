"""Dates: the stretch each covers, and HAPI's own table of date searches over them."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhir_server import Request, Server
from fhir_server.search.kinds.date import DAY, Span, period_span, span, timing_span
from tests.shared_data import SHARED, need


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "low", "high", "days"),
    [
        ("2012", "2012-01-01T00:00:00Z", "2012-12-31T23:59:59.999Z", (20120101, 20121231)),
        ("2012-02", "2012-02-01T00:00:00Z", "2012-02-29T23:59:59.999Z", (20120201, 20120229)),
        ("2012-06-03", "2012-06-03T00:00:00Z", "2012-06-03T23:59:59.999Z", (20120603, 20120603)),
        ("2015-06-27T08:39:24+10:00", "2015-06-26T22:39:24Z", "2015-06-26T22:39:24Z", (20150627, 20150627)),
        ("2015-06-27T08:39:24.5-03:30", "2015-06-27T12:09:24.500Z", "2015-06-27T12:09:24.500Z", (20150627, 20150627)),
        ("2015-06-27T08:39:24", "2015-06-27T08:39:24Z", "2015-06-27T08:39:24Z", (20150627, 20150627)),
        ("2015-06-27T08:39:24.123456789Z", "2015-06-27T08:39:24.123Z", "2015-06-27T08:39:24.123Z", (20150627,) * 2),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z", "2017-01-01T00:00:00Z", (20161231, 20161231)),
    ],
)
def test_a_date_covers_what_its_precision_says(text: str, low: str, high: str, days: tuple[int, int]) -> None:
    assert span(text) == Span(instant(low), instant(high), *days)


def test_the_year_0_has_a_place() -> None:
    assert span("0000").low == span("0001").low
    assert span("0000-05-04T10:00:00Z").low_day == 504


def test_open_ends_of_a_period_are_the_years_1001_and_9000() -> None:
    since = period_span({"start": "2016-11-14"})
    until = period_span({"end": "2016-11-14"})
    assert since == Span(instant("2016-11-14T00:00:00Z"), instant("9000-01-01T23:59:59.999Z"), 20161114, 90000101)
    assert until == Span(instant("1001-01-01T00:00:00Z"), instant("2016-11-14T23:59:59.999Z"), 10010101, 20161114)
    assert period_span({"id": "x"}) is None


def test_a_timing_runs_from_its_first_event_to_its_last() -> None:
    """As HAPI 7.6.0 answers: only the first moment is also that of the limits of the repetition."""
    timing = {"event": ["2012-03-01", "2012-01-01"], "repeat": {"boundsPeriod": {"end": "2012-02-01"}}}
    low, high = instant("2012-01-01T00:00:00Z"), instant("2012-03-02T00:00:00Z") - 1
    assert timing_span(timing) == Span(low, high, 20120101, 20120301)
    earlier = {"event": ["2012-01-05"], "repeat": {"boundsPeriod": {"start": "2012-01-01", "end": "2012-02-01"}}}
    assert timing_span(earlier) == Span(low, instant("2012-01-06T00:00:00Z") - 1, 20120105, 20120105)
    bounds = {"repeat": {"boundsPeriod": {"start": "2012-01-01", "end": "2012-02-01"}}}
    assert timing_span(bounds) == Span(low, instant("2012-02-01T00:00:00Z"), 20120101, 20120201)
    assert timing_span({"code": {"text": "BID"}}) is None


@settings(max_examples=100)
@given(st.datetimes(min_value=datetime(2, 1, 1), timezones=st.just(UTC)))
def test_every_instant_lies_in_its_day(moment: datetime) -> None:
    day = span(moment.date().isoformat())
    time = span(moment.isoformat())
    assert day.low <= time.low == time.high <= day.high == day.low + DAY - 1
    assert day.low_day == time.low_day


def table(path: Path) -> list[list[str]]:
    with need(path).open(encoding="utf-8") as lines:
        return [[cell.strip() for cell in row] for row in csv.reader(lines) if row and not row[0].startswith("#")]


def cases() -> list[tuple[str, str, bool]]:
    """Resource date, query, whether HAPI matches them, from both tables."""
    found = [(row[0], row[1], row[2] == "True") for row in table(SHARED / "hapi" / "date_search_cases.csv")]
    for date, prefixes, asked, *_ in table(SHARED / "hapi" / "date_search_cases_compact.csv"):
        found += [(date, prefix + asked, prefix in prefixes.split()) for prefix in ("eq", "ne", "gt", "ge", "lt", "le")]
    return found


def test_hapis_table_of_date_searches() -> None:
    wanted = cases()
    dates = list(dict.fromkeys(date for date, _, _ in wanted))
    server = Server.open(None)
    for number, date in enumerate(dates):
        body = f'{{"resourceType": "Observation", "id": "d{number}", "status": "final", "effectiveDateTime": "{date}"}}'
        put(server, f"/fhir/Observation/d{number}", body)
    wrong = []
    found: dict[str, str] = {}
    for date, asked, matches in wanted:
        if asked not in found:
            found[asked] = get(server, f"/fhir/Observation?date={quote(asked)}&_count=1000")
        if (f'"id": "d{dates.index(date)}"' in found[asked]) != matches:
            wrong.append((date, asked, matches))
    server.close()
    assert not wrong


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("2020-02-29T23:59:60Z4", 201),  # HAPI looks at nothing behind the Z
        ("0000-01-01T00:00:00Z", 201),
        ("0001-01-01T00:00:00+14:00", 201),
        ("9999-12-31T23:59:59.9999999-12:00", 201),
        ("2020-02-29T00:00:00.12345x789+14:00", 400),
        ("2020-+1-01", 400),
        ("٢٠٢٠", 400),
        ("2020-02-30", 400),
    ],
)
def test_an_odd_date_is_stored_and_found_or_refused(text: str, status: int) -> None:
    with Server.open(None) as server:
        body = json.dumps({"resourceType": "Observation", "id": "a", "effectiveDateTime": text}).encode()
        answer = server.handle(Request("PUT", "/fhir/Observation/a", [("Content-Type", "application/fhir+json")], body))
        assert answer.status == status
        found = json.loads(get(server, "/fhir/Observation?date:missing=false"))
        assert found["total"] == (status == 201)


def put(server: Server, target: str, body: str) -> None:
    answer = server.handle(Request("PUT", target, [("Content-Type", "application/fhir+json")], body.encode()))
    assert answer.status == 201, answer.body


def get(server: Server, target: str) -> Any:
    answer = server.handle(Request("GET", target, [], b""))
    assert answer.status == 200, answer.body
    return answer.body.decode()
