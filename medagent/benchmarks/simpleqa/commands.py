"""`medagent simpleqa`: score, compare and judge again what a model answered to short factual questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from medagent.benchmarks.simpleqa.settings import PanelSettings
from medagent.engine.settings import RunSettings
from medagent.terminal import options
from medagent.terminal.groups import GroupedCommand, group
from medagent.terminal.settings import fields_of, with_options

app = group("Short factual questions: score, compare judges, judge again, check a judge.")

_EFFORT = ("timeout", "outage_time", "outage_attempts", "concurrency", "max_cost", "max_tokens_total")
VariantName = Literal["husimpleqa", "simpleqa", "simpleqa-verified", "chinese-simpleqa"]
_RuleName = Literal["robust", "husimpleqa", "husimpleqa-v1", "letter", "strict"]
_Rules = Annotated[_RuleName, typer.Option("--rules", help="How the judge's replies are read.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("score")
def score_command(
    places: Annotated[
        list[str],
        typer.Argument(metavar="RUN|FILES", help="Runs, or folders or files of OpenCompass; RUN@JUDGE: one judge."),
    ],
    rules: _Rules = "robust",
    data: Annotated[
        Path | None, typer.Option(help="The questions: with them, OpenCompass output is proved complete and grouped.")
    ] = None,
    variant: Annotated[VariantName, typer.Option(help="The format of --data.")] = "husimpleqa",
    json: _Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV: a line for each model and language.")] = False,
) -> None:
    """Figures of judged answers, every verdict accounted for."""
    from medagent.benchmarks.simpleqa import report
    from medagent.benchmarks.simpleqa.load import judged_sets
    from medagent.core.errors import UserError
    from medagent.reports.tables import say
    from refsol.simpleqa import export
    from refsol.simpleqa.data import read_items
    from refsol.simpleqa.score import score, warnings_of

    if json and csv:
        raise UserError("--json and --csv: choose one")
    items = read_items(data, variant) if data else None
    sets = [judged for place in places for judged in judged_sets(place, items)]
    scored = [(judged, score(judged.rows, rules), warnings_of(judged, rules)) for judged in sets]
    for _, _, warnings in scored:
        for warning in warnings:
            say(f"warning: {warning}")
    if json:
        report.print_json([export.as_json(judged, sections, rules, warned) for judged, sections, warned in scored])
    elif csv:
        typer.echo(export.as_csv((judged, sections) for judged, sections, _ in scored), nl=False)
    else:
        for judged, sections, _ in scored:
            report.print_scores(judged, sections, rules)


@app.command("agree")
def agree_command(
    first: Annotated[str, typer.Argument(metavar="A", help="A judged folder (FOLDER@JUDGE of several) or a file.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same, or a file that people labelled.")],
    rules: _Rules = "robust",
    json: _Json = False,
) -> None:
    """Two judges, or a judge and people: confusion table, agreement, Cohen's kappa, the items where they differ."""
    from medagent.benchmarks.simpleqa import report
    from medagent.benchmarks.simpleqa.load import labellings
    from refsol.simpleqa.agree import compare
    from refsol.simpleqa.export import agreement_as_json

    found = compare(*labellings(first, second, rules))
    if json:
        report.print_json(agreement_as_json(found))
    else:
        report.print_agreement(first, second, found)


@app.command("judge", cls=GroupedCommand)
@with_options([*fields_of(PanelSettings), *fields_of(RunSettings, *_EFFORT)])
def judge_command(
    given: dict[str, Any],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of `medagent run simpleqa`.")],
    only: Annotated[
        list[str] | None,
        typer.Option(help="An id (or line number) to judge, or `unparsed`: replies without a label; repeatable."),
    ] = None,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Judge a run's answers again, by other judges or another prompt, without asking the model again.

    A verdict is kept under its judge, prompt and prediction: what is unchanged costs nothing.

    Example: medagent simpleqa judge results/simpleqa-husimpleqa_r1_gpt-4o-mini --judge gpt-4o
    """
    from medagent.benchmarks.simpleqa.benchmark import Simpleqa, judge_again
    from medagent.core.options import checked
    from medagent.reports.runs import carry_out

    effort = checked(RunSettings, {name: given.pop(name) for name in _EFFORT if name in given})
    judging = checked(PanelSettings, given).judging(effort.patience)
    carry_out(judge_again(run, judging, effort, only or ()), Simpleqa(), as_json=json, quiet=quiet)


@app.command("prompt")
def prompt_command(
    checkout: Annotated[Path, typer.Argument(metavar="CHECKOUT", help="A checkout of OpenCompass, or that file.")],
) -> None:
    """Take HuSimpleQA's published judge prompt over from OpenCompass, for `--judge-prompt published`.

    It is read out of the configuration file, which is not run, and sent byte for byte as OpenCompass sends it.

    Example: medagent simpleqa prompt ~/src/opencompass
    """
    from medagent.benchmarks.simpleqa.settings import named_prompt, published_place
    from medagent.engine.files import write_whole
    from refsol.simpleqa.prompts import PUBLISHED_SETTING, published_judge_prompt

    text = published_judge_prompt(checkout / PUBLISHED_SETTING if checkout.is_dir() else checkout)
    published_place().parent.mkdir(parents=True, exist_ok=True)
    write_whole(published_place(), text)
    typer.echo(f"{published_place()}: written, sha256 {named_prompt('published').digest}")


@app.command("export")
def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A judged run of `medagent run simpleqa`.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the output folder is made.")],
) -> None:
    """Write a judged run as an output folder of OpenCompass, which its own summarizer reads.

    Example: medagent simpleqa export results/simpleqa-husimpleqa_r1_gpt-4o-mini outputs/mine
    """
    from medagent.benchmarks.simpleqa.folder import RunFiles
    from medagent.core.errors import UserError
    from refsol.simpleqa.opencompass_files import write_opencompass

    files = RunFiles(run)
    if not files.exist():
        raise UserError(f"{run}: not a run of `medagent run simpleqa`")
    for path in write_opencompass(folder, files.judged_set(), files.gold_questions()):
        typer.echo(path)


@app.command("check", cls=GroupedCommand)
@with_options([*fields_of(PanelSettings), *fields_of(RunSettings, "round", "results_dir", *_EFFORT)])
def check_command(
    given: dict[str, Any],
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Put cases whose label is known to a judge: how often it agrees, which kinds it gets wrong, may it be trusted?

    The cases are those of the published prompts and 200 of this project's. What it said is kept in the results folder.

    Example: medagent simpleqa check --judge gpt-4o-mini
    """
    from medagent.benchmarks.simpleqa.check import JudgeCheck, check_plan
    from medagent.core.options import checked
    from medagent.reports.runs import carry_out

    panel = {name: given.pop(name) for name in PanelSettings.model_fields if name in given}
    settings = checked(RunSettings, given)
    plan = check_plan(checked(PanelSettings, panel).judging(settings.patience), settings)
    carry_out(plan, JudgeCheck(), as_json=json, quiet=quiet)
