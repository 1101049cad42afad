"""Drug orders for home and during stays, and the times of administration.

A drug is ordered for a problem of the list or for the reason of the stay: `_COMFORT` says for which. Any patient in
hospital may need flushes, fluids, and the replacement of a low potassium or magnesium. The orders for home are on hold
during a stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fhir_server.synthetic._chart import Draw
from fhir_server.synthetic._clock import DAY
from fhir_server.synthetic._contacts import Contact
from fhir_server.synthetic._drugs import DRUGS, Drug, are_alike, suitable
from fhir_server.synthetic._patient_sampler import PatientSampler
from fhir_server.synthetic._problems import BIPOLAR, FIBRILLATION, PAIN, TUMOUR
from fhir_server.synthetic._stays import HOUR, Stay
from fhir_server.synthetic._story import Problem
from fhir_server.synthetic.seeded_random import T

_OPIOIDS = ("oxycodone", "hydromorphone", "fentanyl")
_FEVER, _CUT = ("J18.9", "N39.0", "A41.9", "L03.115"), ("K35.80", "M17.11", "K80.20", "C64.2", "K40.90")
_BOWEL = ("K85.90", "K92.2", "K21.9", "K50.90", "K52.9")
_COMFORT = (
    (("acetaminophen",), (*_FEVER, *_CUT, "K85.90", "J44.1")),
    (("ondansetron",), (*_CUT, *_BOWEL, "N17.9")),
    (("docusate", "sennosides", "polyethylene"), (*_CUT, "D50.9", "G89.29")),
    (("melatonin",), ("F32.A", "F10.20", "I50.33", "A41.9")),
    (("flush",), ()),
)
"""Drugs ordered on admission, each for patients with one of the problems (ICD-10-CM; empty: all patients)."""
_ONCE = (
    *(3 * ((("flush", 0, 23), ()),)),
    (("bisacodyl", 8, 20), (*_CUT, "D50.9")),
    (("simethicone", 7, 22), (*_CUT, *_BOWEL)),
    (("antacid", 7, 22), _BOWEL),
    (("guaifenesin", 7, 22), ("J18.9", "J44.1")),
    (("lidocaine", 8, 20), (*_CUT, "M17.9", "M54.50")),
)
"""Drugs ordered as a single dose, with the first and last hour of the day for it, and the problems as above."""
_BOLUS = ("bolus", 6, 22)
"""A single order of fluid, on the day after the admission."""
_OVERLOADED = ("I50.33", "I50.9", "I21.4")
"""Patients with one of these diagnoses get no `_BOLUS`."""
_HELD = ("aspirin", "clopidogrel", "ibuprofen", "lisinopril", "losartan")
"""Drugs from home that a current stay interrupts."""
_ENDED = ("completed",) * 28 + ("cancelled", "entered-in-error")
_SURGERY = (("cefazolin once", -30), ("oxycodone", 180), ("hydromorphone", 90))
"""Drugs of an operation, with their time in minutes after its beginning."""


@dataclass(frozen=True, slots=True)
class Order:
    """A drug order. `end` is None while it lasts. `encounter` is "" if it was ordered outside the hospital."""

    id: str
    drug: Drug
    start: int
    end: int | None
    status: str
    encounter: str
    home: bool = False


class Pharmacy(PatientSampler):
    """Samples a patient's drug orders."""

    @cached_property
    def _current_stay(self) -> Contact | None:
        return next((stay for stay in self._contacts.stays if stay.end is None), None)

    def orders(self, draws: list[Draw]) -> list[Order]:
        """All orders. `draws` (blood samples) decide which orders replace potassium and magnesium."""
        out: list[Order] = []
        for problem in self._story.problems:
            out += [order for order in self._home(problem) if not any(_repeats(order, earlier) for earlier in out)]
        out += self._featured_home()
        out += [self._vaccine(time) for time in self._covid()]
        for contact in self._contacts.stays:
            if isinstance(contact.what, Stay):
                out += self._stay(contact, contact.what, out)
        return [*out, *self._replaced(draws)]

    def doses(self, order: Order) -> list[int]:
        """The times at which a drug of a stay was administered: at most 12, and none for oral drugs and flushes."""
        if order.home or order.status in _ENDED[-2:] or order.drug.route == "Oral" or order.drug.key == "flush":
            return []
        end = -1 if order.end is None else order.end
        first = order.start + self._rng.between(10, 50)
        if order.drug.needed:
            return [first] if first < end and self._rng.chance(0.5) else []
        step = DAY // max(1, order.drug.daily)
        return [time + self._rng.between(0, 15) for time in range(first, end - 20, step)][:12]

    def _suitable(self, keys: tuple[str, ...], *, renal: bool = False) -> Drug | None:
        return suitable(keys, self._story.allergens, renal=renal or self._story.renal)

    def _failing(self, time: int) -> bool:
        """Whether an acute kidney failure may be what the last creatinine before this time shows."""
        return any(
            stay.reason.shifts.get("CREA", 0.0) > 1 and stay.start <= time <= stay.until + 365 * DAY
            for stay in self._story.stays
        )

    def _order(self, drug: Drug, start: int, end: int | None, status: str, contact: Contact | None) -> Order:
        return Order(self._ids.next("m"), drug, start, end, status, contact.id if contact else "", contact is None)

    def _home_order(self, drug: Drug, start: int, end: int | None = None) -> Order:
        """An order for home: stopped at `end` or at death, on hold during a current stay, otherwise active."""
        died = self._story.person.died
        status = "active" if self._current_stay is None else "on-hold"
        if died is not None and end is None:
            end = died
        return Order(
            self._ids.next("m"), drug, start, end, "stopped" if end else status, self._contacts.encounter(start), True
        )

    def _since(self, earliest: int) -> int:
        """The time a drug was started: at a visit after `earliest`, when the problem was recorded, or then."""
        later = [visit.start + 20 for visit in self._contacts.visits if visit.start >= earliest and visit.end]
        if later and self._rng.chance(0.6):
            return self._rng.pick(later)
        return earliest + 5

    def _home(self, problem: Problem) -> Iterator[Order]:
        diagnosis = problem.diagnosis
        if diagnosis is BIPOLAR:
            return  # ordered by `_featured_home`
        if diagnosis.code == FIBRILLATION and self._story.warfarin is not None:
            yield self._home_order(DRUGS["warfarin"], self._story.warfarin)
            return
        for keys in diagnosis.drugs:
            start = self._since(problem.recorded)
            drug = self._suitable(keys, renal=self._failing(start))
            if drug is None or (len(diagnosis.drugs) > 1 and self._rng.chance(0.12)):
                continue
            others = [key for key in keys if DRUGS[key] is not drug]
            before = self._suitable(tuple(others), renal=self._failing(problem.recorded)) if others else None
            if before is not None and before.key != drug.key and start - problem.recorded > 30 * DAY:
                yield self._home_order(before, problem.recorded + 5, start)
            elif start - problem.recorded > 200 * DAY:
                start = problem.recorded + 5
            yield self._home_order(drug, start)

    def _featured_home(self) -> Iterator[Order]:
        """Opioids and drugs that prolong the QT interval, for patients at home, by their `Features`."""
        features, problems = self._story.features, {problem.diagnosis.code: problem for problem in self._story.problems}
        if self._current_stay is not None:
            return
        pain = problems.get(PAIN.code) or problems.get(TUMOUR.code)
        if features.opioid != "none" and pain is not None:
            start = self._since(pain.recorded)
            keys = self._rng.pick((("oxycodone", "fentanyl"), ("morphine", "fentanyl")))
            drug = self._suitable(keys, renal=self._failing(start))
            if drug is not None:
                yield self._home_order(drug, start)
                if features.opioid == "with naloxone":
                    yield self._home_order(DRUGS["naloxone"], start + 2)
        if features.long_qt or self._rng.chance(0.06):
            bipolar, ecgs = problems.get(BIPOLAR.code), self._story.care.ecgs
            if bipolar is not None:
                yield self._home_order(DRUGS["quetiapine"], self._since(bipolar.recorded))
            elif ecgs:
                drug = DRUGS[self._rng.pick(("prochlorperazine", "ondansetron oral"))]
                yield self._home_order(drug, ecgs[-1].time - 2)

    def _covid(self) -> list[int]:
        time = self._story.care.covid
        return [time] if time is not None and self._clock.minute_of_day(time) % 2 else []

    def _vaccine(self, time: int) -> Order:
        drug = Drug("covid", "COVID-19 VAC, mRNA 30 MCG/0.3 ML Injection", "2468235", 0.3, "mL", "Intramuscular", 0)
        return Order(self._ids.next("m"), drug, time, time, "completed", self._contacts.encounter(time), True)

    def _stay(self, contact: Contact, stay: Stay, before: list[Order]) -> Iterator[Order]:
        """The orders of an admission, continued drugs from home, fluids, drugs of an operation, and single doses."""
        rng = self._rng
        admitted = stay.start + rng.between(50, 140)
        renal = "CREA" in stay.reason.shifts and stay.reason.shifts["CREA"] > 1

        def order(drug: Drug, start: int, end: int | None = stay.end, status: str = "") -> Order:
            start = min(start, -2)
            if end is not None:
                end = max(start + 1, min(end, stay.until))
            ended = rng.pick(("completed", "completed", "stopped"))
            return self._order(drug, start, end, status or ("active" if end is None else ended), contact)

        listed = self._listed(stay)
        comfort = [(key,) for keys in _called_for(_COMFORT, listed) for key in keys]
        keys = [*stay.reason.drugs, *comfort, *self._featured(stay)]
        had: list[Drug] = []
        for place, names in enumerate(keys):
            drug = self._suitable(names, renal=renal)
            if drug is not None and drug not in had:
                had.append(drug)
                yield order(drug, admitted + 2 * place)
        for home in before:
            lasts = home.home and home.start < stay.start and (home.end is None or home.end >= stay.until)
            drug = self._suitable((home.drug.key,), renal=renal) if lasts and self._continues(home, stay) else None
            if drug is not None and not any(are_alike(drug, drug_had) for drug_had in had):
                had.append(drug)
                yield order(drug, admitted + 30)
        if self._has_sugar(stay.start):
            yield order(DRUGS["lispro"], admitted + 40)
            yield order(DRUGS["dextrose"], admitted + 41)
        yield from (order(*infusion) for infusion in self._fluids(stay, admitted))
        if stay.reason.planned or stay.reason.service == "Surgery":
            cut = operation(stay)
            for name, offset in _SURGERY:
                drug = self._suitable((name,) if name == "cefazolin once" else (name, "fentanyl"), renal=renal)
                opioid = stay.end is None and name != "cefazolin once"
                if drug is not None and drug not in had and not opioid and drug.key != "fentanyl":
                    yield order(drug, cut + offset, cut + offset + 2 * DAY if offset > 0 else cut + 30)
        for time, key in self._single(stay, listed):
            yield order(replace(DRUGS[key], daily=0), time, time + 60, rng.pick(_ENDED))

    def _listed(self, stay: Stay) -> set[str]:
        """The codes of the reason and of the problems known on admission, except a tumour that is not the reason."""
        known = {problem.diagnosis.code for problem in self._story.problems if problem.recorded <= stay.start}
        return {stay.reason.code, *(known - {TUMOUR.code})}

    def _single(self, stay: Stay, listed: set[str]) -> Iterator[tuple[int, str]]:
        """Times and keys of single doses, from the day after the admission. On one day, only flushes are repeated."""
        rng, clock = self._rng, self._clock
        called = _called_for(_ONCE, listed)
        choices = called if listed & set(_OVERLOADED) else [*called, _BOLUS]
        for day in range(clock.days_ago(stay.start) - 1, clock.days_ago(stay.until) - 1, -1):
            had: set[str] = set()
            for _ in range(rng.between(*self._profile.size.drugs)):
                key, first, last = rng.pick(choices)
                time = clock.at(day, rng.between(first, last), rng.between(0, 59))
                if time < stay.until - 60:
                    yield time, "flush" if key in had else key
                had.add(key)
            choices = called

    @staticmethod
    def _continues(home: Order, stay: Stay) -> bool:
        """Whether a drug from home is continued in hospital. Drugs that need monitoring are not."""
        key = home.drug.key
        if key in _HELD and stay.end is None:
            return False
        if key in ("metformin", "apixaban", "warfarin", *_OPIOIDS, "morphine", "naloxone", "quetiapine"):
            return False
        return key not in ("lisinopril", "losartan") or stay.reason.code not in ("N17.9", "A41.9")

    def _has_sugar(self, time: int) -> bool:
        return any(
            problem.diagnosis.code.startswith("E11") and problem.recorded < time for problem in self._story.problems
        )

    def _featured(self, stay: Stay) -> list[tuple[str, ...]]:
        """Anticoagulants and opioids: of a current stay by `Features`, of earlier stays the usual ones."""
        features, rng = self._story.features, self._rng
        fibrillates = any(problem.diagnosis.code == FIBRILLATION for problem in self._story.problems)
        if stay.end is not None:
            if stay.reason.code == "I21.4":
                return [("enoxaparin 80",)]
            if stay.reason.code == "K92.2" or rng.chance(0.25):
                return [("oxycodone",)] if rng.chance(0.2) else []
            return [("heparin",) if rng.chance(0.7) else ("enoxaparin",)]
        usual = ("enoxaparin",)
        if stay.reason.code == "I21.4" or self._story.warfarin is not None:
            usual = ("enoxaparin 80",)
        elif fibrillates:
            usual = ("apixaban",)
        drugs: dict[str, list[tuple[str, ...]]] = {
            "heparin": [("heparin",)],
            "two": [("heparin",), usual],
            "other": [usual],
        }
        out = drugs.get(features.anticoagulant, [])
        if features.opioid != "none":
            out = [*out, rng.pick((("oxycodone", "fentanyl"), ("hydromorphone", "fentanyl")))]
            out += [("naloxone",)] if features.opioid == "with naloxone" else []
        return out

    def _fluids(self, stay: Stay, admitted: int) -> Iterator[tuple[Drug, int, int]]:
        """Saline on the first days, and norepinephrine for sepsis in intensive care, with start and end."""
        if stay.reason.code != "I50.33":
            for bag in range(self._rng.between(1, 3)):
                start = admitted + 10 + bag * 10 * HOUR
                if start < stay.until - HOUR:
                    yield DRUGS["saline"], start, start + 10 * HOUR
        for segment in stay.segments:
            if segment.kind == "ICU" and stay.reason.code == "A41.9":
                yield DRUGS["norepinephrine"], segment.start + 15, min(segment.start + 30 * HOUR, stay.until)

    def _replaced(self, draws: Sequence[Draw]) -> Iterator[Order]:
        """Orders of potassium or magnesium after low results of stays that are older than the course."""
        for code, key in (("K", "potassium"), ("MG", "magnesium")):
            busy = -math.inf
            for draw in sorted(draws, key=lambda draw: draw.time):
                inpatient = isinstance(draw.contact.what, Stay) and draw.time < draw.contact.until - 4 * HOUR
                if inpatient and draw.time > busy and draw.results.get(code, ("", "N"))[1] == "L":
                    start = min(draw.time + self._rng.between(100, 160), -2)
                    busy = min(start + 60, draw.contact.until)
                    yield self._order(DRUGS[key], start, int(busy), "completed", draw.contact)


def _repeats(order: Order, second: Order) -> bool:
    """Whether two orders for home are of the same drug, or of drugs of one group, at the same time."""
    apart = (second.end is not None and second.end <= order.start) or (
        order.end is not None and order.end <= second.start
    )
    return not apart and are_alike(order.drug, second.drug)


def _called_for(table: Sequence[tuple[T, tuple[str, ...]]], listed: set[str]) -> list[T]:
    """The entries of a table that a patient with these problems needs."""
    return [entry for entry, codes in table if not codes or listed & set(codes)]


def operation(stay: Stay) -> int:
    """When the operation of a stay begins: some hours after arrival."""
    return stay.start + (150 if stay.reason.planned else 9 * HOUR)
