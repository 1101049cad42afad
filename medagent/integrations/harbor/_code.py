"""The code of a benchmark that is not part of medagent, for the folders of tasks: its files, and who wrote it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import getaddresses
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from medagent.benchmarks.base import GROUP
from medagent.core import plugins
from medagent.core.code_digest import imported_files
from medagent.core.plugins import Plugin
from medagent.fhir_episodes.benchmark import FhirBenchmark

PACKAGES = ("medagent", "refsol", "fhir_server")
PACKAGE = "package"
"""The folder in `tests/` with the code of an installed benchmark."""
_AUTHORS = ("The medagent authors",)


@dataclass(frozen=True, slots=True)
class PackedCode:
    """The code of a benchmark for `tests/`, and how the script there names it.

    `files` are paths on this machine by places in `tests/`, `texts` the contents of further files by place.
    """

    benchmark: str
    path: str = ""
    """The line of the script that sets the import path."""
    files: Mapping[Path, Path] = field(default_factory=dict)
    texts: Mapping[Path, str] = field(default_factory=dict)
    authors: tuple[str, ...] = _AUTHORS

    @property
    def is_own(self) -> bool:
        """Whether it is not part of medagent."""
        return bool(self.files or self.texts)


def packed_code(benchmark: FhirBenchmark[Any]) -> PackedCode:
    """The code that a verifier needs besides medagent: a user's file, or the package of an installed benchmark, and the
    local modules that it imports. Raises UserError if it cannot be imported.
    """
    reference = benchmark.reference or benchmark.name
    plugin = plugins.whole_file(reference) or plugins.find(reference, GROUP)
    if plugin is None or plugin.instance is not None:
        return PackedCode(shlex.quote(reference))
    if plugin.source is not None:
        return _of_file(plugin, plugin.source)
    module = plugin.path.partition(":")[0]
    if module.partition(".")[0] in PACKAGES:
        return PackedCode(shlex.quote(reference))
    plugin.load()
    start = Path(str(import_module(module).__file__)).resolve()
    package = _distribution(plugin)
    files = {PACKAGE / place: file for place, file in _needed([start], _files_of(package)).items()}
    path = f'export PYTHONPATH="$(dirname "$0")"/{PACKAGE}\n'
    return PackedCode(shlex.quote(plugin.path), path, files, authors=_authors(package))


def _of_file(plugin: Plugin, source: str) -> PackedCode:
    """A user's file, and beside it what it imports."""
    name = f"{plugin.file.name}:{plugin.name}" if plugin.name else plugin.file.name
    plugin.load()
    files = _needed(imported_files(plugin.file), ())
    texts = {Path(plugin.file.name): source}
    return PackedCode(f'"$(dirname "$0")"/{shlex.quote(name)}', files=files, texts=texts, authors=())


def _needed(start: Iterable[Path], packaged: Collection[Path]) -> dict[Path, Path]:
    """Some modules with their packages and what these import, by their places below a folder of the import path."""
    names = _loaded()
    needed: dict[Path, Path] = {}
    waiting = list(start)
    while waiting:
        file = waiting.pop()
        if file in needed.values():
            continue
        package = _package(file)
        root = _root(file, package, names)
        is_inside = package is not None and root in package.parents
        for path in package_files(package) if package is not None and is_inside else [file]:
            needed[path.relative_to(root)] = path
            waiting += imported_files(path, packaged) if path.suffix == ".py" else []
    return needed


def package_files(root: Path) -> Iterator[Path]:
    """The files of a package's folder, without compiled ones."""
    return (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


def _package(file: Path) -> Path | None:
    """The folder of a module's outermost regular package."""
    package = None
    for folder in file.parents:
        if not (folder / "__init__.py").is_file():
            break
        package = folder
    return package


def _loaded() -> dict[Path, str]:
    """The names of the loaded modules, by file."""
    modules = list(sys.modules.items())
    files = {name: getattr(module, "__file__", None) for name, module in modules if name != "__main__"}
    return {Path(file).resolve(): name for name, file in files.items() if file}


def _root(file: Path, package: Path | None, names: Mapping[Path, str]) -> Path:
    """The folder of the import path below which a module is: by its name, or if it was not loaded, by its folder."""
    if file in names:
        return file.parents[names[file].count(".") + (file.name == "__init__.py")]
    place = package or file
    folders = [folder for entry in sys.path if (folder := Path(entry).resolve()) in place.parents]
    return max(folders, key=lambda folder: len(folder.parts), default=place.parent)


def _distribution(plugin: Plugin) -> metadata.Distribution | None:
    """The installed package whose entry point is a benchmark."""
    points = metadata.entry_points(group=GROUP)
    return next((point.dist for point in points if point.value == plugin.path), None)


def _files_of(package: metadata.Distribution | None) -> set[Path]:
    """The modules of an installed package, as far as it lists them."""
    files = (package.files if package is not None else None) or ()
    return {Path(str(file.locate())).resolve() for file in files if file.suffix == ".py"}


def _authors(package: metadata.Distribution | None) -> tuple[str, ...]:
    """The authors that an installed package states."""
    if package is None:
        return ()
    names = package.metadata.get_all("Author") or []
    addresses = getaddresses(package.metadata.get_all("Author-email") or [])
    return tuple(dict.fromkeys([*names, *(name for name, _ in addresses if name)]))
