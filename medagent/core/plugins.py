"""User-defined classes, by import path or entry point: agents, models, benchmarks.

An import path is `FILE.py:Name`, or dotted identifiers, a colon and an identifier that starts with a capital
(`package.module:Class`). A benchmark may also be a whole file, `FILE.py`. Everything else is a plain name: `qwen3:8b`
and `scripted:FILE` are models. A local file's source is sent with the plug-in, so that workers elsewhere run the same
code.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import linecache
import os
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from medagent.core.errors import UserError
from medagent.core.paths import file_state

_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")
_WHOLE = re.compile(r".+\.py")
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Z]\w*)")
_given: dict[str, Handed] = {}
"""Classes and instances that a program passed directly, by their paths."""
_executed_here: dict[str, Plugin] = {}
"""Loaded plug-ins of local files, by digest."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A class that a program passed, or an instance of it."""

    cls: type
    instance: Any = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class to load, or the module of a whole file. `digest` is the SHA-256 of its source file, `source` a local
    file's text. It can be pickled.

    `instance` is an instance that a program passed, used as it is.
    """

    path: str
    digest: str
    source: str | None = None
    instance: Any = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The name of the class; empty for a whole file."""
        return "" if is_whole_file(self.path) else self.path.rpartition(":")[2]

    @property
    def file(self) -> Path:
        """The path of a local file."""
        return Path(self.path.removesuffix(f":{self.name}"))

    def load(self) -> Any:
        """Load it. Raises UserError if the import fails, the class does not exist, or its source has changed."""
        if self.path in _given:
            return _given[self.path].cls
        if self.source is None:
            check_module(self.path.partition(":")[0], self.digest)
        module = _imported(self.path) if self.source is None else _executed(self, self.source)
        if not self.name:
            return module
        try:
            return getattr(module, self.name)
        except AttributeError:
            classes = ", ".join(sorted(classes_in(module))) or "none"
            raise UserError(f"{self.path}: does not define {self.name}; its classes: {classes}") from None


def classes_in(module: Any) -> dict[str, type]:
    """The classes that a module defines, by name; of a module that only imports classes, these."""
    classes = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    defined = {name: value for name, value in classes.items() if value.__module__ == module.__name__}
    return defined or classes


def is_import_path(text: str) -> bool:
    """Whether the name of an agent or a model is an import path."""
    if text.startswith("scripted:"):
        return False
    return bool(_FILE.fullmatch(text) or _MODULE.fullmatch(text))


def is_whole_file(text: str) -> bool:
    """Whether a text is the path of a Python file, without a name in it."""
    return bool(_WHOLE.fullmatch(text))


def find(text: str, group: str) -> Plugin | None:
    """The plug-in for an import path or a name in an entry-point group; None if it is neither.

    Raises UserError if the file or module does not exist.
    """
    if text in _given:
        return Plugin(text, module_digest(_given[text].cls), instance=_given[text].instance)
    if not is_import_path(text):
        value = entry_points(group).get(text)
        if value is None:
            return None
        text = value
    file = _FILE.fullmatch(text)
    if file is not None:
        return _of_file(Path(file["file"]), f":{file['name']}")
    return Plugin(text, _installed_digest(text.partition(":")[0], text))


def whole_file(text: str) -> Plugin | None:
    """The plug-in for a whole file, `FILE.py`; None if the text is not one. Raises UserError if it cannot be read."""
    return _of_file(Path(text), "") if is_whole_file(text) else None


def _of_file(file: Path, name: str) -> Plugin:
    path = _from_here(str(file)) + name
    if not file.is_file():
        raise UserError(f"{path}: no such file; correct the path")
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: the file cannot be read: {error}") from None
    return Plugin(path, hashlib.sha256(source.encode()).hexdigest(), source)


def entry_points(group: str) -> Mapping[str, str]:
    """The import paths of an entry-point group by name, of all packages that are installed now."""
    folders = [Path(folder or os.curdir) for folder in sys.path]
    return _entry_points(group, tuple((str(folder), file_state(folder)) for folder in folders if folder.exists()))


@lru_cache(maxsize=16)
def _entry_points(group: str, folders: object) -> Mapping[str, str]:
    from importlib.metadata import entry_points as installed

    # Another package cannot replace what medagent itself names.
    by_owner = sorted(installed(group=group), key=lambda point: point.dist is None or point.dist.name != "medagent")
    points: dict[str, str] = {}
    for point in by_owner:
        points.setdefault(point.name, point.value)
    return points


def local_files() -> list[Plugin]:
    """The loaded plug-ins of local files. Objects pickled by their names need them in the other process."""
    return list(_executed_here.values())


def module_digest(cls: type) -> str:
    """SHA-256 of the source file of a class, or of nothing if there is none (a notebook's cell)."""
    return _file_digest(getattr(sys.modules.get(cls.__module__), "__file__", None))


def check_module(module: str, digest: str) -> None:
    """Raises UserError if a module is not installed here, or its source differs in its digest."""
    if _installed_digest(module) != digest:
        raise UserError(f"{module}: its source differs from that at the start of the run; install the same version")


def given(handed: Any) -> str:
    """An import path for a class or instance that a program passes. `find` knows it in this process.

    A class in a program's own file is named by the file, so that the code can be found later.
    """
    cls, instance = (handed, None) if isinstance(handed, type) else (type(handed), handed)
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    place = _from_here(str(file)) if cls.__module__ == "__main__" and file else cls.__module__
    path = f"{place}:{cls.__qualname__}"
    _given[path] = Handed(cls, instance)
    return path


def _from_here(file: str) -> str:
    """A file's path, relative to the working folder if it is inside, so that a file always gets the same name."""
    path, here = os.path.realpath(file), os.path.realpath(os.curdir)
    return os.path.relpath(path, here) if path.startswith(here + os.sep) else path


def _installed_digest(module: str, path: str = "") -> str:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise UserError(f"{path or module}: {error}") from None
    if spec is None:
        raise UserError(f"{path or module}: no module {module}; install its package")
    return _file_digest(spec.origin)


def _file_digest(file: str | None) -> str:
    """SHA-256 of a source file, or of nothing if there is none (a notebook's cell)."""
    try:
        return hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest()
    except OSError:
        return hashlib.sha256(b"").hexdigest()


def _imported(path: str) -> ModuleType:
    try:
        return importlib.import_module(path.partition(":")[0])
    except Exception as error:
        raise UserError(f"{path}: cannot be imported: {error_and_place(error)}") from None


def _executed(plugin: Plugin, source: str) -> ModuleType:
    """The module of a local file, created from its text once per process. Its folder is on the import path."""
    file, digest = plugin.file, plugin.digest
    name = f"medagent_plugin_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    if file.is_file() and str(file.resolve().parent) not in sys.path:
        sys.path.insert(0, str(file.resolve().parent))
    module = ModuleType(name)
    module.__file__ = str(file)
    linecache.cache[str(file)] = (len(source), None, source.splitlines(keepends=True), str(file))
    sys.modules[name] = module
    _executed_here[digest] = plugin
    try:
        exec(compile(source, str(file), "exec"), vars(module))
    except Exception as error:
        del sys.modules[name], _executed_here[digest]
        raise UserError(f"{plugin.path}: cannot be imported: {error_and_place(error)}") from None
    return module


def error_and_place(error: Exception) -> str:
    """An exception in one line with its place. A syntax error's place is where it was found."""
    if isinstance(error, SyntaxError):
        place = "" if error.lineno is None else f" ({error.filename}:{error.lineno})"
        return f"{type(error).__name__}: {error.msg}{place}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
