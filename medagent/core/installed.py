"""The digest of medagent's own code, which identifies the code of another process."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path


def installed_digest() -> str:
    """SHA-256 of medagent's own sources."""
    digest, root = sha256(), Path(__file__).parents[2]
    for package in ("fhir_server", "medagent", "refsol"):
        for pattern in ("*.py", "*.toml"):
            for path in sorted((root / package).rglob(pattern)):
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
