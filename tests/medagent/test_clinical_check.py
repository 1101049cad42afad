"""`medagent.clinical.check`, as an author of task types calls it in pytest."""

from __future__ import annotations

import os
import random
import re
import time
import uuid
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pytest

from medagent import clinical as c

NOW = datetime(2024, 3, 5, 14, 0, tzinfo=UTC)
LACTATE = c.Lab("2524-7", c.LOINC, "lactate", unit="mmol/L")
INSULIN = c.Drug("5856", c.RXNORM, "insulin", words=("insulin",))


class RepeatLactate(c.TaskType):
    """Repeat a high lactate."""

    name = "repeat_lactate"
    text = "If the last lactate of patient {mrn} is above 2 mmol/L, order it again for 6 am tomorrow. Answer with it."

    def rule(self, chart: c.Chart) -> c.Ruling:
        last = chart.latest(LACTATE)
        if last is None:
            return c.nothing([-1])
        if last > 2:
            return c.order(c.lab_test(LACTATE, at=chart.tomorrow(6), priority="urgent"), answers=[[last.value]])
        return c.nothing([last.value])


class LowInsulin(c.TaskType):
    """Two orders, one of them with a rate."""

    name = "low_insulin"
    text = "Patient {mrn}: …"

    def rule(self, chart: c.Chart) -> c.Ruling:
        if chart.active_order(*INSULIN.words):
            return c.nothing()
        return c.order(c.medication(INSULIN, 4, "U", route="IV", over=2), c.lab_test(LACTATE, note="after insulin"))


def reading(value: float, time: str = "2024-03-05T08:00:00+00:00", number: int = 1, unit: str = "mmol/L") -> Any:
    return {
        "resourceType": "Observation",
        "id": str(number),
        "subject": {"reference": "Patient/P1"},
        "code": {"coding": [{"system": c.LOINC, "code": LACTATE.code}]},
        "effectiveDateTime": time,
        "valueQuantity": {"value": value, "unit": unit},
    }


def checked(kind: type[c.TaskType], *resources: Any) -> c.Checked:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return c.check(kind, resources, patient="P1", now=NOW)


def test_an_order_is_due_and_each_wrong_field_is_named() -> None:
    found = checked(RepeatLactate, reading(1.0, "2024-03-01T08:00:00+00:00", 2), reading(2.4))
    assert found.ruling.branch == "order"
    assert found.because == (
        "last lactate 2.4 mmol/L at 2024-03-05 08:00, 6 h before now; above 2 → order lactate at 2024-03-06T06:00"
    )
    assert found.answer == [2.4]
    [(url, body)] = found.posts
    assert (url[-15:], body["priority"], body["occurrenceDateTime"]) == (
        "/ServiceRequest",
        "urgent",
        "2024-03-06T06:00:00+00:00",
    )
    fields = ("code", "priority", "occurrenceDateTime", "status", "intent", "subject", "authoredOn")
    for name in ("resourceType", *fields):
        assert found.wrong[f"ServiceRequest {name}"].startswith(f"ServiceRequest {name}: expected")
    assert {*found.wrong} - {f"ServiceRequest {name}" for name in fields} == {
        "answer",
        "ServiceRequest left out",
        "ServiceRequest twice",
        "ServiceRequest resourceType",
    }
    assert found.twin is not None
    assert (found.twin.change.words, found.twin.after.branch) == ("Observation/1: value 2.4 → 2", "no order")
    assert "twin: Observation/1: value 2.4 → 2 (no order)" in str(found)


def test_no_order_is_due_without_a_reading_and_the_twin_adds_one() -> None:
    found = checked(RepeatLactate)
    assert (found.ruling.branch, found.answer, found.posts, [*found.wrong]) == ("no order", [-1], (), ["answer"])
    assert found.twin is not None
    assert found.twin.change.words == "Observation added: lactate 3, an hour before now"


def test_two_orders_have_their_wrong_fields_each() -> None:
    found = checked(LowInsulin)
    rate = "MedicationRequest dosageInstruction[0].doseAndRate[0]"
    assert {rate, f"{rate}.doseQuantity", "ServiceRequest note"} <= {*found.wrong}
    assert found.twin is not None
    assert found.twin.change.words == "MedicationRequest added: insulin, an hour before now"


def test_another_unit_is_a_fault_of_the_data() -> None:
    with pytest.raises(c.DataFault, match=r"another unit \(mg/dL: state molar_mass= in c.Lab\)"):
        checked(RepeatLactate, reading(2.4, unit="mg/dL"))


def test_now_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match=r"^now=2024-03-05T14:00:00 lacks a time zone; write datetime\(…, "):
        c.check(RepeatLactate, [reading(2.4)], patient="P1", now=NOW.replace(tzinfo=None))


class PlainNumber(RepeatLactate):
    """Compares a plain number, which the chart cannot record."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        last = chart.latest(LACTATE)
        return c.nothing() if last is None or last.value <= 2 else c.order(c.lab_test(LACTATE))


class PlainTime(RepeatLactate):
    """Compares a plain time."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        last = chart.latest(LACTATE)
        return c.nothing() if last is None or last.time > chart.now - c.days(2) else c.order(c.lab_test(LACTATE))


@pytest.mark.parametrize("kind", [PlainNumber, PlainTime])
def test_a_limit_that_was_not_recorded_is_a_warning(kind: type[c.TaskType]) -> None:
    with pytest.warns(UserWarning, match="at a limit that was not recorded; compare the event"):
        c.check(kind, [reading(2.4)], patient="P1", now=NOW)


class Clock(RepeatLactate):
    """Reads the clock."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        return c.nothing() if datetime.now(UTC) > chart.now else c.nothing([1])


class Chance(RepeatLactate):
    """Reads random numbers."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        return c.nothing([random.randint(1, 6)])


class Raises(RepeatLactate):
    """Raises."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        return c.nothing([vars(chart)["missing"]])


class Nothing(RepeatLactate):
    """Returns something else."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        return None  # type: ignore[return-value]  # the fault


class Placeholder(RepeatLactate):
    """Its text has an unknown placeholder."""

    text = "Patient {mrn}, born {birth}."


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Clock, "reads the clock (now); it may use only the chart"),
        (Chance, "reads random numbers (getrandbits); it may use only the chart"),
        (Raises, "failed: KeyError('missing')"),
        (Nothing, "returned NoneType; return nothing(…), answer(…) or order(…)"),
        (Placeholder, "contains the unknown placeholder {birth}; use {mrn}"),
    ],
)
def test_a_rule_at_fault_is_named_with_file_and_line(kind: type[c.TaskType], words: str) -> None:
    with pytest.raises(c.RuleError) as error:
        checked(kind)
    assert words in str(error.value)
    file, line, _ = str(error.value).split(":", 2)
    with open(file, encoding="utf-8") as source:
        at = source.read().splitlines()[int(line) - 1]
    assert at.strip().split("(")[0].split(" ")[0] in ("return", "text", "def"), at


READS: dict[str, list[Callable[[], object]]] = {
    "the clock": [
        *(time.monotonic_ns, time.perf_counter_ns, time.process_time, time.thread_time, time.ctime, time.asctime),
        *(lambda: time.clock_gettime(0), datetime.today, uuid.uuid1),
    ],
    "random numbers": [random.random, uuid.uuid4, lambda: os.urandom(2).hex()],
}
RULINGS: dict[str, Callable[[c.Chart], Any]] = {
    "gives two rulings on the same chart": lambda chart: c.answer([next(iter(random.random, None))]),
    "accepts no answer; write answer([4.1])": lambda chart: c.answer(),
    "accepts an answer of type tuple; write each one as a list: [4.1]": lambda chart: c.answer((1,)),
    "accepts an answer of type int; write": lambda chart: c.order(c.lab_test(LACTATE), answers=[1]),
    "accepts what no JSON equals, such as a tuple in a list": lambda chart: c.nothing([(1, 2)]),
    "(Object of type Event is not JSON serializable)": lambda chart: c.answer([chart.latest(LACTATE)]),
    # mypy sees these faults too, so it is told that they are meant
    "failed: KeyError(Event(text='2024-03-05T08:00:00+00:00', time=": lambda chart: {"": 1}[chart.latest(LACTATE)],  # type: ignore[index]  # the mistake is tested
    "returned order() without an order; write order(lab_test(…)), or nothing()": lambda chart: c.order(),
    "orders something of type list; write order(": lambda chart: c.order([c.lab_test(LACTATE)]),  # type: ignore[arg-type]  # the mistake is tested
    "changes something of type dict; write order(edits=": lambda chart: c.order(edits=[{}]),  # type: ignore[list-item]  # the mistake is tested
    "failed: AttributeError(\"'str' object has no attribute": lambda chart: chart.latest("2524-7"),  # type: ignore[arg-type]  # the mistake is tested
    "failed: SystemExit('done')": lambda chart: exit("done"),
}


@pytest.mark.parametrize(
    ("words", "ruled"),
    [
        *(
            (f"reads {what} (", lambda chart, read=read: c.answer([read()]))
            for what, reads in READS.items()
            for read in reads
        ),
        *RULINGS.items(),
    ],
)
def test_a_ruling_that_cannot_be_right_is_one_line(words: str, ruled: Callable[[c.Chart], c.Ruling]) -> None:
    class Faulty(RepeatLactate):
        def rule(self, chart: c.Chart) -> c.Ruling:
            return ruled(chart)

    with pytest.raises(c.RuleError) as error:
        checked(Faulty, reading(2.4))
    assert words in str(error.value)
    assert re.match(rf"{re.escape(__file__)}:\d+: the rule of repeat_lactate ", str(error.value))
    assert "\n" not in str(error.value)
    assert "resourceType" not in str(error.value), "no resource is quoted"


def test_a_rule_may_be_decorated_and_read_a_text_as_a_time() -> None:
    class Cached(RepeatLactate):
        @lru_cache  # noqa: B019  # the chart is another one in each test
        def rule(self, chart: c.Chart) -> c.Ruling:
            return c.answer([datetime.strptime("5 March 2024", "%d %B %Y").year])

    assert checked(Cached).answer == [2024]


class HoldInsulin(c.TaskType):
    """Hold the insulin order, and change nothing else."""

    name = "hold_insulin"
    text = "If the last lactate of patient {mrn} is above 2 mmol/L, put the active insulin order on hold."

    def rule(self, chart: c.Chart) -> c.Ruling:
        last, order = chart.latest(LACTATE), chart.active_order(*INSULIN.words)
        if last is None or order is None or last <= 2:
            return c.nothing(only=True)
        return c.order(edits=[c.update(order, status="on-hold")], only=True)


ORDERED = {
    "resourceType": "MedicationRequest",
    "id": "m1",
    "status": "active",
    "subject": {"reference": "Patient/P1"},
    "medicationCodeableConcept": {"text": "insulin"},
}


def test_a_due_change_is_shown_and_wrong_ones_are_named() -> None:
    found = checked(HoldInsulin, reading(2.4), ORDERED)
    url = "http://localhost:8080/fhir/MedicationRequest/m1"
    assert found.requests == (("PATCH", url, [{"op": "add", "path": "/status", "value": "on-hold"}]),)
    assert found.because.endswith('→ change MedicationRequest/m1: status "on-hold"')
    assert found.wrong == {
        "MedicationRequest m1 unchanged": found.wrong["MedicationRequest m1 unchanged"],
        "MedicationRequest m1 status": found.wrong["MedicationRequest m1 status"],
        "other change": "other changes: expected none, got Patient another: deleted",
    }
    assert f"right PATCH {url}\n" in str(found)
    assert found.twin is not None
    assert found.twin.after.branch == "no order"


def test_nothing_can_be_changed_that_the_rule_did_not_find() -> None:
    class Missing(HoldInsulin):
        def rule(self, chart: c.Chart) -> c.Ruling:
            return c.order(edits=[c.delete(chart.active_order(*INSULIN.words))])  # type: ignore[arg-type]  # the fault

    with pytest.raises(c.RuleError, match="None cannot be changed or deleted: the rule found no resource"):
        checked(Missing)
