"""`medagent grade`: grades every item of a run or of a results file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.benchmarks.published import GRADINGS
from medagent.terminal import options
from medagent.terminal.settings import fields_of, with_options

_FIELDS = {field.name: field for model in GRADINGS for field in fields_of(model, use="grade")}
"""The grading options of all benchmarks, by field; options that several benchmarks share occur once."""


@with_options(list(_FIELDS.values()), defaults=False)
def command(
    values: dict[str, Any],
    results: Annotated[Path, typer.Argument(help="A run's folder, a results file, or a log of another tool.")],
    benchmark: options.BenchmarkCode = None,
    scorer: options.Scorer = None,
    partial: Annotated[bool, typer.Option("--partial", help="Accept a file that lacks items of its data.")] = False,
    expect_recorded: Annotated[
        bool,
        typer.Option("--expect-recorded", help="Fail if a verdict differs from the one that the file contains."),
    ] = False,
    as_json: options.AsJson = False,
    full: options.Full = False,
) -> None:
    """Grade a run of any benchmark, or a results file of MedAgentBench or of --benchmark NAME.

    The bundled data set is graded offline. Which options apply depends on the benchmark. Verdicts that a file contains
    are compared with the computed ones. Exit code 0: everything was graded; 1: with --expect-recorded, verdicts differ;
    2: some items could not be graded, or are missing. A log of Inspect, Harbor or lm-evaluation-harness has the scores
    of its tool.

    Example: medagent grade results/v2_r2_reference

    Example: medagent grade --benchmark fhir-agentbench outputs.json --dataset published --rules paper

    To grade answers of another tool, pass --answers, and the options of `medagent run BENCHMARK`:

    Example: medagent grade simpleqa --answers answers.jsonl --judge gpt-4o
    """
    import json

    import medagent._api as api
    from medagent.engine.patient_data import shown_elsewhere
    from medagent.engine.recorded_verdicts import differs
    from medagent.engine.report import MISSING
    from medagent.reports.end import print_findings

    report = api.grade(results, benchmark=benchmark, scorer=scorer, **values)
    if as_json:
        print(json.dumps(_document(shown_elsewhere(report, results)), indent=1))
    else:
        print_findings(report, full=full)
    if expect_recorded and differs(report):
        raise typer.Exit(1)
    if report.ungraded or report.unusable or (report.details.get(MISSING) and not partial):
        raise typer.Exit(2)


def _document(report: Any) -> dict[str, Any]:
    """The report as JSON; for MedAgentBench in the form of `grade.json`, over all trials."""
    if "grades" not in report.details:
        document: dict[str, Any] = report.model_dump(mode="json", exclude={"command"})
        return document
    measured = report.model_dump(
        mode="json", include={"data", "settings", "versions", "started", "ended", "rules_version"}
    )
    further = (
        *("trials", "twins", "harm", "injected", "official_grader", "others", "differing"),
        *("missing", "recorded"),
    )
    known = {name: report.details[name] for name in further if report.details.get(name)}
    grades = report.details["grades"]
    if len(grades) == 1:
        return {**measured, **grades[0], **known}
    items = [{**item, "trial": trial} for trial, grade in enumerate(grades, 1) for item in grade.get("items", ())]
    return {**measured, **report.details["all_trials"], "items": items, **known}
