"""The rated answers of a data file as items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from medagent.benchmarks.imapscore.settings import ImapscoreSettings
from medagent.core.errors import UserError
from medagent.engine.scores import Item
from refsol.answers import AskedItem, match_answers, read_answers
from refsol.imapscore.graph import Linker
from refsol.imapscore.ontologies import load_graph
from refsol.imapscore.records import RatedAnswer, read_items


@dataclass(frozen=True, kw_only=True)
class ImapItem(Item):
    """A question with the doctor's answer (the label) and a response."""

    rated: RatedAnswer = field(repr=False)
    source: ImapscoreSettings = field(repr=False, compare=False)


def imap_items(source: ImapscoreSettings) -> Sequence[ImapItem]:
    """The items of the source's data. Raises UserError, InputError."""
    settings = source
    return [
        ImapItem(
            id=answer.id,
            question=f"{answer.question}\n\n{answer.response}",
            target=answer.label,
            rated=answer,
            source=settings,
        )
        for answer in rated_answers(source)
    ]


def rated_answers(source: Any) -> list[RatedAnswer]:
    """The items, with the responses from `--answers` if passed. Raises UserError for an item without a response."""
    items = read_items(source.data, encoding=source.encoding, answered=source.answers is None)
    if source.answers is None:
        return items
    questions = [AskedItem(item.id, item.question) for item in items]
    matches = match_answers(read_answers(source.answers), questions)
    texts = {key: answer.text for (key, trial), answer in matches.items() if trial == 1 and (answer.text or "").strip()}
    if missing := [item.id for item in items if item.id not in texts]:
        raise UserError(
            f"{source.answers}: the answer is missing or empty for {len(missing)} items (first: {missing[0]})"
        )
    return [replace(item, response=texts[item.id] or "", human={}, scores={}, raters={}) for item in items]


@lru_cache(maxsize=2)
def linker_of(graph: Path | None) -> Linker | None:
    """The linker for a graph; None without a graph. Raises InputError."""
    return None if graph is None else Linker(load_graph(graph))
