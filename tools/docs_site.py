"""The docs site as mkdocs builds it (`make docs`): a hook that mkdocs loads.

The pages also work in the repository. For the site, this adds an order (pages that are not in `NAV` are listed under
"More"), the linked files outside docs/, the needs of commands (`doc_commands`), and reference pages made from the
settings models and the public names. A public name without a docstring, or a link to a missing file, fails the build.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import doc_commands, repository  # noqa: E402  # mkdocs loads a hook as a file, without its package

PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
"""Pages beside docs/ that the site has as well."""
NAV: dict[str, tuple[str, ...]] = {
    "Begin": ("tutorial.md", "running.md", "report.md", "models.md", "docker.md"),
    "Benchmarks": (
        "medagentbench.md",
        "promptcblue.md",
        "simpleqa.md",
        "imapscore.md",
        "judging.md",
        "comparable.md",
        "checklist.md",
        "data.md",
        "data-card.md",
    ),
    "Results": ("grading.md", "other-tools.md", "results-file.md", "checked.md"),
    "FHIR": ("fhir-server.md", "fhir-developers.md", "testing.md", "ci.md"),
    "Your own": ("agents.md", "clinical.md", "benchmarks.md", "architecture.md"),
}
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
    folder = Path(config.docs_dir)
    named = {page for pages in NAV.values() for page in pages}
    pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))
    more = [page for page in pages if page not in named and page not in ("README.md", "glossary.md")]
    nav: list[Any] = [{"medagent": "README.md"}]
    nav += [{title: [page for page in pages if (folder / page).is_file()]} for title, pages in NAV.items()]
    nav += [{"More": more}] if more else []
    nav += [{"Reference": [page for page, _ in reference()] + ["glossary.md"]}]
    # `repo_url` would have each reader's browser ask github.com for stars.
    config.extra["social"] = [{"icon": "fontawesome/brands/github", "link": repository.address(), "name": "Repository"}]
    config.nav = [*nav, {"Project": [f"project/{name}" for name in PROJECT]}]
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
    """Lead links to where the site has their targets, and say what commands need."""
    here = page.file.src_uri

    def led(link: re.Match[str]) -> str:
        return link[1] + target(here, link[2]) + link[3]

    pieces = doc_commands.FENCED.split(markdown)
    fences = doc_commands.FENCED.findall(markdown)
    text = LINK.sub(led, pieces[0])
    for fence, prose in zip(fences, pieces[1:], strict=True):
        text += fence + marked(fence) + LINK.sub(led, prose)
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """See that no page has a reader's browser ask another host. Raises PluginError."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if loaded := LOADED.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page}: loads {loaded[1]} from another host")


def target(page: str, link: str) -> str:
    """A link of a page as the site has it. Raises PluginError where nothing is there."""
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
    return link if page.startswith("reference/") else f"{repository.address()}/blob/main/{path}"


def marked(fence: str) -> str:
    """What stands below a block of commands: what they need that nobody has by default."""
    needs = dict.fromkeys(need for command in doc_commands.commands(fence) for need in doc_commands.needs(command))
    return f"\n*Needs {', '.join(needs)}.*\n" if needs else ""


def reference() -> Iterator[tuple[str, str]]:
    """The pages made from code: their paths and texts."""
    from tools import option_tables

    for package in PUBLIC:
        yield f"reference/{package}.md", "\n".join(_names(package)) + "\n"
    text = "# Options\n\nMade from the settings models; defaults of a benchmark of its own stand in brackets.\n\n"
    yield "reference/options.md", f"{text}{option_tables.table()}\n\n## Who has which\n\n{option_tables.matrix()}\n"


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
                raise PluginError(f"{package}: {', '.join(undocumented)} has no docstring")
            yield f"::: {value.__module__}.{value.__qualname__}\n"
        else:
            yield f"## {name}\n\nA value: `{type(value).__name__}`.\n"
