"""Writes the tables of benchmarks/measured/README.md from the output of the benchmarks.

A benchmark prints its command and its machine (`machine`), and one number per line (`row`). Other lines are ignored:

    $ python -m benchmarks.engine --trials 67
    # 2 cores (Intel Xeon), Linux 6.1, Python 3.11.7, commit 0123456789ab
    67 trials of 300 tasks, the run | ≤ 35 | 31.2 | s of CPU

Save the output as `benchmarks/measured/NAME.now.txt`, and the output for the code before a change as
`NAME.before.txt`. NAME is the name of the benchmark, or of one of the ways to call it:

    python -m benchmarks.engine --trials 67 > benchmarks/measured/engine.now.txt
    python -m benchmarks.table

If a file contains several rows with one name, the last one counts, so you can measure a part again with `>>`.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from medagent.core.version import versions

MEASURED = Path(__file__).resolve().parent / "measured"
PAGE = MEASURED / "README.md"
BEGIN, END = "<!-- measured: python -m benchmarks.table -->", "<!-- measured end -->"


def machine() -> None:
    """Print the command and the machine of the following numbers."""
    print(f"$ {shlex.join(['python', '-m', f'benchmarks.{Path(sys.argv[0]).stem}', *sys.argv[1:]])}")
    system = f"{platform.system()} {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    commit = versions().get("commit", "unknown")
    print(f"# {os.cpu_count()} cores ({_processor()}), {system}, commit {commit}", flush=True)


def row(name: str, target: str, figure: float, unit: str) -> None:
    """Print a number with its name and its target (`≤ 35`; empty if there is none)."""
    print(f"{name} | {target} | {_written(figure)} | {unit}", flush=True)


@dataclass(slots=True)
class Printed:
    """The output of a benchmark: its command, its machines, and target, number and unit by name."""

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
        for when, output in (("Before", before), ("Now", now)):
            if output.machines:
                yield f"{when}: {'; '.join(output.machines)}.  "
        yield "\n| | target | before | now | |\n|---|---|---|---|---|"
        for what, (target, figure, unit) in now.rows.items():
            _, earlier, _ = before.rows.get(what, ("", "–", ""))
            yield f"| {what} | {target} | {earlier} | {figure} | {unit} |"
        yield ""


def printed(file: Path) -> Printed:
    """The content of a file of numbers; empty if there is no file."""
    output = Printed()
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 4:
            output.rows[parts[0]] = (parts[1], parts[2], parts[3])
        elif line.startswith("$ "):
            output.command = output.command or line[2:]
        elif line.startswith("# ") and line[2:] not in output.machines:
            output.machines.append(line[2:])
    return output


def _written(figure: float) -> str:
    """Three digits of a small number, whole numbers from 100 on."""
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
