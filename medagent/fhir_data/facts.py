"""The facts by which episodes are graded, read from the embedded server in process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medagent.fhir_data.asking import Ask, server_ask
from medagent.fhir_data.embedded import EmbeddedEhr
from refsol.clinical.sources import SearchEhr, Source

if TYPE_CHECKING:
    from fhir_server import Server

_BASE = "http://localhost/fhir"


def embedded_facts(path: Path) -> Source:
    """The facts of an SQLite file, read by an embedded server in process."""
    return SearchEhr(*file_ask(path))


def file_ask(path: Path) -> tuple[str, Ask]:
    """The base URL of an embedded server over an SQLite file, and a function that sends GETs to it."""
    return _BASE, server_ask(EmbeddedEhr.open(path, _BASE).server, _BASE)


def server_facts(server: Server, base: str) -> Source:
    """The facts of an embedded server, queried in process."""
    return SearchEhr(base, server_ask(server, base))
