"""Reports how easy the code of the three packages is to read: vague names, class names, dense statements.

    python tools/reading_ease.py [--list]

`--list` also prints each place: vague names, public classes with the same name in a package, conditional expressions
inside another, and dense comprehensions (two loops or two conditions). `tests/test_structure.py` holds the first three
at zero; the other numbers are a report without a limit.
"""

from __future__ import annotations

import argparse
import ast
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("medagent", "refsol", "fhir_server")
VAGUE = ("one", "some", "other", "own")
ALONE = ("sandbox/_inside.py", "sandbox/_monty_inside.py")
"""Programs that run alone, outside the package: the names of their classes meet no others."""
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
COMPOUND = (
    ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.If | ast.For | ast.AsyncFor | ast.While
    | ast.With | ast.AsyncWith | ast.Try | ast.Match
)  # fmt: skip


@dataclass(slots=True)
class Report:
    """What was counted. Places are `file:line`."""

    names: Counter[str] = field(default_factory=Counter)
    vague: list[str] = field(default_factory=list)
    classes: defaultdict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """The files of each public class, by package and name."""
    nested: list[str] = field(default_factory=list)
    dense: list[str] = field(default_factory=list)
    statements: int = 0
    comprehensions: int = 0
    conditionals: int = 0

    @property
    def repeated(self) -> dict[str, list[str]]:
        """The public class names that a package defines more than once, with their files."""
        return {f"{package} {name}": files for (package, name), files in self.classes.items() if len(files) > 1}


def vague_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines of variables, parameters and attributes with a vague name.

    Python's comparison and arithmetic methods may call their operand `other`.
    """
    operands: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("__") and node.name.endswith("__"):
            operands |= {inner for inner in ast.walk(node) if getattr(inner, "arg", "") == "other"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                pass
            case _:
                continue
        if name in VAGUE and node not in operands:
            yield getattr(node, "lineno", 0), name


def read(file: Path, package: str, report: Report) -> None:
    """Add the counts of one file."""
    place = str(file.relative_to(ROOT))
    with file.open("rb") as lines:
        report.names.update(token.string for token in tokenize.tokenize(lines.readline) if token.type == tokenize.NAME)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    report.vague += [f"{place}:{line} {name}" for line, name in vague_names(tree)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not place.endswith(ALONE):
            report.classes[package, node.name].append(place)
        elif isinstance(node, COMPREHENSIONS):
            report.comprehensions += 1
            conditions = sum(len(generator.ifs) for generator in node.generators)
            if len(node.generators) > 1 or conditions > 1:
                report.dense.append(f"{place}:{node.lineno}")
        elif isinstance(node, ast.IfExp):
            report.conditionals += 1
            if any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node):
                report.nested.append(f"{place}:{node.lineno}")
        if isinstance(node, ast.stmt) and not isinstance(node, COMPOUND):
            report.statements += 1


def measure() -> Report:
    """The counts of the three packages."""
    report = Report()
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            read(file, package, report)
    return report


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print each place too")
    show = parser.parse_args().list
    report = measure()
    total = report.names.total()
    shares = ", ".join(f"{word} {1_000 * report.names[word] / total:.2f}" for word in VAGUE)
    print(f"names {total:,}; per 1,000: {shares}; assigned: {len(report.vague)}")
    print(f"public classes {len(report.classes):,}; names defined twice in a package: {len(report.repeated)}")
    print(f"conditional expressions inside another: {len(report.nested)}")
    print(
        f"statements {report.statements:,}; per 1,000: comprehensions "
        f"{1_000 * report.comprehensions / report.statements:.0f}, conditional expressions "
        f"{1_000 * report.conditionals / report.statements:.0f}"
    )
    print(f"comprehensions with two loops or two conditions: {len(report.dense)}")
    if show:
        classes = [f"{name}: {', '.join(files)}" for name, files in sorted(report.repeated.items())]
        for title, places in (
            ("Vague names", report.vague),
            ("Class names", classes),
            ("Nested conditional expressions", report.nested),
            ("Dense comprehensions", report.dense),
        ):
            print("\n  ".join([f"{title}:", *places]))


if __name__ == "__main__":
    main()
