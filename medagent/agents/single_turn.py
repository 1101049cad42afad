"""Options of benchmarks of single questions besides a run's options: the source of answers, and text before questions.

Answers come from a model, a user class, another tool's file (`--answers`), or a baseline (`--agent gold`, `majority`,
`empty`), which shows the ceiling or the floor. Texts and files that decide the answers are recorded by their digests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from medagent.agents.base import Move
from medagent.agents.choice import AgentChoice, KnownAnswers, check_arguments
from medagent.agents.unusable import MOST
from medagent.core.errors import UserError
from medagent.core.options import Option, RunOption, Setting
from medagent.core.writing import file_digest
from medagent.engine.settings import LIMITS, WHO, RunSettings
from medagent.models.settings import ModelSettings
from refsol.answers import AskedItem, majority, match_answers, read_answers
from refsol.files import InputFile, json_object

BASELINES = ("majority", "gold", "empty")
"""Agents that answer the most frequent right answer of the item's task, the right answer, or nothing."""
BATCHED = 10_000
"""The number of requests that may wait for their batches at once."""
_ASKED, _ANSWERED = ("question", "input", "problem"), ("answer", "target")


class AnswerSettings(RunSettings):
    """The options of benchmarks that grade answers."""

    ways: ClassVar[Mapping[str, str]] = {"asks_model": "a model: a custom agent builds its own messages"}
    allow_empty: Annotated[
        float, Option(LIMITS, "place", metavar="SHARE", kind="value", for_=("run", "source")), Field(ge=0, le=1)
    ] = MOST
    """Maximum share of answers that are empty, cut off or only thinking; above it the exit code is 2."""
    answers: Annotated[Path | None, RunOption(WHO, "place", kind="path", without="model agent few_shot system")] = None
    """Grade existing answers: a run's folder, JSON lines (id, answer), OpenCompass predictions, lm-evaluation-harness
    samples, an Inspect log, a HELM run.
    """
    system: Annotated[str | None, RunOption(WHO, "place", metavar="TEXT|FILE", kind="path", needs="asks_model")] = None
    """A system message before every question."""

    @property
    def asks_model(self) -> bool:
        """Whether a model, or a baseline, gets the questions, and not a custom agent."""
        return self.agent is None or self.agent in BASELINES

    @property
    def allowed(self) -> float:
        """The allowed share of unusable answers; 1 for the baseline that answers nothing."""
        return 1.0 if self.agent == "empty" else self.allow_empty

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`. Texts and files are represented by their digests."""
        return {
            **super().decides(),
            "answers-digest": _path_digest(self.answers) if self.answers else None,
            "system-digest": digest(self.system_text) if self.system is not None else None,
        }

    @property
    def system_text(self) -> str:
        """The system message. Raises UserError if its file cannot be read."""
        return text_or_file(self.system or "", "--system")


class SingleTurnSettings(AnswerSettings):
    """The options of benchmarks in which an item is one question."""

    agents: ClassVar[tuple[str, ...]] = BASELINES
    few_shot: Annotated[str | None, RunOption(WHO, "place", metavar="FILE|N", kind="path", needs="asks_model")] = None
    """Solved examples before every question: JSON lines (question, answer), or the first N items of the data (of each
    task), which are then not asked.
    """

    batch: Annotated[bool, RunOption(LIMITS, "effort", kind="value", without="workers cluster")] = False
    """Use the provider's batch API (OpenAI's, Anthropic's): half the price, answers within a day. The same command
    finds its batches again.
    """

    cache: Annotated[Path | None, RunOption(WHO, metavar="DIR", kind="path")] = None
    """Reuse a model's reply to the same request from this folder, and store new replies there. Runs may share it."""

    @model_validator(mode="before")
    @classmethod
    def _together(cls, options: Any) -> Any:
        """Requests of a batch wait for their replies at the same time."""
        return {"concurrency": BATCHED, **options} if isinstance(options, dict) and options.get("batch") else options

    @property
    def chat(self) -> ModelSettings | None:
        chat = super().chat
        return chat and chat.model_copy(update={"cache": self.cache})

    def batches(self, folder: Path) -> Path | None:
        """The file of a run's batches; None if it uses none."""
        return folder / "batches.jsonl" if self.batch else None

    def decides(self) -> dict[str, Setting]:
        examples = _examples_digest(self.few_shot) if self.few_shot is not None else None
        return {**super().decides(), "few-shot-digest": examples}


def text_or_file(value: str, option: str) -> str:
    """A text from the command line, or the content of the file that it names. Raises UserError."""
    try:
        if "\n" in value or len(value) > 255 or not Path(value).is_file():
            return value
        return Path(value).read_text(encoding="utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{option} {value}: cannot be read: {error}") from None


def who_answers(
    settings: SingleTurnSettings, items: Sequence[AskedItem], beside: Sequence[ModelSettings] = ()
) -> AgentChoice:
    """The source of answers to these items: a file, a baseline, a model or a class. Raises UserError, InputError."""
    if settings.answers is not None or settings.agent in BASELINES:
        check_arguments("agent", None, settings.agent_arg)
    if settings.answers is not None:
        return AgentChoice(known=_recorded(settings.answers, items))
    if settings.agent in BASELINES:
        return AgentChoice(known=_baseline(settings.agent, items, settings.trials))
    return AgentChoice.of(settings, bundled=BASELINES, beside=beside, system=settings.system_text)


def _recorded(path: Path, items: Sequence[AskedItem]) -> KnownAnswers:
    answers = read_answers(path)
    matched = match_answers(answers, items)
    moves = {
        key if trial == 1 else f"{key}#{trial}": Move(
            answer.text, answer.reasoning, finish_reason=answer.finish_reason, recorded=answer.verdict
        )
        for (key, trial), answer in matched.items()
        if answer.text is not None
    }
    return KnownAnswers(answers.model, str(path), moves)


def _baseline(name: str, items: Sequence[AskedItem], trials: int) -> KnownAnswers:
    without = [item.key for item in items if item.gold is None] if name != "empty" else []
    if without:
        raise UserError(
            f"--agent {name}: the data lacks the right answer to {len(without)} items (first: {without[0]})"
        )
    common = majority(items) if name == "majority" else {}
    moves: dict[str, Move] = {}
    known: dict[str, Move] = {}  # many items share an answer
    for item in items:
        text = {"gold": item.gold or "", "empty": "", "majority": common.get(item.group, "")}[name]
        move = known.setdefault(text, Move(text))
        for trial in range(1, trials + 1):
            moves[item.key if trial == 1 else f"{item.key}#{trial}"] = move
    return KnownAnswers(name, f"--agent {name}", moves)


@dataclass(frozen=True, slots=True)
class Examples:
    """Solved examples by group (`""`: all groups), each a question and its answer, and the items they came from."""

    by_group: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    def of(self, group: str) -> Sequence[tuple[str, str]]:
        """The examples before a question of a group."""
        return [*self.by_group.get("", ()), *(self.by_group.get(group, ()) if group else ())]


def few_shot(settings: SingleTurnSettings, items: Sequence[AskedItem]) -> Examples:
    """The examples that `--few-shot` names. Raises UserError, InputError."""
    source = settings.few_shot
    if source is None:
        return Examples()
    if not source.isdigit():
        return Examples(_read_examples(Path(source)))
    by_group: dict[str, list[AskedItem]] = {}
    for item in items:
        group = by_group.setdefault(item.group, [])
        if len(group) < int(source):
            group.append(item)
    taken = [item for group in by_group.values() for item in group]
    if without := [item.key for item in taken if item.gold is None]:
        raise UserError(
            f"--few-shot {source}: {without[0]} comes without a right answer in the data; name a FILE of examples"
        )
    if len(taken) == len(items):
        raise UserError(f"--few-shot {source}: uses all items as examples; choose a smaller N or a FILE of examples")
    examples = {name: [(item.question, item.gold or "") for item in group] for name, group in by_group.items()}
    return Examples(examples, frozenset(item.key for item in taken))


def _read_examples(path: Path) -> dict[str, list[tuple[str, str]]]:
    examples: dict[str, list[tuple[str, str]]] = {}
    with InputFile(path, expected="each line must be an example with question and answer, or input and target") as file:
        for line, row in file.json_lines(json_object):
            question, answer = _first(row, _ASKED), _first(row, _ANSWERED)
            if question is None or answer is None:
                file.fault(
                    "contains no text as question" if question is None else "contains no text as answer", line=line
                )
                continue
            group = str(row.get("task_dataset") or row.get("language") or "")
            examples.setdefault(group, []).append((question, answer))
    if not examples:
        raise UserError(f"{path}: contains no examples")
    return examples


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((row[name] for name in names if isinstance(row.get(name), str) and row[name].strip()), None)


def _examples_digest(source: str) -> str:
    return source if source.isdigit() else file_digest(Path(source))


def _path_digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and digests of a folder's JSON files."""
    if not path.is_dir():
        return file_digest(path)
    files = [file for file in sorted(path.rglob("*.json*")) if file.is_file() and file.name != "report.json"]
    return digest([[str(file.relative_to(path)), file_digest(file)] for file in files])


def digest(value: Any) -> str:
    """SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
