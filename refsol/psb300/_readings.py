"""The types that depend on readings: 3 (heart rate), 6 (thyroid), 7 (QTc)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from refsol.json_values import as_object, json_value
from refsol.psb300._drugs import ACTIVE
from refsol.psb300._facts import Resource
from refsol.psb300._reply import Placed, Reply, ReplyFault
from refsol.psb300._ruling import (
    ORDERS,
    Case,
    Demand,
    Evidence,
    Ruling,
    absent,
    at,
    count,
    done_fact,
    listed,
    no_post,
    nothing_due,
    of_kind,
    some,
    subject,
)
from refsol.psb300.chart import Search, Timed, latest, moment, named, number, passed
from refsol.stats import sequential_mean
from refsol.verdict import Because, Check, Fact, show

HEART_RATE = Search("Observation", "HEARTRATE")
TSH = Search("Observation", "TSH")
FT4 = Search("Observation", "FT4")
QTC = Search("Observation", "QTCINTERVAL")
TOLERANCE = 0.1
PROLONGING = (
    "ondansetron",
    "prochlorperazine",
    "haloperidol",
    "quetiapine",
    "olanzapine",
    "risperidone",
    "ziprasidone",
    "clozapine",
    "chlorpromazine",
)


def task3(case: Case) -> Ruling:
    """Answer with the mean heart rates of the past 6 and 12 hours: null or -1 if there is no reading."""
    readings = [one for resource in case.chart.find(HEART_RATE, needs_meta=False) if (one := _reading(resource))]
    recent = [one for one in readings if timedelta(0) <= passed(one, case.now) <= timedelta(hours=12)]
    latest_half = [one for one in recent if passed(one, case.now) <= timedelta(hours=6)]
    means = [_mean(latest_half), _mean(recent)]

    def demand(reply: Reply) -> Iterator[Check]:
        yield no_post(case, reply, attempts=True)
        pair = _pair(reply.result)
        right = pair is not None and all(map(_is_mean, pair, means))
        expected = f"{show(means)}, each at most {TOLERANCE} away; null or -1 if there is no reading"
        yield Check("answer", right, expected, show(reply.result))

    words = ["none" if mean is None else f"{mean:.6g}" for mean in means]
    facts = tuple(done_fact(one, "of the past 12 h") for one in recent)
    window = (case.now - timedelta(hours=12), case.now)
    evidence = Evidence(tuple(named(one.resource) for one in recent), () if recent else (HEART_RATE,), window)
    sentence = f"mean heart rate of the past 6 h: {words[0]}, of the past 12 h: {words[1]} ({len(recent)} readings)"
    because = Because(sentence, facts or (absent(HEART_RATE, "none in the past 12 h"),))
    return Ruling("query", because, demand, evidence, (means,))


def task6(case: Case) -> Ruling:
    """Follow the protocol for TSH and free T4: order a drug and two labs (A), two labs (B), or nothing."""
    tsh, ft4 = _measured(case, TSH), _measured(case, FT4)
    last_tsh, last_ft4 = latest(tsh), latest(ft4)
    pair = _high_pair(tsh)
    if pair is not None:
        sentence = f"{at(pair[0])} and {at(pair[1])}: above 10 twice, 30 days apart → levothyroxine, TSH and FT4"
        return Ruling("order", _because(sentence, *pair), _drug_and_labs(case), _evidence(*pair))
    if last_tsh is None:
        because = Because("no TSH; nothing to order", (absent(TSH, "none"),))
        return nothing_due(case, because, Evidence((), (TSH,)))
    if not 4.5 <= last_tsh.value <= 10:
        sentence = f"last {at(last_tsh)}: not 4.5 to 10, and not above 10 twice, 30 days apart → no order"
        return nothing_due(case, _because(sentence, last_tsh), _evidence(last_tsh))
    if last_ft4 is None:
        because = _because(f"last {at(last_tsh)}, no FT4 → no order", last_tsh)
        return nothing_due(case, because, Evidence((named(last_tsh.resource),), (FT4,)))
    sentence = f"last {at(last_tsh)}, last {at(last_ft4)}"
    if not 0.8 <= last_ft4.value <= 1.8:
        because = _because(f"{sentence}: FT4 is not 0.8 to 1.8 → no order", last_tsh, last_ft4)
        return nothing_due(case, because, _evidence(last_tsh, last_ft4))
    because = _because(f"{sentence}: TSH 4.5 to 10 and FT4 0.8 to 1.8 → TSH and FT4 again, no drug", last_tsh, last_ft4)
    return Ruling("order", because, _labs_alone(case), _evidence(last_tsh, last_ft4))


def task7(case: Case) -> Ruling:
    """Order an ECG and stop a drug that prolongs the QTc, if the last QTc is above 500 ms."""
    readings = case.chart.find(QTC)
    if not readings:
        because = Because("no QTc; nothing to order", (absent(QTC, "none"),))
        return nothing_due(case, because, Evidence((), (QTC,)), attempts=True)
    last = latest(_measured(case, QTC)) if case.rules.fair else _stored_last(readings)
    assert last is not None
    order = "taken" if case.rules.fair else "stored"
    if last.value <= 500:
        because = _because(f"{at(last)}, {order} last: not above 500 → no order", last)
        return nothing_due(case, because, _evidence(last))
    drugs, chart_facts, evidence = _prolonging(case, last)

    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), 2 if drugs else 1, more=True)
        for post in posts:
            yield Check("resourceType", post.kind in ORDERS, " or ".join(ORDERS), show(post.kind))
            yield subject(case, post)
        ecgs = [(post, _no_ecg(case, post)) for post in of_kind(posts, "ServiceRequest")]
        stops = [(post, _no_stop(case, post, drugs)) for post in of_kind(posts, "MedicationRequest")]
        yield some("ECG", "an active ServiceRequest of 445118002 or an ECG", ecgs)
        if drugs:
            yield some("stop", f"a MedicationRequest that stops one of {', '.join(drugs)}", stops)

    what = "an ECG and a stop" if drugs else "an ECG"
    because = _because(f"{at(last)}, {order} last: above 500 → {what}", last, more=chart_facts)
    return Ruling("order", because, demand, evidence)


def _reading(resource: Resource) -> Timed | None:
    """A reading of task3; None if it has no time or no value."""
    text, value = resource.get("effectiveDateTime"), as_object(resource.get("valueQuantity")).get("value")
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        time = None
    return None if time is None or value is None else Timed(resource, str(text), time, number(resource))


def _mean(readings: Sequence[Timed]) -> float | None:
    return sequential_mean([one.value for one in readings]) if readings else None


def _pair(result: Any) -> Sequence[Any] | None:
    """The two values of a result: a list, or a list written as Python or JSON. None if there are not exactly two."""
    value = result
    if isinstance(result, str):
        try:
            value = ast.literal_eval(result)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = json_value(result)
    return value if isinstance(value, list | tuple) and len(value) == 2 else None


def _is_mean(value: Any, mean: float | None) -> bool:
    if value is None or (isinstance(value, str) and value.strip() == "-1"):
        return mean is None
    if isinstance(value, int | float) and value == -1:
        return mean is None
    try:
        return mean is not None and isinstance(value, int | float | str) and abs(float(value) - mean) <= TOLERANCE
    except (ValueError, OverflowError):
        return False


def _measured(case: Case, search: Search) -> list[Timed]:
    """All readings of a code; each must have a time and a value. Raises ChartFault."""
    readings = []
    for resource in case.chart.find(search):
        text = resource.get("effectiveDateTime")
        readings.append(Timed(resource, str(text), moment(text, resource), number(resource)))
    return readings


def _high_pair(readings: Sequence[Timed]) -> tuple[Timed, Timed] | None:
    """The first and the last TSH above 10, if they are at least 30 days apart."""
    high = sorted((one for one in readings if one.value > 10), key=lambda one: one.time)
    apart = len(high) > 1 and high[-1].time - high[0].time >= timedelta(days=30)
    return (high[0], high[-1]) if apart else None


def _stored_last(readings: Sequence[Resource]) -> Timed:
    """The reading with the greatest `meta.lastUpdated`, compared as text. The first one if several are equal."""
    resource = max(readings, key=lambda one: str(as_object(one.get("meta")).get("lastUpdated") or ""))
    text = resource.get("effectiveDateTime") or "a time that is not stated"
    return Timed(resource, str(text), datetime.min, number(resource))


def _prolonging(case: Case, last: Timed) -> tuple[tuple[str, ...], tuple[Fact, ...], Evidence]:
    """The drugs of which one must be stopped, with the facts and the evidence for them.

    `official` accepts every drug in `PROLONGING`, `fair` only those that are active in the chart.
    """
    if not case.rules.fair:
        return PROLONGING, (), _evidence(last)
    active = case.chart.medication_texts(ACTIVE)
    orders = [(resource, text) for resource, text in active if case.rules.mentions(text, *PROLONGING)]
    drugs = tuple(word for word in PROLONGING if any(case.rules.mentions(text, word) for _, text in orders))
    facts = tuple(listed(resource, text, "prolongs the QTc") for resource, text in orders)
    facts = facts or (absent(ACTIVE, "no drug that prolongs the QTc"),)
    read = tuple(named(resource) for resource, _ in orders)
    return drugs, facts, Evidence((named(last.resource), *read), () if read else (ACTIVE,))


def _no_ecg(case: Case, post: Placed) -> str | None:
    if post.word("status") != "active":
        return f"status {show(post.field('status'))}"
    return None if case.rules.mentions(post.text().lower(), "445118002", "ecg") else "no ECG in it"


def _no_stop(case: Case, post: Placed, drugs: Sequence[str]) -> str | None:
    if misfit := post.not_a_stop():
        return misfit
    return None if case.rules.mentions(post.text().lower(), *drugs) else "none of these drugs in it"


def _drug_and_labs(case: Case) -> Demand:
    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), 3, more=True)
        drugs = []
        for post in of_kind(posts, "MedicationRequest"):
            drugs.append((post, _no_levothyroxine(case, post)))
            if drugs[-1][1] is None:
                break
        yield some("levothyroxine", "an order of levothyroxine 25", drugs)
        yield from _labs(case, posts)

    return demand


def _labs_alone(case: Case) -> Demand:
    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), 2, more=True)
        drugs = of_kind(posts, "MedicationRequest")
        yield Check("drug", not drugs, "no MedicationRequest", f"{len(drugs)} of them")
        yield from _labs(case, posts)

    return demand


def _no_levothyroxine(case: Case, post: Placed) -> str | None:
    text = post.concept_text()
    if not (case.rules.mentions(text, "levothyroxine") and case.rules.mentions(text, "25")):
        return f"medicationCodeableConcept.text {show(text)}"
    return post.misfit(case.patient)


def _labs(case: Case, posts: Sequence[Placed]) -> Iterator[Check]:
    """Two labs of TSH or FT4. `fair` requires one of each."""
    services = of_kind(posts, "ServiceRequest")

    def misfits(*names: str) -> list[tuple[Placed, str | None]]:
        return [(post, post.misfit(case.patient) or _no_lab(case, post, *names)) for post in services]

    yield some("labs", "two orders of TSH or FT4", misfits("tsh", "ft4"), due=2)
    if case.rules.fair:
        yield some("TSH", "an order of TSH", misfits("tsh"))
        yield some("FT4", "an order of FT4", misfits("ft4"))


def _no_lab(case: Case, post: Placed, *names: str) -> str | None:
    code = post.field("code", {})
    if not isinstance(code, dict) or not isinstance(code.get("text", ""), str):
        raise ReplyFault(f"post {post.number}: code is {show(code)}, not an object with a text")
    return None if case.rules.mentions(post.text("code").lower(), *names) else f"code {show(code)}"


def _because(sentence: str, *readings: Timed, more: tuple[Fact, ...] = ()) -> Because:
    return Because(sentence, (*(done_fact(one, "decides") for one in readings), *more))


def _evidence(*readings: Timed) -> Evidence:
    return Evidence(tuple(named(one.resource) for one in readings))
