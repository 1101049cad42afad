"""Opens the facts by which episodes are graded: an answer key, a file of patients, or a FHIR server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading, MedAgentBenchSettings
from medagent.core.errors import UserError
from medagent.core.wire import without_password
from medagent.engine.files import file_digest
from medagent.fhir_data.asking import http_ask, server_ask
from refsol.medagentbench import Facts, KeyEhr, NdjsonEhr, SearchEhr

if TYPE_CHECKING:
    from fhir_server import Server
    from medagent.benchmarks.medagentbench.tasks.dataset import Dataset

_BASE = "http://localhost/fhir"


@dataclass(frozen=True, slots=True)
class OpenFacts:
    """Facts, and the digest of their source. `at_once`: they are in memory, so reading them does not block."""

    facts: Facts
    digest: str
    at_once: bool = False


def open_facts(source: MedAgentBenchSettings, dataset: Dataset) -> OpenFacts:
    """Open the facts of a source: from the place that it names, otherwise from the data set's key.

    Raises UserError, InputError.
    """
    grading = isinstance(source, MedAgentBenchGrading)
    key = source.key if isinstance(source, MedAgentBenchGrading) else None
    if key is not None and (source.fhir or source.ehr):
        raise UserError("--fhir, --ehr and --key all name the source of facts: pass only one of them")
    if source.ehr is not None:
        return _of_file(source.ehr, keep=not grading)
    own = None if grading and source.fhir is not None else dataset.key
    if (path := key or own) is not None:
        answers = KeyEhr(path)
        answers.check([task.model_dump() for task in dataset.tasks])
        return OpenFacts(answers, file_digest(path), at_once=True)
    if source.fhir is not None:
        address = hashlib.sha256(without_password(source.fhir).encode()).hexdigest()
        return OpenFacts(http_facts(source.fhir, source.fhir_headers, source.ca_file), address)
    if not grading:
        from medagent.benchmarks.medagentbench.inventory import patients_file

        file = patients_file(dataset)
        return OpenFacts(embedded_facts(file.path), file.digest or "")
    raise UserError(f"{dataset.path}: this task set has no answer key; pass --key, --ehr or --fhir")


def _of_file(path: Path, *, keep: bool) -> OpenFacts:
    """The facts of a file of patients. An SQLite file, or any file if `keep`, is opened by the embedded server.

    Other files are read as NDJSON.
    """
    from medagent.fhir_data.embedded import imported_file
    from medagent.fhir_data.files import is_sqlite

    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    if keep or is_sqlite(path):
        file = imported_file(path)
        return OpenFacts(embedded_facts(file.path), file.digest or "")
    return OpenFacts(NdjsonEhr(path), file_digest(path), at_once=True)


def embedded_facts(path: Path) -> Facts:
    """The facts of an SQLite file, read by an embedded server in process."""
    from medagent.fhir_data.embedded import EmbeddedEhr

    return server_facts(EmbeddedEhr.open(path, _BASE).server, _BASE)


def server_facts(server: Server, base: str) -> Facts:
    """The facts of an embedded server, queried in process."""
    return SearchEhr(base, server_ask(server, base))


def http_facts(url: str, headers: Mapping[str, str], ca_file: Path | None) -> Facts:
    """The facts of a FHIR server, queried over HTTP."""
    address, ask = http_ask(url, headers, ca_file)
    return SearchEhr(address, ask)
