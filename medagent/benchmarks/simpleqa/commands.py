"""`medagent simpleqa`: score answers to short factual questions; prompts and files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from medagent.terminal.groups import group

app = group(
    "Short factual questions: score, export, copy published prompts.\n\n"
    "Example: medagent simpleqa score results/simpleqa-husimpleqa_r1_gpt-4o-mini"
)

VariantName = Literal["husimpleqa", "simpleqa", "simpleqa-verified", "chinese-simpleqa"]
EncodingName = Literal["utf-8", "gbk", "gb18030"]
_RuleName = Literal["robust", "husimpleqa", "husimpleqa-v1", "letter", "strict", "autorater"]
_Rules = Annotated[
    _RuleName | None,
    typer.Option(
        "--rules",
        help="How the judge's replies are read (default: as in the run, else robust).",
        show_default=False,
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("score")
def score_command(
    places: Annotated[
        list[str],
        typer.Argument(metavar="RUN|FILES", help="Runs, or folders or files of OpenCompass; RUN@JUDGE: one judge."),
    ],
    rules: _Rules = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The questions. They prove that OpenCompass output is complete, and give the groups."),
    ] = None,
    variant: Annotated[VariantName, typer.Option(help="The format of --data.")] = "husimpleqa",
    encoding: Annotated[EncodingName, typer.Option(help="Encoding of --data.")] = "utf-8",
    json: _Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV: one line per model and language.")] = False,
) -> None:
    """Print the scores of judged answers; every verdict is counted.

    Example: medagent simpleqa score results/simpleqa-husimpleqa_r1_gpt-4o-mini
    """
    from medagent.benchmarks.simpleqa import _report as report
    from medagent.benchmarks.simpleqa._folder import judged_sets
    from medagent.core.errors import UserError
    from medagent.core.scrub import printable
    from medagent.reports.tables import say
    from refsol.simpleqa import export
    from refsol.simpleqa.data import read_items
    from refsol.simpleqa.score import score, warnings_of

    if json and csv:
        raise UserError("--json and --csv: choose one")
    items = read_items(data, variant, encoding=encoding) if data else None
    sets = [(judged, rules or judged.rule) for place in places for judged in judged_sets(place, items)]
    scored = [(judged, score(judged.rows, rule), rule) for judged, rule in sets]
    warned = [warnings_of(judged, rule) for judged, rule in sets]
    for warning in (warning for warnings in warned for warning in warnings):
        say(f"warning: {warning}")
    if json:
        documents = zip(scored, warned, strict=True)
        report.print_json([export.as_json(*scores, warnings) for scores, warnings in documents])
    elif csv:
        print(printable(export.as_csv((judged, sections) for judged, sections, _ in scored)), end="")
    else:
        for scores in scored:
            report.print_scores(*scores)


@app.command("prompt")
def prompt_command(
    checkout: Annotated[
        Path, typer.Argument(metavar="CHECKOUT", help="A checkout of OpenCompass or simple-evals, or one of its files.")
    ],
) -> None:
    """Copy published prompts from a checkout of OpenCompass or simple-evals, for `--recipe` and `--judge-prompt`.

    They are read from the source files, which are not executed, and identified by their digests.

    Example: medagent simpleqa prompt ~/src/opencompass
    """
    from medagent.benchmarks.simpleqa._recipes import published_place
    from medagent.core.writing import write_whole
    from medagent.reports.tables import put, say
    from refsol.simpleqa.published import judge_toml, model_toml, published_prompts

    prompts = published_prompts(checkout)
    copied = [
        (published_place(name), judge_toml(prompt), f"judge prompt {name}", prompt.digest)
        for name, prompt in prompts.judges.items()
    ]
    copied += [
        (published_place(name, "model"), model_toml(prompt), f"model prompt {name}", prompt.digest)
        for name, prompt in prompts.models.items()
    ]
    for place, text, name, digest in copied:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, text)
        put(f"{name}: {place}, sha256 {digest}")
    for name in prompts.unknown:
        say(f"{name}: not copied: the text in {checkout} differs from the published one")


@app.command("export")
def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A judged run of `medagent run simpleqa`.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The output folder to create.")],
) -> None:
    """Write a judged run as an output folder of OpenCompass, which OpenCompass' summarizer can read.

    Example: medagent simpleqa export results/simpleqa-husimpleqa_r1_gpt-4o-mini outputs/mine
    """
    from medagent.benchmarks.simpleqa._folder import RunFiles
    from medagent.core.errors import UserError
    from medagent.reports.tables import put
    from refsol.simpleqa.opencompass import write_opencompass

    files = RunFiles(run)
    if not files.exist():
        raise UserError(f"{run}: not a run of `medagent run simpleqa`")
    for path in write_opencompass(folder, files.judged_set(), files.gold_questions()):
        put(path)
