"""`medagent simpleqa`: score what a model answered to short factual questions; prompts and files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from medagent.terminal.groups import group

app = group("Short factual questions: score, export, take over the published judge prompt.")

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


@app.command("prompt")
def prompt_command(
    checkout: Annotated[
        Path, typer.Argument(metavar="CHECKOUT", help="A checkout of OpenCompass, or one of its files.")
    ],
) -> None:
    """Copy HuSimpleQA's judge prompts from OpenCompass, for `--judge-prompt published` and `published-v1`.

    They are read out of the source files, which are not run, and known by their digests.

    Example: medagent simpleqa prompt ~/src/opencompass
    """
    from medagent.benchmarks.simpleqa.rubric import published_place
    from medagent.engine.files import write_whole
    from refsol.simpleqa.prompts import PUBLISHED, published_judge_prompts

    for name, text in published_judge_prompts(checkout).items():
        place = published_place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, text)
        typer.echo(f"{name}: {place}, sha256 {PUBLISHED[name]}")


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
