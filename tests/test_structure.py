"""The structure of the three packages: imports point down, without circles, to no other folder's private module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.layout import all_imports, imported, in_circles, large_functions, plain_imports
from tests.shared_data import ROOT
from tools import reading_ease

FLOORS = {
    "medagent": (
        ("core",),
        ("models", "sandbox"),
        ("engine", "terminal"),
        ("agents", "fhir_data", "reports"),
        ("fhir_episodes", "judging"),
        ("benchmarks",),
        ("_finished",),
        ("_api",),
        ("export", "integrations", "testing"),
        ("cli", "rl", "blocks", "clinical", "fhir", "__main__"),
    ),
    "fhir_server": (
        ("errors", "clock", "ids", "bounds", "definitions"),
        ("wire",),
        ("resources", "terminology"),
        ("expressions",),
        ("search", "patch"),
        ("validation",),
        ("store",),
        ("load",),
        ("interactions",),
        ("operations",),
        ("_metadata",),
        ("_routes",),
        ("server",),
        ("episodes",),
        ("app",),
        ("access",),
        ("processes",),
        ("__main__",),
    ),
    "refsol": (
        (
            "errors",
            "_moments",
            "_opencompass",
            "_vectors",
            "agreement",
            "answers",
            "changes",
            "failures",
            "files",
            "grounds",
            "history",
            "intervals",
            "json_values",
            "python_text",
            "reads",
            "resources",
            "schema",
            "stats",
            "tool_logs",
            "trials",
            "verdict",
        ),
        ("clinical", "injection"),
        ("medagentbench", "psb300", "fhiragentbench", "promptcblue", "simpleqa", "imapscore"),
    ),
}
"""The folders and modules of each package's top level, the lowest first. A file imports from its own row or below."""
ALONE = {"fhir_server": ("synthetic",)}
"""Folders that import nothing else of their package, and that nothing else of it imports."""
PUBLIC = (
    "fhir_server",
    "medagent",
    "medagent.blocks",
    "medagent.clinical",
    "medagent.engine",
    "medagent.fhir",
    "medagent.rl",
)
"""The modules that packages outside the three may import."""
SEPARATE = ("medagentbench", "psb300", "fhiragentbench", "promptcblue", "simpleqa", "imapscore", "custom")
"""The folders of the benchmarks, in medagent/benchmarks and in refsol; none imports another."""


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def room(path: Path, package: str) -> str:
    """The folder or module of the package's top level that a file belongs to."""
    return path.relative_to(ROOT / package).parts[0].removesuffix(".py")


def arrows(package: str) -> Iterator[tuple[Path, Path]]:
    """Each import of one file by another; the package's own `__init__`, which loads names on first use, is no end."""
    entry = ROOT / package / "__init__.py"
    for path in files(package):
        for target in imported(path, package):
            if entry not in (path, target) and path != target:
                yield path, target


def shown(pairs: list[tuple[Path, Path]]) -> list[str]:
    return [f"{path.relative_to(ROOT)} -> {target.relative_to(ROOT)}" for path, target in pairs]


@pytest.mark.parametrize("package", FLOORS)
def test_every_folder_has_its_place(package: str) -> None:
    placed = {name for floor in FLOORS[package] for name in floor} | set(ALONE.get(package, ()))
    assert {room(path, package) for path in files(package)} - {"__init__"} == placed


@pytest.mark.parametrize("package", FLOORS)
def test_imports_point_down(package: str) -> None:
    height = {name: number for number, floor in enumerate(FLOORS[package]) for name in floor}
    upward = []
    for path, target in arrows(package):
        source, goal = room(path, package), room(target, package)
        if source == goal:
            continue
        alone = {source, goal} & set(ALONE.get(package, ()))
        if alone or height[goal] > height[source]:
            upward.append((path, target))
    assert not shown(upward)


@pytest.mark.parametrize("package", FLOORS)
def test_no_circle_of_files(package: str) -> None:
    graph: dict[Path, set[Path]] = {path: set() for path in files(package)}
    for path, target in arrows(package):
        if target.name != "__init__.py":
            graph[path].add(target)
    assert not in_circles(graph)


@pytest.mark.parametrize("package", FLOORS)
def test_private_modules_are_imported_by_their_own_folder_only(package: str) -> None:
    private = [
        (path, target)
        for path, target in arrows(package)
        if target.name.startswith("_") and target.name != "__init__.py" and target.parent not in path.parents
    ]
    assert not shown(private)


@pytest.mark.parametrize("package", FLOORS)
def test_packages_are_independent(package: str) -> None:
    below = {"medagent": {"refsol", "fhir_server"}}.get(package, set())
    foreign = FLOORS.keys() - below - {package}
    assert not [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files(package)
        for name in all_imports(path)
        if name.partition(".")[0] in foreign
    ]


def benchmark(path: Path) -> str:
    """The benchmark whose folder a file is in; empty for shared files."""
    inner = path.relative_to(ROOT).parts
    return next((part for part in inner[1:-1] if part in SEPARATE), "")


@pytest.mark.parametrize("package", ["medagent", "refsol"])
def test_benchmarks_are_independent_and_only_they_and_commands_know_them(package: str) -> None:
    shared = ("core", "engine", "models", "agents", "reports", "judging", "sandbox", "fhir_episodes", "fhir_data")
    foreign = []
    for path, target in arrows(package):
        inside, goal = benchmark(path), benchmark(target)
        knows = goal and (room(path, package) in shared or package == "refsol")
        if goal != inside and ((inside and goal) or knows):
            foreign.append((path, target))
    assert not shown(foreign)


def test_shared_code_imports_no_benchmark_of_refsol() -> None:
    foreign = []
    for path in files("medagent"):
        for name in all_imports(path):
            package, _, inner = name.partition(".")
            graded = inner.partition(".")[0]
            if package == "refsol" and graded in SEPARATE and graded != benchmark(path):
                foreign.append(f"{path.relative_to(ROOT)}: {name}")
    assert not foreign


def test_no_file_imports_the_public_package() -> None:
    """`import medagent` inside the package would tie every folder to the top one."""
    assert not [path for path in files("medagent") for name in plain_imports(path) if name == "medagent"]


def test_packages_of_other_tools_use_the_public_api() -> None:
    outside = ("integrations", "environments", "hosted")
    folders = [folder for name in outside for folder in (ROOT / name).glob("*/medagent_*")]
    modules = [path for folder in sorted(folders) for path in folder.rglob("*.py")]
    assert len(modules) > 3
    inner = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules
        for name in all_imports(path)
        if name.partition(".")[0] in FLOORS and name not in PUBLIC
    ]
    assert not inner
    assert not large_functions(modules)


@pytest.mark.parametrize("package", FLOORS)
def test_functions_are_small(package: str) -> None:
    assert not large_functions(files(package))


def test_a_public_method_has_a_docstring_or_the_name_of_one_that_has() -> None:
    """A method that overrides another one, or that a protocol describes, needs none."""
    public = [path for package in FLOORS for path in files(package) if not path.name.startswith("_")]
    classes = [
        (path, node)
        for path in public
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    methods = [
        (f"{path.relative_to(ROOT)}: {node.name}.{method.name}", method, bool(node.bases))
        for path, node in classes
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not method.name.startswith("_")
    ]
    documented = {method.name for _, method, _ in methods if ast.get_docstring(method)}
    described = {name for name, method, _ in methods if ast.get_docstring(method) or method.name in documented}
    assert [name for name, _, derived in methods if name not in described and not derived] == []


def test_python_texts_are_read_in_one_place() -> None:
    """Programs of the sandbox run alone, and have one thread."""
    readers = [
        str(path.relative_to(ROOT))
        for package in FLOORS
        for path in files(package)
        if re.search(r"\bast\.(parse|literal_eval)\(", path.read_text("utf-8"))
    ]
    assert readers == ["medagent/sandbox/_inside.py", "refsol/python_text.py"]


@cache
def ease() -> reading_ease.Report:
    return reading_ease.measure()


def test_names_say_what_they_hold() -> None:
    """No variable, parameter or attribute is `one`, `some`, `other` or `own` alone, except operands of `__eq__` etc."""
    assert not ease().vague


def test_a_public_class_name_is_defined_once_in_a_package() -> None:
    assert not ease().repeated


def test_no_conditional_expression_is_inside_another() -> None:
    assert not ease().nested
