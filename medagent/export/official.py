"""A run in its benchmark's official format, as `Benchmark.export_official` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medagent._api import load_run
from medagent.core.errors import UserError
from medagent.engine.folder import Run


def export_official(folder: Path, out: Path) -> Sequence[Path]:
    """Write the files into a folder, which is made if needed. Returns their paths. Raises UserError."""
    run = load_run(folder)
    written = run.benchmark.export_official(Run(folder), run.scores, out)
    if not written:
        raise UserError(f"{folder}: {run.benchmark.name} does not define an official format")
    return written
