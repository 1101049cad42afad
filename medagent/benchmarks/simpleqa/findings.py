"""The figures of a judged run as the parts of a report, and `results.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from medagent.agents.unusable import count_unusable
from medagent.benchmarks.judge_check import checked_judges
from medagent.benchmarks.simpleqa.folder import RunFiles
from medagent.benchmarks.simpleqa.rubric import side_of
from medagent.engine.files import write_changed
from medagent.engine.report import ItemOutcome, TableLine, TableSection
from medagent.engine.run import Findings
from medagent.judging.panel import Panel
from refsol.simpleqa.export import NAMELESS, TREATMENTS, as_json, rows_as_json
from refsol.simpleqa.metrics import Bounds, Calibration, Tally, share
from refsol.simpleqa.prompts import JudgePrompt
from refsol.simpleqa.score import VOTES, JudgedSet, label_of, outcome_of, score, votes_of, warnings_of
from refsol.simpleqa.score import Section as Figures

FILES = ("results.json", "episodes.jsonl", "judgements.jsonl", "judgings.jsonl", "questions.jsonl", "run.json")
ASIDE = ("unscored", "left_out", "judge_errors", "unanswered", "not_judged")


NAMED = 5


def scored(files: RunFiles, *, write: bool, allow_empty: float) -> Findings:
    """Score a run as it was judged last; with `write`, keep the figures and every row in `results.json`."""
    judged, panels = files.judged()
    sections = score(judged.rows)
    warnings = warnings_of(judged, "robust")
    document = as_json(judged, sections, "robust", warnings)
    if write:
        results = {**document, "rows": rows_as_json(judged, "robust")}
        text = json.dumps(results, ensure_ascii=False, indent=2) + "\n"
        write_changed(files.path / "results.json", text)
    whole = sections[-1]
    outcomes = _outcomes(files, judged)
    unusable = count_unusable(files.moves().items(), allow_empty)
    return Findings(
        table=[*(_section(judged, section) for section in sections), *_votes(judged), *_denominators(whole.total)],
        overall=_line("all", whole.total, whole.bounds, ()),
        items=outcomes,
        notes=[
            *(f"warning: {warning}" for warning in judged.warnings),
            *unusable.notes,
            *_judge_failures(judged),
            *map(_calibration, sections),
            *_judge_prompts(files.path.parent, panels),
        ],
        files=(*FILES, "report.json"),
        ungraded=whole.total.not_judged,
        unusable=unusable.fault,
        measure="score",
        figure="correct",
        count="N",
        details=document,
    )


def _judge_failures(judged: JudgedSet) -> Iterator[str]:
    """Where a judge gave no answer, and where no label could be read in it, by question."""
    for judge in judged.judges:
        replies = [(f"{row.id}/{row.language}", row.judged[judge]) for row in judged.rows if judge in row.judged]
        silent = [name for name, reply in replies if reply is None]
        unread = [name for name, reply in replies if reply is not None and label_of(reply, "robust") is None]
        for words, found in (("gave no answer about", silent), ("gave no label that can be read for", unread)):
            if names := list(dict.fromkeys(found)):
                more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
                yield f"judge {judge} {words} {', '.join(names[:NAMED])}{more}"


def _judge_prompts(results: Path, panels: Iterable[Panel[JudgePrompt]]) -> Iterator[str]:
    """The digests of the prompts that decide, and what checks of their judges say."""
    for panel in panels:
        yield f"judge prompt: {side_of(panel.prompt)}, sha256 {panel.prompt.digest}"
        yield from checked_judges(results, "simpleqa", panel)


def _section(judged: JudgedSet, section: Figures) -> TableSection:
    outside = tuple(name for name in ASIDE if getattr(section.total, name))
    lines = [_line("total", section.total, section.bounds, outside)]
    lines += [
        _line(name or NAMELESS, tally, section.group_bounds[name], outside)
        for name, tally in section.groups.items()
        if tally != Tally()
    ]
    return TableSection(
        lines=tuple(lines),
        title=f"{judged.model} on {judged.dataset}: {section.name}, judged by {', '.join(judged.judges)}",
    )


def _line(name: str, tally: Tally, bounds: Bounds, outside: tuple[str, ...]) -> TableLine:
    more: dict[str, int | float | None] = {
        "incorrect": share(tally.incorrect, tally.count),
        "not attempted": share(tally.not_attempted, tally.count),
        "correct given attempted": share(tally.correct, tally.attempted),
        "F": tally.f_score,
    }
    more |= {one.replace("_", " "): int(getattr(tally, one)) for one in outside}
    return TableLine(
        name=name,
        n=tally.count,
        value=share(tally.correct, tally.count),
        interval=(bounds.correct.low, bounds.correct.high),
        more=more,
    )


def _votes(judged: JudgedSet) -> list[TableSection]:
    """What each judge of a panel said."""
    if len(judged.judges) < 2:
        return []
    votes = votes_of(judged, "robust")
    lines = tuple(
        TableLine(
            name=judge,
            n=sum(votes[judge].values()),
            counts={vote.replace("_", " "): votes[judge][vote] for vote in VOTES},
        )
        for judge in judged.judges
    )
    return [TableSection(lines=lines, title="Each judge", name="votes of")]


def _denominators(tally: Tally) -> list[TableSection]:
    """Rows that no label was read from, counted in three ways; nothing where there is none."""
    if not tally.unscored:
        return []
    lines = []
    for treatment in TREATMENTS:
        treated = tally.treated(treatment)
        figures: dict[str, int | float | None] = {
            "correct given attempted": treated.correct_given_attempted,
            "F": treated.f_score,
        }
        value = share(treated.correct, treated.count)
        lines.append(TableLine(name=treatment, n=treated.count, value=value, more=figures))
    title = f"{tally.unscored} unscored rows, counted in three ways"
    return [TableSection(lines=tuple(lines), title=title, name="unscored")]


def _calibration(section: Figures) -> str:
    found: Calibration = section.calibration
    if found.brier is None or found.ece is None:
        return f"{section.name}: no calibration: {found.left_out} attempted rows, none of them with a confidence"
    return (
        f"{section.name}: calibration: Brier {found.brier:.4f}, expected calibration error {found.ece:.4f}"
        f" ({found.left_out} attempted rows without a confidence left out)"
    )


def _outcomes(files: RunFiles, judged: JudgedSet) -> list[ItemOutcome]:
    """Every question in every language; `correct` is None where the judges decided nothing."""
    outcomes = []
    for question, row in zip(files.questions(), judged.rows, strict=True):
        outcome = outcome_of(row, "robust")
        decided = outcome in ("correct", "incorrect", "not_attempted")
        outcomes.append(
            ItemOutcome(
                item=question.unit.removesuffix(f"#{question.trial}") if question.trial > 1 else question.unit,
                trial=question.trial,
                group=question.group,
                status="completed" if row.prediction is not None else "unanswered",
                correct=outcome == "correct" if decided else None,
                reason=outcome.replace("_", " "),
            )
        )
    return outcomes
