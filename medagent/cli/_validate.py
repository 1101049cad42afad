"""`medagent validate`: lists the problems of a results file, offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from medagent.terminal import options


def command(
    results: Annotated[Path, typer.Argument(help="A run's folder or a results file.")],
    tasks: Annotated[Path | None, typer.Option(help="Its task file, if its ids are not the benchmark's.")] = None,
    every: Annotated[bool, typer.Option("--all", help="One line per problem, even for equal ones.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """List every problem of a results file with its place, without grading.

    Errors (exit code 1) violate the schema. Warnings (exit code 0) are unusual formats, some of which a grader rejects.
    Equal problems share a line, with their number and the first three places.

    Example: medagent validate results/v2_r2_reference
    """
    from medagent.benchmarks.published import lines, results_file, validate
    from medagent.core.number_formats import counted
    from medagent.reports.tables import put

    results = results_file(results)
    problems = validate(results, tasks)
    errors = sum(problem.level == "error" for problem in problems)
    if as_json:
        warnings = len(problems) - errors
        listed = [{"level": problem.level, "place": problem.place, "text": problem.words} for problem in problems]
        print(json.dumps({"errors": errors, "warnings": warnings, "problems": listed}, indent=1))
    else:
        for line in lines(problems, every=every):
            put(line)
        put(f"{results}: {counted(errors, 'errors')}, {counted(len(problems) - errors, 'warnings')}")
    if errors:
        raise typer.Exit(1)
