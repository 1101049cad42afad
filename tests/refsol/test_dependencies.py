"""What refsol may import: Python, and pydantic at the edges."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.layout import source
from tests.shared_data import ROOT

REFSOL = ROOT / "refsol"
MODULES = sorted(path.relative_to(ROOT) for path in REFSOL.rglob("*.py"))
PYDANTIC = {
    "schema.py",
    "medagentbench/recorded.py",
    "medagentbench/_key.py",
    "medagentbench/formats.py",
    "imapscore/records.py",
}
"""The modules that read files into pydantic models."""
ZSTANDARD = {"tool_logs.py": {"zipfile_zstd"}}
"""Where an optional package teaches zipfile what Python reads by itself from 3.14 on."""
LOCKS = {"python_text.py": {"threading"}}
"""Where a lock keeps callers' threads apart. refsol starts none."""
NEVER = {"asyncio", "socket", "ssl", "http", "urllib", "httpx", "aiohttp", "requests", "subprocess", "threading"}


def imported(path: Path) -> Iterator[str]:
    """The dotted names of all modules that a file imports anywhere."""
    for node in source(path).imports:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        else:
            assert node.level == 0, f"{path}: a relative import"
            yield str(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_are_pure_and_offline(module: Path) -> None:
    packages = {name.split(".")[0] for name in imported(ROOT / module) if not name.startswith("urllib.parse")}
    name = str(module.relative_to("refsol"))
    assert packages & NEVER == LOCKS.get(name, set())
    allowed = {"pydantic", "pydantic_core"} if name in PYDANTIC else ZSTANDARD.get(name, set())
    assert packages - sys.stdlib_module_names - {"refsol"} <= allowed


def test_nothing_waits() -> None:
    for module in MODULES:
        assert not any(function.is_async for function in source(ROOT / module).functions), module
