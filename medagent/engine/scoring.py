"""Scores the units of a run. `scores.jsonl` has each unit's score, so that an expensive grader is not called twice.

The file is a cache, and may be deleted. A line has the checksum of the unit's row in the journal and the digests of the
grader's inputs. A score with another checksum or other digests is stale. New lines are appended; the last line of a
unit counts.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

from medagent.core.errors import MedagentError, UserError
from medagent.core.writing import writing
from medagent.engine.files import note
from medagent.engine.journal import Journal
from medagent.engine.rows import Row
from medagent.engine.scores import Grader, Judgement, Score, Scored, unit_name
from refsol.errors import RefsolError

RowT = TypeVar("RowT", bound=Row)

SCORES = "scores.jsonl"
UNREAD = "unreadable"
"""The state of a unit whose judges have replied, but not all of them with a readable label."""
NO_VERDICT = (UNREAD, "failed", "not_judged")
"""The states of a finished unit without a verdict of its judges."""


@pydantic_dataclass(frozen=True, slots=True)
class ScoreLine:
    """A line of `scores.jsonl`. `row` is the checksum of the unit's row in the journal."""

    unit: str
    row: str
    digests: dict[str, str]
    score: Score


_LINE = TypeAdapter(ScoreLine)


class StoredScores:
    """The scores in a file; none without a path. If `writable`, new scores are appended. Unreadable lines are ignored.

    Raises UserError if the file cannot be written.
    """

    def __init__(self, path: Path | None = None, *, writable: bool = False) -> None:
        self._path = path if writable else None
        self._lines: dict[str, ScoreLine] = {}
        self._is_torn = False
        """Whether the last line is incomplete."""
        if self._path is not None:
            note(self._path)
            with writing(self._path):
                self._path.open("ab").close()
        if path is not None and path.is_file():
            self._read(path)

    def get(self, unit: str, row: str, digests: Mapping[str, str]) -> Score | None:
        """The score of a unit's row; None if there is none, or a stale one."""
        line = self._lines.get(unit)
        return line.score if line and line.row == row and line.digests == digests else None

    def put(self, unit: str, row: str, digests: Mapping[str, str], score: Score) -> None:
        """Append a score if the file is writable. Raises UserError."""
        if self._path is None:
            return
        line = self._lines[unit] = ScoreLine(unit, row, dict(digests), score)
        value: Any = _LINE.dump_python(line)
        text = json.dumps(value, separators=(",", ":"))  # in ASCII, because a model's text may not be valid UTF-8
        with writing(self._path), self._path.open("a", encoding="ascii") as file:
            file.write(f"\n{text}\n" if self._is_torn else f"{text}\n")
        self._is_torn = False

    def _read(self, path: Path) -> None:
        with suppress(OSError), path.open("rb") as file:
            for raw in file:
                self._is_torn = not raw.endswith(b"\n")
                with suppress(ValueError):
                    line = _LINE.validate_json(raw)
                    self._lines[line.unit] = line


class Scoring(Generic[RowT]):
    """The scores of one run. `items` are the benchmark's items by id, `stored` the known scores. `judged` has each
    unit's judgement; None if the run has no judges.
    """

    def __init__(
        self,
        items: Mapping[str, Any],
        grader: Grader[RowT],
        journal: Journal[RowT],
        stored: StoredScores,
        judged: Mapping[str, Judgement] | None = None,
    ) -> None:
        self._items, self._grader, self._journal, self._stored, self._judged = items, grader, journal, stored, judged
        self._places = {item: place for place, item in enumerate(items)}
        self._digests = {**({"rules": grader.rules} if grader.rules else {}), **grader.digests}

    async def of_unit(self, unit: str) -> Scored | None:
        """Score a unit; None if the run has no such item. A unit without a row is owed."""
        name = unit_name(unit, self._items)
        if name is None:
            return None
        item, status = self._items[name.item], self._journal.status(unit)
        score = None
        if not self._journal.is_owed(unit):
            score = await self._score(item, unit)
            if score is None:
                judgement = (self._judged or {}).get(unit)
                status = judgement.state if judgement else "not_judged"
        return Scored(item, name.trial, unit, status or "owed", score)

    async def of_units(self, units: Iterable[str]) -> list[Scored]:
        """Score these units: trial by trial, each trial in the order of the items."""
        scores = [one for unit in units if (one := await self.of_unit(unit)) is not None]
        return sorted(scores, key=lambda one: (one.trial, self._places[one.item.id]))

    def trial(self, unit: str) -> int:
        """The trial of a unit."""
        name = unit_name(unit, self._items)
        return 1 if name is None else name.trial

    async def _score(self, item: Any, unit: str) -> Score | None:
        """The stored score of a finished unit, or a new one. None while its judgement is not complete."""
        digests, judgement = self._digests, None
        if self._judged is not None:
            judgement = self._judged.get(unit)
            if judgement is None or not judgement.complete:
                return None
            digests = {**digests, "judged": judgement.digest}
        checksum = self._journal.checksum(unit)
        score = self._stored.get(unit, checksum, digests)
        if score is None:
            score = await graded(self._grader, item, self._journal.row(unit), judgement)
            if score.graded:  # a grader's failure may be temporary
                self._stored.put(unit, checksum, digests, score)
        return score


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
