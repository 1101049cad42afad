"""`medagent simpleqa`: score, compare and judge again what a model answered to short factual questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(no_args_is_help=True, help="Short factual questions: score, compare judges, judge again.")

VariantName = Literal["husimpleqa", "simpleqa", "simpleqa-verified", "chinese-simpleqa"]
_RuleName = Literal["robust", "husimpleqa", "husimpleqa-v1", "letter", "strict"]
_Rules = Annotated[_RuleName, typer.Option("--rules", help="How the judge's replies are read.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("score")
def score_command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN|FILES", help="Runs, or folders or files that OpenCompass judged.")
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
    from medagent.errors import UserError
    from medagent.simpleqa import report
    from medagent.simpleqa.load import judged_sets
    from refsol.simpleqa import export
    from refsol.simpleqa.data import read_items
    from refsol.simpleqa.score import score, warnings_of

    if json and csv:
        raise UserError("--json and --csv: choose one")
    sets = judged_sets(paths, read_items(data, variant) if data else None)
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
    from medagent.simpleqa import report
    from medagent.simpleqa.load import labellings
    from refsol.simpleqa.agree import compare
    from refsol.simpleqa.export import agreement_as_json

    found = compare(*labellings(first, second, rules))
    if json:
        report.print_json(agreement_as_json(found))
    else:
        report.print_agreement(first, second, found)
