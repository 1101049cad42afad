"""The stages of a run in which its answers are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from medagent.agents.calls import Call, CallJob
from medagent.agents.choice import AgentChoice, ModelChoice
from medagent.engine.journals import JournalKind
from medagent.engine.plan import JOURNAL, Stage
from medagent.engine.rows import Row
from medagent.judging.judging import Judging
from medagent.judging.panel import Panel
from medagent.judging.rows import JUDGEMENTS, ExchangeRow
from medagent.judging.rubric import P, Subject


def judged_journals(row: type[Row]) -> Mapping[str, JournalKind]:
    """The journals of a benchmark whose answers are rows of this type, and are judged."""
    return {JOURNAL: JournalKind(row), JUDGEMENTS: JournalKind(ExchangeRow, "judge")}


def judging_stages(
    judging: Judging[P],
    panel: Panel[P],
    subjects: Callable[[], Iterable[Subject]],
    concurrency: int,
    batches: Path | None = None,
) -> Sequence[Stage[Call, ExchangeRow]]:
    """Have every answer judged that a panel covers; only what is owed is asked.

    `subjects` is called when a stage begins. The first stage records the panel in the folder. The others ask what
    follows from labels, and ask again what could not be read; a call that failed is left to the next command.
    """
    judges = {judge.name: AgentChoice(ModelChoice.of(judge)).batched(batches) for judge in panel.judges}
    job = CallJob(judges, concurrency, ExchangeRow)

    def first() -> Sequence[Call]:
        if panel.only != []:
            judging.add(panel)
        return judging.owed(panel, subjects())

    def next_() -> Sequence[Call]:
        return judging.owed(panel, subjects(), failed=False)

    rubric = judging.rubric
    return (
        Stage(job, first, journal=JUDGEMENTS, title=f"Calling {', '.join(judges)}"),
        *[Stage(job, next_, journal=JUDGEMENTS)] * (rubric.rounds + rubric.retries - 1),
    )
