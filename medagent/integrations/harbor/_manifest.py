"""`dataset.toml` of an export: its name, and each task with the digest by which Harbor identifies its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from medagent.core.version import __version__
from medagent.core.writing import file_digest

AUTHORS = '[{ name = "The medagent authors" }]'


def dataset_toml(name: str, description: str, tasks: Sequence[tuple[str, Path]]) -> str:
    """The manifest of `tasks`, which are pairs of a name and a folder."""
    lines = [
        "[dataset]",
        f"name = {json.dumps(name)}",
        f'version = "{__version__}"',
        f"description = {json.dumps(description)}",
        f"authors = {AUTHORS}",
        'keywords = ["medicine", "FHIR", "agent"]',
    ]
    for task, folder in tasks:
        lines += ["", "[[tasks]]", f"name = {json.dumps(task)}", f'digest = "sha256:{content_digest(folder)}"']
    return "\n".join(lines) + "\n"


def content_digest(folder: Path) -> str:
    """SHA-256 over the paths and digests of a task's files, as Harbor's packager computes it."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{name}\0{file_digest(files[name])}\n".encode())
    return whole.hexdigest()
