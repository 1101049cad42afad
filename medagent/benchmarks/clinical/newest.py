"""The newest time in the data of some patients, which is the time of tasks that state none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from medagent.core.errors import UserError
from medagent.fhir_data.asking import Ask
from refsol.json_values import as_object
from refsol.resources import FhirSearches

_NEWEST = {
    "Observation": "date",
    "Procedure": "date",
    "DiagnosticReport": "date",
    "Immunization": "date",
    "Encounter": "date",
    "MedicationRequest": "authoredon",
    "ServiceRequest": "authored",
    "Condition": "onset-date",
}
"""By type the search parameter of the time by which the newest resource is searched."""
_TIMES = ("effectiveDateTime", "performedDateTime", "occurrenceDateTime", "authoredOn", "onsetDateTime")
_PERIODS = ("effectivePeriod", "performedPeriod", "period")


def newest_time(base: str, ask: Ask) -> datetime:
    """The newest time at which something was measured, done or ordered. Raises UserError if there is none."""
    server = FhirSearches(base, ask)
    newest = (
        resource for kind, name in _NEWEST.items() for resource in server.resources(kind, f"_sort=-{name}&_count=1")
    )
    times = [time for resource in newest for text in _texts(resource) if (time := _time(text)) is not None]
    if not times:
        raise UserError("the patients' data contains no times; pass the time of the tasks with --now")
    return max(times)


def _texts(resource: Mapping[str, Any]) -> Iterator[Any]:
    yield from (resource.get(name) for name in _TIMES)
    yield from (as_object(resource.get(name)).get(end) for name in _PERIODS for end in ("start", "end"))


def _time(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
