"""Makes docs/images/terminal.svg: a terminal with the output of real commands, run in an empty folder.

`python -m tools.pictures` writes it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.tutorial import ran  # noqa: E402  # the path is set above, for `python tools/…`

PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COMMANDS = (
    "medagent run --agent reference --limit 30 --quiet | grep -E 'task5|overall'",
    "medagent run --agent nop --limit 30 --quiet | grep -E 'Score|Wrong'",
    "medagent show results/v2_r1_nop --wrong --kind order-missing",
    "medagent compare results/v2_r1_reference results/v2_r1_nop | grep -E 'both|only A|only B|B − A'",
    "medagent report results/v2_r1_reference results/v2_r1_nop -o compared.html",
)
WIDTH = 118


def picture() -> str:
    """The SVG. It names no font of others' servers."""
    console = Console(record=True, width=WIDTH, file=StringIO())
    with tempfile.TemporaryDirectory(prefix="medagent-recording-") as folder:
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            for line in ran(command, Path(folder)):
                console.print(Text(line))
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="medagent", code_format=plain.replace("Fira Code, monospace", "monospace"))
