"""Scores the units of a run, once each: with an open grader, or from `scores.jsonl` if nothing has changed."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from hashlib import sha256
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from medagent.core.errors import MedagentError, UserError
from medagent.engine.journal import Journal
from medagent.engine.rows import Row
from medagent.engine.score_book import ScoreBook
from medagent.engine.scores import Grader, Judgement, Score, Scored, unit_name
from refsol.errors import RefsolError

RowT = TypeVar("RowT", bound=Row)


_JUDGED = "judged"
"""The name of the judgement's digest."""
_SCORE = TypeAdapter(Score)
UNREAD = "unreadable"
"""The state of a unit whose judges have replied, but not all of them with a readable label."""
NO_VERDICT = (UNREAD, "failed", "not_judged")
"""The states of a finished unit without a verdict of its judges."""


class Scoring(Generic[RowT]):
    """The scores of one run. `items` are the benchmark's items by id. `judged` has each unit's judgement; None if the
    run has no judges. Without a `book`, scores are neither read nor stored.
    """

    def __init__(
        self,
        items: Mapping[str, Any],
        grader: Grader[RowT],
        journal: Journal[RowT],
        book: ScoreBook | None,
        judged: Mapping[str, Judgement] | None = None,
    ) -> None:
        self._items, self._grader, self._journal, self._book, self._judged = items, grader, journal, book, judged
        self._by_content: dict[tuple[str, bytes, str], Score] = {}
        """Scores by item, `Journal.content` and judgement."""
        self._scores: dict[tuple[str, bytes], Score] = {}
        self._digests = {**({"rules": grader.rules} if grader.rules else {}), **grader.digests}

    def judged_by(self, judged: Mapping[str, Judgement] | None) -> None:
        """Set the current judgements."""
        self._judged = judged

    async def of_row(self, row: RowT) -> Scored | None:
        """Score a row; None if the run has no such item."""
        name = unit_name(row.unit, self._items)
        if name is None:
            return None
        item = self._items[name.item]
        score = None if self._journal.is_owed(row.unit) else await self._score_row(item, row)
        return Scored(item, name.trial, row.unit, row.status, score)

    async def of_units(self, units: Iterable[str]) -> list[Scored]:
        """Score these units, in their order. A unit without a row is owed."""
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
                score = await self._score_unit(item, unit)
            scores.append(Scored(item, name.trial, unit, self._state(unit) if score is None else status, score))
        return scores

    def trial(self, unit: str) -> int:
        """The trial of a unit."""
        name = unit_name(unit, self._items)
        return 1 if name is None else name.trial

    def write(self) -> None:
        """Write `scores.jsonl`. Raises UserError."""
        if self._book is not None:
            self._book.write()

    def _state(self, unit: str) -> str:
        """The state of a finished unit without a score: the problem with its judges."""
        judgement = None if self._judged is None else self._judged.get(unit)
        return judgement.state if judgement else "not_judged"

    def _stored(self, unit: str) -> Score | None:
        digests = self._digests_of(unit)
        if digests is None or self._book is None:
            return None
        return self._book.get(unit, self._journal.checksum(unit), digests)

    async def _score_unit(self, item: Any, unit: str) -> Score | None:
        """Grade a finished unit, or take the score of an equal row. None while its judgement is not complete."""
        digests = self._digests_of(unit)
        if digests is None:
            return None
        stored = self._journal.stored(unit)
        content = stored.content() if self._grader.by_content else None
        key = None if content is None else (item.id, content.digest, digests.get(_JUDGED, ""))
        score = self._by_content.get(key) if key else None
        if score is None:
            score = self._shared(item, await self._graded(item, stored.read()))
            if key and score.graded:
                self._by_content[key] = score
        self._put(unit, digests, score)
        return score

    async def _score_row(self, item: Any, row: RowT) -> Score | None:
        """Grade a finished row; None while its judgement is not complete."""
        digests = self._digests_of(row.unit)
        if digests is None:
            return None
        score = await self._graded(item, row)
        self._put(row.unit, digests, score)
        return score

    async def _graded(self, item: Any, row: RowT) -> Score:
        return await graded(self._grader, item, row, None if self._judged is None else self._judged[row.unit])

    def _put(self, unit: str, digests: Mapping[str, str], score: Score) -> None:
        if self._book is not None and score.graded:  # a grader's failure may be temporary
            self._book.put(unit, self._journal.checksum(unit), digests, score)

    def _shared(self, item: Any, score: Score) -> Score:
        """The equal score of the item if there is one, so that equal scores are in memory only once."""
        try:
            text = _SCORE.dump_json(score)
        except ValueError:  # a value without a JSON form
            return score
        return self._scores.setdefault((item.id, sha256(text).digest()), score)

    def _digests_of(self, unit: str) -> Mapping[str, str] | None:
        if self._judged is None:
            return self._digests
        judgement = self._judged.get(unit)
        return {**self._digests, _JUDGED: judgement.digest} if judgement and judgement.complete else None


async def graded(grader: Grader[RowT], item: Any, row: RowT, judged: Any = None) -> Score:
    """The score of a finished row. If the grader raises, the unit is ungraded, with the error as the reason."""
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
