"""The direction of imports: the rooms of `medagent` lie on floors, and none imports from a floor above its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.layout import all_imports, imported, in_circles, large_functions, plain_imports
from tests.shared_data import ROOT

PACKAGE = ROOT / "medagent"
FLOORS = [
    ["core"],
    ["models", "sandbox"],
    ["engine", "terminal"],
    ["agents", "fhir_data", "reports"],
    ["fhir_episodes", "judging"],
    ["benchmarks"],
    ["options"],
    ["_finished"],
    ["_api"],
    ["export", "integrations", "testing"],
    ["cli", "rl", "blocks", "__main__"],
]
"""Rooms and files of the top level, the lowest first."""
LONGEST_FILE = 400


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def floor(name: str) -> int:
    return next((number for number, rooms in enumerate(FLOORS) if name in rooms), -1)


def benchmark(path: Path) -> str:
    """The benchmark whose room a file lies in."""
    parts = path.relative_to(PACKAGE).parts
    return parts[1] if parts[0] == "benchmarks" and len(parts) > 2 else ""


def test_every_room_has_its_floor() -> None:
    assert {room(path) for path in files()} - {"__init__"} <= {name for rooms in FLOORS for name in rooms}


def test_no_file_imports_from_above() -> None:
    upward = [
        f"{path.relative_to(ROOT)} -> {target.relative_to(ROOT)}"
        for path in files()
        for target in imported(path, "medagent")
        if room(path) not in (room(target), "__init__") and room(target) != "__init__"
        if floor(room(target)) > floor(room(path))
    ]
    assert not upward


def test_no_file_imports_the_public_face() -> None:
    """`import medagent` inside the package would tie every room to the top one."""
    assert not [path for path in files() for name in plain_imports(path) if name == "medagent"]


def test_no_benchmark_knows_another() -> None:
    foreign = [
        f"{path.relative_to(ROOT)} -> {target.relative_to(ROOT)}"
        for path in files()
        for target in imported(path, "medagent")
        if benchmark(path) and benchmark(target) and benchmark(path) != benchmark(target)
    ]
    assert not foreign
    engine = [path for path in files() if room(path) in ("engine", "models", "agents", "reports", "judging")]
    assert not [path for path in engine for target in imported(path, "medagent") if room(target) == "benchmarks"]


def test_no_circle_of_files() -> None:
    graph = {
        path: {one for one in imported(path, "medagent") if one.name != "__init__.py"} - {path} for path in files()
    }
    graph.pop(PACKAGE / "__init__.py")
    assert not in_circles(graph)


def test_packages_of_their_own_stand_on_the_public_api() -> None:
    folders = [*(ROOT / "integrations").glob("*/medagent_*"), *(ROOT / "environments").glob("*/medagent_*")]
    own = [path for folder in sorted(folders) for path in folder.rglob("*.py")]
    assert len(own) > 3
    assert not [f"{path.relative_to(ROOT)}: {name}" for path in own for name in all_imports(path) if internal(name)]
    assert not large_functions(own)


def internal(module: str) -> bool:
    """Whether a module is one of the project's that programs do not import."""
    return module.partition(".")[0] in ("medagent", "refsol", "fhir_server") and module not in (
        "medagent",
        "medagent.blocks",
        "medagent.options",
        "medagent.rl",
    )


def test_files_and_functions_are_small() -> None:
    assert not [str(path) for path in files() if len(path.read_text("utf-8").splitlines()) > LONGEST_FILE]
    assert not large_functions(files())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import medagent", {"pydantic", "httpx", "rich", "typer", "openai", "aiohttp", "asyncio"}),
        ("import medagent.cli.app", {"pydantic", "httpx", "openai", "aiohttp", "fhir_server", "distributed"}),
        ("from medagent import Benchmark, Agent, RunSettings", {"httpx", "openai", "aiohttp", "fhir_server", "typer"}),
        ("import medagent.testing.plugin", {"pydantic", "httpx", "openai", "aiohttp", "fhir_server", "typer"}),
        ("from medagent.benchmarks.medagentbench.benchmark import MedAgentBench", {"openai", "aiohttp", "distributed"}),
    ],
)
def test_import_costs_nothing(statement: str, absent: set[str]) -> None:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert {name.partition(".")[0] for name in done.stdout.split()} & absent == set()
