"""`fair` judges an order by its meaning: what is never right, what contradicts, and what is right in any form."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from refsol.medagentbench.constants import REFERRAL
from refsol.verdict import Verdict
from tests.refsol.medagentbench import items
from tests.refsol.medagentbench.items import MadeUpEhr, grade, lab, post

Json = dict[str, Any]
NOW, NDC, LOINC = items.NOW, "http://hl7.org/fhir/sid/ndc", "http://loinc.org"
RXNORM, SNOMED = "http://www.nlm.nih.gov/research/umls/rxnorm", "http://snomed.info/sct"
ROUTES = "http://terminology.hl7.org/CodeSystem/v3-RouteOfAdministration"
CHARTS = {"task5": lab("MG", (items.RECENT, 1.2)), "task9": lab("K", (items.RECENT, 3.3))}
RIGHT: dict[str, Json] = {
    "task3": items.BLOOD_PRESSURE,
    "task5": items.MAGNESIUM,
    "task8": items.REFERRAL_ORDER,
    "task9 drug": items.POTASSIUM,
    "task9 test": items.POTASSIUM_CHECK,
    "task10": items.A1C_ORDER,
}
DRUGS, SERVICES = ("task5", "task9 drug"), ("task8", "task9 test", "task10")
DRUG = "medicationCodeableConcept"


def changed(order: Json, changes: Json) -> Json:
    """The order with other values at some paths (`a.0.b`); None removes one."""
    order = deepcopy(order)
    for path, value in changes.items():
        *steps, last = path.split(".")
        part: Any = order
        for step in steps:
            part = part[int(step)] if isinstance(part, list) else part.setdefault(step, {})
        if value is None:
            part.pop(last)
        elif isinstance(part, list):
            part[int(last) : int(last) + 1] = [value]
        else:
            part[last] = value
    return order


def verdict(place: str, changes: Json, rules: str = "fair") -> Verdict:
    """The verdict on a right reply in which one order is changed."""
    kind = place.partition(" ")[0]
    orders = {name: order for name, order in RIGHT.items() if name.partition(" ")[0] == kind}
    orders[place] = changed(orders[place], changes)
    history = [message for order in orders.values() for message in post(order)]
    return grade(kind, "[]", history, CHARTS.get(kind, MadeUpEhr()), rules=rules)


def coding(system: str, code: str, display: str = "") -> Json:
    return {"system": system, "code": code, **({"display": display} if display else {})}


def coded(place: str, *more: Json, text: str = "", before: bool = False) -> Json:
    """The code of an order with further codings and a text."""
    name = DRUG if place in DRUGS else "code"
    codings = RIGHT[place][name]["coding"]
    concept = {"coding": [*more, *codings] if before else [*codings, *more]}
    return {name: {**concept, "text": text} if text else concept}


def timing(**repeat: Any) -> Json:
    return {"dosageInstruction.0.timing": {"repeat": repeat}}


RATES = "dosageInstruction.0.doseAndRate.0"
SECOND = {"text": "again", "route": "IV", "doseAndRate": [{"doseQuantity": {"value": 2, "unit": "g"}}]}

WRONG: dict[str, list[tuple[str, Json]]] = {
    "doNotPerform": [(place, {"doNotPerform": True}) for place in RIGHT],
    "modifierExtension": [
        *((place, {"modifierExtension": [{"url": "http://x/not", "valueBoolean": True}]}) for place in RIGHT),
        ("task5", {"dosageInstruction.0.modifierExtension": [{"url": "http://x/negated"}]}),
        ("task9 drug", {f"{RATES}.modifierExtension": [{"url": "u"}]}),
    ],
    "status": [
        (p, {"status": status})
        for p in (*DRUGS, *SERVICES)
        for status in ("draft", "on-hold", "revoked", "cancelled", "entered-in-error", "completed", "unknown")
    ],
    "intent": [
        (p, {"intent": intent}) for p in (*DRUGS, *SERVICES) for intent in ("proposal", "plan", "option", "directive")
    ],
    "subject": [
        (place, {"subject": subject})
        for place in RIGHT
        for subject in (
            {"reference": "Patient/S7654321"},
            {**items.SUBJECT, "identifier": {"value": "S7654321"}},
            {**items.SUBJECT, "type": "Group"},
            {"reference": f"Group/{items.MRN}"},
            {"identifier": {"system": "http://x/mrn", "value": "S7654321"}},
            {"reference": f"http://other/fhir/Patient/{items.MRN}"},
            {"display": items.MRN},
        )
    ],
    "code": [
        *((place, coded(place, coding(RXNORM, "11289", "warfarin"), before=True)) for place in DRUGS),
        *((place, coded(place, coding(NDC, "0338-1709-40"))) for place in DRUGS),
        *((place, coded(place, text="Warfarin 5 mg tablet")) for place in (*DRUGS, *SERVICES)),
        *((place, coded(place, text="Coumadin\n 5 mg")) for place in DRUGS),
        *((place, coded(place, coding(RXNORM, "999", "Haldol"))) for place in DRUGS),
        ("task5", {f"{DRUG}.coding.0.display": "Potassium chloride"}),
        ("task9 drug", {f"{DRUG}.coding.0.display": "magnesium sulfate"}),
        (
            "task5",
            {
                "medicationReference": {"reference": "#m"},
                "contained": [{"resourceType": "Medication", "id": "m", "code": {"text": "heparin"}}],
            },
        ),
        *((place, coded(place, coding(LOINC, "2951-2"))) for place in ("task9 test", "task10")),
        *((place, coded(place, coding(LOINC, "2951-2", "Sodium"), before=True)) for place in ("task9 test", "task10")),
        *((place, coded(place, coding(SNOMED, "x"), text="serum sodium")) for place in SERVICES),
        ("task10", {"code.coding.0.display": "Potassium"}),
        ("task8", coded("task8", coding(SNOMED, "183519002"))),
        ("task8", coded("task8", text="Referral to cardiology")),
        ("task3", {"code": {"text": "BP", "coding": [coding(LOINC, "8867-4")]}}),
        ("task3", {"code": {"text": "BP", "coding": [coding(LOINC, "85354-9", "heart rate")]}}),
    ],
    "route": [
        ("task5", {"dosageInstruction.0.route": route})
        for route in (
            {"text": "oral", "coding": [{"code": "47625008"}]},
            {"text": "IV", "coding": [{"system": SNOMED, "code": "26643006"}]},
            {"text": "intramuscular", "coding": [coding(ROUTES, "IV")]},
            {"coding": [{"code": "47625008", "display": "Oral route"}]},
            {"coding": [{"code": "IV"}, {"code": "PO"}]},
            {"text": "by mouth"},
        )
    ]
    + [
        ("task9 drug", {"dosageInstruction.0.text": text}) for text in ("20 mEq IV", "give intravenously", "per rectum")
    ],
    "dosage": [
        ("task5", {"dosageInstruction.1": SECOND}),
        ("task5", {"dosageInstruction.1": {"text": "then 4 g"}}),
        ("task9 drug", {"dosageInstruction.1": {"doseAndRate": [{"doseQuantity": {"value": 20, "unit": "mEq"}}]}}),
        ("task9 drug", {"dosageInstruction.0.doseAndRate.1": {"doseQuantity": {"value": 40, "unit": "mEq"}}}),
        ("task5", {f"{RATES}.doseRange": {"high": {"value": 4, "unit": "g"}}}),
        ("task5", {"dosageInstruction.0.maxDosePerAdministration": {"value": 1, "unit": "g"}}),
    ],
    "dose": [
        ("task5", {f"{RATES}.doseQuantity": quantity})
        for quantity in (
            {"value": 200, "unit": "mg"},
            {"value": 20000, "unit": "mg"},
            {"value": 2, "unit": "mg"},
            {"value": 2, "unit": "kg"},
            {"value": 2000, "unit": "mg", "code": "g"},
            {"value": 2000, "unit": "mcg"},
        )
    ]
    + [("task5", {"dosageInstruction.0.text": text}) for text in ("4 g IV", "Give 500 mg", "20 grams")]
    + [("task9 drug", {"dosageInstruction.0.text": "40 mEq by mouth"})],
    "rate": [
        ("task5", {f"{RATES}.rateQuantity": {"value": 60, "unit": "min"}}),
        ("task5", {f"{RATES}.rateQuantity": {"value": 2000, "unit": "mg/h"}}),
        ("task5", {f"{RATES}.rateQuantity": {"value": 1, "unit": "mg/h"}}),
        ("task5", timing(duration=4, durationUnit="h")),
        ("task5", {f"{RATES}.rateQuantity": None, **timing(duration=30, durationUnit="min")}),
        (
            "task5",
            {f"{RATES}.rateRatio": {"numerator": {"value": 2, "unit": "g"}, "denominator": {"value": 1, "unit": "h"}}},
        ),
    ],
    "repeat": [
        *(
            ("task5", timing(**repeat))
            for repeat in (
                {"frequency": 1, "period": 1, "periodUnit": "h"},
                {"frequency": 3, "period": 1, "periodUnit": "d"},
                {"period": 6, "periodUnit": "h"},
                {"count": 4},
                {"boundsDuration": {"value": 5, "unit": "d"}},
                {"timeOfDay": ["08:00", "20:00"]},
                {"dayOfWeek": ["mon"]},
                {"boundsPeriod": {"start": NOW, "end": "2023-12-01"}},
            )
        ),
        *(
            ("task9 drug", {"dosageInstruction.0.timing": {"code": code}})
            for code in (
                {"text": "every 8 hours"},
                {"coding": [{"code": "BID"}]},
                {"text": "twice daily"},
                {"coding": [{"code": "Q6H", "display": "every 6 hours"}]},
                {"text": "t.i.d."},
            )
        ),
        *(
            ("task9 drug", {"dosageInstruction.0.text": text})
            for text in (
                "20 mEq PO daily",
                "20 mEq q4h",
                "20 mEq hourly",
                "20 mEq three times a day",
                "20 mEq every other day",
                "20 mEq/day",
                "20 mEq a day",
                "20 mEq PO for 5 days",
                "20 mEq x 3 doses",
            )
        ),
        ("task5", {"dosageInstruction.0.timing": {"event": [NOW, "2023-11-13T18:00:00+00:00"]}}),
        ("task5", {"dispenseRequest": {"numberOfRepeatsAllowed": 3}}),
        ("task9 drug", {"dispenseRequest": {"expectedSupplyDuration": {"value": 30, "unit": "d"}}}),
        ("task10", {"occurrenceTiming": {"repeat": {"frequency": 1, "period": 1, "periodUnit": "d"}}}),
        ("task10", {"quantityQuantity": {"value": 3}}),
    ],
    "asNeeded": [
        ("task5", {"dosageInstruction.0.asNeededBoolean": True}),
        ("task9 drug", {"dosageInstruction.0.asNeededBoolean": True}),
        ("task5", {"dosageInstruction.0.asNeededCodeableConcept": {"text": "cramps"}}),
        *(
            ("task9 drug", {"dosageInstruction.0.text": text})
            for text in (
                "20 mEq PRN",
                "20 mEq by mouth as needed",
                "if required",
                "When necessary, 20 mEq",
                "20 mEq, p.r.n.",
            )
        ),
        ("task9 drug", {"dosageInstruction.0.timing": {"code": {"text": "PRN"}}}),
        ("task10", {"asNeededBoolean": True}),
        ("task8", {"asNeededCodeableConcept": {"text": "pain"}}),
    ],
    "start": [
        ("task5", {"dosageInstruction.0.timing": {"event": ["2024-01-01"]}}),
        ("task5", timing(boundsPeriod={"start": "2024-03-01"})),
        ("task9 drug", timing(boundsPeriod={"start": "2023-11-14T10:15:00+00:00"})),
        ("task9 drug", timing(boundsPeriod={"end": "2022-01-01"})),
        ("task5", {"dispenseRequest": {"validityPeriod": {"start": "2024-01-01"}}}),
    ],
    "occurrence": [
        ("task10", {"occurrenceDateTime": "2030-01-01"}),
        ("task8", {"occurrenceDateTime": "2023-12-24T08:00:00+00:00"}),
        ("task10", {"occurrencePeriod": {"start": "2024-01-01", "end": "2024-02-01"}}),
        ("task10", {"occurrenceTiming": {"event": ["2030-01-01T08:00:00Z"]}}),
        ("task9 test", {"occurrenceDateTime": "2030-11-14T08:00:00+00:00"}),
        (
            "task9 test",
            {"occurrencePeriod": {"start": "2023-11-14T08:00:00+00:00", "end": "2023-11-16T08:00:00+00:00"}},
        ),
        ("task9 test", {"occurrenceDateTime": None, "occurrencePeriod": {"start": "2023-11-14T08:00:00+00:00"}}),
    ],
    "authoredOn": [
        (place, {"authoredOn": time})
        for place in (*DRUGS, *SERVICES)
        for time in ("2023-11-13T10:16", "2023-11-12", "2024-11-13T10:15:00+00:00", "2023-11", "now")
    ],
    "value": [
        ("task3", {"valueQuantity": {"value": 140, "unit": "mmHg"}}),
        ("task3", {"component": [{"valueQuantity": {"value": 180}}]}),
        ("task3", {"dataAbsentReason": {"text": "unknown"}}),
        ("task3", {"valueString": "119/77 mmHg"}),
        ("task3", {"valueString": "118 77 mmHg"}),
    ],
}
CONTAINED = {"resourceType": "Medication", "id": "m", "code": items.MAGNESIUM[DRUG]}
PATIENT = {"resourceType": "Patient", "id": "p", "identifier": [{"value": items.MRN}]}
OTHER_PATIENT = {"resourceType": "Patient", "id": "p", "identifier": [{"value": "S7654321"}]}
EIGHT = "2023-11-14T08:00:00+00:00"

RIGHT_WAYS: dict[str, list[tuple[str, Json]]] = {
    "the same dose in another unit": [
        ("task5", {f"{RATES}.doseQuantity": quantity})
        for quantity in (
            {"value": 2000, "unit": "mg"},
            {"value": 2e6, "unit": "mcg"},
            {"value": 0.002, "unit": "kg"},
            {"value": 2, "unit": "grams"},
            {"value": 2000, "unit": "mg", "system": "http://unitsofmeasure.org", "code": "mg"},
            {"value": 2, "code": "g", "system": "http://unitsofmeasure.org"},
        )
    ]
    + [
        ("task9 drug", {f"{RATES}.doseQuantity": {"value": 20, "unit": unit}})
        for unit in ("meq", "mmol", "milliequivalents")
    ],
    "the same rate": [
        ("task5", {f"{RATES}.rateQuantity": {"value": 1000, "unit": "mg/h"}}),
        ("task5", {f"{RATES}.rateQuantity": {"value": 16.67, "unit": "mg/min"}}),
        ("task5", {f"{RATES}.rateQuantity": {"value": 120, "unit": "min"}}),
        ("task5", {f"{RATES}.rateQuantity": {"value": 1, "unit": "g per hour"}}),
        (
            "task5",
            {
                f"{RATES}.rateQuantity": None,
                f"{RATES}.rateRatio": {
                    "numerator": {"value": 2000, "unit": "mg"},
                    "denominator": {"value": 120, "unit": "min"},
                },
            },
        ),
        ("task5", {f"{RATES}.rateQuantity": None, **timing(duration=2, durationUnit="h")}),
        ("task5", {f"{RATES}.rateQuantity": None, **timing(duration=120, durationUnit="min")}),
        ("task5", timing(duration=2, durationUnit="h", count=1)),
    ],
    "an NDC with or without hyphens": [
        ("task5", {f"{DRUG}.coding.0.code": code}) for code in ("0338171540", "00338171540", "00338-1715-40")
    ]
    + [("task9 drug", {f"{DRUG}.coding.0.code": code}) for code in ("4003291701", "40032091701", "40032-0917-01")],
    "a former or current system": [
        ("task3", {"category.0.coding.0.system": "http://terminology.hl7.org/CodeSystem/observation-category"}),
        ("task10", {"code.coding.0.system": "urn:oid:2.16.840.1.113883.6.1"}),
        ("task10", {"code.coding.0.system": "https://loinc.org/"}),
        ("task8", {"code.coding.0.system": "urn:oid:2.16.840.1.113883.6.96"}),
        ("task5", {"dosageInstruction.0.route": {"coding": [coding(ROUTES, "IV")]}}),
        (
            "task5",
            {"dosageInstruction.0.route": {"coding": [coding("http://hl7.org/fhir/v3/RouteOfAdministration", "IV")]}},
        ),
    ],
    "a text beside a coding": [
        ("task5", coded("task5", text="Mag sulf IVPB")),
        ("task5", coded("task5", coding(RXNORM, "6585", "magnesium sulfate"))),
        ("task5", coded("task5", coding(RXNORM, "1234567"), text="as ordered")),
        ("task9 drug", coded("task9 drug", text="K-Dur 20 MEQ")),
        ("task9 test", coded("task9 test", text="Potassium, serum")),
        ("task9 test", coded("task9 test", coding("", "K"))),
        ("task10", coded("task10", text="Glycated hemoglobin")),
        ("task8", coded("task8", text="Referral to orthopaedics")),
        ("task3", {"code": {"text": "BP", "coding": [coding(LOINC, "85354-9", "Blood pressure panel")]}}),
        ("task3", {"category.0.text": "Vital Signs"}),
    ],
    "line breaks and double spaces": [
        ("task8", {"note": {"text": REFERRAL.replace(" ", "\n", 3)}}),
        ("task8", {"note": [{"text": REFERRAL.replace(". ", ".  ")}]}),
        ("task8", {"note": {"text": "  " + REFERRAL.replace(", ", ",\r\n")}}),
        ("task5", coded("task5", text="Magnesium \n  sulfate")),
        ("task3", {"valueString": "118/77  mmHg"}),
    ],
    "a reason": [
        ("task8", {"reasonCode": [{"text": "knee injury"}]}),
        ("task8", {"note": None, "reasonCode": [{"text": REFERRAL}]}),
        ("task5", {"reasonCode": [{"text": "low magnesium, on warfarin"}]}),
        ("task9 test", {"reasonCode": [{"text": "after replacement"}]}),
        ("task10", {"reasonCode": [{"coding": [{"display": "Diabetes"}]}]}),
    ],
    "the stated time": [
        (
            "task9 test",
            {"occurrenceDateTime": None, "occurrencePeriod": {"start": EIGHT, "end": "2023-11-14T08:30:00+00:00"}},
        ),
        ("task9 test", {"occurrenceDateTime": None, "occurrencePeriod": {"start": EIGHT, "end": EIGHT}}),
        (
            "task9 test",
            {"occurrenceDateTime": None, "occurrencePeriod": {"start": EIGHT, "end": "2023-11-14T09:00:00Z"}},
        ),
        ("task9 test", {"occurrenceDateTime": None, "occurrenceTiming": {"event": [EIGHT]}}),
        ("task9 test", {"occurrenceDateTime": "2023-11-14T03:00:00-05:00"}),
        ("task10", {"occurrenceDateTime": NOW}),
        ("task10", {"occurrencePeriod": {"start": NOW, "end": NOW}}),
    ],
    "when it was written": [
        (place, {"authoredOn": time})
        for place in (*DRUGS, *SERVICES)
        for time in ("2023-11-13T10:15", "2023-11-13", "2023-11-13T10:15:42+00:00", "2023-11-13T11:15+01:00", None)
    ],
    "a route in words": [
        ("task5", {"dosageInstruction.0.route": route})
        for route in (
            "IV infusion",
            {"text": "IV infusion"},
            {"text": "Intravenously"},
            "i.v.",
            {"text": "peripheral IV"},
        )
    ]
    + [
        ("task9 drug", {"dosageInstruction.0.route": route})
        for route in (
            "by mouth",
            {"text": "By mouth"},
            "PO",
            "p.o.",
            {"text": "orally", "coding": [{"code": "26643006"}]},
        )
    ],
    "a contained resource": [
        ("task5", {DRUG: None, "medicationReference": {"reference": "#m"}, "contained": [CONTAINED]}),
        (
            "task5",
            {DRUG: None, "medicationReference": {"reference": "#m", "display": "Mag sulf"}, "contained": [CONTAINED]},
        ),
        ("task10", {"subject": {"reference": "#p"}, "contained": [PATIENT]}),
    ],
    "the patient": [
        (place, {"subject": subject})
        for place in RIGHT
        for subject in (
            {"reference": f"http://localhost:8080/fhir/Patient/{items.MRN}"},
            {"identifier": {"value": items.MRN}},
            {"identifier": {"system": "http://x/mrn", "value": items.MRN}, "type": "Patient"},
            {**items.SUBJECT, "display": "Somebody Else"},
            {**items.SUBJECT, "identifier": {"value": items.MRN}},
            {"reference": f"Patient?identifier={items.MRN}"},
        )
    ],
    "once, now": [
        ("task5", timing(count=1)),
        ("task5", timing(frequency=1)),
        ("task5", timing(frequency=1, period=1, periodUnit="d", count=1)),
        ("task5", {"dosageInstruction.0.timing": {"event": [NOW]}}),
        ("task9 drug", {"dosageInstruction.0.timing": {"code": {"text": "once"}}}),
        ("task9 drug", {"dosageInstruction.0.timing": {"code": {"coding": [{"code": "STAT"}]}}}),
        ("task5", timing(boundsPeriod={"start": NOW})),
        ("task5", {"dosageInstruction.0.asNeededBoolean": False, "doNotPerform": False}),
        ("task9 drug", {"dosageInstruction.0.text": "20 mEq (two 10 mEq tablets) by mouth once"}),
        ("task5", {"dosageInstruction.0.text": "2 g in 50 mL IV over 2 hours, now"}),
        ("task5", {"dispenseRequest": {"numberOfRepeatsAllowed": 0}}),
    ],
    "a note is not judged": [
        (place, {"note": [{"text": f"{REFERRAL} {note}"}]})
        for place in ("task5", "task8", "task10")
        for note in ("do not give", "warfarin 5 mg", "repeat every hour", "for another patient", "order cancelled")
    ],
}


def cases(table: dict[str, list[tuple[str, Json]]]) -> list[Any]:
    return [
        pytest.param(name, place, changes, id=f"{name}-{place}-{number}")
        for name, rows in table.items()
        for number, (place, changes) in enumerate(rows)
    ]


@pytest.mark.parametrize(("name", "place", "changes"), cases(WRONG))
def test_what_forbids_contradicts_or_repeats_is_wrong(name: str, place: str, changes: Json) -> None:
    graded = verdict(place, changes)
    assert graded.correct is False
    words = {"dose": ("dose",), "rate": ("rate", "doseAndRate"), "code": ("code", "category"), "value": ("value",)}
    failed = [check.name for check in graded.checks if not check.passed]
    assert any(word in check for word in words.get(name, (name,)) for check in failed), failed


@pytest.mark.parametrize(("name", "place", "changes"), cases(RIGHT_WAYS))
def test_what_means_the_same_is_right(name: str, place: str, changes: Json) -> None:
    graded = verdict(place, changes)
    assert graded.correct is True, graded.reason


def test_a_rule_gives_its_reason() -> None:
    assert verdict("task5", {"doNotPerform": True}).reason == "doNotPerform: an order not to give it"
    assert verdict("task10", {"doNotPerform": True}).reason == "doNotPerform: an order not to do it"
    assert verdict("task5", coded("task5", text="Coumadin")).reason == 'code: "Coumadin" is warfarin'
    assert verdict("task5", timing(period=1, periodUnit="h")).reason == "repeat: every 1 h"
    assert verdict("task10", coded("task10", coding(LOINC, "1-8"))).reason.startswith('code: the code "1-8" is another')


@pytest.mark.parametrize("place", [*RIGHT])
def test_official_does_not_look_at_it(place: str) -> None:
    assert verdict(place, {"doNotPerform": True, "modifierExtension": [{}]}, "official").correct is True


ODD_PATHS = (
    "dosageInstruction",
    "dosageInstruction.0",
    "dosageInstruction.0.timing",
    "dosageInstruction.0.timing.repeat",
    "dosageInstruction.0.route",
    f"{RATES}.doseQuantity",
    "subject",
    "contained",
    DRUG,
    "medicationReference",
    "dispenseRequest",
)


@pytest.mark.parametrize("odd", [None, 0, "x", [], [1], {}, {"a": []}, True])
@pytest.mark.parametrize("path", ODD_PATHS)
def test_odd_json_never_fails_the_grader(path: str, odd: Any) -> None:
    changes: Json = {"dosageInstruction.0.timing": {}} if path.endswith("repeat") else {}
    order = changed(items.MAGNESIUM, {**changes, path: odd} if odd is not None else changes)
    assert grade("task5", "[]", post(order), CHARTS["task5"], rules="fair").correct in (True, False)


def test_a_contained_patient_may_be_another_one() -> None:
    assert verdict("task10", {"subject": {"reference": "#p"}, "contained": [OTHER_PATIENT]}).correct is False


def test_what_is_right_officially_and_wrong_in_fair_is_of_these_kinds() -> None:
    kinds = {
        name
        for name, rows in WRONG.items()
        for place, changes in rows
        if verdict(place, changes, "official").correct is True
    }
    assert kinds == {
        *("doNotPerform", "modifierExtension", "code", "route", "dosage", "dose", "rate", "repeat", "asNeeded"),
        *("start", "occurrence", "value"),
    }
