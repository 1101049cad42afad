"""`medagent imapscore`: score recorded imaps, explain one item, and correlate metrics with human scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from medagent.terminal.groups import group

if TYPE_CHECKING:
    from refsol.imapscore.records import Recording
    from refsol.imapscore.score import ImapScore

app = group(
    "imapScore on recorded imaps: scores, explanations, correlations.\n\nExample: medagent imapscore score bundled"
)

_Recorded = Annotated[
    Path,
    typer.Argument(help="Recorded imaps, as `medagent run imapscore` writes them; `bundled`: the bundled ones."),
]
_Graph = Annotated[
    Path | None, typer.Option(help="Relate values by this graph first: OBO, MeSH XML or TSV pairs.", show_default=False)
]
_PenaltyName = Literal["ratio", "count", "best", "off"]
_Penalty = Annotated[_PenaltyName, typer.Option(help="How λ counts answers that are more specific than the label.")]
_NormalizeName = Literal["none", "label", "shared"]
_Normalize = Annotated[_NormalizeName, typer.Option(help="Divide the sum by twice the label's or the shared terms.")]


@app.command("score")
def score_command(
    file: _Recorded,
    graph: _Graph = None,
    penalty: _Penalty = "ratio",
    normalize: _Normalize = "none",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON line per item.")] = False,
) -> None:
    """Score every item of a file of recorded imaps.

    Example: medagent imapscore score bundled
    """
    from medagent.benchmarks.imapscore import _view as view
    from medagent.reports.tables import put_json, say

    recordings, results = _scored(file, graph, penalty, normalize)
    if json:
        for recording, result in zip(recordings, results, strict=True):
            put_json(view.as_json(recording, result), indent=None)
    else:
        view.print_scores(recordings, results)
    if all(result.value is None for result in results):
        say(f"{file}: none of the items could be scored")
        raise typer.Exit(2)


@app.command("explain")
def explain_command(
    file: _Recorded,
    id: Annotated[str, typer.Argument(help="The item's id.")],
    graph: _Graph = None,
    penalty: _Penalty = "ratio",
    normalize: _Normalize = "none",
) -> None:
    """Explain the score of one item: both imaps side by side, the links between their values, and the sum.

    Example: medagent imapscore explain bundled en-3
    """
    from medagent.benchmarks.imapscore import _view as view
    from medagent.core.errors import UserError

    for recording, result in zip(*_scored(file, graph, penalty, normalize), strict=True):
        if recording.id == id:
            view.print_explanation(recording, result)
            return
    raise UserError(f"{file}: no item {id}; `medagent imapscore score {file}` lists them")


@app.command("correlate")
def correlate_command(
    files: Annotated[
        list[Path],
        typer.Argument(help="Items with human scores, in the released format; `bundled`: the bundled ones."),
    ],
    imaps: Annotated[list[Path] | None, typer.Option(help="Recorded imaps of these items (repeatable).")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Use only this metric (repeatable). Default: all.")] = None,
    pair: Annotated[
        tuple[str, str] | None, typer.Option(help="Two metrics to compare by a paired bootstrap.", show_default=False)
    ] = None,
    graph: _Graph = None,
    penalty: _Penalty = "ratio",
    normalize: _Normalize = "none",
    draws: Annotated[int, typer.Option(min=1, help="Bootstrap samples of an interval.")] = 1000,
    chinese: Annotated[
        Literal["characters", "jieba"], typer.Option(help="What ROUGE counts in Chinese: characters, or jieba's words.")
    ] = "characters",
    by: Annotated[
        Literal["compression", "disagreement"] | None,
        typer.Option(help="Split into three parts: by imap length relative to text length, or by rater disagreement."),
    ] = None,
) -> None:
    """Correlate metrics with human scores, per file and on average, × 100 with 95% bootstrap intervals.

    Example: medagent imapscore correlate bundled --imaps bundled
    """
    from medagent.benchmarks.imapscore import _view as view
    from refsol.imapscore.correlate import coefficients, rows
    from refsol.imapscore.metrics import Scored, available, binned, join, table
    from refsol.imapscore.records import read_items

    recorded = [row for path in imaps or () for row in zip(*_scored(path, graph, penalty, normalize), strict=True)]
    by_file = {str(path): read_items(_bundled(path, "items.jsonl")) for path in files}
    scored = {
        name: join(name, items, recorded) if imaps else [Scored(item) for item in items]
        for name, items in by_file.items()
    }
    if by is not None:
        parts = binned(by, [answer for rated in scored.values() for answer in rated])
        scored = dict(parts)
    metrics = metric or available([answer for group in scored.values() for answer in group])
    tables = []
    for name, rated in scored.items():
        columns, counts = table(name, rated, list(dict.fromkeys([*metrics, *(pair or ())])), chinese)
        tables.append(columns)
        if imaps:
            view.print_uncompared(name, counts)
    for name, coefficient in coefficients().items():
        correlations = rows(tables, metrics, pair, coefficient, draws)
        view.print_correlations(name, correlations)
        if imaps:
            view.print_gains(name, correlations)


def _bundled(path: Path, name: str) -> Path:
    """A path; `bundled` stands for the bundled file."""
    from medagent.benchmarks.imapscore.settings import BUNDLED

    return BUNDLED / name if str(path) == "bundled" else path


def _scored(
    file: Path, graph: Path | None, penalty: _PenaltyName, normalize: _NormalizeName
) -> tuple[list[Recording], list[ImapScore]]:
    """The recordings of a file with their scores. The graph's warnings go to stderr."""

    from medagent.reports.tables import say
    from refsol.imapscore.graph import Linker
    from refsol.imapscore.ontologies import load_graph
    from refsol.imapscore.records import read_recordings
    from refsol.imapscore.score import Normalize, Penalty, score_recordings

    recordings = read_recordings(_bundled(file, "imaps.jsonl"))
    linker = None if graph is None else Linker(load_graph(graph))
    for warning in linker.graph.warnings if linker else ():
        say(f"warning: {warning}")
    results = score_recordings(recordings, linker, penalty=Penalty(penalty), normalize=Normalize(normalize))
    return recordings, results
