"""`medagent simpleqa`: score, compare and judge again what a model answered to short factual questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from medagent.cli import options

if TYPE_CHECKING:
    from medagent.models.settings import ModelSettings

app = typer.Typer(no_args_is_help=True, help="Short factual questions: score, compare judges, judge again.")

VariantName = Literal["husimpleqa", "simpleqa", "simpleqa-verified", "chinese-simpleqa"]
Judges = Annotated[list[str], typer.Option("--judge", help="A model that judges; repeated: a panel, by majority.")]
JudgeUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--judge-base-url",
        help="The judges' endpoint (default: --base-url where the command has it, else OPENAI_BASE_URL, else OpenAI).",
    ),
]
JudgePromptFile = Annotated[Path | None, typer.Option("--judge-prompt", help="Your own judge prompt (TOML).")]
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
    from medagent.errors import UserError
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
            typer.echo(f"warning: {warning}", err=True)
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


@app.command("judge")
def judge_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of `medagent run simpleqa`.")],
    judge: Judges,
    judge_base_url: JudgeUrls = None,
    judge_prompt: JudgePromptFile = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="An id (or line number) to judge, or `unparsed`: replies without a label; repeatable."),
    ] = None,
    timeout: options.Timeout = 300.0,
    concurrency: options.Concurrency = 16,
    max_cost: options.MaxCost = None,
    max_tokens_total: options.MaxTokensTotal = None,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Judge a run's answers again, by other judges or another prompt, without asking the model again.

    A verdict is kept under its judge, prompt and prediction: what is unchanged costs nothing.
    """
    from medagent.benchmarks.simpleqa.config import Effort
    from medagent.benchmarks.simpleqa.judging import Judging
    from medagent.benchmarks.simpleqa.run import judge_again
    from refsol.simpleqa.prompts import judge_prompt as read_prompt

    judging = Judging(judges=judge_settings(judge, judge_base_url, timeout), prompt=read_prompt(judge_prompt))
    effort = options.checked(
        Effort,
        concurrency=concurrency,
        max_cost=max_cost,
        max_tokens_total=max_tokens_total,
        quiet=quiet,
        as_json=json,
    )
    raise typer.Exit(judge_again(run, judging, effort, only or ()))


def judge_settings(names: list[str], base_urls: list[str] | None, timeout: float) -> list[ModelSettings]:
    """The settings of a panel's judges. Raises UserError for a judge that is named twice."""
    from medagent.errors import UserError

    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--judge {twice[0]}: named twice; a panel has each judge once")
    settings = [options.model_settings(name, base_urls, timeout=timeout) for name in names]
    return [judge for judge in settings if judge is not None]
