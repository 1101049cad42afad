"""Runs MedAgentBench from the command line and reads what it left, for the tests of this folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.command import Ran, medagent


def run(folder: Path, *args: object) -> Ran:
    """`medagent run` into this folder."""
    return medagent("run", "--results-dir", folder, "--quiet", *args)


def run_in_child(words: list[str]) -> None:
    """`medagent run` in a process of multiprocessing's, which exits with the command's code."""
    from medagent.cli.app import main

    sys.argv = ["medagent", "run", *words]
    main()


def results(folder: Path, run_name: str) -> dict[str, Any]:
    """A run's results file."""
    document: dict[str, Any] = json.loads((folder / run_name / "results.json").read_text())
    return document


def rows(path: Path) -> list[dict[str, Any]]:
    """The journal of a run's folder, line by line."""
    return [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()]


def episodes(path: Path) -> dict[str, dict[str, Any]]:
    """The last row of each task in the journal of a run's folder."""
    return {row["task_id"]: row for row in rows(path)}


def settled(document: dict[str, Any]) -> dict[str, Any]:
    """A results document without its timestamps."""
    items = [{**item, "timestamp": ""} for item in document["results"]]
    return {**document, "timestamp": "", "results": items}
