"""A checkout with four made-up measures, in the layout of the repository. They are no measures of any steward."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LOCAL = "http://example.org/codes"
KNOWN, MISSING = "http://example.org/ValueSet/foot-checks", "http://example.org/ValueSet/visits"
POPULATIONS = ("initial-population", "denominator", "numerator")
EXTENSION = "http://hl7.org/fhir/us/cqfmeasures/StructureDefinition/cqfm-testCaseDescription"


def population(code: str, **more: Any) -> dict[str, Any]:
    return {"code": {"coding": [{"code": code}]}, **more}


def measure(name: str, needs: dict[str, tuple[str, str]], groups: int = 1) -> dict[str, Any]:
    """A measure; `needs` are value sets with the type and the element that its logic filters by them."""
    requirements = [
        {"type": kind, "codeFilter": [{"path": path, "valueSet": url}]} for url, (kind, path) in needs.items()
    ]
    listed = [population(code, description=f"{code} of {name}") for code in (*POPULATIONS, "measure-observation")]
    second = [population(code, description=f"{code} of the second group") for code in POPULATIONS]
    return {
        "resourceType": "Measure",
        "id": name,
        "title": f"{name} in words",
        "description": f"What {name} measures.",
        "contained": [{"resourceType": "Library", "dataRequirement": requirements}],
        "group": [{"population": listed}, {"population": second}][:groups],
    }


def report(expected: Sequence[str], reason: str, groups: int = 1) -> dict[str, Any]:
    counts = [population(code, count=int(code in expected)) for code in dict.fromkeys((*POPULATIONS, *expected))]
    return {
        "resourceType": "MeasureReport",
        "id": "r",
        "extension": [{"url": EXTENSION, "valueMarkdown": reason}],
        "period": {"start": "2026-01-01", "end": "2026-12-31"},
        "group": [{"population": [*counts, population("numerator-observation", count=7)]}] * groups,
    }


def patient(title: str) -> dict[str, Any]:
    return {
        "resourceType": "Patient",
        "id": "the-patient",
        "text": {"status": "generated", "div": f"<div>{title}</div>"},
        "identifier": [{"system": "http://example.org/cases", "value": title}],
        "name": [{"family": title, "given": ["CasePass", "Encounter", "Check of feet"]}],
        "birthDate": "1960-02-03",
    }


def visit(code: str, **display: str) -> dict[str, Any]:
    return {
        "resourceType": "Encounter",
        "id": "Encounter-1",
        "status": "finished",
        "class": {"code": "AMB"},
        "type": [{"coding": [{"system": LOCAL, "code": code, **display}]}],
        "subject": {"reference": "Patient/the-patient", "display": "NUMERPass"},
        "period": {"start": "2026-03-04T08:00:00Z"},
    }


def foot_check(title: str) -> dict[str, Any]:
    return {
        "resourceType": "Procedure",
        "id": f"{title}-procedure",
        "meta": {"profile": ["http://example.org/procedure"], "source": title},
        "status": "completed",
        "contained": [{"resourceType": "Device", "id": f"{title}-device"}],
        "code": {"coding": [{"system": LOCAL, "code": "foot", "display": "Check of feet"}], "text": f"check {title}"},
        "focalDevice": [{"manipulated": {"reference": f"#{title}-device"}}],
        "note": [{"text": f"this makes it {title}"}],
        "subject": {"reference": "Patient/the-patient"},
        "encounter": {"reference": "Encounter/Encounter-1"},
        "performer": [{"actor": {"reference": "Practitioner/elsewhere"}}],
        "performedDateTime": "2026-03-04T08:10:00Z",
    }


def write(root: Path) -> Path:
    """Write the checkout: ten cases, of which six can be imported and five can be run."""
    measures = {
        "FootCheck": measure("FootCheck", {KNOWN: ("Procedure", "code")}),
        "SugarTest": measure("SugarTest", {MISSING: ("Encounter", "type"), KNOWN: ("Procedure", "code")}),
        "TwoGroups": measure("TwoGroups", {}, groups=2),
        "TwoMoreGroups": measure("TwoMoreGroups", {}, groups=2),
    }
    cases: dict[str, list[dict[str, Any]]] = {
        "FootCheck/NUMERPass-foot-check": [
            patient("NUMERPass"),
            visit("v1", display="Visit"),
            foot_check("NUMERPass"),
            {"resourceType": "Practitioner", "id": "NUMERPass-nurse", "name": [{"family": "NUMERPass"}]},
            {"resourceType": "Condition", "id": "slip", "subject": {"reference": "Patient/of-another-case"}},
            report(POPULATIONS, "It was checked\n  at the visit."),
        ],
        "FootCheck/NUMERFail-no-check": [
            patient("NUMERFail"),
            visit("v1", display="Visit"),
            report(POPULATIONS[:2], "No check."),
        ],
        "FootCheck/no-report": [patient("IPPFail")],
        "SugarTest/named": [patient("IPPPass"), visit("v1", display="Visit"), report(POPULATIONS[:2], "")],
        "SugarTest/unnamed": [patient("IPPPass2"), visit("v2"), report(POPULATIONS[:2], "")],
        "SugarTest/no-visit": [patient("IPPFail"), report((), "No visit.")],
        "SugarTest/undefined": [patient("IPPPass3"), report(("strange",), "No such population.")],
        "TwoGroups/a": [patient("IPPFail"), report((), "", groups=2)],
        "TwoMoreGroups/a": [patient("IPPFail"), report((), "", groups=2)],
        "TwoMoreGroups/report-of-the-first": [patient("IPPFail2"), report((), "Too young.")],
    }
    codes = {"include": [{"system": LOCAL, "concept": [{"code": "foot", "display": "Foot check"}]}]}
    value_set = {
        "resourceType": "ValueSet",
        "id": "k",
        "url": KNOWN,
        "status": "active",
        "title": "Foot checks",
        "compose": codes,
    }
    files: dict[str, dict[str, Any]] = {"vocabulary/valueset/external/valueset-k.json": value_set}
    files |= {f"resources/measure/{name}.json": content for name, content in measures.items()}
    for folder, resources in cases.items():
        files |= {
            f"tests/measure/{folder}/{resource['resourceType']}-{resource['id']}.json": resource
            for resource in resources
        }
    for name, content in files.items():
        file = root / "input" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content), "utf-8")
    return root
