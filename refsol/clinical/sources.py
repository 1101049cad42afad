"""Sources of charts: resources in memory, in a file, on a FHIR server, and the GETs of an agent's session.

The parameters of a search are `patient`, `code` (one, or several; see `any_of`), `status`, and for Patient also `_id`,
`identifier` or `birthdate`. Some types have `vaccine-code` and `clinical-status` instead. A search returns FHIR
resources as JSON in the server's order, which is the order of insertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from refsol.errors import FactsError
from refsol.files import InputFile, json_object
from refsol.json_values import as_object, objects
from refsol.resources import Ask, FhirSearches, coded_in, codes_in, subject_id, values_of

Resource = Mapping[str, Any]
Amendment = Sequence[Resource | str]
"""A change of a chart: resources that replace those with their type and id, and the references of removed ones."""
PAGE = 5000
"""Page size of a search on a server. Graders read the first page only, as the published ones do."""


class Source(Protocol):
    """Searches resources of a type."""

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """The matching resources. Raises FactsError if they cannot be read."""


class Resources:
    """Resources in memory, in the order in which they are stored.

    A subject matches by its reference's last two segments (`Patient/ID`), and a code by any of its codings, as in a
    FHIR server's `patient` and `code` searches.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._found: dict[tuple[str, ...], list[Resource]] = {}
        for resource in resources:
            for key in _keys(resource):
                self._found.setdefault(key, []).append(resource)

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """The matching resources, in the order of the data. Raises FactsError if they cannot be read."""
        if kind == "Patient":
            ((name, value),) = query.items()
            return self._found.get((kind, name, value), [])
        code, *others = values_of(query.get("code") or query.get("vaccine-code", ""))
        matches = self._found.get((kind, query["patient"], "" if others else code), [])
        if others:
            matches = [
                resource for resource in matches if not codes_in(resource, coded_in(kind)).isdisjoint((code, *others))
            ]
        if status := query.get("status"):
            return [resource for resource in matches if resource.get("status") == status]
        if status := query.get("clinical-status"):
            return [resource for resource in matches if status in codes_in(resource, "clinicalStatus")]
        return matches


def _keys(resource: Resource) -> Iterator[tuple[str, ...]]:
    kind = str(resource.get("resourceType"))
    if kind == "Patient":
        yield kind, "_id", str(resource.get("id"))
        yield kind, "birthdate", str(resource.get("birthDate"))
        values = {str(identifier.get("value")) for identifier in objects(resource.get("identifier"))}
        yield from ((kind, "identifier", value) for value in values)
    elif (patient := subject_id(resource)) is not None:
        yield from ((kind, patient, code) for code in {"", *codes_in(resource, coded_in(kind))})


class NdjsonEhr:
    """FHIR resources from a file, one per line, without a server. The file is read on first use."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """See `Source.search`. Raises FactsError if the file is damaged."""
        return self._read.search(kind, **query)

    @cached_property
    def _read(self) -> Resources:
        with InputFile(self.path, error=FactsError) as file:
            resources = [resource for _, resource in file.json_lines(json_object)]
        if not any(resource.get("resourceType") in ("Patient", "Observation") for resource in resources):
            raise FactsError(f"{self.path}: contains no FHIR Patient or Observation")
        return Resources(resources)


class SearchEhr:
    """A FHIR server's searches: one page of up to 5,000 resources per query. Each query is sent once.

    `ask` gets the replies, over HTTP or from a server in the same process. If the server once does not reply, it is not
    called again: every later query fails immediately with the same message.
    """

    def __init__(self, base: str, ask: Ask) -> None:
        self._server = FhirSearches(base, ask)

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """The matching resources of the server. Raises FactsError if they cannot be read."""
        parts = _parameters(query)
        if kind != "Patient":
            parts.append(f"_count={PAGE}")
        return self._server.resources(kind, "&".join(parts))


class SessionEhr:
    """What an agent's session reads: `get` sends a GET to a URL and returns the JSON of the reply. All pages are read.

    Raises ValueError for a reply that is not a Bundle.
    """

    def __init__(self, base: str, get: Callable[[str], Any]) -> None:
        self._base = base.rstrip("/")
        self._get = get

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        parts = _parameters(query)
        url: str | None = f"{self._base}/{kind}?{'&'.join(parts)}&_count={PAGE}"
        matches: list[Resource] = []
        while url:
            bundle = self._get(url)
            matches += [as_object(entry.get("resource")) for entry in objects(bundle.get("entry"))]
            links = objects(bundle.get("link"))
            url = next((str(link["url"]) for link in links if link.get("relation") == "next"), None)
        return matches


def _parameters(query: Mapping[str, str]) -> list[str]:
    """The parameters of a search as in a URL, with the separators of FHIR values as they are."""
    return [f"{name}={quote(value, safe=',:/|')}" for name, value in query.items() if value]
