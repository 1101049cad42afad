"""Bulk exports of a server. A separate process (`processes.export`) writes each export into a folder.

A server that offers exports holds an `Exports`. `operations._export` starts exports, reports their status and sends
their files. The folder is removed when the server ends. Only the latest exports are kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fhir_server.errors import FhirError
from fhir_server.store.temporary import TemporaryFolder

RUNNING = 2
"""The maximum number of exports that are written at the same time. A further one is refused (429)."""
MAX_EXPORTS = 10
"""The maximum number of exports. The oldest finished one is removed when a further one starts."""
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """The content of an export: resources of these `types` that changed at or after `since` (ms since 1970).

    `compartments`: only patients and the resources that belong to them. `patients`: the ids of these patients; None for
    all. `group`: the id of the requested Group.
    """

    types: Sequence[str] = ()
    since: int = 0
    compartments: bool = False
    patients: Sequence[str] | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A started export. `request` is the URL of its request, `ordered` its time (ms since 1970).

    `authorized`: the request had credentials.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    request: str
    ordered: int
    authorized: bool

    @property
    def status(self) -> str:
        """`running`, `done` or `failed`."""
        code = self.process.poll()
        if code is None:
            return "running"
        return "failed" if code else "done"

    @property
    def files(self) -> list[str]:
        """The type of each file of a finished export, in the order of the files' numbers."""
        types: list[str] = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        return types


class Exports:
    """The exports of a server over a file."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._folder: TemporaryFolder | None = None
        self._exports: dict[str, Export] = {}

    def start(self, export_id: str, order: ExportSelection, request: str, now: int, *, authorized: bool) -> None:
        """Starts to write an export.

        Raises:
            FhirError: 429. Too many exports are being written.
        """
        if sum(export.status == "running" for export in self._exports.values()) >= RUNNING:
            problem = f"{RUNNING} exports are being written: wait for one, or DELETE its status URL"
            raise FhirError(429, problem, "throttled")
        if len(self._exports) >= MAX_EXPORTS:
            self.drop(next(name for name, export in self._exports.items() if export.status != "running"))
        self._folder = self._folder or TemporaryFolder(watched=True)
        folder = Path(self._folder.name) / export_id
        folder.mkdir()
        words = [sys.executable, "-m", "fhir_server.processes.export"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert process.stdin is not None
        with process.stdin:
            task = {"data": str(self._data.absolute()), "folder": str(folder), "order": asdict(order)}
            process.stdin.write(json.dumps(task).encode())
        self._exports[export_id] = Export(process, folder, request, now, authorized)

    def find(self, export_id: str) -> Export | None:
        """The export with this id, or None."""
        return self._exports.get(export_id)

    def drop(self, export_id: str) -> None:
        """Stops an export and removes its files."""
        export = self._exports.pop(export_id)
        export.process.kill()
        export.process.wait()
        for path in export.folder.iterdir():
            path.unlink()
        export.folder.rmdir()

    def close(self) -> None:
        """Stops and removes all exports."""
        for export_id in [*self._exports]:
            self.drop(export_id)
        if self._folder is not None:
            self._folder.cleanup()
