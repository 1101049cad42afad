"""`medagent docs`: prints the pages of the documentation, which the installed package contains.

pyproject.toml puts docs/ and skills/ of the repository into the package when a wheel is built. In a checkout they are
next to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PACKAGE = Path(__file__).parents[1]
HOME = PACKAGE if (PACKAGE / "docs").is_dir() else PACKAGE.parent
DOCS = HOME / "docs"
SKILL = HOME / "skills" / "medagent" / "SKILL.md"


def command(
    page: Annotated[
        str | None,
        typer.Argument(help="A page, such as `models` or `integrations/mcp`, or `skill` (default: list the pages)."),
    ] = None,
) -> None:
    """Print a page of the documentation as Markdown. It needs no network.

    Without a page, print the folder of the documentation, and its pages with their titles.

    Example: medagent docs

    Example: medagent docs models
    """
    from medagent.core.errors import UserError
    from medagent.core.suggest import did_you_mean
    from medagent.reports.tables import put

    pages = {str(path.relative_to(DOCS).with_suffix("").as_posix()): path for path in sorted(DOCS.rglob("*.md"))}
    pages["skill"] = SKILL
    if page is None:
        width = max(map(len, pages))
        put(str(DOCS), *(f"  {name:<{width}}  {_title(path)}" for name, path in pages.items()))
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise UserError(
            f"medagent docs {page}: unknown page.{did_you_mean(name, pages)} `medagent docs` lists the pages"
        )
    put(*pages[name].read_text(encoding="utf-8").splitlines())


def _title(page: Path) -> str:
    """The first heading of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
