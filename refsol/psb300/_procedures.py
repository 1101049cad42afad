"""The types that depend on when something was last done: 1 and 5 (CT), 4 (urinary catheter), 9 and 10 (vaccines)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from refsol.psb300._reply import Placed, Reply, ReplyFault
from refsol.psb300._ruling import (
    ORDERS,
    Case,
    Evidence,
    Ruling,
    absent,
    at,
    count,
    done_fact,
    fields,
    nothing_due,
    one_order,
    order_misfit,
    some,
)
from refsol.psb300.chart import Search, Timed, latest, named, ordered_or_done, passed, timed
from refsol.verdict import Because, Check, Fact, show

OLD_CT = Search("Procedure", "IMGCT0491,IMGIL0001")
ANY_CT = Search("Procedure", "IMGCT0491,IMGIL0001,74177")
CATHETER = Search("Procedure", "NUR1373")
REMOVAL = Search("ServiceRequest", "NUR1373", "active")
CANCER = Search("Condition", "C64.2")
FLU = Search("Procedure", "90686")
COVID = Search("Procedure", "COVIDVACCINE")
COMPLETED = Search("MedicationRequest", status="completed")
CT, REFERRAL, FLU_CODE = "74177", "CON417", "90686"
INDICATION = "renal mass follow-up"
YEAR = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class _Last:
    """The last procedure of a kind (`one`), or None. With a sentence, the facts, and the evidence that shows it."""

    one: Timed | None
    what: str
    sentence: str
    facts: tuple[Fact, ...]
    evidence: Evidence

    def because(self, consequence: str) -> Because:
        return Because(f"{self.sentence}; {consequence}", self.facts)


def task1(case: Case) -> Ruling:
    """Order a CT of the abdomen if the last one is more than 365 days ago.

    The published grader measures this from the time of grading, not from the task's now.
    """
    last = _last(case, case.chart.done(OLD_CT), "CT of the abdomen", OLD_CT)
    if last.one is not None and passed(last.one, case.now) <= YEAR:
        return nothing_due(case, last.because("not more than 365 days → no order"), last.evidence, attempts=True)

    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), 1)
        if len(posts) == 1:
            (post,) = posts
            yield Check("url", "ServiceRequest" in post.url, "a URL with ServiceRequest", show(post.url))
            yield from fields(case, post, ("ServiceRequest",))
            code = _first_code(post)
            yield Check("code", code == CT, show(CT), show(code))
            texts = _indications(post)
            passed = any(case.rules.mentions(_lower(text, post), INDICATION) for text in texts)
            yield Check("indication", passed, f"a text with {show(INDICATION)}", show(texts))

    return Ruling("order", last.because("a new CT is due"), demand, last.evidence)


def task4(case: Case) -> Ruling:
    """Order the removal of a urinary catheter that was placed more than 48 hours ago, if no active order does."""
    last = _last(case, case.chart.done(CATHETER), "urinary catheter", CATHETER)
    ordered = case.chart.find(REMOVAL)
    if last.one is None:
        return nothing_due(case, last.because("nothing to remove"), last.evidence)
    if passed(last.one, case.now) <= timedelta(hours=48):
        return nothing_due(case, last.because("not more than 48 h → no order"), last.evidence)
    if ordered:
        order = ordered[0]
        facts = (*last.facts, Fact(named(order), "NUR1373", None, None, "active order to remove it"))
        because = Because(f"{last.sentence}; {named(order)} orders the removal → no order", facts)
        return nothing_due(case, because, Evidence((*last.evidence.resources, named(order))))

    def other_code(post: Placed) -> str | None:
        named = case.rules.mentions(post.text("code").lower(), "nur1373")
        return None if named else f"code {show(post.field('code'))}"

    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), 1, more=True)
        misfits = []
        for post in posts:
            misfits.append((post, order_misfit(case, post, ("ServiceRequest",), other_code)))
            if misfits[-1][1] is None:
                break
        yield some("removal", "an order of NUR1373", misfits)

    facts = (*last.facts, absent(REMOVAL, "no active order to remove it"))
    because = Because(f"{last.sentence}; more than 48 h, and no active order to remove it → its removal is due", facts)
    return Ruling("order", because, demand, Evidence(last.evidence.resources, (REMOVAL,)))


def task5(case: Case) -> Ruling:
    """Order a CT and a referral for a tumour of the left kidney, if the last CT is more than 90 days ago."""
    tumours = case.chart.find(CANCER)
    if not tumours:
        because = Because("no condition C64.2; nothing to order", (absent(CANCER, "no such condition"),))
        return nothing_due(case, because, Evidence((), (CANCER,)), attempts=True)
    last = _last(case, case.chart.done(ANY_CT), "CT of the abdomen", ANY_CT)
    tumour = named(tumours[0])
    facts = (Fact(tumour, "C64.2", None, None, "the condition"), *last.facts)
    evidence = Evidence((tumour, *last.evidence.resources), last.evidence.searches)
    if last.one is not None and passed(last.one, case.now) <= timedelta(days=90):
        because = Because(f"condition C64.2, {last.sentence}; not more than 90 days → no order", facts)
        return nothing_due(case, because, evidence)

    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), 1, more=True)
        misfits = [(post, order_misfit(case, post, ORDERS)) for post in posts]
        for code in (CT, REFERRAL):
            lacking = [(post, misfit or _lacks(case, post, code)) for post, misfit in misfits]
            yield some(f"order of {code}", f"an order of {code}", lacking)

    because = Because(f"condition C64.2, {last.sentence}; a CT and a referral are due", facts)
    return Ruling("order", because, demand, evidence)


def task9(case: Case) -> Ruling:
    """Order an influenza vaccine if the last one is more than 365 days ago."""
    last = _last(case, case.chart.done(FLU), "influenza vaccine", FLU)
    if last.one is not None and passed(last.one, case.now) <= YEAR:
        return nothing_due(case, last.because("not more than 365 days → no order"), last.evidence)

    def vaccine(post: Placed) -> Check:
        named = _flu_code(post) == FLU_CODE or case.rules.mentions(post.text().lower(), *case.rules.flu)
        if case.rules.fair and not named:
            named = case.rules.mentions(post.text("code"), FLU_CODE)
        return Check("vaccine", named, f"the code {FLU_CODE}, or a text that names influenza", show(post.field("code")))

    demand = one_order(case, ORDERS, vaccine)
    return Ruling("order", last.because("a vaccine is due"), demand, last.evidence)


def task10(case: Case) -> Ruling:
    """Order a COVID-19 booster if the last vaccine is more than 365 days ago. Compares calendar dates as written."""
    drugs = case.chart.medication_texts(COMPLETED)
    ordered = [resource for resource, text in drugs if case.rules.mentions(text, *case.rules.covid_vaccine)]
    vaccines = [*case.chart.find(COVID), *ordered]
    done = timed((resource, ordered_or_done(resource)) for resource in vaccines)
    last = _last(case, done, "COVID-19 vaccine", COVID, COMPLETED)
    if last.one is not None and (case.now.date() - last.one.time.date()).days <= 365:
        return nothing_due(case, last.because("not more than 365 days → no order"), last.evidence)

    def booster(post: Placed) -> Check:
        texts = (post.text("code").lower(), post.text("medicationCodeableConcept").lower())
        named = any(case.rules.mentions(text, *case.rules.covid) for text in texts)
        return Check("vaccine", named, "a code or drug that names covid", show(post.field("code")))

    demand = one_order(case, ORDERS, booster)
    return Ruling("order", last.because("a booster is due"), demand, last.evidence)


def _last(case: Case, done: list[Timed], what: str, *searches: Search) -> _Last:
    one = latest(done)
    if one is None:
        facts = tuple(absent(search, f"no {what}") for search in searches)
        return _Last(None, what, f"no {what}", facts, Evidence((), searches))
    sentence = f"last {what}: {at(one, case.now)}"
    return _Last(one, what, sentence, (done_fact(one, f"last {what}"),), Evidence((named(one.resource),)))


def _lacks(case: Case, post: Placed, code: str) -> str | None:
    return None if case.rules.mentions(post.text("code"), code) else f"code {show(post.field('code'))}"


def _first_code(post: Placed) -> object:
    """`code.coding[0].code`. Raises ReplyFault if there is none."""
    try:
        return post.field("code")["coding"][0]["code"]
    except (TypeError, KeyError, IndexError):
        raise ReplyFault(f"post {post.number} has no code.coding[0].code") from None


def _indications(post: Placed) -> list[object]:
    """The texts that may state the indication, in the order in which they are checked. Raises ReplyFault."""
    note = post.field("note", [])
    lists = [
        post.field("reasonCode", []),
        post.field("reasonReference", []),
        [note] if isinstance(note, dict) else note,
    ]
    if not all(isinstance(one, list) and all(isinstance(item, dict) for item in one) for one in lists):
        raise ReplyFault(f"post {post.number}: reasonCode, reasonReference or note is not a list of objects")
    names = ("text", "display", "text")
    return [item.get(name, "") for items, name in zip(lists, names, strict=True) for item in items]


def _lower(text: object, post: Placed) -> str:
    if not isinstance(text, str):
        raise ReplyFault(f"post {post.number}: the indication is {show(text)}, not text")
    return text.lower()


def _flu_code(post: Placed) -> object:
    """`code.coding[0].code`. None if `code` has no codings. Raises ReplyFault if they cannot be read."""
    code = post.field("code", {})
    if isinstance(code, str | list):
        return None
    if not isinstance(code, dict):
        raise ReplyFault(f"post {post.number}: code is {show(code)}, not an object")
    if "coding" not in code:
        return None
    codings = code["coding"]
    first = codings[0] if isinstance(codings, list) and codings else None
    if not isinstance(first, dict):
        raise ReplyFault(f"post {post.number} has no code.coding[0]")
    return first.get("code")
