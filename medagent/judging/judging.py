"""The judgements in a run's folder: which panels judged with which prompt, what is owed, and the labels of each unit.

`judgings.jsonl` contains one panel per line, the latest last. `judgements.jsonl` is a journal of the run engine. Its
units are digests of the judge and the messages sent to it. So after a gold answer or the prompt changes, exactly the
affected answers are judged again. Nothing depends on a row's position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from medagent.agents.calls import Call
from medagent.core.errors import UserError
from medagent.core.writing import write_changed
from medagent.engine.plan import Stage
from medagent.judging.calls import PanelCalls, Replies, call_job
from medagent.judging.judged import Judged
from medagent.judging.panel import Panel, panel_lines
from medagent.judging.rows import JUDGEMENTS, ExchangeRow, replies_in, stored_lines
from medagent.judging.rubric import P, Rubric, Subject

PANELS = "judgings.jsonl"


@dataclass(frozen=True, slots=True)
class Decision(Generic[P]):
    """A panel's judgement of one answer."""

    subject: Subject
    panel: Panel[P]
    judged: Judged

    @property
    def rank(self) -> tuple[bool, bool]:
        """How complete it is, to choose between panels that owe something."""
        return self.judged.complete, any(reply is not None for reply in self.judged.replies.values())


class Judging(Generic[P]):
    """The panels and judgements of a folder. A missing file is empty. Raises UserError for a damaged line."""

    def __init__(self, folder: Path, rubric: Rubric[P]) -> None:
        self.folder = folder
        self.rubric = rubric
        self._path = folder / PANELS

    def panels(self) -> list[Panel[P]]:
        """All panels, the latest last."""
        return stored_lines(self._path, panel_lines(self.rubric))

    def judges(self) -> list[str]:
        """The names of all judges of all panels."""
        return sorted({name for panel in self.panels() for name in panel.names})

    def add(self, panel: Panel[P]) -> None:
        """Make a panel the latest one, unless it already is."""
        panels = self.panels()
        if panels[-1:] != [panel.anonymous()]:
            self._write([*panels, panel.anonymous()])

    def drop(self, judge: str) -> None:
        """Remove every panel with this judge; earlier panels decide again. Its calls stay in the journal.

        Raises UserError if the judge is in no panel, or if no panel would remain.
        """
        panels = self.panels()
        left = [panel for panel in panels if judge not in panel.names]
        if len(left) == len(panels):
            raise UserError(
                f"{self.folder}: unknown judge {judge}; the judges are {', '.join(self.judges()) or 'none'}"
            )
        if not left:
            raise UserError(
                f"{self.folder}: every panel contains {judge}; judge again with another judge before you drop it"
            )
        self._write(left)

    def stages(
        self, panel: Panel[P], subjects: Callable[[], Iterable[Subject]], concurrency: int, batches: Path | None = None
    ) -> Sequence[Stage[Call, ExchangeRow]]:
        """The stages in which the panel judges every answer that it covers. Only owed calls are made.

        `subjects` is called when a stage starts. The first stage records the panel. The other stages make the queries
        that follow from labels and repeat unreadable ones. A failed call is left to the next command.
        """
        job = call_job(panel, concurrency, batches)

        def first() -> Sequence[Call]:
            if panel.only != []:
                self.add(panel)
            return list(PanelCalls(self.rubric, panel, self._replies()).owed(subjects()))

        def following() -> Sequence[Call]:
            return list(PanelCalls(self.rubric, panel, self._replies()).owed(subjects(), failed=False))

        return (
            Stage(job, first, journal=JUDGEMENTS, title=f"Calling {', '.join(panel.names)}"),
            *[Stage(job, following, journal=JUDGEMENTS)] * (self.rubric.rounds + self.rubric.retries - 1),
        )

    def decisions(self, subjects: Iterable[Subject], judge: str | None = None, rule: str = "") -> Iterator[Decision[P]]:
        """The deciding judgement of each answer. With `judge`, only that judge's; with `rule`, read by that rule
        instead of the panel's. Units that no panel covers are left out.

        Of several panels, the latest whose judges all replied about the unit decides. If there is none, it is the most
        complete one: its labels already decide, or it got at least a reply.
        """
        replies = self._replies()
        panels = [panel for panel in reversed(self.panels()) if judge is None or judge in panel.names]
        if rule:
            panels = [replace(panel, rule=rule) for panel in panels]
        calls = [PanelCalls(self.rubric, panel, replies, judge) for panel in panels]
        for subject in subjects:
            best: Decision[P] | None = None
            for call in calls:
                if call.panel.covers(subject.unit):
                    decision = Decision(subject, call.panel, call.judged(subject))
                    if decision.judged.state not in ("owed", "failed"):
                        best = decision
                        break
                    best = decision if best is None or decision.rank > best.rank else best
            if best is not None:
                yield best

    def _replies(self) -> Replies:
        return Replies((row.unit, row.reply) for row in replies_in(self.folder / JUDGEMENTS))

    def _write(self, panels: Sequence[Panel[P]]) -> None:
        kind = panel_lines(self.rubric)
        write_changed(self._path, "".join(kind.dump_json(panel).decode() + "\n" for panel in panels))
