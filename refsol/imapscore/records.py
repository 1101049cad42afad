"""The two files: items (texts and human scores) and recordings (their imaps and relations), JSON lines both.

Items come in the paper's released form, which has no licence, so it is read from the user's path and never copied. A
recording therefore holds no text of an item, only its digest: imaps can be shared, and cannot meet other items unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from refsol.errors import InputError
from refsol.imapscore.imap import Imap, parse, serialise
from refsol.imapscore.relations import Relation, Relations, ValuePair

DIMENSIONS = ("accuracy", "completeness", "specificity")
_PREDICTION = "_prediction"
_Row = TypeVar("_Row", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Item:
    """A question, the doctor's answer (the label), a model's answer, and human scores by dimension (or none)."""

    id: str
    question: str
    label: str
    response: str
    human: Mapping[str, float] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """What the item's recording knows it by: of the three texts."""
        texts = json.dumps([self.question, self.label, self.response], ensure_ascii=False)
        return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Recording:
    """What was extracted for one item. `failure` says why there is nothing to score; `scores` are other metrics'."""

    id: str
    digest: str
    question: Imap
    label: Imap
    response: Imap
    relations: Relations = field(default_factory=dict)
    failure: Literal["no_agreement", "extraction_failed"] | None = None
    reason: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class _ReleasedRow(BaseModel):
    """A row of the released form; the answer's key names the model, so it is among the extra ones."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str | int | None = None
    Question: str
    Doctor_Response: str
    Average_accuracy_score: FiniteFloat | None = None
    Average_completeness_score: FiniteFloat | None = None
    Average_specific_scores: FiniteFloat | None = None


class _RelationRow(BaseModel):
    model_config = ConfigDict(extra="forbid")
    term: str
    label: str
    response: str
    relation: Relation


class RecordingRow(BaseModel):
    """A recording as it is written: imaps in text form, and the relations that are not plain from the texts."""

    model_config = ConfigDict(extra="forbid")
    id: str
    digest: str
    question: str
    label: str = ""
    response: str = ""
    relations: list[_RelationRow] = []
    failure: Literal["no_agreement", "extraction_failed"] | None = None
    reason: str = ""
    scores: dict[str, FiniteFloat] = {}
    warnings: list[str] = []

    def line(self) -> str:
        """One JSON line, without its newline."""
        return self.model_dump_json(exclude_defaults=True)


def read_items(path: Path) -> list[Item]:
    """The items of a file in the released form; an item without an `id` is known by its line.

    Raises InputError, naming the line, for a row without a `…_prediction` key or with two, a score that is no number,
    and an id that two rows share.
    """
    items = [_item(path, number, row) for number, row in _rows(path, _ReleasedRow, "an item in the released form")]
    _check_ids(path, [item.id for item in items])
    return items


def _item(path: Path, number: int, row: _ReleasedRow) -> Item:
    extra = row.model_extra or {}
    predictions = [key for key in extra if key.endswith(_PREDICTION)]
    if len(predictions) != 1:
        found = ", ".join(predictions) if predictions else "none"
        raise InputError(f"{path}:{number}: one key that ends in {_PREDICTION} is needed, found: {found}")
    response = extra[predictions[0]]
    if not isinstance(response, str):
        raise InputError(f"{path}:{number}: {predictions[0]} is no text")
    scores = (row.Average_accuracy_score, row.Average_completeness_score, row.Average_specific_scores)
    human = {name: value for name, value in zip(DIMENSIONS, scores, strict=True) if value is not None}
    id_ = str(number if row.id is None else row.id)
    return Item(id_, row.Question, row.Doctor_Response, response, human)


def read_recordings(path: Path) -> list[Recording]:
    """The recordings of a file. Raises InputError, naming the line, for a row that is no recording, or an id twice."""
    recordings = [_recording(row) for _, row in _rows(path, RecordingRow, "an item's recorded imaps")]
    _check_ids(path, [recording.id for recording in recordings])
    return recordings


def _recording(row: RecordingRow) -> Recording:
    question = parse(row.question)
    terms = question.imap.query_terms
    label, response = parse(row.label, terms), parse(row.response, terms)
    warnings = [
        f"{part}: {warning}"
        for part, parsed in (("question", question), ("label", label), ("response", response))
        for warning in parsed.warnings
    ]
    relations = {ValuePair(one.term, one.label, one.response): one.relation for one in row.relations}
    return Recording(
        row.id,
        row.digest,
        question.imap,
        label.imap,
        response.imap,
        relations,
        row.failure,
        row.reason,
        row.scores,
        tuple(row.warnings + warnings),
    )


def recording_row(recording: Recording) -> RecordingRow:
    """The recording as it is written; `read_recordings` reads its lines."""
    terms = recording.question.query_terms
    return RecordingRow(
        id=recording.id,
        digest=recording.digest,
        question=serialise(recording.question),
        label=serialise(recording.label, terms),
        response=serialise(recording.response, terms),
        relations=[
            _RelationRow(term=pair.term, label=pair.label, response=pair.response, relation=relation)
            for pair, relation in recording.relations.items()
            if relation.matches and not pair.same_text
        ],
        failure=recording.failure,
        reason=recording.reason,
        scores=dict(recording.scores),
        warnings=list(recording.warnings),
    )


def _check_ids(path: Path, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for id_ in ids:
        if id_ in seen:
            raise InputError(f"{path}: two rows have the id {id_}")
        seen.add(id_)


def _rows(path: Path, model: type[_Row], what: str) -> Iterator[tuple[int, _Row]]:
    """The file's lines with their numbers, blank ones skipped; `what` a line is, for messages."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: cannot be read: not UTF-8 at byte {error.start + 1}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, model.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, first["loc"]))
                fault = f"{place + ': ' if place else ''}{first['msg']}"
                raise InputError(f"{path}:{number}: {fault}; each line must be {what}") from error
