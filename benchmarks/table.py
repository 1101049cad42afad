"""The tables of docs/performance.md, from what the benchmarks print.

A benchmark says how it was called and what it runs on, and prints one figure a line, by `machine` and `row`; other
lines may stand between:

    $ python -m benchmarks.engine --trials 67
    # 2 cores (Intel Xeon), Linux 6.1, Python 3.11.7, commit 0123456789ab
    67 trials of 300 tasks, the run | ≤ 35 | 31.2 | s of CPU

What it printed is kept as `benchmarks/measured/NAME.now.txt`, and as `NAME.before.txt` what the same benchmark printed
over the code before a change. NAME is the benchmark's, or where it is called in several ways that of one of them:

    python -m benchmarks.engine --trials 67 > benchmarks/measured/engine.now.txt
    python -m benchmarks.table

Of several rows of one name in a file the last one counts, so a part can be measured again by `>>`.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from medagent.core.versions import versions

MEASURED = Path(__file__).resolve().parent / "measured"
PAGE = MEASURED.parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- measured: python -m benchmarks.table -->", "<!-- measured end -->"


def machine() -> None:
    """Print the command, and what the figures that follow are measured on."""
    print(f"$ {shlex.join(['python', '-m', f'benchmarks.{Path(sys.argv[0]).stem}', *sys.argv[1:]])}")
    system = f"{platform.system()} {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    commit = versions().get("commit", "unknown")
    print(f"# {os.cpu_count()} cores ({_processor()}), {system}, commit {commit}", flush=True)


def row(name: str, asked: str, figure: float, unit: str) -> None:
    """Print a figure: what was measured, what it should be (`≤ 35`; empty where nobody asked), what it is."""
    print(f"{name} | {asked} | {_written(figure)} | {unit}", flush=True)


@dataclass(slots=True)
class Printed:
    """What a benchmark printed: its command, its machines, and by name what was asked, the figure and the unit."""

    command: str = ""
    machines: list[str] = field(default_factory=list)
    rows: dict[str, tuple[str, str, str]] = field(default_factory=dict)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text("\n".join([f"{head}{BEGIN}\n", *tables(), f"{END}{tail}"]), encoding="utf-8")


def tables() -> Iterator[str]:
    """The lines between the markers of the page: a table for each benchmark."""
    for file in sorted(MEASURED.glob("*.now.txt")):
        name = file.name.removesuffix(".now.txt")
        now, before = printed(file), printed(file.with_name(f"{name}.before.txt"))
        yield f"### {now.command or f'benchmarks/{name}.py'}\n"
        for when, found in (("Before", before), ("Now", now)):
            if found.machines:
                yield f"{when}: {'; '.join(found.machines)}.  "
        yield "\n| | asked | before | now | |\n|---|---|---|---|---|"
        for what, (asked, figure, unit) in now.rows.items():
            _, earlier, _ = before.rows.get(what, ("", "–", ""))
            yield f"| {what} | {asked} | {earlier} | {figure} | {unit} |"
        yield ""


def printed(file: Path) -> Printed:
    """What a file of figures holds; nothing where there is none."""
    found = Printed()
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 4:
            found.rows[parts[0]] = (parts[1], parts[2], parts[3])
        elif line.startswith("$ "):
            found.command = found.command or line[2:]
        elif line.startswith("# ") and line[2:] not in found.machines:
            found.machines.append(line[2:])
    return found


def _written(figure: float) -> str:
    """Three digits of a small figure, whole numbers from 100 on."""
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


if __name__ == "__main__":
    main()
