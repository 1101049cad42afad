"""`medagent judge`: checks a judge, judges a run again, compares judges; for every benchmark with judged answers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.engine.settings import RunSettings
from medagent.judging.panel import PanelSettings
from medagent.terminal import options
from medagent.terminal.groups import GroupedCommand, group
from medagent.terminal.settings import fields_of, with_options

app = group(
    "Judges: check one on known cases, judge a run again, compare judges with each other and with people.\n\n"
    "Example: medagent judge check simpleqa --judge gpt-4o-mini"
)

_PANEL = ("judge", "judge_base_url", "judge_api_key_env", "judge_prompt")
_EFFORT = ("timeout", "outage_time", "outage_attempts", "concurrency", "max_cost", "max_tokens_total")


@app.command("check", cls=GroupedCommand)
@with_options([*fields_of(PanelSettings, *_PANEL), *fields_of(RunSettings, "round", "results_dir", *_EFFORT)])
def check_command(
    values: dict[str, Any],
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK", help="A benchmark whose answers are judged.")],
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Test a judge on cases with known labels: how often it agrees, and which kinds it gets wrong.

    A judge can decide alone if the 95% interval of its agreement is at or above 90%. Otherwise the exit code is 2.

    Example: medagent judge check simpleqa --judge gpt-4o-mini
    """
    from medagent.benchmarks.base import find
    from medagent.benchmarks.judge_check import check_plan, judged_benchmark
    from medagent.reports.runs import carry_out

    panel, settings = _settings(values)
    check, plan = check_plan(judged_benchmark(find(benchmark)), panel, settings)
    carry_out(plan, check, as_json=json, quiet=quiet)


@app.command("again", cls=GroupedCommand)
@with_options([*fields_of(PanelSettings), *fields_of(RunSettings, *_EFFORT)])
def again_command(
    values: dict[str, Any],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run whose answers are judged.")],
    only: Annotated[
        list[str] | None,
        typer.Option(help="Judge only this item; `unreadable`: only items without a verdict; repeatable."),
    ] = None,
    drop_judging: Annotated[
        str | None, typer.Option(metavar="JUDGE", help="Judge nothing. Ignore this judge's verdicts from now on.")
    ] = None,
    benchmark: options.BenchmarkCode = None,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Judge a run's answers again with other judges or another prompt. The model is not called again.

    Verdicts are stored by judge and messages, so unchanged ones cost nothing. A new panel decides an item as soon as
    all its judges have replied.

    Example: medagent judge again results/simpleqa-husimpleqa_r1_gpt-4o-mini --judge gpt-4o
    """
    from medagent.benchmarks.base import of_folder
    from medagent.benchmarks.judge_check import judged_benchmark
    from medagent.core.errors import UserError
    from medagent.engine.folder import Run
    from medagent.engine.patient_data import has_patient_data
    from medagent.judging.benchmark import again_plan
    from medagent.judging.judging import Judging
    from medagent.reports.runs import carry_out
    from medagent.reports.tables import put

    if has_patient_data(run):
        raise UserError(f"{run}: contains a hospital's data; name judges in the run itself (medagent run --judge NAME)")
    judged = judged_benchmark(of_folder(run, benchmark))
    if drop_judging is not None:
        Judging(run, judged.rubric).drop(drop_judging)
        command = shlex.join(["medagent", "grade", str(run)])
        put(f"{run}: the verdicts of {drop_judging} no longer count. Print the scores: {command}")
        return
    panel, settings = _settings(values)
    carry_out(again_plan(judged, Run(run), panel, settings, only or ()), judged, as_json=json, quiet=quiet)


@app.command("agree")
def agree_command(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A judged run (RUN@JUDGE if there are several), or a file.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one, or a file with labels by people.")],
    rules: Annotated[
        str, typer.Option(help="How the judges' replies are read (default: as in the run).", show_default=False)
    ] = "",
    benchmark: options.BenchmarkCode = None,
    json: options.AsJson = False,
) -> None:
    """Compare two judges, or a judge and people: confusion table, agreement, Cohen's kappa, items that differ.

    Example: medagent judge agree results/RUN@gpt-4o results/RUN@other-model
    """
    from medagent.benchmarks.judge_labels import agreement
    from medagent.reports.agreement import print_agreement
    from medagent.reports.tables import put_json

    result = agreement(first, second, rules, benchmark)
    if json:
        put_json(result.as_json())
    else:
        print_agreement(first, second, result)


def _settings(values: dict[str, Any]) -> tuple[PanelSettings, RunSettings]:
    """The panel's settings and the limits of a command. Raises UserError."""
    from medagent.core.options import checked

    panel = {name: values.pop(name) for name in PanelSettings.model_fields if name in values}
    return checked(PanelSettings, panel), checked(RunSettings, values)
