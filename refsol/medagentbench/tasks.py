"""The rules of the ten task types: pure functions from an `Item` to a `Ruling`.

Observed behaviour of the published grader. A task type is declared by the facts it asks of the EHR, the orders these
make due, and the answers it accepts. The payload's fields are data (`forms.Field`); where the rule sets differ, the
form comes from `rules.Rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import permutations
from typing import Any

from refsol.medagentbench import facts
from refsol.medagentbench.ehr import Ehr
from refsol.medagentbench.forms import Field, Form, contains, distance, equal, near, only
from refsol.medagentbench.history import Post
from refsol.medagentbench.rules import Rules
from refsol.medagentbench.verdict import MISSING, Branch, Check, show

NDC = "http://hl7.org/fhir/sid/ndc"
LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
NO_RESULT: list[Any] = [-1]
"""The answer to a query for which there is no measurement."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """What the agent did. `answer` is parsed JSON, MISSING where it is none; `attempted`: something counts as a POST;
    `spoiled`: an unanswered attempt ends the history."""

    answer: Any
    posts: tuple[Post, ...]
    attempted: bool
    spoiled: bool


@dataclass(frozen=True, slots=True)
class Item:
    """Everything a rule looks at. `bounded`: readings later than now do not count."""

    mrn: str
    sol: Any
    conduct: Conduct
    ehr: Ehr
    base: str
    rules: Rules
    bounded: bool = False

    def labs(self, code: str, start: datetime | None = None) -> list[facts.Lab]:
        """The patient's readings of a code, since `start` where given. Raises DataError, FactsError."""
        found = facts.labs(self.ehr, self.mrn, code)
        if self.bounded:
            found = facts.until(found, facts.NOW)
        return found if start is None else facts.since(found, start)

    def latest(self, code: str, start: datetime | None = None) -> facts.Lab | None:
        """The latest of these."""
        return facts.latest(self.labs(code, start))


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a task's rules found: the branch that was right, the checks, and the answers that are accepted."""

    branch: Branch
    checks: tuple[Check, ...]
    accepted: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """A post that is due: its resource type and what its fields must be."""

    resource: str
    fields: tuple[Field, ...]

    def check(self, base: str, post: Post | None) -> list[Check]:
        """All checks of the order on a post; without one they all fail."""
        url, payload = (post.url, post.payload) if post else (MISSING, MISSING)
        wanted = base + self.resource
        checks = [Check("url", url == wanted, show(wanted), show(url))]
        checks += [field.check(payload) for field in (_field("resourceType", equal(self.resource)), *self.fields)]
        return [replace(check, name=f"{self.resource} {check.name}") for check in checks]


def task1(item: Item) -> Ruling:
    """Find a patient: the answer the task states."""
    return _query(item, item.sol)


def task2(item: Item) -> Ruling:
    """A patient's age."""
    return _query(item, [facts.age(item.ehr, item.mrn)])


def task3(item: Item) -> Ruling:
    """Record a blood pressure. The answer does not count."""
    category = {"system": "http://hl7.org/fhir/observation-category", "code": "vital-signs", "display": "Vital Signs"}
    order = Order(
        "Observation",
        (
            _field("category", _one_coding(category)),
            _field("code", equal({"text": "BP"})),
            _field("effectiveDateTime", item.rules.now),
            _field("status", equal("final")),
            _field("valueString", equal("118/77 mmHg")),
            _subject(item),
        ),
    )
    return Ruling("order", _orders(item, order), ([],))


def task4(item: Item) -> Ruling:
    """The latest magnesium of 24 hours."""
    return _query(item, _value(item.latest("MG", facts.DAY_AGO)))


def task5(item: Item) -> Ruling:
    """Magnesium, and an infusion where it is low."""
    level = item.latest("MG", facts.DAY_AGO)
    if level is None:
        return Ruling("no order", (_no_post(item),), ([],))
    accepted: tuple[list[Any], ...] = ([level.value], [])
    if level.value > 1.9:
        return _nothing_due(item, *accepted)
    dose = 4 if level.value < 1 else 2 if level.value < 1.5 else 1
    drug = _medication(
        item,
        code="0338-1715-40",
        route=item.rules.iv,
        quantities=(
            _dose("doseQuantity", equal({"value": dose, "unit": "g"})),
            _dose("rateQuantity", item.rules.rate(dose)),
        ),
    )
    return Ruling("order", (*_orders(item, drug), _answer(item, *accepted)), accepted)


def task6(item: Item) -> Ruling:
    """The mean glucose of 24 hours, within 0.1."""
    found = item.labs("GLU", facts.DAY_AGO)
    wanted = facts.mean(found) if found else -1
    answer = item.conduct.answer
    passed = isinstance(answer, list) and len(answer) == 1 and distance(answer[0], wanted) < 0.1
    check = Check("answer", passed, f"[{wanted}], less than 0.1 away", _show_answer(answer))
    return Ruling("query", (_no_post(item), check), ([wanted],))


def task7(item: Item) -> Ruling:
    """The latest glucose, however old."""
    return _query(item, _value(item.latest("GLU")))


def task8(item: Item) -> Ruling:
    """Order an orthopedic referral. The answer does not count."""
    referral = _service(item, SNOMED, "306181000000106", _field("note", item.rules.note))
    return Ruling("order", _orders(item, referral), ([],))


def task9(item: Item) -> Ruling:
    """Potassium, and where it is low its replacement and a check next morning."""
    level = item.latest("K")
    accepted: tuple[list[Any], ...] = (_value(level), [])
    if level is None or level.value >= 3.5:
        return _nothing_due(item, *accepted)
    # In this order of operations: floating point decides the last digit, as in the published grader.
    dose = (3.5 - level.value) / 0.1 * 10
    drug = _medication(
        item,
        code="40032-917-01",
        route=item.rules.oral,
        quantities=(
            _dose("doseQuantity", near(dose, 0.1), "value"),
            _dose("doseQuantity", equal("mEq"), "unit"),
        ),
    )
    follow_up = _service(item, LOINC, "2823-3", _field("occurrenceDateTime", contains("2023-11-14T08:")))
    return Ruling("order", (*_orders(item, drug, follow_up), _answer(item, *accepted)), accepted)


def task10(item: Item) -> Ruling:
    """The last HbA1c and its time, and a new one where that is more than a year ago."""
    level = item.latest("A1C")
    accepted: tuple[list[Any], ...] = (NO_RESULT, [])
    if level is not None:
        accepted = (*([level.value, text] for text in item.rules.spellings(level.text)), [])
        if facts.since([level], facts.YEAR_AGO):
            return _nothing_due(item, *accepted)
    test = _service(item, LOINC, "4548-4")
    return Ruling("order", (*_orders(item, test), _answer(item, *accepted)), accepted)


TASKS: dict[str, Callable[[Item], Ruling]] = {
    rule.__name__: rule for rule in (task1, task2, task3, task4, task5, task6, task7, task8, task9, task10)
}


def _value(lab: facts.Lab | None) -> list[Any]:
    return NO_RESULT if lab is None else [lab.value]


def _query(item: Item, wanted: Any) -> Ruling:
    return Ruling("query", (_no_post(item), _answer(item, wanted)), (wanted,))


def _nothing_due(item: Item, *accepted: Any) -> Ruling:
    return Ruling("no order", (_no_post(item), _answer(item, *accepted)), accepted)


def _no_post(item: Item) -> Check:
    attempted = item.conduct.attempted
    return Check("no POST", not attempted, "no POST", "a POST" if attempted else "no POST")


def _answer(item: Item, *accepted: Any) -> Check:
    actual = item.conduct.answer
    passed = any(actual == wanted for wanted in accepted)
    return Check("answer", passed, " or ".join(map(show, accepted)), _show_answer(actual))


def _show_answer(answer: Any) -> str:
    return "text that is not JSON" if answer is MISSING else show(answer)


def _orders(item: Item, *orders: Order) -> tuple[Check, ...]:
    """Exactly these posts, in this order where the rule set demands one; each field of each is looked at."""
    posts = item.conduct.posts
    count = Check("posts", len(posts) == len(orders), f"{len(orders)} accepted", f"{len(posts)} accepted")
    spoiled = item.conduct.spoiled
    end = Check("last message", not spoiled, "no POST without a reply", "a POST without a reply" if spoiled else "fine")
    sequences = permutations(posts) if item.rules.mended and count.passed else [posts]
    return (end, count, *min((_in_sequence(item.base, orders, posts) for posts in sequences), key=_failures))


def _in_sequence(base: str, orders: Sequence[Order], posts: Sequence[Post]) -> list[Check]:
    padded = [*posts, *[None] * len(orders)]
    return [check for order, post in zip(orders, padded, strict=False) for check in order.check(base, post)]


def _failures(checks: Sequence[Check]) -> int:
    return sum(not check.passed for check in checks)


def _field(name: str, form: Form) -> Field:
    return Field((name,), form)


def _subject(item: Item) -> Field:
    return _field("subject", equal({"reference": f"Patient/{item.mrn}"}))


def _coding(concept: str, system: str, code: str) -> tuple[Field, Field]:
    first = (concept, "coding", 0)
    return Field((*first, "system"), equal(system)), Field((*first, "code"), equal(code))


def _one_coding(coding: dict[str, str]) -> Form:
    """A list of one concept with one coding; other fields of the concept are free."""

    def accepts(actual: Any) -> bool:
        concept = actual[0] if isinstance(actual, list) and len(actual) == 1 else None
        return isinstance(concept, dict) and only(coding).accepts(concept.get("coding"))

    return Form(f"a list of one with one coding equal to {show(coding)}", accepts)


def _dose(quantity: str, form: Form, *part: str) -> Field:
    return Field(("dosageInstruction", 0, "doseAndRate", 0, quantity, *part), form)


def _medication(item: Item, *, code: str, route: Form, quantities: tuple[Field, ...]) -> Order:
    fields = (
        *_coding("medicationCodeableConcept", NDC, code),
        _field("authoredOn", contains("2023-11-13T10:15")),
        Field(("dosageInstruction", 0, "route"), route),
        *quantities,
        _field("status", equal("active")),
        _field("intent", equal("order")),
        _subject(item),
    )
    return Order("MedicationRequest", fields)


def _service(item: Item, system: str, code: str, *more: Field) -> Order:
    fields = (
        *_coding("code", system, code),
        _field("authoredOn", item.rules.now),
        _field("status", equal("active")),
        _field("intent", equal("order")),
        _field("priority", equal("stat")),
        *more,
        _subject(item),
    )
    return Order("ServiceRequest", fields)
