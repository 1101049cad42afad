"""The repository's address: `python -m tools.repository` copies it from `[project.urls]` into the other files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("CITATION.cff",)
NAMED = re.compile(r"(?<=https://github\.com/)[\w.-]+/medagent\b")


def address() -> str:
    """The repository's address."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def written(text: str) -> str:
    """A file's text with the repository's owner and name wherever it mentions them."""
    return NAMED.sub(address().removeprefix("https://github.com/"), text)


def main() -> None:
    """Write the files."""
    for name in FILES:
        path = ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
