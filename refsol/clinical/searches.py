"""The searches of a rule, what they found, and what a resource says: whether it counts, its drug and its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from refsol._moments import distance_words, length_words, shown_time
from refsol.clinical.codes import Code, Lab
from refsol.clinical.sources import Resource
from refsol.clinical.times import WholeDay, is_date
from refsol.clinical.units import as_float, converted, stated_unit
from refsol.errors import DataFault
from refsol.json_values import as_object, objects
from refsol.resources import CLINICAL_STATUS, any_of, coded_in, codes_in, codings
from refsol.stats import sequential_mean
from refsol.verdict import Fact

How = Literal["last", "all", "mean", "first"]
"""How a read uses what it found."""


ANY = "any"
"""The status of a search for resources of any status."""


class Search(NamedTuple):
    """A search of one patient's resources: of a type, with one of some codes, with a status, since `start`.

    With the status `any`, what is inactive, resolved, refuted or not done counts, too.
    """

    kind: str
    codes: tuple[Code, ...] = ()
    status: str = ""
    start: datetime | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters, without the patient."""
        coded = "vaccine-code" if self.kind == "Immunization" else "code"
        code = {coded: any_of([code.code for code in self.codes])} if self.codes else {}
        status = "clinical-status" if self.kind in CLINICAL_STATUS else "status"
        return {**code, status: self.status} if self.status not in ("", ANY) else code

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.kind}?{query}" if query else self.kind


class Searched(NamedTuple):
    """One read: its search, and the resources on which the ruling rests. Without any, it rests on their absence.

    `what` names what was looked for, if not the code; `role` is what a resource is for the rule.
    """

    search: Search
    used: tuple[Resource, ...]
    how: How
    what: str
    role: str
    patient: str
    now: datetime
    is_converted: bool = False
    """Whether readings were converted into the unit of the test."""

    @property
    def lab(self) -> Lab | None:
        """The laboratory test, if it was a search for one."""
        return next((code for code in self.search.codes if isinstance(code, Lab)), None)

    @property
    def name(self) -> str:
        """What was looked for, in words."""
        return self.what or " or ".join(dict.fromkeys(code.label for code in self.search.codes)) or str(self.search)

    def words_of(self, resource: Resource) -> str:
        """A resource on which the ruling rests, in words: `the magnesium of 2023-11-13 05:12`, `Procedure/12`."""
        if self.search.kind == "Patient":
            return f"the {self.what} of {self.patient}"
        time = resource.get("effectiveDateTime")
        if self.lab is None or not isinstance(time, str):
            return ref(resource)
        return f"the {self.name} of {shown_time(time)}"

    # The facts, and the read in words

    @property
    def window(self) -> str:
        """Since when resources count, in words."""
        start = self.search.start
        return "in the record" if start is None else f"of the last {length_words(self.now - start)}"

    @property
    def facts(self) -> list[Fact]:
        """What the ruling rests on."""
        if not self.used:
            name, unit = (self.lab.code, self.lab.unit) if self.lab else (str(self.search), "")
            return [Fact(name, None, unit or None, None, f"none {self.window}")]
        role = {"last": "latest", "first": "first"}.get(self.how, "one")
        return [self._fact(resource, self.role or f"{role} {self.window}") for resource in self.used]

    def _fact(self, resource: Resource, role: str) -> Fact:
        if self.search.kind == "Patient" and self.what:
            return Fact(self.what, resource.get(self.what), None, None, role)
        if self.lab is not None:
            return Fact(self.lab.code, self.amount(resource), self.lab.unit or None, measured(resource), role)
        text = next(iter(drug_names(resource)), None)
        return Fact(ref(resource), text, None, time_text(resource), role)

    def amount(self, resource: Resource) -> Any:
        """The value of a reading, in the unit of the test."""
        quantity = as_object(resource.get("valueQuantity"))
        value: Any = quantity.get("value")
        if not self.is_converted or self.lab is None:
            return value
        there = converted(quantity, self.lab)
        return value if there.is_same else as_float(there.of(value))

    def _stated(self, resource: Resource) -> str:
        """`3.1 mEq/L = ` for a reading that the chart states in another unit than the rule; otherwise empty."""
        quantity = as_object(resource.get("valueQuantity"))
        unit = stated_unit(quantity) if self.is_converted and self.lab is not None and self.lab.unit else ""
        return f"{quantity.get('value')} {unit} = " if self.lab is not None and unit not in ("", self.lab.unit) else ""

    def __str__(self) -> str:
        if not self.used:
            status = "" if self.search.status == ANY else self.search.status
            return " ".join(filter(None, ("no", status, self.name, self.window)))
        if self.how not in ("all", "mean"):
            return "; ".join(map(self._used, self.used))
        values = [self.amount(resource) for resource in self.used]
        unit = self.lab.unit if self.lab else ""
        stated = [f"{self._stated(resource)}{value}" for resource, value in zip(self.used, values, strict=True)]
        listed = f"{self.name} {self.window}: {', '.join(stated)} {unit}".rstrip()
        return listed if self.how == "all" else f"{listed}; their mean is {sequential_mean(values):.6g}"

    def _used(self, resource: Resource) -> str:
        """`last magnesium 1.2 mg/dL at 2023-11-13 05:12, 5 h before now`."""
        fact = self._fact(resource, "")
        what = f"last {self.name}" if self.how == "last" else (self.what and self.search.status) or self.name
        value = None if fact.value is None else f"{self._stated(resource)}{fact.value}"
        unit = None if fact.value is None else fact.unit
        words = " ".join(str(part) for part in (what, value, unit) if part is not None)
        if fact.time is None:
            return words
        if self.is_converted and is_date(fact.time):
            return f"{words} on {fact.time}"
        try:
            distance = distance_words(datetime.fromisoformat(fact.time), self.now)
        except ValueError:
            return f"{words} at {shown_time(fact.time)}"
        return f"{words} at {shown_time(fact.time)}, {distance}"


def is_patient(resource: Resource, patient: str) -> bool:
    """Whether a resource is the Patient with this id or identifier."""
    known = [resource.get("id"), *(identifier.get("value") for identifier in objects(resource.get("identifier")))]
    return resource.get("resourceType") == "Patient" and patient in known


def ref(resource: Mapping[str, Any]) -> str:
    """The reference to a resource, such as `Procedure/12`."""
    return f"{resource.get('resourceType')}/{resource.get('id')}"


def drug_text(resource: Resource) -> str:
    """`medicationCodeableConcept.text` in lower case; empty if it is missing. Raises DataFault."""
    concept = resource.get("medicationCodeableConcept")
    text = concept.get("text", "") if isinstance(concept, dict) else None
    if not isinstance(text, str):
        raise DataFault(f"{ref(resource)} has no readable medicationCodeableConcept")
    return text.lower()


def drug_names(resource: Resource) -> list[str]:
    """The texts that name the drug of an order, in lower case: of its concept or reference, of each coding, and of a
    Medication that it contains.
    """
    concept, reference = (as_object(resource.get(f"medication{name}")) for name in ("CodeableConcept", "Reference"))
    displays = (coding.get("display") for coding in codings(resource, "medicationCodeableConcept"))
    inside = str(reference.get("reference")).removeprefix("#")
    contained = (part for part in objects(resource.get("contained")) if part.get("id") == inside)
    names = [name for part in contained for name in concept_names(part, "code")]
    return [*_lower(concept.get("text"), reference.get("display"), *displays), *names]


def concept_names(resource: Resource, element: str) -> list[str]:
    """The texts of a concept, in lower case: its own, and the display of each coding."""
    displays = (coding.get("display") for coding in codings(resource, element))
    return _lower(as_object(resource.get(element)).get("text"), *displays)


def _lower(*texts: Any) -> list[str]:
    return [text.lower() for text in texts if isinstance(text, str) and text.strip()]


def is_coded(resource: Resource, element: str, codes: Sequence[Code]) -> bool:
    """Whether a concept has one of some codes."""
    stated = [(coding.get("code"), coding.get("system")) for coding in codings(resource, element)]
    return any(value == code.code and _same_system(code.system, system) for code in codes for value, system in stated)


_NEVER = "entered-in-error"
_VOID = ("not-done", "refuted")
_PAST = ("inactive", "remission", "resolved")
"""The clinical statuses of conditions, allergies and intolerances that the patient does not have any more."""


def is_valid(resource: Resource, search: Search) -> bool:
    """Whether a resource is about one of a search's codes, and was neither entered in error, refuted nor not done. A
    condition, an allergy or an intolerance must be active, unless the search is for another status.
    """
    states = {resource.get("status"), *codes_in(resource, "verificationStatus")}
    if _NEVER in states:
        return False
    if search.kind in CLINICAL_STATUS:
        states |= codes_in(resource, "clinicalStatus")
    excluded = {*_VOID, *(_PAST if search.kind in CLINICAL_STATUS else ())} - {search.status}
    if search.status != ANY and states & excluded:
        return False
    return not search.codes or is_coded(resource, coded_in(search.kind), search.codes)


def _same_system(system: str, stated: Any) -> bool:
    """Whether two code systems may be the same. Only two that are both stated can differ."""
    return not system or not stated or system == stated


def measured(resource: Resource) -> Any:
    """When something was measured, as stored: a time, an instant, otherwise the end or the start of a period."""
    period = as_object(resource.get("effectivePeriod"))
    times = (
        resource.get("effectiveDateTime"),
        resource.get("effectiveInstant"),
        period.get("end"),
        period.get("start"),
    )
    return next((time for time in times if time is not None), None)


def performed(resource: Resource) -> Any:
    """When something was done, as stored: a time, otherwise the end or the start of a period. Raises DataFault."""
    text = resource.get("performedDateTime", resource.get("occurrenceDateTime"))
    if text is not None:
        return text
    period = resource.get("performedPeriod") or {}
    if not isinstance(period, dict):
        raise DataFault(f"{ref(resource)}: performedPeriod is not an object")
    return period.get("start") if period.get("end") is None else period["end"]


def time_text(resource: Resource) -> str | None:
    """The time of a resource as stored. None if it has none that can be read."""
    try:
        time = performed(resource)
    except DataFault:
        return None
    time = time or resource.get("effectiveDateTime") or resource.get("authoredOn")
    return time if isinstance(time, str) else None


def is_at(text: str | None, moment: datetime) -> bool:
    """Whether a stored time is a moment, or the same day."""
    if isinstance(moment, WholeDay):
        return text == moment.text
    try:
        return datetime.fromisoformat(text or "") == moment
    except ValueError:
        return False
