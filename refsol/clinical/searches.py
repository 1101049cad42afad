"""The searches of a rule, what they found, and what a resource says: whether it counts, its drug and its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from refsol._moments import distance_words, length_words
from refsol.clinical.codes import Code, Lab
from refsol.clinical.sources import Resource
from refsol.errors import DataFault
from refsol.json_values import as_object, objects
from refsol.reads import Query, Read, has_read, has_reading, searched
from refsol.resources import CLINICAL_STATUS, any_of, coded_in, codes_in, codings
from refsol.stats import sequential_mean
from refsol.verdict import Fact

How = Literal["last", "all", "mean", "first"]
"""How a read uses what it found."""


class Search(NamedTuple):
    """A search of one patient's resources: of a type, with one of some codes, with a status, since `start`."""

    kind: str
    codes: tuple[Code, ...] = ()
    status: str = ""
    start: datetime | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters, without the patient."""
        coded = "vaccine-code" if self.kind == "Immunization" else "code"
        code = {coded: any_of([one.code for one in self.codes])} if self.codes else {}
        status = "clinical-status" if self.kind in CLINICAL_STATUS else "status"
        return {**code, status: self.status} if self.status else code

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.kind}?{query}" if query else self.kind


class Looked(NamedTuple):
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

    @property
    def lab(self) -> Lab | None:
        """The laboratory test, if it was a search for one."""
        return next((code for code in self.search.codes if isinstance(code, Lab)), None)

    @property
    def name(self) -> str:
        """What was looked for, in words."""
        return self.what or " or ".join(dict.fromkeys(code.label for code in self.search.codes)) or str(self.search)

    # What an agent must have read too: the resources, or a search that shows their absence

    def unread(self, reads: Sequence[Read]) -> list[str]:
        """What is missing from these reads, as texts."""
        if self.search.kind == "Patient":
            seen = (one for read in reads for one in read.resources if is_patient(one, self.patient))
            return [] if any(one.get("birthDate") for one in seen) else [f"the birthDate of {self.patient}"]
        if self.used:
            return [text for one in self.used for text in self._unread(one, reads)]
        return [text for query, text in self._queries() if not searched(reads, query)]

    def _unread(self, resource: Resource, reads: Sequence[Read]) -> Iterator[str]:
        time, name = resource.get("effectiveDateTime"), ref(resource)
        if self.lab is not None and isinstance(time, str):
            seen, name = has_reading(reads, self.patient, self.lab.code, time), f"{self.lab.code} at {time}"
        else:
            seen = has_read(reads, name)
        if not seen:
            yield name

    def _queries(self) -> Iterator[tuple[Query, str]]:
        """The searches that show the absence, one for each code."""
        kind, codes, status, start = self.search
        window = None if start is None else (start, self.now)
        if status and kind in CLINICAL_STATUS:
            status = f"{CLINICAL_STATUS[kind]}|{status}"
        for code in codes or (Code(""),):
            token = "|".join(any_of([part]) for part in (code.system, code.code) if part)
            category = code.category if isinstance(code, Lab) else ""
            query = Query(kind, self.patient, token or None, status or None, window, category or None)
            yield query, f"a complete search of {code.code or kind}"

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
        return [self._fact(one, self.role or f"{role} {self.window}") for one in self.used]

    def _fact(self, resource: Resource, role: str) -> Fact:
        if self.what == "birthDate":
            return Fact("birthDate", resource.get("birthDate"), None, None, role)
        if self.lab is not None:
            return Fact(self.lab.code, _value(resource), self.lab.unit or None, resource.get("effectiveDateTime"), role)
        text = next(iter(drug_names(resource)), None)
        return Fact(ref(resource), text, None, time_text(resource), role)

    def __str__(self) -> str:
        if not self.used:
            return " ".join(filter(None, ("no", self.search.status, self.name, self.window)))
        if self.how not in ("all", "mean"):
            return "; ".join(map(self._used, self.used))
        values = [_value(one) for one in self.used]
        unit = self.lab.unit if self.lab else ""
        listed = f"{self.name} {self.window}: {', '.join(map(str, values))} {unit}".rstrip()
        return listed if self.how == "all" else f"{listed}; their mean is {sequential_mean(values):.6g}"

    def _used(self, resource: Resource) -> str:
        """`last magnesium 1.2 mg/dL at 2023-11-13T05:12:00+00:00, 5 h before now`."""
        fact = self._fact(resource, "")
        what = f"last {self.name}" if self.how == "last" else (self.what and self.search.status) or self.name
        unit = None if fact.value is None else fact.unit
        words = " ".join(str(one) for one in (what, fact.value, unit) if one is not None)
        if fact.time is None:
            return words
        try:
            return f"{words} at {fact.time}, {distance_words(datetime.fromisoformat(fact.time), self.now)}"
        except ValueError:
            return f"{words} at {fact.time}"


def is_patient(resource: Resource, patient: str) -> bool:
    """Whether a resource is the Patient with this id or identifier."""
    known = [resource.get("id"), *(one.get("value") for one in objects(resource.get("identifier")))]
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
    """The texts that name the drug of an order, in lower case: of its concept or reference, and of each coding."""
    named = [as_object(resource.get(name)) for name in ("medicationCodeableConcept", "medicationReference")]
    displays = (one.get("display") for one in codings(resource, "medicationCodeableConcept"))
    texts = (named[0].get("text"), named[1].get("display"), *displays)
    return [text.lower() for text in texts if isinstance(text, str) and text.strip()]


_VOID = ("entered-in-error", "not-done", "refuted")


def is_valid(resource: Resource, search: Search) -> bool:
    """Whether a resource is about one of a search's codes, and was neither entered in error, refuted nor not done. Only
    two systems that are both stated can differ.
    """
    states = (resource.get("status"), *codes_in(resource, "verificationStatus"))
    if any(one in _VOID and one != search.status for one in states):
        return False
    own = [(one.get("code"), one.get("system")) for one in codings(resource, coded_in(search.kind))]
    return not search.codes or any(
        one.code == code and one.system in ("", system or one.system) for one in search.codes for code, system in own
    )


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
    """Whether a stored time is a moment."""
    try:
        return datetime.fromisoformat(text or "") == moment
    except ValueError:
        return False


def _value(resource: Resource) -> Any:
    return as_object(resource.get("valueQuantity")).get("value")
