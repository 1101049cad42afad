"""A made-up ward's task types, written from docs/clinical.md, and its patients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = '''
"""Ward 3's protocols."""

from medagent import clinical as c

SODIUM = c.Lab("2951-2", c.LOINC, "sodium", unit="mmol/L", decimals=0)
GENTAMICIN = c.Drug("4413", c.RXNORM, "gentamicin", words=("gentamicin", "garamycin"))
CREATININE = c.Lab("2160-0", c.LOINC, "creatinine", unit="mg/dL")
COLONOSCOPY = c.Code("45378", c.CPT, "colonoscopy")


class SodiumAgain(c.TaskType):
    """Replace sodium, and measure it again, if it is low."""

    name = "sodium_again"
    text = """If the last sodium (LOINC 2951-2) of patient {mrn} within 2 days is below 130 mmol/L, order sodium
    chloride (RxNorm 9863) 500 mL IV over 4 hours, and the test again for 6 pm tomorrow, urgent, with the note "after
    saline". Answer with the last sodium, or -1."""
    context = "Doses are for adults."

    def rule(self, chart):
        last = chart.latest(SODIUM, within=c.days(2))
        if last is None:
            return c.nothing([-1])
        if last >= 130:
            return c.nothing([last.value])
        saline = c.medication(c.Code("9863", c.RXNORM, "sodium chloride"), 500, "mL", route="IV", over=4)
        again = c.lab_test(SODIUM, at=chart.tomorrow(18), priority="urgent", note="after saline")
        return c.order(saline, again, answers=[[last.value]])


class StopGentamicin(c.TaskType):
    """Stop gentamicin if creatinine rose."""

    name = "stop_gentamicin"
    text = "If creatinine (LOINC 2160-0) of patient {mrn} rose by 0.5 mg/dL or more and gentamicin is active, stop it."

    def rule(self, chart):
        levels = sorted(chart.all(CREATININE), key=lambda one: one.time)
        if len(levels) < 2 or not chart.active_order(*GENTAMICIN.words):
            return c.nothing()
        return c.order(c.stop(GENTAMICIN)) if levels[-1].number - levels[0].number >= 0.5 else c.nothing()


class Colonoscopy(c.TaskType):
    """Refer a patient whose colonoscopy is old."""

    name = "colonoscopy"
    title = "colonoscopy within ten years"
    text = "If the last colonoscopy (CPT 45378) of patient {mrn} is older than 3650 days or missing, order a referral."

    def rule(self, chart):
        done = chart.last_done(COLONOSCOPY)
        if done is not None and not done.older_than(days=3650):
            return c.nothing()
        return c.order(c.referral(COLONOSCOPY))
'''
NOW = "2024-05-02T09:30:00+00:00"


def resources() -> Iterator[dict[str, Any]]:
    """Twelve living patients and a dead one. The newest time in the data is `NOW`."""
    for number in range(13):
        mrn = f"W{number}"
        dead = {"deceasedBoolean": True} if number == 12 else {}
        yield {"resourceType": "Patient", "id": mrn, "birthDate": f"19{40 + number}-03-01", **dead}
        about = {"subject": {"reference": f"Patient/{mrn}"}}
        for place, (code, unit, time, value) in enumerate(_readings(number)):
            yield {
                "resourceType": "Observation",
                "id": f"o{number}-{place}",
                "status": "final",
                "code": {"coding": [{"system": "http://loinc.org", "code": code}]},
                "effectiveDateTime": time,
                "valueQuantity": {"value": value, "unit": unit},
                **about,
            }
        if number % 2:
            yield {
                "resourceType": "MedicationRequest",
                "id": f"m{number}",
                "status": "active",
                "intent": "order",
                "medicationCodeableConcept": {"text": "Garamycin 80 mg" if number == 3 else "gentamicin 80 mg"},
                "authoredOn": "2024-04-28",
                **about,
            }
        if number % 3:
            yield {
                "resourceType": "Procedure",
                "id": f"p{number}",
                "status": "completed",
                "code": {"coding": [{"system": "http://www.ama-assn.org/go/cpt", "code": "45378"}]},
                "performedDateTime": f"{2010 + number}-06-01T08:00:00+00:00",
                **about,
            }


def _readings(number: int) -> Iterator[tuple[str, str, str, float]]:
    if number != 4:
        yield "2951-2", "mmol/L", NOW if number == 0 else "2024-05-01T08:00:00+00:00", 124 + number
    yield "2951-2", "mmol/L", "2024-04-01T08:00:00+00:00", 120
    yield "2160-0", "mg/dL", "2024-04-28T08:00:00+00:00", 1.0
    yield "2160-0", "mg/dL", "2024-05-01T08:00:00+00:00", 1.0 + number / 10


def write(folder: Path) -> tuple[Path, Path]:
    """Write the file of types and the patients' data."""
    code, patients = folder / "ward3.py", folder / "patients.ndjson"
    code.write_text(SOURCE, "utf-8")
    patients.write_text("".join(f"{json.dumps(resource)}\n" for resource in resources()), "utf-8")
    return code, patients
