"""Questions as items, and the filters of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from medagent.benchmarks.fhiragentbench.sets import questions_of
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.core.errors import UserError
from medagent.fhir_episodes.task import FhirItem
from refsol.fhiragentbench import Question


@dataclass(frozen=True, kw_only=True)
class FhirQuestionItem(FhirItem):
    """A question. Its group is the family of its template; its cluster is the pair of twins."""

    asked: Question
    source: FhirAgentBenchSettings = field(repr=False, compare=False)


def question_items(source: FhirAgentBenchSettings) -> Sequence[FhirQuestionItem]:
    """The items of a source's data set. Raises UserError, InputError."""
    return [item_of(question, source) for question in questions_of(source.dataset)]


def item_of(question: Question, source: FhirAgentBenchSettings) -> FhirQuestionItem:
    """Make an item of a question. The context contains the patient's id, and the assumption if there is one."""
    lines = [f"Patient FHIR ID is {question.patient}.", *([question.assumption] if question.assumption else [])]
    return FhirQuestionItem(
        id=question.id,
        group=question.family,
        cluster=question.twin,
        patient=question.patient,
        pair=question.twin,
        change=question.change,
        question=question.question,
        context="\n".join(lines),
        target=question.judged_answer,
        mrn=question.patient,
        asked=question,
        source=source,
    )


def digest_of(questions: Sequence[Question]) -> str:
    """The SHA-256 of the questions with their true answers and ids. Other columns of the file do not change it."""
    lines = [
        [
            *(
                question.id,
                question.question,
                question.assumption,
                question.patient,
                question.true_answer,
                dict(question.true_ids),
                question.template,
            ),
            *([question.twin, dict(question.removed)] if question.twin else ()),
        ]
        for question in questions
    ]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()


def filtered(settings: FhirAgentBenchSettings, items: Sequence[FhirQuestionItem]) -> list[FhirQuestionItem]:
    """The items that pass the filters of a run. Raises UserError if none does."""
    if settings.split and not any(item.asked.split for item in items):
        raise UserError(
            "--split: the question file does not contain the column split; import the published file (12 columns)"
        )
    matches = list(items)
    filters: list[tuple[str, Sequence[str], Callable[[FhirQuestionItem, str], bool]]] = [
        ("split", settings.split, lambda item, name: item.asked.split == name),
        ("family", settings.family, lambda item, name: item.group == name),
        ("template", settings.template, lambda item, text: text.lower() in item.asked.template.lower()),
    ]
    for flag, names, passes in filters:
        if names:
            matches = [item for item in matches if any(passes(item, name) for name in names)]
        if not matches:
            raise UserError(f"--{flag} {','.join(names)}: no question matches; change or remove this filter")
    return matches
