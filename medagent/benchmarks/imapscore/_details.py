"""imapScore in an HTML report: the triples of both imaps, matched or not, next to human scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from medagent.benchmarks.imapscore._grader import CEILING, MAJORITY, WITHOUT_PENALTY, unpenalised
from medagent.benchmarks.imapscore._items import ImapItem, linker_of
from medagent.benchmarks.imapscore._job import ItemRow
from medagent.engine.blocks import Block, DotsBlock, FactsBlock, PairBlock, ScatterBlock, SetRow, SetsBlock, TextBlock
from medagent.engine.report import Report
from medagent.engine.scores import Score, Scored, mean_line
from refsol.errors import InputError
from refsol.imapscore.correlate import MIN_ITEMS, Table, coefficients, correlate
from refsol.imapscore.imap import normal
from refsol.imapscore.records import DIMENSIONS, Recording, recording_of
from refsol.imapscore.relations import Relation
from refsol.imapscore.score import ImapScore, TermScore, score_recordings

_RELATIONS = {
    Relation.EXACT: "same meaning",
    Relation.BELONGING: "response more general",
    Relation.CONTAINMENT: "response more specific",
}


def item_blocks(item: ImapItem, row: ItemRow) -> Iterator[Block]:
    """An item's texts, and the links between its extracted imaps."""
    rated = item.rated
    yield TextBlock("Question", rated.question)
    yield PairBlock(("doctor's answer (label)", rated.label), ("response", rated.response))
    if row.recording is not None:
        recording = recording_of(row.recording)
        yield from _scored(recording, score_recordings([recording], linker_of(item.source.graph))[0])
    if rated.human:
        yield FactsBlock("Human scores, 0 to 5", [(name, f"{score:g}") for name, score in rated.human.items()])


def _scored(recording: Recording, result: ImapScore) -> Iterator[Block]:
    pairs = [("asked for", pair.term) for pair in recording.question.query]
    pairs += [("given", f"{pair.term}: {pair.value}") for pair in recording.question.constraint]
    if pairs:
        yield FactsBlock("What the question asks and gives", pairs)
    for term in result.terms:
        yield _term(term)
    shared = {normal(term.term) for term in result.terms}
    rows: list[SetRow] = [
        *(
            ("missed", (value.term, value.value))
            for value in recording.label.inform
            if normal(value.term) not in shared
        ),
        *(
            ("extra", (value.term, value.value))
            for value in recording.response.inform
            if normal(value.term) not in shared
        ),
    ]
    if rows:
        yield SetsBlock("Terms in only one of the answers", ("term", "value"), rows)
    if result.value is not None and result.terms:
        summands = " + ".join(str(term.value) for term in result.terms)
        yield FactsBlock("Score", [("sum over the shared terms", f"{summands} = {number(result.value)}")])
    if recording.reason:
        yield TextBlock("Reason for the missing score", recording.reason)
    if recording.warnings:
        yield TextBlock("Warnings", "\n".join(recording.warnings), folded=True)


def _term(term: TermScore) -> SetsBlock:
    rows: list[SetRow] = [
        ("found", (link.pair.label, _RELATIONS[link.relation], link.pair.response)) for link in term.links
    ]
    linked = {(side, link.pair.key[side]) for link in term.links for side in (1, 2)}
    rows += [("missed", (value, "", "")) for value in term.label if (1, normal(value)) not in linked]
    rows += [("extra", ("", "", value)) for value in term.response if (2, normal(value)) not in linked]
    figures = f"recall {term.recall} + precision {term.precision} − λ {term.penalty} = {number(term.value)}"
    return SetsBlock(f"{term.term}", ("label", "relation", "response"), rows, figures)


def number(value: Fraction) -> str:
    """A fraction, with its decimal form if it is not whole."""
    return str(value) if value.denominator == 1 else f"{value} ({float(value):.4f})"


def score_charts(report: Report, scores: Sequence[Scored]) -> Iterator[Block]:
    """The mean score between floor and ceiling with the penalty λ, and each item's score against its ceiling."""
    lines = {line.name: line for section in report.table for line in section.lines}
    gross = {score.unit: score.value for score in unpenalised(scores) if score.value is not None}
    if report.overall is None or not gross or CEILING not in lines:
        return
    penalty = [
        replace(score, score=Score(value=gross[score.unit] - (score.value or 0.0)))
        for score in scores
        if score.unit in gross
    ]
    shown = [
        ("imapScore", report.overall),
        (WITHOUT_PENALTY, lines[WITHOUT_PENALTY]),
        ("λ, taken off", mean_line("λ", penalty)),
        ("majority", lines[MAJORITY]),
    ]
    yield DotsBlock(
        "Mean scores",
        [line.dot(name) for name, line in shown],
        marks=[("ceiling", lines[CEILING].value or 0.0), ("floor", 0.0)],
        figure="mean score of an item",
    )
    valued = [
        (score, score.value) for score in scores if score.trial == 1 and score.unit in gross and score.value is not None
    ]
    points = [(score.item.id, float(score.score.part["most"]), value) for score, value in valued if score.score]
    taken = sum(gross[score.unit] > value for score, value in valued)
    note = f"No item can be above the diagonal, its ceiling; λ lowers {taken} of {len(valued)} items."
    yield ScatterBlock("Scores against their ceilings", "ceiling of the item", "imapScore", points, note)


def scatters(scores: Sequence[Scored]) -> Iterator[Block]:
    """Human scores against the metric, one panel per human dimension."""
    valued = [(score.item.id, score.item.rated.human, score.value) for score in scores if score.trial == 1]
    for dimension in DIMENSIONS:
        points = [
            (item, human[dimension], value) for item, human, value in valued if value is not None and dimension in human
        ]
        if len(points) > 1:
            title = f"Human {dimension} against imapScore"
            yield ScatterBlock(title, f"human {dimension}", "imapScore", points, _correlation(points, dimension))


def _correlation(points: list[tuple[str, float, float]], dimension: str) -> str:
    """Spearman's ρ with its interval, or the reason why it is undefined."""
    table = Table("the run", {"imapScore": [y for _, _, y in points]}, {dimension: [x for _, x, _ in points]})
    try:
        correlation = correlate([table], "imapScore", dimension, coefficients()["spearman"], 1000)
    except InputError as error:
        return str(error)
    if correlation.value is None:
        return f"Spearman's ρ is undefined: {correlation.reason}"
    if correlation.interval is None:
        return f"Spearman's ρ × 100 = {correlation.value:.1f}; fewer than {MIN_ITEMS} items, so no interval"
    low, high = correlation.interval.low, correlation.interval.high
    return f"Spearman's ρ × 100 = {correlation.value:.1f} (95% {low:.1f} to {high:.1f}), n = {correlation.n}"
