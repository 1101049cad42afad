"""Scores the units of a run, once each: by an open grader, or from `scores.jsonl` if nothing has changed."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from medagent.core.errors import MedagentError, UserError
from medagent.engine.journal import Journal
from medagent.engine.rows import Row
from medagent.engine.score_book import ScoreBook
from medagent.engine.scores import Grader, Judgement, Score, Scored, unit_name
from refsol.errors import RefsolError

RowT = TypeVar("RowT", bound=Row)


UNREAD = "unreadable"
"""How a unit stands whose judges replied, and not all of them with a label that can be read."""
NO_VERDICT = (UNREAD, "failed", "not_judged")
"""How a finished unit without a score stands with its judges."""


class Scoring(Generic[RowT]):
    """The scores of one run. `items` are the benchmark's items by id; `judged` has each unit's judgement, and is None
    if nobody judges.
    """

    def __init__(
        self,
        items: Mapping[str, Any],
        grader: Grader[RowT],
        journal: Journal[RowT],
        book: ScoreBook,
        judged: Mapping[str, Judgement] | None = None,
    ) -> None:
        self._items, self._grader, self._journal, self._book, self._judged = items, grader, journal, book, judged
        self._digests = {**({"rules": grader.rules} if grader.rules else {}), **grader.digests}

    def judged_by(self, judged: Mapping[str, Judgement] | None) -> None:
        """Take the judgements that are there now."""
        self._judged = judged

    async def of_row(self, row: RowT) -> Scored | None:
        """A row with its score; None if the run has no such item."""
        name = unit_name(row.unit, self._items)
        if name is None:
            return None
        item = self._items[name.item]
        score = None if self._journal.is_owed(row.unit) else await self._score(item, row)
        return Scored(item, name.trial, row.unit, row.status, score)

    async def of_units(self, units: Iterable[str]) -> list[Scored]:
        """These units with their scores, in their order; a unit without a row is owed."""
        scores = []
        for unit in units:
            name = unit_name(unit, self._items)
            if name is None:
                continue
            item, status = self._items[name.item], self._journal.status(unit)
            if status is None or self._journal.is_owed(unit):
                scores.append(Scored(item, name.trial, unit, status or "owed"))
                continue
            score = self._stored(unit)
            if score is None:
                score = await self._score(item, next(self._journal.rows([unit])))
            scores.append(Scored(item, name.trial, unit, self._state(unit) if score is None else status, score))
        return scores

    def trial(self, unit: str) -> int:
        """The trial of a unit."""
        name = unit_name(unit, self._items)
        return 1 if name is None else name.trial

    def write(self) -> None:
        """Write `scores.jsonl`. Raises UserError."""
        self._book.write()

    def _state(self, unit: str) -> str:
        """How a finished unit without a score stands with its judges."""
        judgement = None if self._judged is None else self._judged.get(unit)
        return judgement.state if judgement else "not_judged"

    def _stored(self, unit: str) -> Score | None:
        digests = self._digests_of(unit)
        return None if digests is None else self._book.get(unit, self._journal.checksum(unit), digests)

    async def _score(self, item: Any, row: RowT) -> Score | None:
        """Grade a finished row; None while its judgement is not complete."""
        digests = self._digests_of(row.unit)
        if digests is None:
            return None
        score = await graded(self._grader, item, row, None if self._judged is None else self._judged[row.unit])
        if score.graded:  # a failure of the grader may pass
            self._book.put(row.unit, self._journal.checksum(row.unit), digests, score)
        return score

    def _digests_of(self, unit: str) -> Mapping[str, str] | None:
        if self._judged is None:
            return self._digests
        judgement = self._judged.get(unit)
        return {**self._digests, "judged": judgement.digest} if judgement and judgement.complete else None


async def graded(grader: Grader[RowT], item: Any, row: RowT, judged: Any = None) -> Score:
    """The score of a finished row. Whatever the grader raises leaves the unit ungraded, with the reason."""
    try:
        score = grader.score(item, row, judged)
        return await score if isawaitable(score) else score
    except UserError:
        raise
    except (MedagentError, RefsolError) as error:
        return Score(reason=str(error), graded=False)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
        return Score(reason=f"the grader raised {type(error).__name__}: {error} ({place})", graded=False)
