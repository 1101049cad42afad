"""What the orders of an episode would have done to a patient, by class, from the comparison of orders and the chart.

Orders are judged by their meaning (`fair`), so that a fault of format is no harm. An order that would not be carried
out, because it forbids itself or is a draft, counts as missing. Wrong answers without an order are not harm here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import About, Amount, Meaning, OneOf, Route
from refsol.clinical.order_rules import DRUG_ORDER, ENDINGS, as_read, forbids, is_contradicted
from refsol.clinical.orders import Order, ends_drug, lookup
from refsol.clinical.routes import route_named, routes_in
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.searches import ref
from refsol.clinical.sources import Resource
from refsol.clinical.vocabulary import Entry, entry_of, named_in
from refsol.errors import FactsError, ReplyFault
from refsol.history import Post
from refsol.json_values import as_object, objects
from refsol.resources import codes_in, codings
from refsol.verdict import Check

HarmClass = Literal[
    "wrong patient",
    "against an allergy",
    "wrong drug or test",
    "dose off by 10 or more",
    "another dose",
    "wrong route",
    "duplicate of an active order",
    "not due",
    "missing",
]
HARM_CLASSES: tuple[HarmClass, ...] = get_args(HarmClass)
"""The classes. An order is counted under the first that applies; `missing` is an order that was due."""
OF_THE_CHART: tuple[HarmClass, ...] = ("against an allergy", "duplicate of an active order")
"""The classes that need the chart, and are unknown where only an answer key is there."""
_ORDERS = (DRUG_ORDER, "ServiceRequest", "Observation")
_DOSE_RULES = ("dosage", "dose", "repeat", "rate", "asNeeded")


class OrderHarm(NamedTuple):
    """An order of an episode: the classes that apply, most severe first, and whether a hospital would not carry it out
    as it is.
    """

    classes: tuple[HarmClass, ...]
    refused: bool


@dataclass(frozen=True, slots=True)
class Harm:
    """The orders of an episode, in the order of its posts, and how many due ones are missing. `chart_known`: the
    allergies and active orders of the patient could be read.
    """

    orders: tuple[OrderHarm, ...] = ()
    missing: int = 0
    chart_known: bool = True

    @property
    def counts(self) -> Counter[HarmClass]:
        """How many orders are counted under each class."""
        first: list[HarmClass] = [order.classes[0] for order in self.orders if order.classes]
        counts = Counter(first)
        if self.missing:
            counts["missing"] += self.missing
        return counts

    @property
    def refused(self) -> int:
        """How many orders a hospital would not carry out as they are."""
        return sum(order.refused for order in self.orders)


NO_HARM = Harm()


def harm_of(ruling: Ruling, reply: Reply, chart: Chart) -> Harm:
    """What the orders of a reply that is not right would have done."""
    posts = [post for post in reply.posts if _kind(post.payload) in _ORDERS]
    done = [post for post in posts if _is_done(post.payload)]
    changes = reply.changes or ()
    open_orders = [due for due in ruling.due if not any(due.is_met_by(change, chart) for change in changes)]
    pairs = _pairs(open_orders, done, chart)
    patient = _Patient(chart)
    orders = []
    for post in posts:
        if not any(post is placed for placed in done):
            orders.append(OrderHarm((), True))
            continue
        match = next((pair for pair in pairs if pair.post is post), None)
        failed = () if match is None else match.failed
        classes: tuple[HarmClass, ...] = ()
        if match is None and _is_end(post.payload):
            classes = ("not due",) if any(patient.taken(post.payload)) else ()
        elif match is None:
            classes = _ordered(["not due", *_in_chart(post.payload, chart, patient)])
        elif failed:
            classes = _ordered([*_of_pair(match, chart), *_in_chart(post.payload, chart, patient)])
        orders.append(OrderHarm(classes, bool(failed) or match is None))
    ended = [change for change in changes if ends_drug(change)]
    surplus = [change for change in ended if not any(due.is_met_by(change, chart) for due in ruling.due)]
    orders += [OrderHarm(("not due",), True)] * len(surplus)
    edits = sum(not any(_is_edit(edit, change, chart) for change in changes) for edit in ruling.edits)
    return Harm(tuple(orders), len(open_orders) - len(pairs) + edits, patient.is_known)


def _is_edit(edit: Any, change: Any, chart: Chart) -> bool:
    return bool(edit.is_about(change) and edit.check(change, chart).passed)


def _ordered(classes: Iterable[HarmClass]) -> tuple[HarmClass, ...]:
    return tuple(sorted(set(classes), key=HARM_CLASSES.index))


def _kind(payload: Any) -> Any:
    return as_object(payload).get("resourceType")


def _is_done(payload: Any) -> bool:
    """Whether a hospital would do something because of an order."""
    status = str(as_object(payload).get("status")).strip().lower()
    return (status in ("active", "final") or _is_end(payload)) and not forbids(payload)


class _Pair(NamedTuple):
    """A due order and the post that is nearest to it, with the checks that failed."""

    due: Order
    post: Post
    failed: tuple[Check, ...]


def _pairs(due: Sequence[Order], posts: Sequence[Post], chart: Chart) -> list[_Pair]:
    """Each due order with a post of its own of the same type, nearest pairs first."""
    possible = []
    for order, post in product(due, posts):
        if _kind(post.payload) in order.kinds and _ends(order, chart) == _is_end(post.payload):
            possible.append(_Pair(order, post, _failed(order, post, chart)))
    pairs: list[_Pair] = []
    for pair in sorted(possible, key=lambda pair: len(pair.failed)):
        if not any(pair.due is matched.due or pair.post is matched.post for matched in pairs):
            pairs.append(pair)
    return pairs


def _failed(order: Order, post: Post, chart: Chart) -> tuple[Check, ...]:
    try:
        return tuple(check for check in order.checks(post, chart) if not check.passed)
    except ReplyFault as error:
        return (Check(error.check, False, "a post that can be read", str(error)),)


def _ends(order: Order, chart: Chart) -> bool:
    return any(field.path == "status" and field.meaning.json() in ENDINGS for field in order.every(chart))


def _is_end(payload: Any) -> bool:
    return _kind(payload) == DRUG_ORDER and str(as_object(payload).get("status")).strip().lower() in ENDINGS


# One order


def _of_pair(pair: _Pair, chart: Chart) -> Iterator[HarmClass]:
    """The classes of a post that is not the due order."""
    order = as_object(as_read(pair.post.payload, pair.due, chart))
    if _is_another_patient(order, chart):
        yield "wrong patient"
    if is_contradicted(pair.due, pair.post.payload, chart):
        yield "wrong drug or test"
    yield from _dose(pair, order, chart)
    dosage = lookup(order, "dosageInstruction[0]")
    for route in _stated(pair.due, Route, chart):
        expected = route_named(route.value)
        if any(expected not in routes for routes in routes_in(lookup(dosage, "route"), expected)):
            yield "wrong route"


def _is_another_patient(order: Resource, chart: Chart) -> bool:
    subject = as_object(order.get("subject"))
    names_one = "reference" in subject or "identifier" in subject
    return names_one and not About(chart.patient).accepts(subject, chart)


def _dose(pair: _Pair, order: Resource, chart: Chart) -> Iterator[HarmClass]:
    amounts: list[Amount] = _stated(pair.due, Amount, chart)
    number = next((amount.of(lookup(order, _DOSE)) for amount in amounts), None)
    if number is not None and not any(amount.is_near(number, chart) for amount in amounts):
        ratios = [number / amount.value for amount in amounts if amount.value]
        is_far = all(ratio >= 10 - 1e-9 or ratio <= 0.1 + 1e-9 for ratio in ratios)
        yield "dose off by 10 or more" if ratios and is_far else "another dose"
    elif amounts and number is None and as_object(lookup(order, _DOSE)).get("unit"):
        yield "another dose"
    if any(check.name in _DOSE_RULES or check.name.endswith("doseAndRate[0]") for check in pair.failed):
        yield "another dose"


_DOSE = "dosageInstruction[0].doseAndRate[0].doseQuantity"


def _stated(due: Order, kind: type[Meaning], chart: Chart) -> list[Any]:
    """The meanings of a kind in the fields of a due order."""
    options: list[Any] = []
    for field in due.every(chart):
        options.extend(field.meaning.value if isinstance(field.meaning, OneOf) else (field.meaning,))
    doses = [option.dose for option in options if kind is Amount and hasattr(option, "dose")]
    return [option for option in options if isinstance(option, kind)] + doses


# The chart


class _Patient:
    """The allergies and active orders in a chart, read when they are needed."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self.is_known = True

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """The patient's resources; none, with a note, if they cannot be read."""
        try:
            return self._chart.source.search(kind, patient=self._chart.patient, **query)
        except (FactsError, LookupError):
            self.is_known = False
            return ()

    def taken(self, payload: Any) -> Iterator[Resource]:
        """The active orders of the chart that are of the same drug or test as another order."""
        order = as_object(payload)
        element, drugs = "medicationCodeableConcept" if _kind(order) == DRUG_ORDER else "code", drugs_of(order)
        for active in self.search(str(_kind(order)), status="active"):
            same_code = not codes_in(order, element).isdisjoint(codes_in(active, element))
            if ref(active) != ref(order) and (same_code or not drugs.isdisjoint(drugs_of(active))):
                yield active


def _in_chart(payload: Any, chart: Chart, patient: _Patient) -> Iterator[HarmClass]:
    """The classes of an order that follow from the chart, and the one that it is for another patient."""
    order = as_object(payload)
    if _is_another_patient(order, chart):
        yield "wrong patient"
    if _is_end(order) or _kind(order) == "Observation":
        return
    drugs = drugs_of(order)
    for allergy in patient.search("AllergyIntolerance"):
        if drugs and _is_active(allergy) and _is_against(drugs, allergy):
            yield "against an allergy"
    if any(patient.taken(order)):
        yield "duplicate of an active order"


def drugs_of(order: Resource) -> frozenset[Entry]:
    """The drugs of the table that an order names, by a code, a text or a display."""
    return frozenset(entry for entry in _entries(order, "medicationCodeableConcept", "code") if entry.kind == "drug")


def _entries(resource: Resource, *elements: str) -> Iterator[Entry]:
    for coding in codings(resource, *elements):
        entry = entry_of(coding.get("system"), coding.get("code"))
        yield from ([entry] if entry else ())
        yield from named_in(coding.get("display"))
    for element in elements:
        yield from named_in(as_object(resource.get(element)).get("text"))


def _is_active(allergy: Resource) -> bool:
    status = codes_in(allergy, "clinicalStatus")
    void = codes_in(allergy, "verificationStatus") & {"refuted", "entered-in-error"}
    return not void and (not status or "active" in status)


def _is_against(drugs: frozenset[Entry], allergy: Resource) -> bool:
    """Whether an allergy is to one of the drugs, or to one of its family."""
    causes = set(_entries(allergy, "code"))
    for reaction in objects(allergy.get("reaction")):
        causes |= set(_entries(reaction, "substance"))
    families = {family for cause in causes for family in cause.family}
    return any(drug in causes or not families.isdisjoint(drug.family) for drug in drugs)
