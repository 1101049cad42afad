"""The digest of a user's class: everything that decides its behaviour, as far as Python can find it.

For a class in a file: the text of the file and of the local modules that it imports. For a class without a file (a
notebook's cell): the source of its functions, its attributes, and the globals that they use. In both cases closure
variables and, for a program's own file, the globals with a JSON format are included. A class without source (standard
input), or with a value that cannot be written as JSON, does not get a digest. Data files and environment variables are
not included.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import json
import os
import re
import site
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from refsol.python_text import python_module

UNKNOWN = "unknown: "
"""The start of a digest that does not exist; the reason follows."""
_OURS = frozenset({"medagent", "refsol", "fhir_server"})
_GENERATED = "<string>"
"""The file name of functions that `dataclass` generates. They are generated from attributes, which are included."""


class NoDigestError(Exception):
    """Two classes that look the same may behave differently. The message gives the reason."""


def code_digest(cls: type, values: Mapping[str, Any]) -> str:
    """SHA-256 of a class with an instance's arguments or attributes; `UNKNOWN` and the reason if there is none."""
    try:
        parts = _Parts()
        parts.add_class(cls)
        for name, value in values.items():
            parts.add_value(name, value, strict=True)
    except NoDigestError as reason:
        return f"{UNKNOWN}{reason}"
    return hashlib.sha256(json.dumps(parts.found, sort_keys=True).encode()).hexdigest()


def imported_files(file: Path, packaged: Collection[Path] = ()) -> list[Path]:
    """The files that a source file imports: local ones, and of installed ones those in `packaged`."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    return [module for module in _imported(text, file) if module in packaged or not _is_installed(module)]


def has_file(cls: type) -> bool:
    """Whether a class is in a file that exists."""
    return _file_of(cls) is not None


def state_of(instance: object) -> dict[str, Any]:
    """The attributes of an agent or model, without the context that a run sets."""
    return {name: value for name, value in getattr(instance, "__dict__", {}).items() if name != "context"}


def has_json_form(value: object) -> bool:
    """Whether a value can be written as JSON such that equal texts mean equal values."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and has_json_form(member) for name, member in value.items())
    if isinstance(value, list | tuple):
        return all(map(has_json_form, value))
    return value is None or isinstance(value, str | int | float)


class _Parts:
    """The parts of a digest, by name."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._seen: set[object] = set()

    def add_class(self, cls: type) -> None:
        for base in cls.__mro__[:-1]:
            if _is_installed_class(base):
                self.found[f"class {base.__qualname__}"] = base.__module__
            elif base not in self._seen:
                self._seen.add(base)
                self._add_own(base, f"class {base.__qualname__}")

    def add_value(self, name: str, value: object, *, strict: bool) -> None:
        """Raises NoDigestError if `strict` and the value cannot be written as JSON."""
        if has_json_form(value):
            self.found[name] = value
        elif isinstance(value, Path):
            self.found[name] = str(value)
        elif isinstance(value, re.Pattern):
            self.found[name] = [str(value.pattern), value.flags]
        elif isinstance(value, functools.partial):
            self.add_value(f"{name}.func", value.func, strict=strict)
            for key, argument in (*enumerate(value.args), *value.keywords.items()):
                self.add_value(f"{name}.{key}", argument, strict=strict)
        elif isinstance(value, type):
            self.add_class(value)
        elif isinstance(value, ModuleType):
            self._add_module(name, value)
        elif isinstance(value, FunctionType):
            self._add_function(name, value)
        elif isinstance(value, BuiltinFunctionType):
            self.found[name] = f"{value.__module__}.{value.__qualname__}"
        elif strict:
            raise NoDigestError(f"{name} is of the type {type(value).__name__}, which cannot be written as JSON")

    def _add_own(self, cls: type, name: str) -> None:
        file = _file_of(cls)
        if file is not None:
            self._add_file(file)
        for key, value in vars(cls).items():
            functions = list(_functions(value))
            for function in functions:
                self._add_function(f"{name}.{key}", function)
            if not functions and not key.startswith(("__", "_abc_")) and not _is_slot(value):
                self.add_value(f"{name}.{key}", value, strict=file is None)

    def _add_function(self, name: str, function: FunctionType) -> None:
        if function in self._seen:
            return
        self._seen.add(function)
        code, file = function.__code__, _file_at(function.__code__.co_filename)
        if code.co_filename.startswith("<frozen") or (file is not None and _is_installed(file)):
            self.found[name] = f"{function.__module__}.{function.__qualname__}"
            return
        if file is not None:
            self._add_file(file)
        elif code.co_filename == _GENERATED and function.__name__.startswith("__"):
            return
        else:
            self.found[name] = _source(name, function)
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            if variable != "__class__" and (held := _held(cell)) is not _EMPTY:
                self.add_value(f"{name} closes over {variable}", held, strict=True)
        known = function.__globals__
        if file is None or function.__module__ == "__main__":
            for variable in sorted(known.keys() & _globals(code)):
                if not variable.startswith("__"):
                    self.add_value(f"global {variable}", known[variable], strict=file is None)

    def _add_module(self, name: str, module: ModuleType) -> None:
        file = _file_at(getattr(module, "__file__", None) or "")
        self.found[name] = module.__name__
        if file is not None and not _is_installed(file):
            self._add_file(file)

    def _add_file(self, file: Path) -> None:
        """Add a local file, and the local modules that it imports."""
        if file in self._seen:
            return
        self._seen.add(file)
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        self.found.setdefault(f"file {file.name}", []).append(digest)
        for imported in _imported(text, file):
            if not _is_installed(imported):
                self._add_file(imported)


def _functions(value: object) -> Iterator[FunctionType]:
    """The functions of a class attribute."""
    if isinstance(value, property):
        value = [value.fget, value.fset, value.fdel]
    elif isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, functools.cached_property):
        value = value.func
    for member in value if isinstance(value, list) else [value]:
        if isinstance(member, FunctionType):
            yield member


def _source(name: str, function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        raise NoDigestError(f"the source of {name} is unknown (it comes from standard input or exec)") from None


def _is_slot(value: object) -> bool:
    return inspect.ismemberdescriptor(value) or inspect.isgetsetdescriptor(value)


def _globals(code: CodeType) -> set[str]:
    """The globals that a function uses, including the globals of nested functions."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _globals(constant)
    return names


_EMPTY = object()


def _held(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _file_of(cls: type) -> Path | None:
    """The file of a class: its module's, if its functions are from there."""
    file = _file_at(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")
    functions = [
        function
        for value in vars(cls).values()
        for function in _functions(value)
        if function.__module__ == cls.__module__
    ]
    places = {
        _file_at(function.__code__.co_filename) for function in functions if function.__code__.co_filename != _GENERATED
    }
    return file if not places or file in places else None


def _file_at(name: str) -> Path | None:
    """The source file with this name, if it exists."""
    file = Path(name) if name and not name.startswith("<") else None
    return file.resolve() if file is not None and file.suffix == ".py" and file.is_file() else None


def _is_installed_class(cls: type) -> bool:
    """Whether a class belongs to Python, this project or an installed package, and is found there by its name."""
    module = sys.modules.get(cls.__module__)
    origin = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or (origin and not _is_installed(Path(origin).resolve())):
        return False
    value: Any = module
    for part in cls.__qualname__.split("."):
        value = getattr(value, part, None)
    return value is cls


@functools.cache
def _installed() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_paths()[name] for name in names} | set(site.getsitepackages())
    ours = (spec.origin for name in sorted(_OURS) if (spec := PathFinder.find_spec(name)) and spec.origin)
    return tuple(
        Path(folder).resolve() for folder in (*folders, site.getusersitepackages(), *map(os.path.dirname, ours))
    )


def _is_installed(file: Path) -> bool:
    return any(folder in file.parents for folder in _installed())


def _imported(text: str, file: Path) -> Iterator[Path]:
    """The files that a file imports, except medagent's."""
    try:
        tree = python_module(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [(node.level, base), *((node.level, f"{base}.{alias.name}".strip(".")) for alias in node.names)]
        else:
            continue
        for level, name in names:
            folder = file.parent if level == 0 else file.parents[min(level, len(file.parents)) - 1]
            if name and (level or name.partition(".")[0] not in _OURS):
                yield from _found(name, [str(folder), *(sys.path if level == 0 else ())])


def _found(name: str, places: list[str]) -> Iterator[Path]:
    """The files of a dotted name: its packages, and the module itself."""
    where = places
    for part in name.split("."):
        try:
            spec = PathFinder.find_spec(part, where)
        except (ImportError, ValueError):
            return
        if spec is None:
            return
        file = _file_at(spec.origin or "")
        if file is not None:
            yield file
        where = list(spec.submodule_search_locations or [])
