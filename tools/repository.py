"""The repository's address, which only its owner knows. This writes it into the files that name it.

    python tools/repository.py https://github.com/NAME/medagent

It writes `[project.urls]` in pyproject.toml, `repository-code` in CITATION.cff, and server.json, the entry for the MCP
registry, which git ignores. Commit the first two.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from medagent.core.version import __version__  # noqa: E402  # this file is also run as a program, without its package
from tools import index_readme  # noqa: E402  # after sys.path

ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
URLS = re.compile(r"\[project\.urls\]\n(?:.+\n)*\n")
CODE = re.compile(r"^repository-code:.*\n", re.MULTILINE)


def address(root: Path = ROOT) -> str:
    """The repository's address; empty if nobody has written it."""
    return str(_project(root).get("urls", {}).get("Repository", ""))


def write(url: str, root: Path = ROOT) -> None:
    """Write the address into the files of a checkout. Raises ValueError if it is not that of a GitHub repository."""
    url = url.removesuffix("/").removesuffix(".git")
    if not ADDRESS.fullmatch(url):
        raise ValueError(f"{url}: not the address of a repository, such as https://github.com/NAME/medagent")
    table = (
        f'[project.urls]\nRepository = "{url}"\nDocumentation = "{url}/tree/main/docs"\n'
        f'Changelog = "{url}/blob/main/CHANGELOG.md"\nIssues = "{url}/issues"\n\n'
    )
    _replace(root / "pyproject.toml", URLS, table, before="[project.scripts]\n")
    _replace(root / "CITATION.cff", CODE, f"repository-code: {url}\n", before="abstract:")
    text = json.dumps(server(url, root), indent=2) + "\n"
    (root / "server.json").write_text(text, encoding="utf-8")


def server(url: str, root: Path = ROOT) -> dict[str, Any]:
    """The entry of the MCP registry: uvx installs medagent with its extra `mcp`, and runs `medagent mcp`."""
    needs = _project(root)["optional-dependencies"]["mcp"]
    return {
        "$schema": SCHEMA,
        "name": index_readme.mcp_name(url),
        "description": "Medical benchmark tasks, or a FHIR R4 server, as tools",
        "repository": {"url": url, "source": "github"},
        "version": __version__,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "medagent",
                "version": __version__,
                "runtimeHint": "uvx",
                "runtimeArguments": [{"type": "named", "name": "--with", "value": need} for need in needs],
                "packageArguments": [{"type": "positional", "value": "mcp"}],
                "transport": {"type": "stdio"},
            }
        ],
    }


def _project(root: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _replace(path: Path, old: re.Pattern[str], new: str, before: str) -> None:
    """Put a text in the place of the old one, or before another text."""
    text = old.sub("", path.read_text(encoding="utf-8"))
    head, anchor, tail = text.partition(before)
    path.write_text(head + new + anchor + tail, encoding="utf-8")


def main() -> int:
    """Write the files; 1 if the address is wrong."""
    parser = argparse.ArgumentParser(description="Write the repository's address into the files that name it.")
    parser.add_argument("address", metavar="ADDRESS", help="for example https://github.com/NAME/medagent")
    try:
        write(parser.parse_args().address)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
