"""`medagent promptcblue`: parse predictions, score structured answers, pack a submission."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from medagent.terminal.groups import group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from refsol.promptcblue import Problem

app = group(
    "PromptCBLUE (Chinese medical tasks): parse, score, package.\n\n"
    "Example: medagent promptcblue score results.json --gold gold_structured.json"
)

_Predictions = Annotated[Path, typer.Argument(help="JSON lines with the model's text in `target`.")]


_Edition = Annotated[
    Literal["ccks", "public"] | None,
    typer.Option(
        "--edition",
        help="The rules of 16 tasks (ccks) or 18 (public). Default: detected from the file's tasks.",
        show_default=False,
    ),
]
_Encoding = Annotated[Literal["utf-8", "gbk", "gb18030"], typer.Option("--encoding", help="Encoding of the files.")]


@app.command("parse")
def parse_command(
    predictions: _Predictions,
    results: Annotated[Path, typer.Argument(help="File for the structured answers.")],
    edition: _Edition = None,
    encoding: _Encoding = "utf-8",
) -> None:
    """Turn model texts into structured answers by task, as the official parser does.

    Example: medagent promptcblue parse test_predictions.json results.json
    """
    from medagent.reports.tables import put
    from refsol.promptcblue import parse_file
    from refsol.promptcblue.files import edition_of_file
    from refsol.promptcblue.public import EDITIONS

    rules = EDITIONS[edition] if edition else edition_of_file(predictions, encoding)
    _warn(parse_file(predictions, results, rules, encoding))
    put(f"edition: {rules.name}")


@app.command("score")
def score_command(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS|RUN", help="Structured answers by task, or a run's folder with them.")
    ],
    gold: Annotated[Path | None, typer.Option(help="The right answers in the same format. Default: the run's.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the official JSON, × 100, not rounded.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Print this JSON with all scores of each task.")] = False,
    tasks: Annotated[str | None, typer.Option(help="Score only these tasks: CMeEE-V2,CMeIE,…")] = None,
    metrics: Annotated[
        Literal["official", "plain"],
        typer.Option(help="plain: true micro-F1 for STS, IR, QQR and QTR; CDEE lists as sets."),
    ] = "official",
    edition: _Edition = None,
    encoding: _Encoding = "utf-8",
) -> None:
    """Score structured answers by task and overall; `*` marks the main score of a task.

    Example: medagent promptcblue score results.json --gold gold_structured.json
    """
    from medagent.reports.tables import put, put_json
    from refsol.promptcblue import score_files
    from refsol.promptcblue.public import EDITIONS

    file, right, of_run = _of_run(results, gold)
    rules = EDITIONS.get(edition or of_run or "")
    scores = score_files(file, right, tasks, plain=metrics == "plain", edition=rules, encoding=encoding)
    _warn(scores.warnings)
    if json or details:
        put_json(scores.to_json(details=details))
    else:
        put(f"edition: {scores.edition.name}", *scores.table().split("\n"))


@app.command("package")
def package_command(
    predictions: _Predictions,
    out: Annotated[Path, typer.Option(help="The zip file to write.")] = Path("test_predictions.zip"),
) -> None:
    """Pack predictions and the script that parses them into the zip file that the platform accepts.

    Example: medagent promptcblue package test_predictions.json --out upload.zip
    """
    from medagent.reports.tables import put
    from refsol.promptcblue import package_file

    _warn(package_file(predictions, out))
    put(f"wrote {out}")


def _of_run(results: Path, gold: Path | None) -> tuple[Path, Path, str | None]:
    """The results file and the gold for a path that may be a run's folder, and the run's edition. Raises UserError."""
    from medagent.benchmarks.promptcblue.benchmark import RESULTS, Promptcblue
    from medagent.core.errors import UserError
    from medagent.engine.folder import Run

    if not results.is_dir():
        if gold is None:
            raise UserError(f"{results}: pass the right answers with --gold FILE")
        return results, gold, None
    source = Promptcblue().source(Run(results), {})
    gold = gold or source.right_answers
    if gold is None:
        raise UserError(f"{results}: the run comes without right answers; pass them with --gold FILE")
    if not (results / f"{RESULTS}.json").is_file():
        raise UserError(f"{results}: does not contain {RESULTS}.json yet; run: medagent grade {results} --gold FILE")
    return results / f"{RESULTS}.json", gold, source.edition


def _warn(problems: Iterable[Problem]) -> None:
    from medagent.reports.tables import say

    for problem in problems:
        say(str(problem))
