"""The blocks of a question on pages and in `medagent show`: true and found ids, true resources, judges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medagent.benchmarks.fhiragentbench._items import FhirQuestionItem
from medagent.benchmarks.fhiragentbench._outputs import output_of
from medagent.benchmarks.fhiragentbench._patients import patients_of
from medagent.core.errors import MedagentError
from medagent.engine.blocks import (
    AnswerBlock,
    Block,
    ConversationBlock,
    FactsBlock,
    SetRow,
    SetsBlock,
    TextBlock,
    VotesBlock,
    ending_blocks,
)
from medagent.engine.scores import Score
from medagent.fhir_data.store import resources_by_id
from medagent.fhir_episodes.benchmark import spoken
from medagent.fhir_episodes.episode import EpisodeRow

LISTED = 200
"""The most extra ids that are shown. A whole chart contains thousands."""
SHOWN = 20
"""The most resources that are shown."""


def question_blocks(item: FhirQuestionItem, row: EpisodeRow, score: Score | None) -> Iterator[Block]:
    """The blocks of a question: answers, retrieval, true resources, judges, messages."""
    question = item.asked
    output = output_of(row, item.source)
    yield TextBlock("Question", f"{item.question}\n\n{item.context}")
    yield from ending_blocks(row)
    text = None if output.answer is None else str(output.answer)
    yield AnswerBlock(text, [question.judged_answer], score.correct if score else None)
    if score is not None:
        recall, precision = score.part["recall"], score.part["precision"]
        facts = [("template", question.template), ("recall", _shown(recall)), ("precision", _shown(precision))]
        yield FactsBlock("Retrieval", facts)
    yield _ids(question.true_ids, output.resources)
    yield from _resources(item)
    if score is not None and (words := score.details.get("words")):
        votes = score.part["votes"]
        yield VotesBlock(
            [(judge, _for(votes[judge]), _labels(replies), _words(replies)) for judge, replies in words.items()]
        )
    yield ConversationBlock(spoken(row))


def _shown(value: float | None) -> str:
    return "not counted" if value is None else f"{value:.4f}"


def _for(vote: int | None) -> bool | None:
    return None if vote is None else bool(vote)


def _labels(verdicts: Sequence[Sequence[str]]) -> str:
    return "; ".join(f"{query}: {label or 'unreadable'}" for query, label, _ in verdicts)


def _words(verdicts: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"{query}: {reply}" for query, _, reply in verdicts)


def _ids(true: Mapping[str, Sequence[str]], output_ids: Mapping[str, Sequence[str]]) -> SetsBlock:
    """True ids and found ids in two columns, by type. For types without true ids, the number of found ids."""
    rows: list[SetRow] = []
    left = 0
    for kind, ids in true.items():
        seen = set(output_ids.get(kind, ()))
        rows += [
            ("found", (kind, resource_id, resource_id)) if resource_id in seen else ("missed", (kind, resource_id, ""))
            for resource_id in ids
        ]
        extra = [resource_id for resource_id in output_ids.get(kind, ()) if resource_id not in set(ids)]
        left += max(0, len(extra) - LISTED)
        rows += [("extra", (kind, "", resource_id)) for resource_id in extra[:LISTED]]
    others = ", ".join(f"{len(ids):,} {kind}" for kind, ids in output_ids.items() if kind not in true and ids)
    notes = [f"{left:,} more found ids that are not true" if left else "", f"not counted: {others}" if others else ""]
    return SetsBlock("True and found ids", ("type", "true", "found"), rows, "; ".join(filter(None, notes)))


def _resources(item: FhirQuestionItem) -> Iterator[Block]:
    """The resources of the true ids, if the patients' file is available."""
    file = patients_of(item.source)
    if file is None or not item.asked.true_ids:
        return
    try:
        resources = resources_by_id(file, item.asked.true_ids)
    except MedagentError:
        return
    texts = [
        json.dumps(_plain(resource), ensure_ascii=False, indent=1) for resource in list(resources.values())[:SHOWN]
    ]
    more = [f"… {len(resources) - SHOWN} more"] if len(resources) > SHOWN else []
    if texts:
        title = f"True resources ({len(resources)})"
        yield TextBlock(title, "\n".join([*texts, *more]), folded=True, verbatim=True)


def _plain(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in resource.items() if name not in ("meta", "text")}
