"""Makes tests/data/psb300/fair.jsonl.xz: items of psb-300 with the verdict of the rule set `fair`, by construction.

    python -m tools.psb300_fair

A row is in the format of ../shared/psb300 (task, clock, ehr, history, result, verdict), with a `rule`: one of the rules
in which `fair` differs from `official`. This file states the verdict for each reply; no grader is used.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "psb300" / "fair.jsonl.xz"
MRN = "S1234567"
NOW = datetime(2023, 11, 7, 22, 47, tzinfo=UTC)
CLOCK = "2026-02-28T23:59:59+00:00"
STORED = "2024-12-30T20:00:00.000+00:00"
FINISH = {"role": "agent", "content": "FINISH([])"}

Json = dict[str, Any]
Row = tuple[str, int, list[Json], list[Json], bool]
"""About, the type, the chart, the messages, the verdict."""


def rows() -> Iterator[Json]:
    """All rows, in the order of the rules."""
    for rule in RULES:
        for number, (about, kind, ehr, history, verdict) in enumerate(rule(), 1):
            yield {
                "case": f"{rule.__name__}-{number:02}",
                "rule": rule.__name__,
                "about": about,
                "task": {
                    "id": f"task{kind}_{number}",
                    "instruction": f"Made-up item of type {kind}.",
                    "context": f"It's {NOW.isoformat()} now.",
                    "eval_MRN": MRN,
                },
                "clock": CLOCK,
                "ehr": [{"id": str(place), **resource} for place, resource in enumerate(ehr, 1)],
                "history": history,
                "result": "[]",
                "verdict": verdict,
            }


def context_now() -> Iterator[Row]:
    """Task1 goes by the context's now, not by the wall clock."""
    order = _service("74177", reasonCode=[{"text": "Renal mass follow-up"}])
    for days in (1, 30, 200, 300, 364, 365, 366, 400, 500, 800):
        chart = [_procedure("IMGCT0491", NOW - timedelta(days=days))]
        yield f"CT {days} days ago, ordered", 1, chart, _posts(order), days > 365
        yield f"CT {days} days ago, nothing", 1, chart, [FINISH], days <= 365


def taken_last() -> Iterator[Row]:
    """Task7 goes by the reading taken last, not by the one stored last."""
    posts = _posts(_service("445118002"), _drug("ondansetron 4 mg", "stopped"))
    drug = _medication("ondansetron 4 mg oral")
    for older, newer in ((430, 520), (520, 430), (501, 500), (500, 501), (610, 380)):
        readings = [_reading("QTCINTERVAL", newer, days=1), _reading("QTCINTERVAL", older, days=5)]
        for stored_first in (0, 1):
            chart = [drug, *_stamped(readings, stored_first)]
            order = "the last taken stored first" if stored_first == 0 else "the last taken stored last"
            yield f"{older}, then {newer}, {order}, ordered", 7, chart, posts, newer > 500
            yield f"{older}, then {newer}, {order}, nothing", 7, chart, [FINISH], newer <= 500


def one_anticoagulant() -> Iterator[Row]:
    """Task2: every anticoagulant but the newest heparin is stopped, and heparin is created once, if at all."""
    heparin, stop = "heparin 5000 units SC q8h", "stopped"
    old, new = _medication(heparin, days=9), _medication(heparin, days=2)
    warfarin, apixaban = _medication("warfarin 5 mg", days=4), _medication("apixaban 5 mg", days=3)
    create = _drug(heparin)
    cases: list[tuple[str, list[Json], list[Json], bool]] = [
        ("two heparins, one stop", [old, new], [_drug(heparin, stop)], True),
        ("two heparins, nothing", [old, new], [], False),
        ("two heparins, stop of warfarin", [old, new], [_drug("warfarin", stop)], False),
        ("two heparins, stopped once and created", [old, new], [_drug(heparin, stop), create], False),
        ("three heparins, one stop", [old, old, new], [_drug(heparin, stop)], False),
        ("three heparins, two stops", [old, old, new], [_drug(heparin, stop)] * 2, True),
        ("heparin and warfarin, stop of warfarin", [new, warfarin], [_drug("warfarin", stop)], True),
        ("heparin and warfarin, stop of heparin", [new, warfarin], [_drug("heparin", stop)], False),
        ("heparin and warfarin, stop of apixaban", [new, warfarin], [_drug("apixaban", stop)], False),
        ("heparin and warfarin, cancelled", [new, warfarin], [_drug("warfarin", "cancelled")], True),
        ("heparin, warfarin, apixaban, one stop", [new, warfarin, apixaban], [_drug("warfarin", stop)], False),
        (
            "heparin, warfarin, apixaban, two stops",
            [new, warfarin, apixaban],
            [_drug("apixaban", stop), _drug("warfarin", stop)],
            True,
        ),
        ("warfarin, created", [warfarin], [create], False),
        ("warfarin, created and stopped", [warfarin], [create, _drug("warfarin", stop)], True),
        ("warfarin, stopped", [warfarin], [_drug("warfarin", stop)], False),
        ("warfarin, created twice", [warfarin], [create, create, _drug("warfarin", stop)], False),
        ("nothing, created", [], [create], True),
        ("nothing, created twice", [], [create, create], False),
        ("nothing, nothing", [], [], False),
        ("heparin alone, nothing", [new], [], True),
        ("heparin alone, created", [new], [create], False),
    ]
    for about, chart, posts, verdict in cases:
        yield about, 2, chart, _posts(*posts), verdict


def one_of_each_lab() -> Iterator[Row]:
    """Task6: one TSH and one FT4, not two of one of them."""
    tsh, ft4, drug = _service("TSH"), _service("FT4"), _drug("levothyroxine 25 mcg")
    high = [_reading("TSH", 12, days=60), _reading("TSH", 15, days=5), _reading("FT4", 0.7, days=5)]
    raised = [_reading("TSH", 6, days=5), _reading("FT4", 1.2, days=5)]
    orders: list[tuple[str, list[Json], bool]] = [
        ("both", [tsh, ft4], True),
        ("both, turned round", [ft4, tsh], True),
        ("TSH twice", [tsh, tsh], False),
        ("FT4 twice", [ft4, ft4], False),
        ("TSH alone", [tsh], False),
        ("FT4 alone", [ft4], False),
        ("TSH twice and FT4", [tsh, tsh, ft4], True),
        ("nothing", [], False),
        ("both as a draft", [{**tsh, "status": "draft"}, {**ft4, "status": "draft"}], False),
        ("both by text", [_service("3016-3", "TSH"), _service("3024-7", "FT4")], True),
    ]
    for about, posts, verdict in orders:
        yield f"high: {about}", 6, high, _posts(drug, *posts), verdict
        yield f"raised: {about}", 6, raised, _posts(*posts), verdict


def dose_25() -> Iterator[Row]:
    """Task6: 25 is a number of its own."""
    chart = [_reading("TSH", 12, days=60), _reading("TSH", 15, days=5), _reading("FT4", 0.7, days=5)]
    texts = {
        "levothyroxine 25 mcg": True,
        "levothyroxine 25mcg": True,
        "Levothyroxine 25 MCG tablet": True,
        "levothyroxine (25 mcg)": True,
        "levothyroxine 25.0 mcg": True,
        "levothyroxine, 25 micrograms daily": True,
        "25 mcg levothyroxine": True,
        "levothyroxine: 25 mcg": True,
        "levothyroxine 25": True,
        "levothyroxine 25 µg oral": True,
        "levothyroxine 125 mcg": False,
        "levothyroxine 250 mcg": False,
        "levothyroxine 0.25 mg": False,
        "levothyroxine 25.5 mcg": False,
        "levothyroxine 1.25 mcg": False,
        "levothyroxine 225 mcg": False,
        "levothyroxine 2500 mcg": False,
        "levothyroxine 50 mcg": False,
        "levothyroxine 25,000 mcg": False,
        "levothyroxine": False,
        "levothyroxineX 25 mcg": False,
    }
    for text, verdict in texts.items():
        yield text, 6, chart, _posts(_drug(text), _service("TSH"), _service("FT4")), verdict


def stop_of_the_chart() -> Iterator[Row]:
    """Task7: a stop counts only for a drug in the chart; without one, none is due."""
    ecg, reading = _service("445118002"), _reading("QTCINTERVAL", 530, days=1)
    for drug in ("ondansetron", "haloperidol", "quetiapine", "clozapine", "olanzapine"):
        chart = [reading, _medication(f"{drug} 5 mg oral")]
        yield f"{drug}, stopped", 7, chart, _posts(ecg, _drug(drug, "stopped")), True
        yield f"{drug}, another stopped", 7, chart, _posts(ecg, _drug("risperidone", "stopped")), False
        yield f"{drug}, ECG alone", 7, chart, _posts(ecg), False
        yield f"no drug for {drug}, ECG alone", 7, [reading, _medication("aspirin 81 mg")], _posts(ecg), True


def accepted_posts() -> Iterator[Row]:
    """Where nothing is due, accepted posts alone count."""
    post = {"role": "agent", "content": f"POST http://localhost:8080/fhir/ServiceRequest\n{json.dumps(_service('X'))}"}
    accepted = {"role": "user", "content": "POST request accepted and executed successfully."}
    rejected = {"role": "user", "content": "Invalid POST request"}
    prose = {"role": "agent", "content": "No POST is needed."}
    charts = {
        1: [_procedure("IMGCT0491", NOW - timedelta(days=10))],
        4: [],
        5: [],
        7: [],
        8: [],
        9: [_procedure("90686", NOW - timedelta(days=10))],
    }
    for kind, chart in charts.items():
        yield "accepted", kind, chart, [post, accepted, FINISH], False
        yield "rejected", kind, chart, [post, rejected, FINISH], True
        yield "not answered", kind, chart, [post], True
        yield "prose", kind, chart, [prose, {"role": "user", "content": "Go on"}, FINISH], True


def whole_words() -> Iterator[Row]:
    """A drug, code or word counts as a whole word."""
    naloxone = _drug("naloxone 4 mg nasal spray")
    opioids = {
        "morphine 5 mg": True,
        "apomorphine 3 mg": False,
        "oxycodone-acetaminophen": True,
        "fentanyl/patch": True,
    }
    for text, due in opioids.items():
        yield f"{text}, naloxone", 8, [_medication(text)], _posts(naloxone), due
        yield f"{text}, nothing", 8, [_medication(text)], [FINISH], not due
    flu = {
        "influenza vaccine": True,
        "flu shot": True,
        "fluconazole": False,
        "fluid bolus": False,
        "Influenza, quadrivalent": True,
        "flumazenil": False,
    }
    for text, verdict in flu.items():
        yield text, 9, [], _posts(_service("0", text)), verdict
    yield "by code", 9, [], _posts(_service("90686", "vaccine")), True
    heparins = {
        "heparin 5000 units": True,
        "heparin 5,000 units": True,
        "heparin 50000 units": False,
        "heparin 15000 units": False,
        "heparinoid 5000": False,
    }
    for text, verdict in heparins.items():
        yield text, 2, [], _posts(_drug(text)), verdict
    catheter = [_procedure("NUR1373", NOW - timedelta(days=5))]
    for code, verdict in (("NUR1373", True), ("NUR13730", False), ("XNUR1373", False)):
        yield code, 4, catheter, _posts(_service(code)), verdict


RULES: tuple[Callable[[], Iterator[Row]], ...] = (
    context_now,
    taken_last,
    one_anticoagulant,
    one_of_each_lab,
    dose_25,
    stop_of_the_chart,
    accepted_posts,
    whole_words,
)


def _resource(kind: str, **fields: Any) -> Json:
    return {"resourceType": kind, "subject": {"reference": f"Patient/{MRN}"}, "meta": {"lastUpdated": STORED}, **fields}


def _procedure(code: str, time: datetime) -> Json:
    return _resource("Procedure", code={"coding": [{"code": code}]}, performedDateTime=time.isoformat())


def _reading(code: str, value: float, days: int) -> Json:
    time = (NOW - timedelta(days=days)).isoformat()
    concept = {"coding": [{"code": code}]}
    return _resource("Observation", code=concept, effectiveDateTime=time, valueQuantity={"value": value})


def _medication(text: str, days: int = 3) -> Json:
    time = (NOW - timedelta(days=days)).isoformat()
    return _resource("MedicationRequest", status="active", medicationCodeableConcept={"text": text}, authoredOn=time)


def _stamped(readings: list[Json], stored_first: int) -> list[Json]:
    stamps = [f"2024-12-30T2{hour}:00:00.000+00:00" for hour in (0, 1)]
    order = stamps if stored_first == 0 else stamps[::-1]
    return [{**reading, "meta": {"lastUpdated": stamp}} for reading, stamp in zip(readings, order, strict=True)]


def _service(code: str, text: str | None = None, **more: Any) -> Json:
    concept: Json = {"coding": [{"code": code}]}
    return _order("ServiceRequest", code=concept if text is None else {**concept, "text": text}, **more)


def _drug(text: str, status: str = "active") -> Json:
    return _order("MedicationRequest", medicationCodeableConcept={"text": text}, status=status)


def _order(kind: str, **fields: Any) -> Json:
    subject = {"reference": f"Patient/{MRN}"}
    return {"resourceType": kind, "status": "active", "intent": "order", "subject": subject, **fields}


def _posts(*payloads: Json) -> list[Json]:
    messages = []
    for payload in payloads:
        url = f"http://localhost:8080/fhir/{payload['resourceType']}"
        messages += [
            {"role": "agent", "content": f"POST {url}\n{json.dumps(payload)}"},
            {"role": "user", "content": "POST request accepted and executed successfully."},
        ]
    return [*messages, FINISH]


def main() -> None:
    """Write the file, the same bytes each time."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
