"""What an agent read of a chart before it acted, and whether a right item is right for the right reason.

A GET counts if its reply contains a FHIR resource, in JSON or XML, before the first POST (or before the end if there is
none). The words around the resource are ignored, so transcripts of every protocol and of other tools can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit
from xml.etree import ElementTree

from refsol.history import HistoryMessage
from refsol.json_values import as_object, objects
from refsol.resources import codes, escaped_values, subject_id

_DATE = re.compile(r"(?P<prefix>[a-z]{2})?(?P<moment>\d{4}.*)")
_CODE = re.compile(r"(?<!\\)\|")
"""Before the code of a token. In a code, it is escaped."""


@dataclass(frozen=True, slots=True)
class Read:
    """A GET that was answered with status 200: its URL and the JSON of the reply."""

    url: str
    body: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The path of the URL, without a trailing slash."""
        return "/" + _split(self.url).path.strip("/")

    @property
    def base(self) -> str:
        """The FHIR base of a search of a type, with a slash at its end. Empty for a relative URL."""
        return "".join(self.url.partition("?")[0].rstrip("/").rpartition("/")[:2])

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The parameters of the URL. References to a Patient below the base are relative."""
        base = re.compile(f"(?<![^,]){re.escape(self.base)}(?=Patient/)")
        parameters: dict[str, list[str]] = {}
        for name, value in parse_qsl(_split(self.url).query, keep_blank_values=True):
            parameters.setdefault(name, []).append(base.sub("", value))
        return parameters

    @property
    def resources(self) -> Iterator[Mapping[str, Any]]:
        """The resources in the reply. For a Bundle, its entries' resources."""
        if self.is_bundle:
            yield from (as_object(entry.get("resource")) for entry in objects(self.body.get("entry")))
        else:
            yield self.body

    @property
    def is_bundle(self) -> bool:
        """Whether the reply is a Bundle, as for every search."""
        return self.body.get("resourceType") == "Bundle"

    @property
    def only_counts(self) -> bool:
        """Whether the reply contains only the number of matches, and this is not 0."""
        parameters = self.parameters
        counted = "0" in parameters.get("_count", []) or "count" in parameters.get("_summary", [])
        return counted and str(self.body.get("total")) != "0"

    @property
    def next_page(self) -> str | None:
        """The URL of the next page; None on the last page."""
        links = (link for link in objects(self.body.get("link")) if link.get("relation") == "next")
        return next((str(link.get("url")) for link in links), None)


@dataclass(frozen=True, slots=True)
class Query:
    """A search for one patient's resources of a type, optionally restricted by `code`, `status` and a time window.

    `code`, `category` and a clinical `status` are tokens, escaped as in a URL's parameter (`http://loinc.org|MG`). The
    system of a code without one is unknown. `category` applies to all searched resources; it is None if it is unknown.
    """

    kind: str
    patient: str
    code: str | None = None
    status: str | None = None
    window: tuple[datetime, datetime] | None = None
    category: str | None = None


DECIDES = {"Observation": "value", "Procedure": "performed", "MedicationRequest": "medication"}
"""The element (such as value[x]) without which a resource of a type says nothing. `_elements` can remove it."""


def has_read(reads: Sequence[Read], reference: str) -> bool:
    """Whether a reply contains the resource (`Procedure/12`) with its value."""
    return any(
        f"{resource.get('resourceType')}/{resource.get('id')}" == reference and _has_value(resource)
        for read in reads
        for resource in read.resources
    )


def has_reading(reads: Sequence[Read], patient: str, code: str, time: str) -> bool:
    """Whether a reply contains an Observation of this patient, with this code among its codings, at this time, with its
    value.
    """
    moment = _moment(time)
    return any(
        resource.get("resourceType") == "Observation"
        and _has_value(resource)
        and code in codes(resource)
        and _moment(resource.get("effectiveDateTime")) == moment
        and _subject(read, resource, patient) == patient
        for read in reads
        for resource in read.resources
    )


def _has_value(resource: Mapping[str, Any]) -> bool:
    element = DECIDES.get(str(resource.get("resourceType")), "")
    return any(name.startswith(element) for name in resource)


def searched(reads: Sequence[Read], query: Query) -> bool:
    """Whether a search that covers the whole query was read completely, or from the newest to before the window."""
    return any(_covers(read, query) and _is_read(reads, read, query) for read in reads)


def pages(reads: Sequence[Read], first: Read) -> tuple[list[Read], bool]:
    """The pages of a search that were read, from the first on, and whether they include the last page."""
    by_address = {_address(read.url): read for read in reads}
    chain = [first]
    while (following := chain[-1].next_page) is not None:
        page = by_address.get(_address(following))
        if page is None or page in chain:
            return chain, False
        chain.append(page)
    return chain, True


def _is_read(reads: Sequence[Read], first: Read, query: Query) -> bool:
    chain, to_the_end = pages(reads, first)
    if not first.is_bundle or first.only_counts:
        return False
    if to_the_end or query.window is None or first.parameters.get("_sort") != ["-date"]:
        return to_the_end
    start = query.window[0]
    times = (_moment(resource.get("effectiveDateTime")) for page in chain for resource in page.resources)
    return any(isinstance(time, datetime) and time < start for time in times)


def _covers(read: Read, query: Query) -> bool:
    parameters = read.parameters
    if read.path.endswith(f"/Patient/{query.patient}/$everything"):
        return _spare(parameters, EVERYTHING, query)
    if read.path.endswith("/Patient"):
        included = {f"{query.kind}:patient", f"{query.kind}:subject"}
        named = parameters.keys() & {"_id", "identifier"}
        matching = included & set(parameters.get("_revinclude", []))
        return bool(named and matching) and _spare(parameters, REVINCLUDE, query)
    named = parameters.keys() & PATIENT.keys()
    return read.path.endswith(f"/{query.kind}") and bool(named) and _spare(parameters, SEARCH, query)


Spares = Callable[[str, Query], bool]
"""Whether a parameter with this value excludes nothing of a query."""


def _spare(parameters: Mapping[str, Sequence[str]], table: Mapping[str, Spares], query: Query) -> bool:
    return all(name in table and table[name](value, query) for name, values in parameters.items() for value in values)


def _always(_value: str, _query: Query) -> bool:
    return True


def _is_reference(value: str, query: Query) -> bool:
    return not {query.patient, f"Patient/{query.patient}"}.isdisjoint(escaped_values(value))


def _is_id(value: str, query: Query) -> bool:
    return query.patient in escaped_values(value)


def _is_token(value: str, token: str | None) -> bool:
    return token is not None and not {token, _CODE.split(token)[-1]}.isdisjoint(escaped_values(value))


def _spares_date(value: str, query: Query) -> bool:
    return query.window is not None and any(spares_time(part, query.window) for part in escaped_values(value))


FORM: Mapping[str, Spares] = {
    **dict.fromkeys(("_count", "_format", "_include", "_pretty", "_sort", "_total"), _always),
    "_summary": lambda value, _: value == "count",
}
"""The parameters that exclude no match. A reply that only counts proves an absence if it counts 0."""
PATIENT: Mapping[str, Spares] = {
    f"{name}{kind}{chain}": _is_id if chain else _is_reference
    for name in ("patient", "subject")
    for kind in ("", ":Patient")
    for chain in ("", "._id", ".identifier")
}
"""The parameters that select the patient. The hospital's MRNs are without a system, so one with a system matches
nothing.
"""
SEARCH: Mapping[str, Spares] = {
    **FORM,
    **PATIENT,
    **dict.fromkeys(("code", "vaccine-code"), lambda value, query: _is_token(value, query.code)),
    "category": lambda value, query: _is_token(value, query.category),
    **dict.fromkeys(("status", "clinical-status"), lambda value, query: _is_token(value, query.status)),
    "date": _spares_date,
}
"""The parameters with which a search of a type can prove an absence. With any other parameter, it proves nothing."""
REVINCLUDE: Mapping[str, Spares] = {**FORM, "_id": _is_id, "identifier": _is_id, "_revinclude": _always}
"""The same for a search of Patient with `_revinclude`."""
EVERYTHING: Mapping[str, Spares] = {**FORM, "_type": lambda value, query: query.kind in escaped_values(value)}
"""The same for `Patient/ID/$everything`."""


def spares_time(condition: str, window: tuple[datetime, datetime]) -> bool:
    """Whether a condition on a date (`ge2023-11-12`) covers the whole window.

    A date covers the time from its start to its end, as FHIR R4 (3.1.1.5.6) defines. Without a zone it is in UTC.
    """
    match = _DATE.fullmatch(condition)
    bounds = _span(match["moment"]) if match else None
    if match is None or bounds is None:
        return False
    (begin, end), (first, last) = bounds, window
    match match["prefix"] or "eq":
        case "ge":
            return begin <= first
        case "gt" | "sa":
            return end <= first
        case "le":
            return end >= last
        case "lt" | "eb":
            return begin >= last
        case "eq":
            return begin <= first and last <= end
    return False


def _span(text: str) -> tuple[datetime, datetime] | None:
    """The start and end of the time that a date covers; they are equal for an instant."""
    text = text.replace(" ", "+")  # an unescaped plus sign
    parts = text.split("-") if "T" not in text else []
    try:
        if len(parts) == 1:
            return datetime(int(text), 1, 1, tzinfo=UTC), datetime(int(text) + 1, 1, 1, tzinfo=UTC)
        if len(parts) == 2:
            year, month = map(int, parts)
            following = (year + month // 12, month % 12 + 1)
            return datetime(year, month, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)
        begin = datetime.fromisoformat(text)
    except ValueError:
        return None
    begin = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    return begin, begin + timedelta(days=1) if len(parts) == 3 else begin


def _subject(read: Read, resource: Mapping[str, Any], patient: str) -> str | None:
    """The patient of a resource. If `_elements` removed the subject, the patient that the search named alone."""
    if "subject" in resource:
        return subject_id(resource)
    query = Query("Observation", patient)
    named = [(name, value) for name, values in read.parameters.items() if name in PATIENT for value in values]
    alone = all("," not in value and PATIENT[name](value, query) for name, value in named)
    return patient if named and alone else None


def _moment(value: object) -> object:
    """A time as an instant, so that two spellings of it are equal. Unchanged if it is not a valid time."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return value
    return value if moment is None else moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _address(url: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The last path segment of a URL and its parameters, without those for the format of the reply."""
    parts = _split(url)
    parameters = (one for one in parse_qsl(parts.query, keep_blank_values=True) if one[0] not in ("_format", "_pretty"))
    return parts.path.rstrip("/").rpartition("/")[2], tuple(sorted(parameters))


def _split(url: str) -> SplitResult:
    """The parts of a URL; empty parts if the text is not a URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


_LISTS = frozenset({"category", "coding", "entry", "identifier", "link", "name"})
"""The elements used by graders that are lists in JSON."""
_RESOURCES = frozenset({"resource", "contained"})
_BEGINNING = re.compile(r"[{<]")


def reads_before_post(transcript: Sequence[HistoryMessage]) -> list[Read]:
    """The GETs with a resource in their reply before the first POST, in order. Errors are not resources."""
    reads = []
    for message, reply in pairwise(transcript):
        if message.is_post_action:
            break
        url = message.get_url
        # An error may repeat the URL, so an error text that contains the start of a resource is not trusted.
        if url is None or reply.role == "agent" or _BEGINNING.search(url):
            continue
        body = resource_in(reply.content)
        if body is not None and body["resourceType"] != "OperationOutcome":
            reads.append(Read(url, body))
    return reads


def resource_in(text: str) -> dict[str, Any] | None:
    """The FHIR resource in a text, whatever words surround it; None if there is none."""
    beginning = _BEGINNING.search(text)
    if beginning is None:
        return None
    try:
        if beginning[0] == "{":
            value = json.JSONDecoder().raw_decode(text, beginning.start())[0]
        else:
            value = _of_xml(text[beginning.start() : text.rindex(">") + 1])
    except (ValueError, RecursionError, ElementTree.ParseError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("resourceType"), str) else None


def _of_xml(text: str) -> dict[str, Any] | None:
    """A resource in XML as its JSON format, as far as graders need it. Raises ParseError."""
    if "<!" in text[:200]:  # a document type: FHIR does not use it, and entities could fill the memory
        return None
    return _resource(ElementTree.fromstring(text))


def _resource(element: ElementTree.Element) -> dict[str, Any]:
    return {"resourceType": _name(element), **_fields(element)}


def _fields(element: ElementTree.Element) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for child in element:
        name = _name(child)
        value = _resource(child[0]) if name in _RESOURCES and len(child) else _value(child)
        if name in _LISTS:
            fields.setdefault(name, []).append(value)
        else:
            fields[name] = value
    return fields


def _value(element: ElementTree.Element) -> Any:
    text = element.get("value")
    return _fields(element) if text is None else text


def _name(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]
