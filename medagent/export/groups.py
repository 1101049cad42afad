"""The scores of a run as CSV, one line per group.

Each line contains data set, language, model and judges, so that one file can contain the lines of many runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from medagent._api import load_run
from medagent._finished import Code
from medagent.core.errors import UserError
from medagent.core.writing import followed, write_whole
from medagent.engine.report import Report
from refsol.files import csv_text


def export_csv(folder: Path, out: Path, code: Code | None = None) -> int:
    """Write the file. Returns the number of its lines without the heading. Raises UserError."""
    report = load_run(folder, benchmark=code).report
    rows = list(_rows(report))
    if not rows:
        raise UserError(f"{folder}: {' '.join(report.notes) or 'it contains no graded item'}")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    write_whole(followed(out), csv_text([columns, *([row.get(name, "") for name in columns] for row in rows)]))
    return len(rows)


def _rows(report: Report) -> Iterator[dict[str, Any]]:
    details = report.details
    judges = details.get("judges") or []
    languages = [section["name"] for section in details.get("sections") or []]
    table, figure = "", ""
    for section, language in zip(report.table, chain(languages, repeat("")), strict=False):
        if section.title or section.figure:
            table, figure = section.title, section.figure
        for line in section.lines:
            low, high = line.interval or (None, None)
            yield {
                "benchmark": report.benchmark,
                "data": report.data.name or str(report.settings.get("variant") or ""),
                "data_version": report.data.version,
                "data_digest": report.data.digest,
                "round": report.settings.get("round"),
                "agent": report.settings.get("agent"),
                "model": report.settings.get("model"),
                "judges": " ".join(judges),
                "language": language,
                "table": table,
                "group": line.name,
                "figure": figure or report.figure,
                "n": line.n,
                "value": line.value,
                "low": low,
                "high": high,
                **line.counts,
                **line.more,
            }
