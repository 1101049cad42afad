"""The docs site as mkdocs builds it (`make docs`): a hook that mkdocs loads.

The pages also work in the repository. For the site, this adds the menu (`doc_menu.PARTS`), the linked files outside
docs/, and reference pages made from the commands, the settings models and the public names. A public name without a
docstring, or a link to a missing file, fails the build.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import doc_menu, doc_pages, repository  # noqa: E402  # mkdocs loads a hook as a file, without its package

PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
"""Pages next to docs/ that are also on the site."""
PUBLIC = (
    "medagent",
    "medagent.blocks",
    "medagent.clinical",
    "medagent.engine",
    "medagent.fhir",
    "medagent.testing",
    "fhir_server",
    "refsol.medagentbench",
)
"""Packages whose `__all__` is the public surface."""
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")
"""What a browser loads of itself; a link is followed by its reader alone."""
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give the site its order."""
    nav: list[Any] = [{part: list(pages)} for part, pages in doc_menu.PARTS.items()]
    made = [page for page, _ in reference()]
    next(entry for entry in nav if "Reference" in entry)["Reference"] += made
    nav[-1]["Contribute"] += [f"project/{name}" for name in PROJECT]
    # `repo_url` would make each reader's browser ask github.com for stars.
    if address := repository.address():
        config.extra["social"] = [{"icon": "fontawesome/brands/github", "link": address, "name": "Repository"}]
    config.nav = nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name in PROJECT:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, f"project/{name}", content=text))
    for page, text in reference():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Points links to their targets on the site."""
    here = page.file.src_uri
    text, end = "", 0
    for fence in doc_pages.FENCE.finditer(markdown):
        text += _led(here, markdown[end : fence.start()]) + fence[0]
        end = fence.end()
    return text + _led(here, markdown[end:])


def on_post_build(config: MkDocsConfig) -> None:
    """Raises PluginError if a page makes a reader's browser ask another host."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if loaded := LOADED.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page}: loads {loaded[1]} from another host")


def target(page: str, link: str) -> str:
    """A page's link, as on the site. Raises PluginError if its target does not exist."""
    if "://" in link or link.startswith("mailto:"):
        return link
    beside = page.removeprefix("project/") if page.startswith("project/") else f"docs/{page}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(beside), link))
    if not (ROOT / path).exists() and not page.startswith("reference/"):
        raise PluginError(f"{beside}: links to {link}, which is not there")
    if path in PROJECT:
        return posixpath.relpath(f"project/{path}", posixpath.dirname(page) or ".")
    if path.startswith("docs/"):
        return posixpath.relpath(path.removeprefix("docs/"), posixpath.dirname(page) or ".")
    if page.startswith("reference/"):
        return link
    address = repository.address()
    return f"{address}/blob/main/{path}" if address else (ROOT / path).as_uri()


def _led(page: str, prose: str) -> str:
    return LINK.sub(lambda link: link[1] + target(page, link[2]) + link[3], prose)


def reference() -> Iterator[tuple[str, str]]:
    """The pages made from code: their paths and texts."""
    from tools import option_tables

    for package in PUBLIC:
        yield f"reference/{package}.md", "\n".join(_names(package)) + "\n"
    text = "# Options of `medagent run`\n\nA default in brackets is one benchmark's default.\n\n"
    yield "reference/options.md", f"{text}{option_tables.table()}\n\n## By benchmark\n\n{option_tables.matrix()}\n"
    yield "reference/commands.md", "\n".join(_commands()) + "\n"


def _commands() -> Iterator[str]:
    """The page of all commands: the help of each."""
    from medagent.cli.app import app

    yield "# Commands\n"
    program: Any = typer.main.get_command(app)
    for words, command in _walk(("medagent",), program):
        context = click.Context(command, info_name=" ".join(words))
        text = click.formatting.HelpFormatter(width=100)
        command.format_usage(context, text)
        for option in command.get_params(context):
            record = option.get_help_record(context)
            if record and not getattr(option, "hidden", False):
                text.write_dl([record])
        yield f"## {' '.join(words)}\n\n{inspect.cleandoc(command.help or '')}\n\n```text\n{text.getvalue()}```\n"


def _walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield words, command
        return
    for name in command.list_commands(None):
        inner = command.get_command(None, name)
        if inner is not None and not inner.hidden:
            yield from _walk((*words, name), inner)


def _names(package: str) -> Iterator[str]:
    """The page of a package. Raises PluginError for a public name that says nothing of itself."""
    module = __import__(package, fromlist=["__all__"])
    yield f"# {package}\n\n{inspect.getdoc(module) or ''}\n"
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            undocumented = [name] if not value.__doc__ else []
            members = vars(value).items() if inspect.isclass(value) else ()
            undocumented += [
                f"{name}.{member}"
                for member, inner in members
                if not member.startswith("_") and inspect.isfunction(inner) and not inspect.getdoc(inner)
            ]
            if undocumented:
                raise PluginError(f"{package}: {', '.join(undocumented)} without a docstring")
            yield f"::: {value.__module__}.{value.__qualname__}\n"
        else:
            yield f"## {name}\n\nA value: `{type(value).__name__}`.\n"
