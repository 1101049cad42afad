"""The README for the package index: relative links and pictures become addresses in the repository of `[project.urls]`.

hatchling calls it when it builds the package (`[tool.hatch.metadata.hooks.custom]`). A package without an address
(`tools/repository.py` writes it) gets the README as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)(\))")


def absolute(text: str, repository: str) -> str:
    """A page at the root of the repository with addresses in place of relative links."""
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main/"

    def led(link: re.Match[str]) -> str:
        return link[1] + link[2] + (raw if link[1] else f"{repository}/blob/main/") + link[3] + link[4]

    return LINK.sub(led, text)


def mcp_name(repository: str) -> str:
    """The server's name in the MCP registry, which looks for it in the README of the package index."""
    return "io.github." + repository.removeprefix("https://github.com/")


def page(text: str, repository: str) -> str:
    """The README for the package index; unchanged without an address."""
    if not repository:
        return text
    return f"{absolute(text, repository)}\n<!-- mcp-name: {mcp_name(repository)} -->\n"


def get_metadata_hook() -> type[Any]:
    """The hook, as hatchling looks it up."""
    from hatchling.metadata.plugin.interface import MetadataHookInterface

    class ReadmeHook(MetadataHookInterface):
        """Sets `readme`."""

        def update(self, metadata: dict[str, Any]) -> None:
            text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
            address = metadata.get("urls", {}).get("Repository", "")
            metadata["readme"] = {"content-type": "text/markdown", "text": page(text, address)}

    return ReadmeHook
