"""The benchmark: an item is a question, its answer a JSON list of values as the record has them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import medagent
from medagent import fhir
from medagent.engine import DataRef, Metrics, Scored, TableLine, TableSection
from medagent_fhirpath_qa.published import Evaluated, evaluated, same_values

FUNCTIONS = Path(__file__).with_name("functions.json")
QUESTIONS = "questions.jsonl"
ID_LENGTH = 16
"""The published ids are digests of 64 characters."""
FIELDS = ("id", "patient_id", "question", "query", "answer", "now", "perspective", "question_template_id")
ALWAYS_FALSE = (
    "has-emergency-room-visit",
    "has-micro-test-any",
    "has-micro-test-specific",
    "has-organism-found",
)
"""The templates whose published answer is false for every patient, so that nobody needs a chart for them."""
RULES = (
    "Answer with a list of values as the record has them: true or false, a number for a count, a time with its zone. "
    "If several values answer the question, list all. The list is empty if the record does not have the answer."
)


class FhirpathQaSettings(medagent.FhirSettings):
    """The options of `medagent run fhirpath-qa`."""

    max_rounds: Annotated[int, medagent.Option("Who answers", kind="value", for_=("run", "episode"))] = 30
    """The most messages that an agent may send."""
    perspective: Annotated[str | None, medagent.Option("Which items", kind="value", metavar="NAME")] = None
    """Only questions in these words: clinical or patient."""


@dataclass(frozen=True, kw_only=True)
class Question(medagent.FhirItem):
    """A question."""

    values: tuple[Any, ...]
    perspective: str

    @property
    def always_false(self) -> bool:
        """Whether the answer is false for every patient."""
        return self.group in ALWAYS_FALSE


class FhirpathQa(medagent.FhirBenchmark[FhirpathQaSettings]):
    """Questions about a patient of the MIMIC-IV demo, in a clinician's or the patient's words, with exact answers."""

    name = "fhirpath-qa"
    Settings = FhirpathQaSettings
    imports = "the questions of FHIRPath-QA (questions.jsonl, or a checkout of mooshifrew/fhirpath-qa)"
    example = "medagent run fhirpath-qa --ehr mimic.sqlite --agent reference"
    agents = ("text", "reference")
    tool_agents = ("reference",)
    kinds: ClassVar[Mapping[str, str]] = {"no-list": "no answer, or not a list", "values": "other values"}

    def items(self, source: Any) -> Sequence[Question]:
        questions = [_item(question) for question in _imported()]
        return [question for question in questions if source.perspective in (None, question.perspective)]

    def data(self, source: Any) -> DataRef:
        digest = hashlib.sha256(_file(QUESTIONS).read_bytes()).hexdigest() if _file(QUESTIONS).exists() else ""
        return DataRef(name="FHIRPath-QA", version=source.perspective or "", digest=digest)

    def grader(self, source: Any, rules: str) -> medagent.Grader[medagent.EpisodeRow]:
        return QuestionGrader()

    def now(self, source: Any) -> datetime:
        return datetime(2220, 1, 1, tzinfo=UTC)

    def patients(self, source: Any, say: medagent.Say) -> fhir.EhrFile:
        if source.ehr is None:
            raise medagent.UserError(
                "the patients are not bundled: import the MIMIC-IV demo on FHIR once (medagent ehr import "
                "mimic-demo/*[!D].ndjson.gz --data mimic.sqlite), then pass --ehr mimic.sqlite"
            )
        return fhir.imported_file(source.ehr, say)

    def protocol(self, source: Any, kind: str) -> fhir.Protocol:
        return fhir.load_protocol(kind, functions=FUNCTIONS)

    def left_out(
        self, settings: FhirpathQaSettings, items: Sequence[Any], ehr: Any, say: medagent.Say
    ) -> Sequence[str]:
        """See `FhirBenchmark.left_out`. The patients of an external server cannot be checked."""
        if ehr.file is None:
            return ()
        results = checked(self.patients(settings, say), say)
        return [item.id for item in items if results[item.id].reason]

    def scripted(self, settings: FhirpathQaSettings, items: Sequence[Any]) -> fhir.Scripted | None:
        if settings.agent != "reference":
            return None
        return Reference("reference", self.patients(settings, _say_nothing))

    def import_data(self, path: Path) -> str | None:
        """See `Benchmark.import_data`. `path` is the file, or a folder that contains it."""
        files = [path] if path.is_file() else sorted(path.rglob("*.jsonl"))
        questions = {
            question["id"]: question for file in files if file.suffix == ".jsonl" for question in _questions(file)
        }
        if not questions:
            return None
        _file(QUESTIONS).parent.mkdir(parents=True, exist_ok=True)
        _write(QUESTIONS, "".join(f"{json.dumps(question)}\n" for question in questions.values()))
        lines = [f"{len(questions):,} questions of FHIRPath-QA imported. Run them: {self.example}"]
        databases = sorted(path.glob("*.sqlite")) if path.is_dir() else []
        for file in databases[:1]:
            checked(fhir.imported_file(file), lines.append)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Reference(fhir.Scripted):
    """Answers what the published expressions give."""

    patients: fhir.EhrFile

    def agent(self, base: str) -> medagent.Agent:
        return ReferenceAgent(checked(self.patients, _say_nothing))


class ReferenceAgent(medagent.Agent):
    """Sends the values of a question's expression."""

    def __init__(self, results: Mapping[str, Evaluated]) -> None:
        super().__init__()
        self._results = results

    def play(self, task: Any, prompt: str) -> Iterator[str]:
        yield f"FINISH({json.dumps(self._results[task.id].values)})"


class QuestionGrader(medagent.Grader[medagent.EpisodeRow]):
    """An item is right if the answer has exactly the published values."""

    def score(self, item: Any, row: medagent.EpisodeRow, judged: object = None) -> medagent.Score:
        answer = _json(row.answer)
        right = same_values(answer, item.values)
        check = medagent.Check("answer", right, item.target, row.answer or "")
        kind = "values" if isinstance(answer, list) else "no-list"
        reason = "" if right else f"expected {item.target}"
        return medagent.Score(correct=right, kind="" if right else kind, reason=reason, checks=(check,))

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        """The rate without the questions whose answer is always false, and the rates by perspective."""
        counted = [scored for scored in scores if not scored.item.always_false]
        by_perspective = [_grouped(scored, scored.item.perspective) for scored in counted]
        always_false = [_grouped(scored, "answer always false") for scored in scores if scored.item.always_false]
        metrics = super().metrics(counted)
        sections = [
            TableSection(title="By perspective", lines=self._lines(by_perspective)),
            TableSection(title="Not in the score", lines=self._lines(always_false)),
        ]
        return replace(metrics, table=[*metrics.table, *(section for section in sections if section.lines)])

    def _lines(self, scores: Sequence[Scored]) -> tuple[TableLine, ...]:
        """The rate of each group."""
        groups = sorted({scored.item.group for scored in scores})
        rates = {name: super(QuestionGrader, self).metrics(_members(scores, name)).overall for name in groups}
        return tuple(line.model_copy(update={"name": name}) for name, line in rates.items() if line is not None)


def _members(scores: Sequence[Scored], group: str) -> Sequence[Scored]:
    return [scored for scored in scores if scored.item.group == group]


def _grouped(scored: Scored, group: str) -> Scored:
    return replace(scored, item=replace(scored.item, group=group))


def checked(file: fhir.EhrFile, say: medagent.Say) -> Mapping[str, Evaluated]:
    """What each question's expression gives over these patients; prints why some do not count. The result is stored,
    since it takes minutes.
    """
    questions = _imported()
    digest = hashlib.sha256(f"{file.digest} {_file(QUESTIONS).read_bytes().hex()}".encode()).hexdigest()
    stored = f"checked-{digest[:16]}.json"
    if not _file(stored).exists():
        say(f"checking {len(questions):,} published expressions (once; some minutes)")
        _write(stored, json.dumps(evaluated(questions, file.path)))
    results = {name: Evaluated(*result) for name, result in json.loads(_file(stored).read_bytes()).items()}
    counts = Counter(result.reason.partition(":")[0] for result in results.values() if result.reason)
    for reason, count in counts.most_common():
        say(f"left out: {count:,} of {len(results):,} questions: {reason}")
    return results


def _say_nothing(message: str) -> None:
    """Print nothing: the run has said it already."""


def _questions(file: Path) -> Iterator[dict[str, Any]]:
    """The questions in a file; none if the file has other lines."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            question = _json(line)
            if not isinstance(question, dict) or not set(FIELDS) <= question.keys():
                return
            yield {**{name: question[name] for name in FIELDS}, "id": str(question["id"])[:ID_LENGTH]}


def _file(name: str) -> Path:
    return fhir.data_dir() / "fhirpath-qa" / name


def _write(name: str, text: str) -> None:
    aside = _file(f".{name}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(_file(name))


def _json(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except ValueError:
        return None


def _imported() -> Sequence[dict[str, Any]]:
    try:
        state = _file(QUESTIONS).stat()
    except OSError:
        raise medagent.UserError(
            "the questions are not bundled: get a checkout of mooshifrew/fhirpath-qa, then run medagent data import "
            "FOLDER"
        ) from None
    return _read(_file(QUESTIONS), state.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(file: Path, changed: int) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _item(question: Mapping[str, Any]) -> Question:
    patient = question["patient_id"]
    return Question(
        id=question["id"],
        group=question["question_template_id"],
        patient=patient,
        question=question["question"],
        context=f"The question is about the patient with the identifier {patient}. It is {question['now']}. {RULES}",
        target=question["answer"],
        values=tuple(json.loads(question["answer"])),
        perspective=question["perspective"],
    )
