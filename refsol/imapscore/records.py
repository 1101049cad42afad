"""The two JSON lines files: items (texts and human scores) and recordings (their imaps and relations).

Items come in the paper's released format. It is published without a licence, so it is read from the user's path and
never copied. A recording contains no text of an item, only its digest. So imaps can be shared, and never match other
items.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from refsol.errors import InputError
from refsol.files import Encoding, InputFile
from refsol.imapscore.imap import Imap, parse, serialise
from refsol.imapscore.relations import Relation, Relations, ValuePair
from refsol.schema import validator

DIMENSIONS = ("accuracy", "completeness", "specificity")
HIGHEST_SCORE = 5
"""The highest human score; the lowest is 0."""
_PREDICTION = "_prediction"


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """A question, the doctor's answer (the label), a model's answer, and human scores by dimension, if any."""

    id: str
    question: str
    label: str
    response: str
    human: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    """Other metrics' scores of the response, from the file."""
    raters: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Each rater's scores by dimension, if the file contains them."""

    @property
    def digest(self) -> str:
        """The digest of the three texts. The item's recording is identified by it."""
        texts = json.dumps([self.question, self.label, self.response], ensure_ascii=False)
        return hashlib.sha256(texts.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Recording:
    """What was extracted for one item. `failure` is the reason for a missing score; `scores` are other metrics'."""

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


def _written(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


_Written = Annotated[str, AfterValidator(_written)]
_Score = Annotated[FiniteFloat, Field(ge=0, le=HIGHEST_SCORE)]


class _ReleasedRow(BaseModel):
    """A row of the released format. The answer's key includes the model's name, so it is an extra key."""

    model_config = ConfigDict(extra="allow", strict=True)
    id: str | int | None = None
    Question: _Written
    Doctor_Response: _Written
    Average_accuracy_score: _Score | None = None
    Average_completeness_score: _Score | None = None
    Average_specific_scores: _Score | None = None
    Accuracy_scores: list[_Score] = []
    Completeness_scores: list[_Score] = []
    Specific_scores: list[_Score] = []
    scores: dict[str, FiniteFloat] = {}


class _RelationRow(BaseModel):
    model_config = ConfigDict(extra="forbid")
    term: str
    label: str
    response: str
    relation: Relation


class RecordingRow(BaseModel):
    """A recording in its file: imaps in text format, and the relations that do not follow from the texts."""

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
        """The row as one JSON line, without its newline."""
        return self.model_dump_json(exclude_defaults=True)


def read_items(path: Path, *, encoding: Encoding = "utf-8", answered: bool = True) -> list[RatedAnswer]:
    """The items of a file in the released format. An item without an `id` is identified by its line. With
    `answered=False`, responses come from elsewhere and those in the file are ignored.

    Raises InputError that lists each line with: zero or two `…_prediction` keys, an empty text, a score that is not a
    number from 0 to 5, or a duplicate id. Also raises it for a file without items.
    """
    items: dict[str, RatedAnswer] = {}
    with InputFile(path, encoding=encoding, expected="each line must be an item in the released format") as file:
        for line, row in file.json_lines(validator(_ReleasedRow)):
            response = _response(row, file, line) if answered else ""
            id_ = str(line if row.id is None else row.id)
            if id_ in items:
                file.fault(f"two rows have the id {id_}", line=line)
            scores = (row.Average_accuracy_score, row.Average_completeness_score, row.Average_specific_scores)
            human = {name: value for name, value in zip(DIMENSIONS, scores, strict=True) if value is not None}
            ratings = (row.Accuracy_scores, row.Completeness_scores, row.Specific_scores)
            raters = {name: tuple(values) for name, values in zip(DIMENSIONS, ratings, strict=True) if values}
            items[id_] = RatedAnswer(id_, row.Question, row.Doctor_Response, response, human, row.scores, raters)
    if not items:
        raise InputError(f"{path}: contains no items")
    return list(items.values())


def _response(row: _ReleasedRow, file: InputFile, line: int) -> str:
    """The model's answer. If there is none, it is empty, and a fault of the file."""
    extra = row.model_extra or {}
    predictions = [key for key in extra if key.endswith(_PREDICTION)]
    if len(predictions) != 1:
        keys = ", ".join(predictions) if predictions else "none"
        file.fault(f"exactly one key must end in {_PREDICTION}; found: {keys}", line=line)
        return ""
    response = extra[predictions[0]]
    if isinstance(response, str) and response.strip():
        return response
    file.fault("is empty" if isinstance(response, str) else "is not a text", line=line, place=predictions[0])
    return ""


def read_recordings(path: Path) -> list[Recording]:
    """The recordings of a file. Raises InputError that lists each line that is not a recording or repeats an id."""
    recordings: dict[str, Recording] = {}
    with InputFile(path, expected="each line must be an item's recorded imaps") as file:
        for line, row in file.json_lines(validator(RecordingRow)):
            if row.id in recordings:
                file.fault(f"two rows have the id {row.id}", line=line)
            recordings[row.id] = recording_of(row)
    return list(recordings.values())


def recording_of(row: RecordingRow) -> Recording:
    """Convert a row to a recording. Oddities in its texts become warnings."""
    question = parse(row.question)
    terms = question.imap.query_terms
    label, response = parse(row.label, terms), parse(row.response, terms)
    warnings = [
        f"{part}: {warning}"
        for part, parsed in (("question", question), ("label", label), ("response", response))
        for warning in parsed.warnings
    ]
    relations = {
        ValuePair(relation.term, relation.label, relation.response): relation.relation for relation in row.relations
    }
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
    """Convert a recording to a row, which `read_recordings` can read."""
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
