"""The graded units of a run's folder, one after the other. Only a few of them are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from medagent.core.waiting import blocking
from medagent.engine.benchmark import Benchmark
from medagent.engine.content import Content
from medagent.engine.folder import read_run
from medagent.engine.journals import Journals, Run
from medagent.engine.plan import JOURNAL
from medagent.engine.results import check_data
from medagent.engine.rows import Row, RowHead
from medagent.engine.score_book import ScoreBook
from medagent.engine.scores import Grader, Score, Scored, unit_name
from medagent.engine.scoring import Scoring, graded

_AT_ONCE = 500
"""The number of units that are scored together."""


@dataclass(frozen=True, slots=True)
class GradedUnit:
    """A unit with its score. `head` has the members that every row has; None if only the unit's status is known.

    `row` reads the whole row, and `others` grades it by the other rule sets. `content` identifies the row's content.
    """

    scored: Scored
    head: RowHead | None = None
    row: Callable[[], Row | None] = lambda: None
    others: Callable[[Row], Mapping[str, Score]] = lambda _: {}
    content: Content | None = None


class GradedRun:
    """The units of a run's folder; a context manager. `book` has known scores, `options` are those of grading.

    Raises UserError.
    """

    def __init__(
        self, benchmark: Benchmark[Any, Any], folder: Path, options: Mapping[str, Any], book: ScoreBook
    ) -> None:
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._journals = stack.enter_context(Journals.of_folder(folder, benchmark.journals))
            run = Run(folder, self._journals)
            source = benchmark.source(run, options)
            check_data(folder, read_run(folder), benchmark.data(source))
            own = str(options.get("rules") or benchmark.rule_sets[0])
            graders: dict[str, Grader[Any]] = {
                name: stack.enter_context(benchmark.grader(source, name)) for name in (own, *benchmark.rule_sets[1:])
            }
            self._items = {item.id: item for item in benchmark.items(source)}
            self._judged = benchmark.judged(run)
            self._scoring = Scoring(self._items, graders[own], self._journals[JOURNAL], book, self._judged)
            self._others = {name: graders[name] for name in benchmark.rule_sets[1:]}
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def units(self) -> Iterator[GradedUnit]:
        """The units with a row, trial by trial, each trial in the order of the benchmark's items."""
        journal = self._journals[JOURNAL]
        units = iter(_in_order(self._items, journal.units))
        while some := list(islice(units, _AT_ONCE)):
            for scored in blocking(self._scoring.of_units(some)):
                stored = journal.stored(scored.unit)
                others = partial(self._by_other_rules, scored)
                yield GradedUnit(scored, stored.head, stored.read, others, stored.content(spent=True))

    def _by_other_rules(self, scored: Scored, row: Row) -> Mapping[str, Score]:
        if scored.score is None or not self._others:
            return {}
        judged = None if self._judged is None else self._judged.get(scored.unit)

        async def scores() -> dict[str, Score]:
            return {name: await graded(grader, scored.item, row, judged) for name, grader in self._others.items()}

        return blocking(scores())


def _in_order(items: Mapping[str, Any], units: Iterable[str]) -> list[str]:
    places = {item: place for place, item in enumerate(items)}
    named = ((unit, unit_name(unit, items)) for unit in units)
    known = [(name.trial, places[name.item], unit) for unit, name in named if name is not None]
    return [unit for *_, unit in sorted(known)]
