"""The code systems and value sets of a server: those in its store, and HL7's."""

from __future__ import annotations

from fhir_server.interactions.context import ServerContext
from fhir_server.search import names
from fhir_server.terminology.library import HL7
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import Json


class StoredLibrary:
    """The code systems and value sets of a store. If the store does not have one, HL7's is used."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server

    def code_system(self, url: str) -> Json | None:
        """The CodeSystem with this URL, or None."""
        return self.find("CodeSystem", url) or HL7.code_system(url)

    def value_set(self, url: str) -> Json | None:
        """The ValueSet with this URL, or None."""
        return self.find("ValueSet", url) or HL7.value_set(url)

    def find(self, kind: str, url: str) -> Json | None:
        """The last stored resource of a type with this URL, or None. The URL may also be `Type/id`."""
        store, number = self._server.store, self._server.store.registry.number(kind, "url")
        if url.startswith(f"{kind}/"):
            row = store.find(kind, url.removeprefix(f"{kind}/"))
            return decode(row.text) if row is not None and row.text is not None else None
        sql = "SELECT row_id FROM uris WHERE param = ? AND value = ? ORDER BY row_id DESC"
        rows = store.rows([match[0] for match in store.query(sql, (number, names.number(url)))])
        return decode(rows[0].text or "") if rows else None
