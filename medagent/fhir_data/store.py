"""FHIR data in the embedded server's SQLite files: import, export, counts, and a file to serve.

An import is one transaction: it stores everything or nothing. References are checked after all resources are stored, so
files and lines may be in any order.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fhir_server import Server
from fhir_server.errors import ServerError
from fhir_server.resources.references import target
from fhir_server.store.temporary import TemporaryFolder
from medagent.core.errors import UserError
from medagent.core.writing import writing
from medagent.fhir_data.embedded import bundled_file, imported_file
from medagent.fhir_data.files import is_sqlite, read_resources
from refsol.files import LONGEST_LINE

NAMED = 5
"""The most missing references that an error names."""
LISTED = 20
"""The most problems that an error lists."""


def import_files(
    paths: Sequence[Path], data: Path, *, reference_check: bool = True, longest: int = LONGEST_LINE
) -> int:
    """Import the files into an SQLite file, which is created if absent; returns the number of imported resources.

    A line or a document may have `longest` bytes.

    A resource that already exists gets a new version. Raises UserError, with file and place of each problem, or with
    the references whose targets are missing; in that case the SQLite file is unchanged.
    """
    fresh = not data.exists()
    try:
        with _opened(data) as server, server.store.transaction():
            return _load(server, paths, reference_check, longest)
    except (UserError, sqlite3.Error, KeyboardInterrupt) as error:
        if fresh:
            for suffix in ("", "-wal", "-shm"):
                data.with_name(data.name + suffix).unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error):
            raise UserError(f"{data}: cannot be written: {error}; nothing was imported") from None
        raise


def _load(server: Server, paths: Sequence[Path], reference_check: bool, longest: int) -> int:
    """Load all files. Raises UserError with all problems of files and lines; if there are none, of references."""
    places: dict[str, str] = {}
    files: list[str] = []
    refused: dict[int, str] = {}

    def lines() -> Iterator[str]:
        for read in read_resources(paths, files.append, longest):
            for reference in read.references:
                places.setdefault(reference, read.place)
            yield read.line

    count = server.load(lines(), refused=refused.__setitem__)
    problems = [*files, *_refused_lines(paths, refused, longest)]
    if not count and not problems:
        problems = [f"{', '.join(map(str, paths))}: no resource"]
    if reference_check and not problems:
        problems = _missing_references(server, places)
    if problems:
        more = f"; and {len(problems) - LISTED} more problems" if len(problems) > LISTED else ""
        raise UserError(f"{'; '.join(problems[:LISTED])}{more}; nothing was imported")
    return count


def _refused_lines(paths: Sequence[Path], refused: Mapping[int, str], longest: int) -> Iterator[str]:
    """A message for each refused resource, with its place and the reason."""
    if not refused:
        return
    for number, read in enumerate(read_resources(paths, lambda _: None, longest), 1):
        if number in refused:
            yield f"{read.place}: {' '.join(refused[number].split())}"


def _missing_references(server: Server, places: Mapping[str, str]) -> list[str]:
    missing = [reference for reference in places if not _leads_somewhere(server, reference)]
    if not missing:
        return []
    named = ", ".join(f"{reference} ({places[reference]})" for reference in missing[:NAMED])
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    return [
        f"{len(missing)} references lack their target: {named}{more}; "
        "name the files with the targets too, or pass --no-reference-check"
    ]


def _leads_somewhere(server: Server, reference: str) -> bool:
    if reference.startswith("#"):
        return True
    parts = target(reference)
    if "://" in reference or not parts.type:
        return False
    return server.store.exists(parts.type, parts.id)


def export_folder(data: Path, folder: Path) -> Iterator[tuple[Path, int]]:
    """Write an NDJSON file for each type into a new or empty folder; yields each finished file and its count.

    Raises UserError if the data cannot be read, or if the folder is not empty or cannot be written.
    """
    with _present(data) as server, writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder}: is not empty; name a new folder")
        for resource_type, count in server.stats().items():
            path = folder / f"{resource_type}.ndjson"
            part = path.with_suffix(".part")
            with part.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\n" for line in server.export(resource_type))
            part.replace(path)
            yield path, count


def stored_lines(data: Path, *types: str) -> Iterator[str]:
    """The resources of an SQLite file as lines of JSON, type by type; without `types`, all. Raises UserError."""
    with _present(data) as server:
        for resource_type in types or server.stats():
            yield from server.export(resource_type)


def count_types(data: Path) -> dict[str, int]:
    """The number of resources of each type in an SQLite file. Raises UserError."""
    with _present(data) as server:
        return server.stats()


def missing_ids(data: Path, ids: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """The ids, by resource type, that are missing in an SQLite file; types without missing ids are left out.

    Raises UserError.
    """
    with _present(data) as server:
        exists = server.store.exists
        missing = {
            kind: {resource_id for resource_id in listed if not exists(kind, resource_id)}
            for kind, listed in ids.items()
        }
    return {kind: lacking for kind, lacking in missing.items() if lacking}


def resources_by_id(data: Path, ids: Mapping[str, Iterable[str]]) -> dict[str, dict[str, Any]]:
    """The resources with these ids, as far as an SQLite file contains them, by `Type/id`. Raises UserError."""
    with _present(data) as server:
        rows = {
            f"{kind}/{resource_id}": server.store.find(kind, resource_id)
            for kind, listed in ids.items()
            for resource_id in listed
        }
    return {name: json.loads(row.text) for name, row in rows.items() if row is not None and row.text is not None}


@contextmanager
def file_to_serve(data: Path | None, report: Callable[[str], None]) -> Iterator[Path]:
    """The SQLite file to serve. If `data` is an SQLite file, or a missing file that ends in .sqlite, it is that file.
    For NDJSON and the bundled hospital (None) it is a copy, so that clients' writes do not change later runs. Raises
    UserError.
    """
    if data is not None and data.suffix == ".sqlite" and not data.exists():
        report(f"{data}: is new and empty")
        yield data
        return
    if data is not None and is_sqlite(data):
        yield data
        return
    source = imported_file(data, report) if data else bundled_file(report)
    with TemporaryFolder(watched=True) as folder:
        copy = Path(folder) / f"{data.stem if data else 'hospital'}.sqlite"
        with writing(copy):
            shutil.copyfile(source.path, copy)
        yield copy


@contextmanager
def _present(data: Path) -> Iterator[Server]:
    if not data.is_file():
        raise UserError(f"{data}: does not exist; create it with `medagent ehr import FILES… --data {data}`")
    with _opened(data) as server:
        yield server


@contextmanager
def _opened(data: Path) -> Iterator[Server]:
    try:
        server = Server.open(data, large=True)
    except ServerError as error:
        raise UserError(str(error)) from None
    with server:
        yield server
