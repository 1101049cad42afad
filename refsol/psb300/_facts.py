"""Sources of charts: the `Facts` protocol and its implementations.

A chart is a list of FHIR resources as JSON, in the order in which they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from refsol.errors import FactsError
from refsol.files import json_object, read_jsonl
from refsol.resources import Ask, FhirSearches, codes, subject_id

PAGE = 5000
"""Page size of a search on a server. Only the first page is read."""

Resource = Mapping[str, Any]


class Facts(Protocol):
    """Searches one patient's resources."""

    def search(self, kind: str, patient: str, code: str | None = None, status: str | None = None) -> Sequence[Resource]:
        """The resources of type `kind` of the patient with this id, in the server's order.

        `code` is one code, or several joined by commas. Raises FactsError if the resources cannot be read.
        """


class ChartFacts:
    """Charts in memory, indexed by patient, type and code."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_code: dict[tuple[str, str, str | None], list[tuple[int, Resource]]] = {}
        for place, resource in enumerate(resources):
            patient = subject_id(resource)
            if patient is not None:
                kind = str(resource.get("resourceType"))
                for code in (None, *codes(resource)):
                    self._by_code.setdefault((patient, kind, code), []).append((place, resource))

    @classmethod
    def from_file(cls, path: Path | str) -> ChartFacts:
        """Read a JSON lines file of FHIR resources. Raises FactsError, which names the file and the line."""
        return cls(resource for _, resource in read_jsonl(Path(path), json_object, error=FactsError))

    def search(self, kind: str, patient: str, code: str | None = None, status: str | None = None) -> Sequence[Resource]:
        """The matching resources, in the order in which they were passed to the constructor."""
        matches: dict[int, Resource] = {}
        for one in [None] if code is None else code.split(","):
            matches.update(self._by_code.get((patient, kind, one), ()))
        resources = [matches[place] for place in sorted(matches)]
        return resources if status is None else [resource for resource in resources if resource.get("status") == status]


class StoredFacts:
    """Search results that `save` stored as JSON: `{"searches": [{"kind", "patient", …}]}`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._results: dict[tuple[str, str, str | None, str | None], Sequence[Resource]] = {
            (one["kind"], one["patient"], one.get("code"), one.get("status")): one["resources"]
            for one in document["searches"]
        }

    def search(self, kind: str, patient: str, code: str | None = None, status: str | None = None) -> Sequence[Resource]:
        """The saved result. Raises FactsError if this search was not saved."""
        try:
            return self._results[kind, patient, code, status]
        except KeyError:
            raise FactsError(f"the saved facts have no search for {kind} of patient {patient}") from None


class ServerFacts:
    """Charts on a FHIR server. Each search is sent once and reads one page of at most 5,000 resources."""

    def __init__(self, base: str, ask: Ask) -> None:
        self._server = FhirSearches(base, ask)

    def search(self, kind: str, patient: str, code: str | None = None, status: str | None = None) -> Sequence[Resource]:
        """The first page of the result. Raises FactsError."""
        parts = {"patient": patient, "code": code, "status": status, "_count": PAGE}
        query = "&".join(f"{name}={value}" for name, value in parts.items() if value is not None)
        return self._server.resources(kind, query)
