"""A FHIR Bundle as text: one line per resource, with marks on the deciding ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from refsol.json_values import as_object, json_value

DECIDES = "◀ decides"
_FIRST = 8
"""Number of resources that are shown, in addition to the deciding ones."""


def bundle_lines(text: str, decides: Sequence[str]) -> list[str] | None:
    """The lines of a Bundle's JSON; None if the text is not a Bundle. `decides` are the deciding times."""
    bundle = as_object(json_value(text))
    if bundle.get("resourceType") != "Bundle":
        return None
    entries = bundle.get("entry")
    resources = [as_object(as_object(one).get("resource")) for one in entries] if isinstance(entries, list) else []
    marked = [one.get("effectiveDateTime") in decides for one in resources]
    shown = [place for place in range(len(resources)) if place < _FIRST or marked[place]]
    lines = [f"Bundle of {len(resources)} (total {bundle.get('total', 'not stated')}):"]
    lines += [f"  {_line(resources[place])}{'  ' + DECIDES if marked[place] else ''}" for place in shown]
    if len(shown) < len(resources):
        lines.append(f"  … {len(resources) - len(shown)} more (--full shows the JSON)")
    return lines


def _line(resource: dict[str, Any]) -> str:
    """The type, time, code or name, value and status of a resource."""
    quantity = as_object(resource.get("valueQuantity"))
    name = as_object((resource.get("name") or [None])[0]) if isinstance(resource.get("name"), list) else {}
    times = ("effectiveDateTime", "authoredOn", "onsetDateTime", "recordedDate", "performedDateTime", "birthDate")
    parts = [
        resource.get("resourceType"),
        next((resource[time] for time in times if isinstance(resource.get(time), str)), None),
        _concept(resource.get("code")) or _concept(resource.get("medicationCodeableConcept")),
        " ".join(filter(None, [*map(str, name.get("given") or []), name.get("family")])) if name else None,
        f"{quantity.get('value')} {quantity.get('unit', '')}".strip() if quantity else resource.get("valueString"),
        resource.get("status"),
    ]
    return "  ".join(str(part) for part in parts if part) or json.dumps(resource)[:80]


def _concept(value: Any) -> str:
    concept = as_object(value)
    codings = concept.get("coding")
    coding = as_object(codings[0]) if isinstance(codings, list) and codings else {}
    return str(concept.get("text") or coding.get("code") or "")
