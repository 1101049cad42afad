"""The ten task types of psb-300. Where the two rule sets differ in the rule itself, the rule says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from refsol.clinical.chart import Chart, Compared, Event, between, earlier, later, mean, newest
from refsol.clinical.codes import CPT, LABORATORY, LOINC, SNOMED, VITAL_SIGNS, Code, Lab, days, hours
from refsol.clinical.meanings import Amount, Coded, Is, Meaning, Names, OneOf, Route
from refsol.clinical.order_rules import ENDINGS
from refsol.clinical.orders import Field
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.searches import Search, drug_text, performed, ref
from refsol.clinical.sources import Resource
from refsol.clinical.task_type import TaskType
from refsol.clinical.timing import Every
from refsol.errors import DataFault
from refsol.json_values import as_object
from refsol.psb300.rules import (
    HEART_RATE,
    Around,
    CodeOrDrug,
    Dosed,
    DrugText,
    Due,
    Indication,
    LabCode,
    Mean,
    NamesOrder,
    Ordered,
    PsbRuling,
    Subject,
    Url,
    Vaccine,
    Word,
    Written,
    is_fair,
)
from refsol.verdict import Check, Verdict

SERVICE, DRUG = "ServiceRequest", "MedicationRequest"
CT = Code("74177", CPT, "CT of abdomen and pelvis with contrast")
OLD_CTS = tuple(Code(code, name="CT of the abdomen") for code in ("IMGCT0491", "IMGIL0001"))
CANCER = Code("C64.2", "http://hl7.org/fhir/sid/icd-10-cm", "malignant neoplasm of the left kidney")
REFERRAL = Code("CON417", name="referral to interventional radiology")
CATHETER = Code("NUR1373", name="urinary catheter")
FLU = Code("90686", CPT, "influenza vaccine")
COVID, BOOSTER = Code("COVIDVACCINE", name="COVID-19 vaccine"), Code("91320", CPT, "COVID-19 vaccine")
ECG = Code("445118002", SNOMED, "12-lead ECG")
HEART = Lab(HEART_RATE, LOINC, "heart rate", category=VITAL_SIGNS)
TSH = Lab("TSH", LOINC, "TSH", category=LABORATORY)
FT4 = Lab("FT4", LOINC, "free T4", category=LABORATORY)
QTC = Lab("QTCINTERVAL", LOINC, "QTc", "ms", 0)
HEPARIN, DOSE = "heparin", ("5,000", "5000")
ANTICOAGULANTS = (
    HEPARIN,
    "enoxaparin",
    "dalteparin",
    "fondaparinux",
    "apixaban",
    "rivaroxaban",
    "dabigatran",
    "warfarin",
)
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
OPIOIDS = ("hydromorphone", "oxycodone", "fentanyl", "hydrocodone", "morphine")
NALOXONE = ("naloxone", "narcan")
ACTIVE = Search(DRUG, status="active")


class PsbType(TaskType):
    """A type. Its `searches` are those of both rule sets."""

    def faulty(self, reply: Reply, fault: str) -> Verdict:
        """See `TaskType.faulty`. The published grader fails on the chart, so the item is wrong."""
        check = Check("chart", False, "a chart that can be read", fault)
        return Verdict(False, (check,), f"the chart is at fault: {fault}")


NOTHING = PsbRuling("no order")
NO_ATTEMPT = PsbRuling("no order", attempts=True)
"""Nothing is due, and `official` counts POSTs that were not accepted too."""


def _one(order: Due) -> Ruling:
    """Exactly one post, this order."""
    return PsbRuling("order", due=(order,), single=True)


_ACTIVE = Field("status", Word("active")), Field("intent", Word("order"))


def _subject(chart: Chart) -> dict[str, Any]:
    return {"reference": f"Patient/{chart.patient}"}


def _active(chart: Chart) -> tuple[Field, ...]:
    """The fields of an active order for the patient."""
    return *_ACTIVE, Field("subject", Subject(chart.patient))


class Use(NamedTuple):
    """How a drug is given. An order need not say so, but may not say another thing. Only `fair` compares it."""

    route: Route | None = None
    every: Every | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The route, if it is known."""
        return () if self.route is None else (Field("dosageInstruction[0].route", self.route, optional=True),)

    @property
    def repeats(self) -> tuple[Every, ...]:
        """How often, if it is known."""
        return () if self.every is None else (self.every,)


_ONCE = Use()


def _due(chart: Chart, kinds: tuple[str, ...], what: str, *fields: Field, use: Use = _ONCE, **more: Any) -> Due:
    """An active order for the patient."""
    every = (*_active(chart), *fields, *use.fields)
    return Due(kinds, every, f"order {what}", may_repeat=use.repeats, **more)


def _loose(
    chart: Chart,
    kind: str,
    words: str,
    status: Word,
    meaning: Meaning,
    *fields: Field,
    use: Use = _ONCE,
    **more: Any,
) -> Due:
    """An order whose intent and subject are not looked at."""
    written = Field("", Written({"intent": "order", "subject": _subject(chart)}))
    every = (Field("status", status), written, Field("", meaning), *fields, *use.fields)
    return Due((kind,), every, words, may_repeat=use.repeats, **more)


def _named(text: str) -> Code:
    """What an order is of, if only a text says so."""
    return Code("", name=text)


def _drug(text: str) -> dict[str, Any]:
    return {"medicationCodeableConcept": {"text": text}}


def _service(code: Code) -> dict[str, Any]:
    return {"code": Coded(code).json()}


def _less(chart: Chart, length: timedelta) -> datetime:
    """Now less a length of time. The published grader fails if there is no such year; elsewhere it compares lengths."""
    try:
        return chart.now - length
    except OverflowError:
        raise DataFault(f"now is {chart.now.isoformat()}, which has no time so long before it") from None


def _is_recent(last: Event | None, **length: float) -> bool:
    return last is not None and not last.older_than(**length)


class OldCt(PsbType):
    """A CT of the abdomen if the last one is more than a year ago. `official` goes by the time of grading."""

    name, title = "task1", "CT after a year"
    searches = (Search("Procedure", OLD_CTS),)

    def rule(self, chart: Chart) -> Ruling:
        last = chart.last_done(*OLD_CTS)
        if last is not None and not last.before(_less(chart, days(365)), "older than 365 days"):
            return NO_ATTEMPT
        why = Indication({"reasonCode": [{"text": "Renal mass follow-up"}]}, ("renal mass follow-up",))
        code = [Field("code", Written(Coded(CT).json())), Field("code.coding[0].code", Is(CT.code))]
        if is_fair(chart):
            code = [Field("code", Names(Coded(CT).json(), (CT.code,)))]
        return _one(_due(chart, (SERVICE,), CT.name, *code, Field("", why), url=Url(SERVICE), about=(CT,)))


class OneAnticoagulant(PsbType):
    """Exactly one active anticoagulant, heparin 5000. `official` wants any one stop for any number of duplicates."""

    name, title = "task2", "one anticoagulant"
    searches = (ACTIVE,)

    def rule(self, chart: Chart) -> Ruling:
        taken, fair = chart.orders(*ANTICOAGULANTS), is_fair(chart)
        right = [order for order in taken if self._is_heparin(order, chart)]
        keep = max(right, key=lambda order: _written(order, chart), default=None) if fair else next(iter(taken), None)
        stops = tuple(self._stop(order, chart) for order in taken if order is not keep)
        least = 0 if right else 1
        heparin = self._heparin(chart, least)
        if taken and not right:
            chart.note(ACTIVE, what="heparin 5000")  # that no active order is heparin 5000 shows only in all of them
        if right and not stops:
            return NOTHING
        return PsbRuling(
            "order",
            due=stops if right else (heparin, *stops),
            posts=least + (len(stops) if fair else bool(stops)),
            every=(Field("subject", Subject(chart.patient)),),
            besides=(heparin,) if right and fair else (),
        )

    @staticmethod
    def _heparin(chart: Chart, least: int) -> Due:
        text, words = _drug("heparin 5000 units subcutaneously every 8 hours"), "order heparin 5000"
        if not is_fair(chart):
            return _loose(chart, DRUG, words, Word("active"), Names(text, (HEPARIN, "5000")), least=least)
        dosed = Dosed(text, (HEPARIN,), Amount(5000, "units"))
        use = Use(Route("SC"), Every(hours(8)))
        return _loose(
            chart, DRUG, words, Word("active"), dosed, use=use, about=(_named(HEPARIN),), least=least, only=True
        )

    @staticmethod
    def _is_heparin(order: Resource, chart: Chart) -> bool:
        text = drug_text(order)
        return chart.mentions(text, HEPARIN) and chart.mentions(text, *DOSE)

    @staticmethod
    def _stop(order: Resource, chart: Chart) -> Due:
        fair, text = is_fair(chart), drug_text(order)
        drugs = tuple(word for word in ANTICOAGULANTS if chart.mentions(text, word))
        names = NamesOrder(_drug(text), (drugs,), order.get("id")) if fair else Written(_drug(text))
        return _loose(chart, DRUG, f"stop {text}", Word(*ENDINGS), names, separate=fair, about=(_named(text),))


class HeartRate(PsbType):
    """The mean heart rates of the past 6 and 12 hours. A reading without a time or a value does not count."""

    name, title = "task3", "mean heart rate"
    searches = (Search("Observation", (HEART,)),)

    def rule(self, chart: Chart) -> Ruling:
        (search,), start = self.searches, _less(chart, hours(12))
        readings = [
            chart.reading(observation, HEART) for observation in chart.find(search) if _is_whole(observation, chart)
        ]
        recent = between(readings, start, chart.now)
        means = [mean(between(recent, chart.now - hours(6))), mean(recent)]
        chart.note(search._replace(start=start), *(reading.resource for reading in recent), how="mean")
        words = ["none" if mean is None else f"{float(mean):.6g}" for mean in means]
        because = f"mean heart rate of the past 6 h: {words[0]}, of the past 12 h: {words[1]} ({len(recent)} readings)"
        accepted = [Mean(None if mean is None else float(mean)) for mean in means]
        return PsbRuling("query", (accepted,), because=because, attempts=True)


class RemoveCatheter(PsbType):
    """The removal of a urinary catheter that was placed more than 48 hours ago, if no active order asks for it."""

    name, title = "task4", "remove a catheter"
    searches = (Search("Procedure", (CATHETER,)), Search(SERVICE, (CATHETER,), "active"))

    def rule(self, chart: Chart) -> Ruling:
        placed = chart.last_done(CATHETER)
        chart.find(self.searches[1])  # the published grader fails on these even without a catheter
        if placed is None or not placed.older_than(hours=48) or chart.first(SERVICE, CATHETER, "active"):
            return NOTHING
        code = Field("code", Names(Coded(CATHETER).json(), (CATHETER.code.lower(),)))
        due = _due(chart, (SERVICE,), "the removal of the catheter", code, lazy=True, about=(CATHETER,))
        return PsbRuling("order", due=(due,))


class LeftKidney(PsbType):
    """A CT and a referral for a tumour of the left kidney, if the last CT is more than 90 days ago."""

    name, title = "task5", "CT and referral for a tumour"
    searches = (Search("Condition", (CANCER,)), Search("Procedure", (*OLD_CTS, CT)))

    def rule(self, chart: Chart) -> Ruling:
        if not chart.has_condition(CANCER):
            return NO_ATTEMPT
        if _is_recent(chart.last_done(*OLD_CTS, CT), days=90):
            return NOTHING
        orders = [
            _due(
                chart, (SERVICE, DRUG), code.name, Field("code", Names(Coded(code).json(), (code.code,))), about=(code,)
            )
            for code in (CT, REFERRAL)
        ]
        return PsbRuling("order", due=tuple(orders))


class Thyroid(PsbType):
    """The protocol for TSH and free T4: a drug and two tests, two tests, or nothing."""

    name, title = "task6", "thyroid protocol"
    searches = (Search("Observation", (TSH,)), Search("Observation", (FT4,)))

    def rule(self, chart: Chart) -> Ruling:
        (tsh_search, ft4_search), readings, others = self.searches, chart.readings(TSH), chart.readings(FT4)
        newest(others)  # the published grader fails on a damaged free T4 even if the TSH decides alone
        pair = self._high_pair(readings)
        if pair is not None:
            chart.note(tsh_search, *(reading.resource for reading in pair), how="all")
            return PsbRuling("order", due=(self._levothyroxine(chart), *self._tests(chart, 42)), posts=3)
        tsh = chart.last_of(tsh_search, readings)
        if tsh is None or not 4.5 <= tsh <= 10:
            return NOTHING
        ft4 = chart.last_of(ft4_search, others)
        if ft4 is None or not 0.8 <= ft4 <= 1.8:
            return NOTHING
        no_drug = Due((DRUG,), (), "drug", least=0, only=True)
        return PsbRuling("order", due=self._tests(chart, 90), posts=2, besides=(no_drug,))

    @staticmethod
    def _levothyroxine(chart: Chart) -> Due:
        text, words = {"text": "levothyroxine 25 mcg by mouth daily"}, "order levothyroxine 25 mcg"
        if is_fair(chart):
            dosed = Field("", Dosed(_drug(text["text"]), ("levothyroxine",), Amount(25, "mcg")))
            use = Use(Route("oral"), Every(days(1)))
            return _due(
                chart, (DRUG,), "levothyroxine 25 mcg", dosed, use=use, about=(_named("levothyroxine"),), lazy=True
            )
        # The drug first: one that cannot be read is at fault.
        fields = (Field("medicationCodeableConcept", DrugText(text, ("levothyroxine", "25"))), *_active(chart))
        return Due((DRUG,), fields, words, lazy=True)

    @staticmethod
    def _high_pair(readings: Sequence[Event]) -> tuple[Event, Event] | None:
        """The first and the last TSH above 10, if they are at least 30 days apart."""
        newest(readings)  # raises DataFault for times that cannot be compared
        high = sorted((reading for reading in readings if reading > 10), key=lambda reading: reading.time)
        if len(high) < 2 or high[-1].before(high[0].time + days(30), "within 30 days of the first"):
            return None
        return high[0], high[-1]

    @staticmethod
    def _tests(chart: Chart, after: int) -> tuple[Due, ...]:
        """Both tests again. `official` wants two, of either kind."""
        when, fair = Around(later(chart.now, days(after)), days(7)), is_fair(chart)
        tests = []
        for lab in (TSH, FT4):
            words = (lab.code.lower(),) if fair else ((TSH.code.lower(), FT4.code.lower()),)
            code = Names({"text": lab.code}, words) if fair else LabCode({"text": lab.code}, words)
            fields = (Field("occurrenceDateTime", when), Field("code", code))
            tests.append(_due(chart, (SERVICE,), lab.name, *fields, about=(lab,), least=2, separate=fair))
        return tuple(tests)


class LongQtc(PsbType):
    """An ECG, and a stop of a drug that prolongs the QTc, if the last QTc is above 500 ms.

    `official` takes the reading that was stored last, and a stop of any such drug. `fair` takes the reading that was
    measured last, and a stop of an active drug, if there is one.
    """

    name, title = "task7", "ECG for a long QTc"
    searches = (Search("Observation", (QTC,)), ACTIVE)

    def rule(self, chart: Chart) -> Ruling:
        fair, ends = is_fair(chart), Word(*ENDINGS)
        last = chart.latest(QTC) if fair else _stored_last(chart, QTC)
        if last is None:
            return NO_ATTEMPT
        if not last > 500:
            return NOTHING
        texts = [drug_text(order) for order in chart.orders(*PROLONGING)] if fair else [PROLONGING[0]]
        drugs = tuple(word for word in PROLONGING if not fair or any(chart.mentions(text, word) for text in texts))
        when = Field("occurrenceDateTime", Around(later(chart.now, hours(24)), days(1)))
        names = Ordered(_service(ECG), ((ECG.code, "ecg"),))
        ecg = _loose(chart, SERVICE, "order an ECG", Word("active"), names, when, about=(ECG,))
        about = {text: (_named(text),) if fair else () for text in texts}
        stops = [
            _loose(chart, DRUG, f"stop {text}", ends, Ordered(_drug(text), (drugs,)), about=about[text])
            for text in texts
        ]
        every = (Field("resourceType", OneOf(SERVICE, DRUG)), Field("subject", Subject(chart.patient)))
        read = Due((DRUG,), (Field("status", ends),), "stop", least=0)  # at fault even if no stop is due
        return PsbRuling("order", due=(ecg, *stops), posts=2 if stops else 1, every=every, besides=(read,))


class NaloxoneBesideOpioid(PsbType):
    """Naloxone if an opioid is active and naloxone is not."""

    name, title = "task8", "naloxone with an opioid"
    searches = (ACTIVE,)

    def rule(self, chart: Chart) -> Ruling:
        if not chart.active_order(*OPIOIDS) or chart.active_order(*NALOXONE):
            return NOTHING
        text, about = _drug("naloxone 4 mg nasal spray"), (_named("naloxone"),)
        names = Field("", Ordered(text, (NALOXONE,)))
        if is_fair(chart):
            names = Field("", Dosed(text, NALOXONE, Amount(4, "mg"), needs_dose=False))
        use = Use(Route("nasal")) if is_fair(chart) else Use()
        return _one(_due(chart, (DRUG, SERVICE), "naloxone", names, use=use, about=about))


class FluVaccine(PsbType):
    """An influenza vaccine if the last one is more than 365 days ago."""

    name, title = "task9", "influenza vaccine"
    searches = (Search("Procedure", (FLU,)),)

    def rule(self, chart: Chart) -> Ruling:
        if _is_recent(chart.last_done(FLU), days=365):
            return NOTHING
        vaccine = Vaccine(_service(FLU), (("flu", "influenza"),))
        return _one(_due(chart, (SERVICE, DRUG), FLU.name, Field("", vaccine), about=(FLU,)))


class CovidBooster(PsbType):
    """A COVID-19 booster if the last vaccine, a procedure or a completed order, is more than 365 calendar days ago."""

    name, title = "task10", "COVID-19 booster"
    searches = (Search("Procedure", (COVID,)), Search(DRUG, status="completed"))

    def rule(self, chart: Chart) -> Ruling:
        words = ("covid-19 vac", "covid-19 vacc", "covid-19 vaccine")
        procedures, orders = self.searches
        drugs = [order for order in chart.find(orders) if chart.mentions(drug_text(order), *words)]
        last = chart.last_of(
            procedures, chart.timed((drug, _given(drug)) for drug in [*chart.find(procedures), *drugs])
        )
        if last is None:
            chart.note(orders, what="COVID-19 vaccine")
        elif not self._is_old(last, chart):
            return NOTHING
        names = ("covid", "covid19", "covidvaccine", *((BOOSTER.code,) if is_fair(chart) else ()))
        vaccine = Field("", CodeOrDrug(_service(BOOSTER), (names,)))
        return _one(_due(chart, (SERVICE, DRUG), BOOSTER.name, vaccine, about=(BOOSTER,)))

    @staticmethod
    def _is_old(last: Event, chart: Chart) -> bool:
        """Compares calendar dates as they are written, in whatever zone."""
        limit = earlier(chart.now.replace(hour=0, minute=0, second=0, microsecond=0), days(365))
        outcome = last.time.date() < limit.date()
        chart.compared.append(Compared((last.resource,), "time", last.time, "<", limit, outcome, "365 calendar days"))
        return outcome


def _given(resource: Resource) -> Any:
    """When a vaccine was given, otherwise when it was ordered."""
    text = performed(resource)
    return resource.get("authoredOn") if text is None else text


def _written(order: Resource, chart: Chart) -> datetime:
    """When an order was written. A time without a zone is in UTC; an order without a time sorts first."""
    text = order.get("authoredOn")
    time = datetime.min if text is None else chart.moment(text, order)
    return time.replace(tzinfo=UTC) if time.utcoffset() is None else time


def _is_whole(resource: Resource, chart: Chart) -> bool:
    """Whether a reading has a time and a value."""
    text, value = resource.get("effectiveDateTime"), as_object(resource.get("valueQuantity")).get("value")
    try:
        return isinstance(text, str) and value is not None and bool(chart.moment(text, resource))
    except DataFault:
        return False


def _stored_last(chart: Chart, lab: Lab) -> Event | None:
    """The reading with the greatest `meta.lastUpdated`, compared as text. Its time is not read."""
    search = Search("Observation", (lab,))
    readings = chart.find(search)
    last = max(readings, key=lambda reading: str(as_object(reading.get("meta")).get("lastUpdated") or ""), default=None)
    chart.note(search, *([last] if last else []), how="last")
    if last is None:
        return None
    value = as_object(last.get("valueQuantity")).get("value")
    if not chart.is_number(value):
        raise DataFault(f"{ref(last)} has no number in valueQuantity.value")
    return Event(last, str(last.get("effectiveDateTime")), chart.now, chart, value)


TYPES: dict[str, PsbType] = {kind.name: kind() for kind in PsbType.__subclasses__()}
"""The types by id."""
