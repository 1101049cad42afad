"""The methods of the base classes that a benchmark may override, as docs/extension-points.md.

    python -m tools.extension_points    # writes the page

A method is an extension point unless its name begins with `_` or it is marked `@final`. The text is the first line of
its docstring, so this page cannot differ from the code. `tests/test_docs.py` compares them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.engine.benchmark import Benchmark
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.judging.benchmark import JudgedBenchmark

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extension-points.md"
CLASSES: tuple[tuple[type[Any], str], ...] = (
    (Benchmark, "Every benchmark. You must write `items`, `plan` and `grader`; everything else has a default."),
    (JudgedBenchmark, "Benchmarks whose answers a model judges."),
    (FhirBenchmark, "Benchmarks with a FHIR server. `plan` has a default."),
    (ClinicalBenchmark, "Benchmarks of task types. `items` and `grader` have defaults."),
)
HEAD = """# Extension points

A benchmark is a subclass of one of these classes. [Your own benchmark](benchmarks.md) shows how to begin. This page
lists every method that a subclass can override. Methods that a class inherits are listed once, at the class that
introduces them. `python -m tools.extension_points` writes this page from the docstrings.
"""


def page() -> str:
    """The text of docs/extension-points.md."""
    parts = [HEAD]
    listed: set[str] = set()
    for owner, words in CLASSES:
        rows = [f"| `{name}` | {text} |" for name, text in _points(owner, listed)]
        parts.append(
            "\n".join([f"## {owner.__name__}\n", f"{words}\n", "| method | what it does |", "|---|---|", *rows])
        )
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _points(owner: type[Any], listed: set[str]) -> Iterator[tuple[str, str]]:
    """The names and texts of the extension points that a class introduces. Adds the names to `listed`."""
    for name, member in vars(owner).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or name in listed or not inspect.isfunction(function):
            continue
        if getattr(function, "__final__", False):
            continue
        listed.add(name)
        yield name, _first_line(function.__doc__ or "")


def _first_line(text: str) -> str:
    """The first sentence of a docstring, on one line, safe in a table."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0]
    return sentence.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
