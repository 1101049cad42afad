"""A patient's chart as one HTML page: problems, allergies, drugs, stays, visits, tests over time, notes.

The page is one file without scripts and loads nothing; every text of the data is escaped. Tests are plotted as SVG,
with the reference range as a band. The page is for people who read through a hospital: it shows the data without
comment.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Any

from medagent.core.errors import UserError

Resource = dict[str, Any]
Rows = Sequence[Sequence[str]]
_WIDTH, _HEIGHT = 640, 90
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1b1f24;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #d0d7de}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.2rem .6rem .2rem 0;vertical-align:top}
th{font-weight:600;color:#57606a}tr+tr td{border-top:1px solid #eaeef2}
figure{margin:.8rem 0}figcaption{font-weight:600}svg{width:100%;height:auto}
article{margin:.8rem 0;padding:.4rem .8rem;background:#f6f8fa}time{color:#57606a}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}article{background:#161b22}
th,time{color:#8b949e}h2,tr+tr td{border-color:#30363d}}
"""


def patient_resources(lines: Iterable[str], mrn: str) -> list[Resource]:
    """The resources of one patient, and all locations and medications. Raises UserError for an unknown patient.

    `lines` are FHIR resources as JSON, one per line.
    """
    reference, resources, known = f"Patient/{mrn}", list[Resource](), False
    for line in lines:
        shared = line.startswith(('{"resourceType":"Location"', '{"resourceType":"Medication"'))
        if not shared and f'"{mrn}"' not in line and f'"{reference}"' not in line:
            continue
        resource: Resource = json.loads(line)
        subject = resource.get("subject") or resource.get("patient") or resource.get("beneficiary") or {}
        if resource["resourceType"] == "Patient":
            if resource.get("id") != mrn:
                continue
            known = True
        elif resource["resourceType"] not in ("Location", "Medication") and subject.get("reference") != reference:
            continue
        resources.append(resource)
    if not known:
        raise UserError(f"{mrn}: this data set contains no patient with this MRN")
    return resources


def chart_page(resources: Sequence[Resource]) -> str:
    """The page for the result of `patient_resources`."""
    return _Page(resources).text()


class _Page:
    def __init__(self, resources: Sequence[Resource]) -> None:
        self._by_type: dict[str, list[Resource]] = {}
        for resource in resources:
            self._by_type.setdefault(str(resource["resourceType"]), []).append(resource)
        self._names = {
            f"{location['resourceType']}/{location['id']}": str(location.get("name") or _concept(location.get("code")))
            for location in (*self._of("Location"), *self._of("Medication"))
        }

    def _of(self, kind: str) -> list[Resource]:
        return self._by_type.get(kind, [])

    def text(self) -> str:
        """The whole page."""
        patient = self._of("Patient")[0]
        name = patient["name"][0]
        title = f"{' '.join(name['given'])} {name['family']}, {patient['id']}"
        parts = [
            f"<h1>{escape(title)}</h1>",
            f"<p>{escape(self._person(patient))}</p>",
            self._section("Problems", ("problem", "code", "status", "onset", "recorded"), self._problems()),
            self._section("Allergies", ("allergen", "reaction", "recorded"), self._allergies()),
            self._section("Stays and visits", ("from", "to", "what", "where"), self._encounters()),
            self._section("Drug orders", ("drug", "dose", "status", "from", "to"), self._drugs()),
            self._section("Procedures", ("when", "procedure", "status"), self._procedures()),
            self._section("Orders", ("when", "order", "status"), self._services()),
            self._section("Cultures", ("when", "test", "result"), self._cultures()),
            "<h2>Tests over time</h2>",
            *self._curves(),
            "<h2>Notes</h2>",
            *self._notes(),
        ]
        body = "\n".join(part for part in parts if part)
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
            f"<body><main>\n{body}\n</main></body></html>\n"
        )

    def _person(self, patient: Resource) -> str:
        insurance = [coverage["type"]["text"] for coverage in self._of("Coverage")]
        marital = _concept(patient.get("maritalStatus"))
        parts = [patient["gender"], f"born {patient['birthDate']}", marital.lower(), *insurance]
        if "deceasedDateTime" in patient:
            parts.append(f"died {_minute(patient['deceasedDateTime'])}")
        return ", ".join(part for part in parts if part)

    @staticmethod
    def _section(title: str, columns: Sequence[str], rows: Rows) -> str:
        if not rows:
            return f"<h2>{escape(title)}</h2>\n<p>none</p>"
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        lines = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<h2>{escape(title)}</h2>\n<table><tr>{head}</tr>\n{lines}</table>"

    def _problems(self) -> Rows:
        conditions = sorted(
            self._of("Condition"), key=lambda condition: (_category(condition), str(condition.get("onsetDateTime")))
        )
        listed = [condition for condition in conditions if _category(condition) == "problem-list-item"]
        texts = {_concept(condition["code"]) for condition in listed}
        others = [
            condition
            for condition in conditions
            if condition not in listed and _concept(condition["code"]) not in texts
        ]
        return [
            (
                _concept(condition["code"]),
                _code(condition["code"]),
                _code(condition.get("clinicalStatus") or condition.get("verificationStatus")),
                str(condition.get("onsetDateTime", "")),
                _minute(condition.get("recordedDate", "")),
            )
            for condition in (*listed, *others)
        ]

    def _allergies(self) -> Rows:
        return [
            (
                _concept(allergy["code"]),
                _concept(allergy["reaction"][0]["manifestation"][0]),
                _minute(allergy["recordedDate"]),
            )
            for allergy in self._of("AllergyIntolerance")
        ]

    def _encounters(self) -> Rows:
        rows = []
        for encounter in sorted(self._of("Encounter"), key=lambda encounter: str(encounter["period"]["start"])):
            if "partOf" in encounter:
                continue
            units = [
                f"{self._names.get(place['location']['reference'], '')} {_minute(place['period']['start'])}"
                for place in encounter.get("location", [])
            ]
            reason = ", ".join(str(reason["text"]) for reason in encounter.get("reasonCode", []))
            leaves = _concept(encounter.get("hospitalization", {}).get("dischargeDisposition"))
            end = _minute(encounter["period"].get("end", "")) or "going on"
            what = f"{encounter['class']['code']}: {reason}"
            rows.append((_minute(encounter["period"]["start"]), f"{end} {leaves}".strip(), what, "; ".join(units)))
        return rows

    def _drugs(self) -> Rows:
        rows = []
        for order in sorted(self._of("MedicationRequest"), key=lambda order: str(order["authoredOn"])):
            reference = order.get("medicationReference", {}).get("reference", "")
            drug = _concept(order.get("medicationCodeableConcept")) or self._names.get(reference, reference)
            dosage = order.get("dosageInstruction", [{}])[0]
            quantity = dosage.get("doseAndRate", [{}])[0].get("doseQuantity", {})
            frequency = dosage.get("timing", {}).get("repeat", {}).get("frequency")
            times = f"{frequency} a day" if frequency else "once"
            needed = " if needed" if dosage.get("asNeededBoolean") else ""
            route = dosage.get("route", {}).get("text", "")
            dose = f"{quantity.get('value', '')} {quantity.get('unit', '')} {route}, {times}{needed}"
            period = order.get("dispenseRequest", {}).get("validityPeriod", {})
            rows.append((drug, dose, order["status"], _minute(order["authoredOn"]), _minute(period.get("end", ""))))
        return rows

    def _procedures(self) -> Rows:
        rows = []
        for procedure in self._of("Procedure"):
            period = procedure.get("performedPeriod", {})
            when = procedure.get("performedDateTime") or period.get("start", "")
            rows.append(
                (_minute(when), f"{_concept(procedure['code'])} ({_code(procedure['code'])})", procedure["status"])
            )
        return sorted(rows)

    def _services(self) -> Rows:
        orders = self._of("ServiceRequest")
        return sorted((_minute(order["authoredOn"]), _concept(order["code"]), order["status"]) for order in orders)

    def _cultures(self) -> Rows:
        every = {
            observation["id"]: observation
            for observation in self._of("Observation")
            if "specimen" in observation or "valueQuantity" not in observation
        }
        rows = []
        for observation in every.values():
            if "specimen" not in observation:
                continue
            organisms = []
            for member in observation.get("hasMember", []):
                organism = every[member["reference"].partition("/")[2]]
                marks = [every[inner["reference"].partition("/")[2]] for inner in organism.get("hasMember", [])]
                tested = ", ".join(f"{_concept(mark['code'])} {_code(mark['valueCodeableConcept'])}" for mark in marks)
                organisms.append(f"{_concept(organism['code'])} ({tested})")
            result = "; ".join(organisms) or str(observation["valueString"])
            rows.append((_minute(observation["effectiveDateTime"]), _concept(observation["code"]), result))
        return sorted(rows)

    def _curves(self) -> list[str]:
        series: dict[str, list[Resource]] = {}
        for observation in self._of("Observation"):
            if "value" in observation.get("valueQuantity", {}):
                series.setdefault(_concept(observation["code"]), []).append(observation)
        return [_curve(name, observations) for name, observations in sorted(series.items())]

    def _notes(self) -> list[str]:
        out = []
        for note in sorted(self._of("DocumentReference"), key=lambda note: str(note["date"])):
            try:
                text = base64.b64decode(note["content"][0]["attachment"]["data"]).decode("utf-8", "replace")
            except (binascii.Error, KeyError):
                text = "cannot be read"
            kind = escape(_concept(note["type"]))
            out.append(f"<article><time>{_minute(note['date'])}</time> {kind}<br>{escape(text)}</article>")
        return out


def _curve(name: str, observations: Sequence[Resource]) -> str:
    """A chart of values over time as points, with the first reference range as a band."""
    points = sorted(
        (datetime.fromisoformat(observation["effectiveDateTime"]), float(observation["valueQuantity"]["value"]))
        for observation in observations
    )
    bounds: Resource = next(
        (observation["referenceRange"][0] for observation in observations if observation.get("referenceRange")), {}
    )
    low, high = (bounds.get(end, {}).get("value") for end in ("low", "high"))
    values = [value for _, value in points]
    ends = [end for end in (low, high) if end is not None]
    bottom, top = min([*values, *ends]), max([*values, *ends])
    first, last = points[0][0], points[-1][0]
    span, height = max((last - first).total_seconds(), 1.0), (top - bottom) or 1.0

    def y(value: float) -> float:
        return float(_HEIGHT - 6 - (value - bottom) / height * (_HEIGHT - 12))

    dots = "".join(
        f'<circle cx="{6 + (time - first).total_seconds() / span * (_WIDTH - 12):.1f}" cy="{y(value):.1f}" r="2"/>'
        for time, value in points
    )
    upper, lower = y(top if high is None else high), y(bottom if low is None else low)
    size = f'width="{_WIDTH}" height="{max(lower - upper, 0):.1f}"'
    band = f'<rect x="0" y="{upper:.1f}" {size} fill="#2da44e" opacity=".15"/>'
    unit = str(observations[0]["valueQuantity"].get("unit", ""))
    label = f"{name}, {unit}: {min(values):g} to {max(values):g}, n = {len(values)}"
    when = f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return (
        f"<figure><figcaption>{escape(label)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}" fill="#0969da">'
        f"{band if bounds else ''}{dots}</svg><time>{when}</time></figure>"
    )


def _concept(value: Resource | None) -> str:
    if not value:
        return ""
    coding = (value.get("coding") or [{}])[0]
    return str(value.get("text") or coding.get("display") or coding.get("code") or "")


def _code(value: Resource | None) -> str:
    return str((value or {}).get("coding", [{}])[0].get("code", ""))


def _category(resource: Resource) -> str:
    return _code((resource.get("category") or [None])[0])


def _minute(time: str) -> str:
    """A FHIR dateTime as `2023-11-12 08:15`."""
    return escape(time[:16].replace("T", " "))
