"""Runs the commands of docs/tutorial.md in an empty folder, and writes their output into the page.

    python tools/tutorial.py

Run it after a change of the output or of the bundled data; `tests/test_doc_commands.py` fails if the page differs.
Commands with needs (`doc_commands`) are not run. A program is saved under the name in the text before it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.doc_commands import FENCED, commands, needs  # noqa: E402  # the path is set above, for `python tools/…`

PAGE = ROOT / "docs" / "tutorial.md"
NAME = re.compile(r"`(\w+\.py)`:\s*\Z")


def written(text: str, folder: Path, sections: int | None = None) -> str:
    """The page with the output of its commands, which run in `folder`; only those of the first `sections`, if set.

    Raises CalledProcessError if a command fails.
    """
    parts = re.split(r"(?m)^(?=## )", text)
    first = len(parts) if sections is None else sections + 1
    done = "".join(parts[:first])
    pieces, fences = FENCED.split(done), FENCED.findall(done)
    made = pieces[0]
    for fence, prose in zip(fences, pieces[1:], strict=True):
        name = NAME.search(made)
        if fence.startswith("```python") and name:
            (folder / name[1]).write_text(fence.split("\n", 1)[1].removesuffix("```"), encoding="utf-8")
        made += (_played(fence, folder) if fence.startswith("```console") else fence) + prose
    return made + "".join(parts[first:])


def _played(fence: str, folder: Path) -> str:
    lines = ["```console"]
    for command in commands(fence):
        lines.append(f"$ {command}")
        if not set(needs(command)) - {"your own files", "the runs that it names"}:
            lines += ran(command, folder)
    return "\n".join([*lines, "```"])


def ran(command: str, folder: Path) -> list[str]:
    """The lines that a command prints on a terminal of 88 columns."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "COLUMNS": "88", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    variables = {name: value for name, value in variables.items() if not name.startswith("PYTEST")}
    shell = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(shell, cwd=folder, env=variables, capture_output=True, text=True)
    done.check_returncode()
    return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory(prefix="medagent-tutorial-") as folder:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
