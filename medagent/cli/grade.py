"""`medagent grade`: the verdict on every item of a results file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import options


def command(
    results: Annotated[Path, typer.Argument(help="A run's folder or a results file.")],
    tasks: Annotated[Path | None, typer.Option(help="Its task file, where it is not the bundled data set's.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Its data set: synthetic or official.")] = None,
    fhir: Annotated[str | None, typer.Option(help="Facts from a FHIR server's base URL.")] = None,
    ehr: Annotated[Path | None, typer.Option(help="Facts from an NDJSON file of FHIR resources.")] = None,
    key: Annotated[Path | None, typer.Option(help="Facts from an answer key (medagent key build).")] = None,
    base: Annotated[
        str | None, typer.Option(help="The FHIR base in the file's POSTs; by default the run's, or the benchmark's.")
    ] = None,
    rules: Annotated[str, typer.Option(help="official (the score), fair or state.")] = "official",
    side_by_side: Annotated[bool, typer.Option(help="Show the totals under the other rules as well.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Grade a results file, offline for the bundled data set.

    Exit code 0: everything was graded; 2: something could not be.

    Example: medagent grade results/v2_r2_reference
    """
    from medagent.benchmarks.medagentbench.grade_table import grade_document, print_grade
    from medagent.benchmarks.medagentbench.results import grading
    from medagent.benchmarks.medagentbench.results.paths import results_file
    from refsol.medagentbench import RULE_SETS, grade_file, rule_name

    rule = rule_name(rules)
    results = results_file(results)
    others = [name for name in RULE_SETS if side_by_side and name != rule]
    task_set = grading.task_set(results, tasks, dataset)
    if fhir is None and ehr is None and key is None:
        grading.check_patients(results)
    facts = grading.facts(task_set, fhir=fhir, ehr=ehr, key=key)
    shown = base or grading.shown_base(results)
    report = grade_file(results, grading.items(task_set), facts, base=shown, rules=rule, also=others)
    if as_json:
        print(json.dumps(grade_document(report), indent=1))
    else:
        print_grade(report)
    if not report.complete:
        raise typer.Exit(2)
