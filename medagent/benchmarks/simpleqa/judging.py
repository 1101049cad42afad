"""Who judges an answer, with what prompt, and under which name the verdict is kept.

A verdict belongs to a judge, the bytes of the prompt it saw, and the prediction; their digest is its key. So a
corrected gold or another prompt asks anew exactly where it changes something, and nothing depends on a row's position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from medagent.agents.calls import Call
from medagent.models.base import Message
from medagent.models.settings import ModelSettings
from refsol.simpleqa.prompts import JudgePrompt
from refsol.simpleqa.score import JudgedAnswer, label_of

# What of a judge's settings decides its replies; addresses and patience do not.
_IDENTITY = {"name", "api", "temperature", "max_tokens", "extra"}


@dataclass(frozen=True, slots=True)
class Question:
    """A question in one language, as a line of `questions.jsonl`; `unit` is its key in the journal of answers."""

    unit: str
    id: str
    language: str
    line: int
    question: str
    gold: str
    group: str

    @property
    def name(self) -> str:
        """The id, with the line where several questions share it."""
        ending = f"/{self.language}"
        if self.unit.endswith(ending):  # of the first trial, as most are
            return self.unit[: -len(ending)]
        return self.unit.removesuffix(f"#{self.trial}").removesuffix(ending)

    @property
    def trial(self) -> int:
        """The trial, by the unit: `H01/hu#2` is the second."""
        _, mark, number = self.unit.rpartition(f"/{self.language}#")
        return int(number) if mark and number.isdigit() else 1


class Judging(BaseModel):
    """One round of judging, as a line of `judgings.jsonl`: a panel, its prompt, the units it covers (None: all)."""

    judges: list[ModelSettings]
    prompt: JudgePrompt
    only: list[str] | None = None


class Panel:
    """A judging at work: it turns predictions into calls."""

    def __init__(self, judging: Judging) -> None:
        self._judges = {judge.name: judge.model_dump_json(include=_IDENTITY) for judge in judging.judges}
        self._prompt = judging.prompt
        self.only = None if judging.only is None else frozenset(judging.only)
        self.json_labels = judging.prompt.labels == "json"

    def covers(self, unit: str, judge: str | None = None) -> bool:
        """Whether the judging is about a unit, and has the judge, if one is named."""
        return (self.only is None or unit in self.only) and (judge is None or judge in self._judges)

    def calls(self, question: Question, prediction: str, judge: str | None = None) -> Iterator[Call]:
        """The calls that have a prediction judged, by all judges or one."""
        message, system = self._message(question, prediction), self._prompt.system
        before = (Message("system", system),) if system else ()
        for name, key in self._keys(message, prediction, judge).items():
            yield Call(key, message, name, before=before)

    def keys(self, question: Question, prediction: str, judge: str | None = None) -> dict[str, str]:
        """The keys of these calls by judge."""
        return self._keys(self._message(question, prediction), prediction, judge)

    def _message(self, question: Question, prediction: str) -> str:
        return self._prompt.fill(question.question, question.gold, prediction)

    def _keys(self, message: str, prediction: str, judge: str | None) -> dict[str, str]:
        system = [self._prompt.system] if self._prompt.system else []
        parts = "\0".join((*system, message, prediction)).encode("utf-8", "surrogatepass")
        return {
            name: hashlib.sha256(f"{identity}\0".encode("utf-8", "surrogatepass") + parts).hexdigest()
            for name, identity in self._judges.items()
            if judge in (None, name)
        }


class Verdicts:
    """The judges' replies by the keys of their calls; a call made again replaces the reply."""

    def __init__(self, replies: Iterable[tuple[str, str | None]]) -> None:
        self._replies: dict[str, str | None] = {}
        self._attempts: dict[str, int] = {}
        for unit, reply in replies:
            self.note(unit, reply)

    def note(self, unit: str, reply: str | None) -> None:
        """Take a row of the journal of judgements; one without a reply is a failed call."""
        key = unit.partition("#")[0]
        if reply is None:
            self._replies.setdefault(key, None)
        else:
            self._replies[key] = reply
            self._attempts[key] = self._attempts.get(key, 0) + 1

    def made(self, key: str) -> bool:
        """Whether the call with this key was made at all."""
        return key in self._replies

    def get(self, key: str) -> str | None:
        """The reply to a call, None where it has none."""
        return self._replies.get(key)

    def again(self, call: Call) -> Call:
        """The same call under a key that the journal does not know yet."""
        attempts = self._attempts.get(call.key, 0)
        return replace(call, key=f"{call.key}#{attempts + 1}") if attempts else call


def judged_rows(
    questions: Iterable[Question],
    answers: Mapping[str, str],
    judgings: Iterable[Judging],
    verdicts: Verdicts,
    judge: str | None = None,
) -> Iterator[tuple[JudgedAnswer, Panel | None]]:
    """The rows to score, every question with the replies of the last panel that was asked about it, or of one judge;
    and that panel, None for a row that is not judged.
    """
    panels = [Panel(judging) for judging in judgings][::-1]
    for question in questions:
        prediction = answers.get(question.unit)
        decided = None if prediction is None else _decided(question, prediction, panels, verdicts, judge)
        panel, judged = decided or (None, {})
        yield (
            JudgedAnswer(
                id=question.name,
                language=question.language,
                group=question.group,
                prediction=prediction,
                judged=judged,
            ),
            panel,
        )


def _decided(
    question: Question, prediction: str, panels: Sequence[Panel], verdicts: Verdicts, judge: str | None
) -> tuple[Panel, dict[str, str | None]] | None:
    """The first panel all of whose judges were asked, and what they said."""
    for panel in panels:
        if panel.covers(question.unit, judge):
            keys = panel.keys(question, prediction, judge)
            if all(map(verdicts.made, keys.values())):
                return panel, {name: verdicts.get(key) for name, key in keys.items()}
    return None


def owed_calls(
    questions: Iterable[Question], answers: Mapping[str, str], judging: Judging, verdicts: Verdicts
) -> Iterator[Call]:
    """The calls of a judging that have no reply yet, each once.

    Where the judging names its units, replies without a label are asked for again: there is no verdict to keep.
    """
    panel = Panel(judging)
    seen: set[str] = set()
    for question in questions:
        prediction = answers.get(question.unit)
        if prediction is None or not panel.covers(question.unit):
            continue
        for call in panel.calls(question, prediction):
            reply = verdicts.get(call.key)
            in_vain = reply is not None and panel.only is not None and label_of(reply, "robust") is None
            if call.key not in seen and (reply is None or in_vain):
                seen.add(call.key)
                yield verdicts.again(call)
