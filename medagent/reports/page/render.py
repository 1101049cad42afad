"""The page: a template, a style sheet, scripts and the data in one file."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

from medagent.core.clock import wall_clock
from medagent.core.errors import UserError
from medagent.reports.compare_views import Official
from medagent.reports.page.document import RunPage, document
from medagent.reports.page.pack import packed

_HERE = Path(__file__).parent
_SCRIPTS = ("dom", "fhir", "charts", "chart", "blocks", "conversation", "run", "compare", "list", "app")


def render(pages: Sequence[RunPage], official: Official) -> Iterator[str]:
    """The page of one run, or of several of one benchmark side by side, piece by piece. Raises UserError."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    benchmarks = {page.report.benchmark for page in pages}
    if len(benchmarks) > 1:
        raise UserError(f"runs of different benchmarks cannot share a report: {', '.join(sorted(benchmarks))}")
    shown = document(pages, wall_clock(), official)
    script = '"use strict";\n' + "".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").generate(
        title=shown.title,
        runs=shown.runs,
        made=shown.head["made"],
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script=script,
        digest=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        index=packed({**shown.head, "runs": shown.runs}),
        items=shown.items,
        parts=shown.parts,
    )
