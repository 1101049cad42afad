"""The data of FHIR doubles: each source is read once and shared; each double uses a private overlay on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from fhir_server.clock import SteppingClock
from fhir_server.server import DEFAULT_BASE, Server
from medagent.core.closing import Closing
from medagent.core.errors import UserError
from medagent.core.suggest import check_option
from medagent.testing._fhir import FhirDouble, Writes

NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
"""The start of a double's clock, which is the current time of the bundled hospital. Data without `meta.lastUpdated`
is as of then, too, so that a double's own writes are later.
"""
HOSPITAL = "hospital"


class FhirData(Closing):
    """Opens each data source once as a server, and closes all of them at its end. A context manager."""

    def __init__(self) -> None:
        self._servers: dict[object, Server] = {}

    def __call__(self, source: Any = None, *, seed: int | None = None) -> Server:
        """A server over `source`: None is empty, "hospital" the bundled hospital (with `seed` one made from it), a
        path NDJSON, a Bundle, one resource or an SQLite file; else a resource, or several, as dicts or as models of
        fhir.resources. Every resource needs its id.

        Raises UserError for what cannot be imported.
        """
        key = _key(source, seed)
        if key not in self._servers:
            self._servers[key] = self._open(source, seed)
        return self._servers[key]

    def double(
        self, source: Any = None, *, seed: int | None = None, now: datetime = NOW, writes: Writes = "execute"
    ) -> FhirDouble:
        """A double over a private overlay: its writes are visible only to it, and are dropped when it is closed."""
        check_option("writes", writes, get_args(Writes))
        server = self(source, seed=seed)
        return FhirDouble(lambda: server.overlay("test", now), writes)

    def close(self) -> None:
        """Close all servers. Close their doubles first."""
        while self._servers:
            self._servers.popitem()[1].close()

    def _open(self, source: Any, seed: int | None) -> Server:
        if source is None and seed is None:
            return Server.open(None)
        if source is None or source == HOSPITAL:
            return _hospital(seed)
        if seed is not None:
            raise UserError("seed= generates a hospital, so it cannot be combined with other data")
        if isinstance(source, (str, Path)):
            return self._file(Path(source))
        with TemporaryDirectory(prefix="medagent-testing-") as folder:
            return _imported(_written(_resources(source), Path(folder)))

    def _file(self, path: Path) -> Server:
        from medagent.fhir_data.files import is_sqlite

        return Server.open(path, DEFAULT_BASE) if is_sqlite(path) else _imported([path])


def _key(source: Any, seed: int | None) -> object:
    if source is None or isinstance(source, (str, Path)):
        return (HOSPITAL if seed is not None and source is None else str(source), seed)
    return json.dumps(_resources(source), sort_keys=True), seed


def _hospital(seed: int | None) -> Server:
    if seed is None:
        from medagent.fhir_data.embedded import bundled_file

        return Server.open(bundled_file().path)
    from fhir_server.synthetic.bundled import hospital

    server = Server.open(None)
    server.load(hospital(seed))
    return server


def _resources(source: Any) -> list[dict[str, Any]]:
    items: Iterable[Any] = source if isinstance(source, Iterable) and not _is_resource(source) else [source]
    resources = []
    for item in items:
        if not _is_resource(item):
            raise UserError(f"{type(item).__name__}: is not a resource; use dicts or models of fhir.resources")
        resources.append(item if isinstance(item, dict) else json.loads(item.model_dump_json()))
    return resources


def _is_resource(source: Any) -> bool:
    return isinstance(source, Mapping) or hasattr(source, "model_dump_json")


def _written(resources: list[dict[str, Any]], folder: Path) -> list[Path]:
    """The resources as files, with one file per Bundle, because the reader of files splits Bundles."""
    bundles = [resource for resource in resources if resource.get("resourceType") == "Bundle"]
    plain = [json.dumps(resource) for resource in resources if resource.get("resourceType") != "Bundle"]
    paths = []
    for number, text in enumerate(["\n".join(plain), *map(json.dumps, bundles)]):
        if text:
            paths.append(folder / f"data-{number}.json")
            paths[-1].write_text(text, encoding="utf-8")
    return paths


def _imported(paths: list[Path]) -> Server:
    from medagent.fhir_data.files import read_resources

    def refused(number: int, reason: str) -> None:
        raise UserError(f"resource {number}: {' '.join(reason.split())}")

    server = Server.open(None)
    try:
        server.load((read.line for read in read_resources(paths)), refused=refused, clock=SteppingClock(NOW))
    except BaseException:
        server.close()
        raise
    return server
