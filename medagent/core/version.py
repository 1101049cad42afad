"""The version of medagent, which is defined only here, and the software versions of this process."""

from __future__ import annotations

from functools import cache

__version__ = "0.1.0"


@cache
def versions() -> dict[str, str]:
    """Versions by name: medagent, its commit in a checkout, Python, and the packages that medagent needs."""
    import re
    import sys
    from importlib.metadata import PackageNotFoundError, requires, version

    releases = {"medagent": __version__, "commit": _commit(), "python": ".".join(map(str, sys.version_info[:3]))}
    try:
        needed = [line for line in requires("medagent") or () if "extra ==" not in line]
        for name in sorted(re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed):
            releases[name] = version(name)
    except PackageNotFoundError:
        pass
    return {name: value for name, value in releases.items() if value}


def _commit() -> str:
    """The commit of medagent's checkout, with `-dirty` if files were changed. Empty outside a checkout."""
    import subprocess
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
