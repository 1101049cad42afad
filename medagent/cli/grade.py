"""`medagent grade`: the verdict on every item of a results file, or of any benchmark's run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.benchmarks.medagentbench.wanted import Wanted
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options


@with_options(fields_of(Wanted))
def command(
    wanted: dict[str, Any],
    results: Annotated[Path, typer.Argument(help="A run's folder or a results file.")],
    benchmark: options.BenchmarkCode = None,
    as_json: options.AsJson = False,
) -> None:
    """Grade a results file of MedAgentBench, offline for the bundled data set, or a run of any benchmark.

    The options are about MedAgentBench. Exit code 0: everything was graded; 2: something could not be.

    Example: medagent grade results/v2_r2_reference

    Answers of other tools are graded by `medagent grade BENCHMARK --answers FILE`, with the options of `medagent run
    BENCHMARK`: medagent grade simpleqa --answers answers.jsonl --judge gpt-4o
    """
    import json

    import medagent.api as api
    from medagent.benchmarks.base import DEFAULT
    from medagent.core.errors import UserError
    from medagent.engine.folder import benchmark_of
    from medagent.reports.end import print_findings

    if api.is_run(results) and benchmark_of(results) != DEFAULT:
        if wanted:
            raise UserError(
                f"--{next(iter(wanted)).replace('_', '-')} has no use for {results}, a run of {benchmark_of(results)}"
            )
        report = api.grade(results, benchmark=benchmark)
        found = report.model_dump(mode="json", exclude={"command"})
    else:
        report = api.grade(results, **wanted)
        measured = report.model_dump(mode="json", include={"data", "settings", "versions", "started", "ended"})
        further = {name: report.details[name] for name in ("trials", "official_grader") if report.details.get(name)}
        found = {**measured, **report.details["grades"][0], **further}
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        print_findings(report)
    if report.ungraded or report.unusable:
        raise typer.Exit(2)
