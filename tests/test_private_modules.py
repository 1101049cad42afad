"""The tree shows the public surface: a module that only its own folder imports begins with `_`, and no other does."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.layout import imported
from tests.shared_data import ROOT

PACKAGES = ("medagent", "refsol", "fhir_server")
DOTTED = re.compile(rf"(?<![\w.])(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
ENTRIES = ("__init__.py", "__main__.py")


def modules() -> list[Path]:
    paths = (path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")) if path.name not in ENTRIES)
    return [path for path in paths if (path.parent / "__init__.py").exists()]  # not the programs among packaged files


def named(text: str) -> set[Path]:
    """The modules that a text names by their dotted path, as docs, entry points and late imports do."""
    paths = (ROOT / name.replace(".", "/") for name in DOTTED.findall(text))
    return {one.with_suffix(".py") for path in paths for one in (path, path.parent)}


@cache
def users() -> dict[Path, set[Path]]:
    """The files of the packages that import or name each module; what ships beside them, and what docs say, as well."""
    users = defaultdict(set)
    inside = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    beside = [ROOT / "pyproject.toml", ROOT / "mkdocs.yml", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for folder in ("examples", "environments", "integrations", "tests/outsider"):
        beside += (ROOT / folder).rglob("*.py")
    for path in inside + beside:
        imports = {one for name in PACKAGES for one in imported(path, name)} if path.suffix == ".py" else set()
        for module in named(path.read_text("utf-8")) | imports:
            if module != path:
                users[module].add(path)
    return users


def outside(module: Path) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in users()[module] if module.parent not in path.parents)


def test_private_modules_are_imported_by_their_own_folder_only() -> None:
    private = [path for path in modules() if path.name.startswith("_")]
    assert len(private) > 200
    assert not {str(path.relative_to(ROOT)): outside(path) for path in private if outside(path)}


def test_every_other_module_is_used_outside_its_folder() -> None:
    """Begin the names of those listed here with `_`."""
    public = [path for path in modules() if not path.name.startswith("_")]
    assert not [str(path.relative_to(ROOT)) for path in public if not outside(path)]
