"""Recorded answers from the files of several tools, matched with the items that they answer.

| tool | what is read |
|---|---|
| this project | a run's folder or its `episodes.jsonl`; JSON lines with `id` and `answer`; PromptCBLUE's predictions |
| OpenCompass | `predictions/<model>/<data set>.json` or its parts, the folder above, or one file |
| lm-evaluation-harness | `samples_<task>_<time>.jsonl`, or a folder with such files |
| Inspect | a log, `.eval` (a zip) or `.json` |
| HELM | a run's folder: `scenario_state.json`, or `instances.json` with `display_predictions.json` |

The model's original text is read, not the text that a tool's filter extracted. An answer is matched by id, otherwise by
the recorded question, otherwise by place if the tool preserves the data's order. An answer without an item is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refsol._opencompass import Parts, data_sets, dataset_of, in_order, read_entries
from refsol.errors import InputError, Lines
from refsol.files import Fault, FaultsError, InputFile, anything, json_object, read_json
from refsol.json_values import as_object, json_value
from refsol.tool_logs import inspect_archive

MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One answer. `text` is None if the tool's call failed. `id` and `position` (from 0) identify the item in the
    tool's way; `question` is the recorded prompt; `group` is the language or task of the file; `trial` is the
    repetition; `place` is its place in the file, for messages. `verdict` is whether the file calls it right.
    """

    text: str | None
    place: str
    id: str = ""
    position: int | None = None
    question: str = ""
    group: str = ""
    trial: int = 1
    reasoning: str | None = None
    finish_reason: str | None = None
    verdict: bool | None = None


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """The answers of a file or folder, the tool that wrote it, and the model's name (otherwise the file's name)."""

    path: str
    tool: str
    model: str
    answers: tuple[RecordedAnswer, ...]


@dataclass(frozen=True, slots=True)
class AskedItem:
    """An item to answer: its key in a run, other names in files, its question, its group (the language or task), and
    its right answer as text if it is known.
    """

    key: str
    question: str
    ids: frozenset[str] = frozenset()
    group: str = ""
    gold: str | None = None


@dataclass(slots=True)
class _Index:
    """Items by everything that can identify them in an answer."""

    items: Sequence[AskedItem]
    by_id: dict[str, list[AskedItem]] = field(default_factory=dict)
    by_question: dict[str, list[AskedItem]] = field(default_factory=dict)
    groups: dict[str, list[AskedItem]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.items:
            for name in {item.key, *item.ids}:
                self.by_id.setdefault(name, []).append(item)
            self.by_question.setdefault(_plain(item.question), []).append(item)
            self.groups.setdefault(item.group, []).append(item)

    def find(self, answer: RecordedAnswer, group: str | None) -> list[AskedItem]:
        """The items that an answer may belong to; one if it is unambiguous."""
        prompt = _plain(answer.question)
        for candidates in (self._named(answer, prompt), self._placed(answer, group, prompt), self._asked(prompt)):
            if fitting := [item for item in candidates if group in (None, item.group)]:
                return fitting
        return []

    def _named(self, answer: RecordedAnswer, prompt: str) -> list[AskedItem]:
        """By id. A bare number may be the tool's own count, so the question must not contradict it."""
        items = self.by_id.get(answer.id, [])
        return [item for item in items if not answer.id.isdigit() or _fits(item, prompt)]

    def _placed(self, answer: RecordedAnswer, group: str | None, prompt: str) -> list[AskedItem]:
        """By its place among the items of its group, unless the question contradicts it."""
        items = self.items if group is None else self.groups.get(group, [])
        if answer.position is None or answer.position >= len(items):
            return []
        return [items[answer.position]] if _fits(items[answer.position], prompt) else []

    def _asked(self, prompt: str) -> list[AskedItem]:
        """By the question: the same text, or the longest question that occurs whole in the tool's prompt."""
        if not prompt or prompt in self.by_question:
            return self.by_question.get(prompt, [])
        longest = max((question for question in self.by_question if question in prompt), key=len, default="")
        return self.by_question.get(longest, [])


def match_answers(file: AnswerFile, items: Sequence[AskedItem]) -> dict[tuple[str, int], RecordedAnswer]:
    """The answers by item key and trial. Items without an answer are left out.

    Raises InputError that lists at most 20 answers that match no item, several items, or an item with an answer.
    """
    index = _Index(items)
    matched: dict[tuple[str, int], RecordedAnswer] = {}
    faults: list[str] = []
    for answer in file.answers:
        group = _group(answer.group, index.groups)
        fitting = index.find(answer, group)
        if group is None and len({item.group for item in fitting}) > 1:
            choices = ", ".join(sorted({item.group for item in fitting}))
            raise InputError(f"{answer.place}: could belong to {choices}; add the name to the file or select one")
        if not fitting:
            faults.append(f"{answer.place}: {_named(answer)} does not match any item of the data")
        elif len(fitting) > 1:
            keys = ", ".join(item.key for item in fitting[:3])
            faults.append(f"{answer.place}: {_named(answer)} matches several items ({keys}, …)")
        elif (fitting[0].key, answer.trial) in matched:
            faults.append(f"{answer.place}: second answer to {fitting[0].key}")
        else:
            matched[fitting[0].key, answer.trial] = answer
    if faults:
        more = [f"{file.path}: and {len(faults) - MAX_LISTED} more"] if len(faults) > MAX_LISTED else []
        raise InputError(Lines("\n".join([*faults[:MAX_LISTED], *more])))
    if not matched:
        raise InputError(f"{file.path}: contains no answers")
    return matched


def majority(items: Iterable[AskedItem]) -> Mapping[str, str]:
    """The most frequent right answer of each group, from the items with a known right answer. Ties: the first one."""
    counts: dict[str, dict[str, int]] = {}
    for item in items:
        if item.gold is not None:
            group = counts.setdefault(item.group, {})
            group[item.gold] = group.get(item.gold, 0) + 1
    return {group: max(tally, key=lambda text: tally[text]) for group, tally in counts.items()}


def _group(stated: str, groups: Mapping[str, object]) -> str | None:
    """The group for a file's name: the same name, or the end of a data set's name. None if no group matches."""
    if stated in groups:
        return stated
    ending = [group for group in groups if group and stated.endswith((f"_{group}", f"-{group}"))]
    return max(ending, key=len) if ending else None


def _named(answer: RecordedAnswer) -> str:
    if answer.id:
        return answer.id
    return f"place {answer.position}" if answer.position is not None else "an answer without an id"


def _fits(item: AskedItem, prompt: str) -> bool:
    """Whether the tool's prompt fits the item, as far as it was recorded."""
    return not prompt or _plain(item.question) in prompt


def _plain(text: str) -> str:
    return " ".join(text.split())


_SAMPLES = re.compile(r"samples_(.+?)(?:_\d{4}-\d{2}-\d{2}T[\d.\-:]+)?")
_UNIT = re.compile(r"(.+?)(?:#(\d+))?")
_CUT = {"length": "length", "max_tokens": "length", "model_length": "length"}
_JOURNAL = "episodes.jsonl"
_HELM = ("scenario_state.json", "display_predictions.json")
Answers = Iterator[RecordedAnswer]


def read_answers(path: Path) -> AnswerFile:
    """The answers in a file or folder. Raises InputError if the layout is unknown or the file is damaged."""
    try:
        return _read(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (AttributeError, TypeError, KeyError, IndexError, ValueError, OverflowError) as error:  # another format
        raise InputError(f"{path}: does not match the format of its tool ({error}); {_known()}") from None


def _read(path: Path) -> AnswerFile:
    if path.is_dir():
        return _folder(path)
    if path.suffix == ".eval":
        return _inspect(path, inspect_archive(path))
    if path.suffix == ".json" and _is_one_document(path):
        return _document(path)
    tool, answers = _lines(path)
    return AnswerFile(str(path), tool, path.stem, tuple(answers))


def _folder(path: Path) -> AnswerFile:
    if (path / "run.json").is_file() and (path / _JOURNAL).is_file():
        settings = read_json(path / "run.json", json_object).get("settings") or {}
        run = _read(path / _JOURNAL)
        return replace(run, path=str(path), model=str(settings.get("agent") or settings.get("model")))
    if state := next((path / name for name in _HELM if (path / name).is_file()), None):
        return replace(_document(state), path=str(path))
    if samples := sorted([*path.glob("samples_*.jsonl"), *path.glob("*/samples_*.jsonl")]):
        answers = [answer for file in samples for answer in _lines(file)[1]]
        return AnswerFile(str(path), "lm-evaluation-harness", path.name, tuple(answers))
    inner = path / "predictions"
    models = [path for path in sorted(inner.iterdir()) if path.is_dir()] if inner.is_dir() else [path]
    if len(models) > 1:
        names = ", ".join(map(str, models))
        raise InputError(f"{inner}: contains answers of several models; name one: {names}")
    if not models or not any(models[0].glob("*.json")):
        raise InputError(f"{path}: contains no readable answers; {_known()}")
    answers = [answer for name, parts in data_sets(models[0]).items() for answer in _opencompass(name, parts)]
    return AnswerFile(str(path), "OpenCompass", models[0].name, tuple(answers))


def _known() -> str:
    return (
        "read are a run's folder, JSON lines with id and answer, OpenCompass' predictions, lm-evaluation-harness'"
        " samples_*.jsonl, Inspect's .eval and .json, HELM's scenario_state.json and display_predictions.json"
    )


def _is_one_document(path: Path) -> bool:
    """Whether a `.json` file is one value and not JSON lines, as PromptCBLUE's files are."""
    with InputFile(path) as file:
        first = file.text().lstrip().partition("\n")[0]
    return "target" not in as_object(json_value(first))


def _document(path: Path) -> AnswerFile:
    value = read_json(path, anything)
    if isinstance(value, dict) and "samples" in value and "eval" in value:
        return _inspect(path, (value, value["samples"] or []))
    if isinstance(value, dict) and isinstance(value.get("request_states"), list):
        model = str((value.get("adapter_spec") or {}).get("model") or path.parent.name)
        return AnswerFile(str(path), "HELM", model, tuple(_helm_states(path, value["request_states"])))
    if isinstance(value, list) and value and all(isinstance(item, dict) and "predicted_text" in item for item in value):
        return AnswerFile(str(path), "HELM", path.parent.name, tuple(_helm_predictions(path, value)))
    if isinstance(value, dict) and "0" in value:
        name = dataset_of(path)
        parts: Parts = {None: path} if name == path.stem else data_sets(path.parent)[name]
        return AnswerFile(str(path), "OpenCompass", path.parent.name, tuple(_opencompass(name, parts)))
    raise InputError(f"{path}: contains no readable answers; {_known()}")


def _lines(path: Path) -> tuple[str, list[RecordedAnswer]]:
    """The answers in JSON lines, and the tool that wrote them (recognised from the first line)."""
    with InputFile(path, expected="each line must be one answer") as file:
        rows = list(file.json_lines(json_object, torn_tail=path.name == _JOURNAL))  # a stopped run is no damaged file
    if not rows:
        raise InputError(f"{path}: contains no answers")
    first = rows[0][1]
    forms = [(tool, read) for tool, keys, read in _FORMS if keys <= first.keys()]
    if not forms:
        raise InputError(f"{path}:{rows[0][0]}: is not an answer (it needs id and answer); {_known()}")
    tool, read = forms[0]
    answers: list[RecordedAnswer] = []
    with InputFile(path, expected="each line must be one answer") as file:
        for line, row in rows:
            try:
                answers += read(row, f"{path}:{line}")
            except FaultsError as error:
                for fault in error.faults:
                    file.fault(fault.text, line=line, place=fault.place)
    if tool == "this project's run":  # a later row of a unit replaces an earlier one
        answers = list({(answer.id, answer.trial): answer for answer in answers}.values())
    if tool == "lm-evaluation-harness":
        name = _SAMPLES.fullmatch(path.stem)
        answers = [replace(answer, group=name[1] if name else "") for answer in answers]
        answers = list({replace(answer, place=""): answer for answer in answers}.values())  # one for each filter
    return tool, answers


def _text(row: Mapping[str, Any], key: str) -> str | None:
    """The text under a key; None for null. Raises FaultsError if it is missing or not a text."""
    if key not in row:
        raise FaultsError([Fault("is missing", (key,))])
    text = row[key]
    if not isinstance(text, str | None):
        raise FaultsError([Fault("is not a text", (key,))])
    return text


def _plain_line(row: dict[str, Any], place: str) -> Answers:
    """`{"id", "answer"}`, optionally with `language`, `trial`, `finish_reason`, `reasoning` and `correct`."""
    trial = row.get("trial", 1)
    if not isinstance(trial, int) or trial < 1:
        raise FaultsError([Fault("is not a whole number from 1", ("trial",))])
    yield RecordedAnswer(
        _text(row, "answer"),
        place,
        id=_id(row, "id"),
        group=str(row.get("language") or row.get("task") or ""),
        trial=trial,
        question=str(row.get("question") or ""),
        reasoning=row.get("reasoning") or None,
        finish_reason=_finish(row.get("finish_reason")),
        verdict=_verdict(row),
    )


def _verdict(row: Mapping[str, Any]) -> bool | None:
    """The verdict that a line contains as `correct`. Raises FaultsError if it is neither true nor false, 1 nor 0."""
    verdict = row.get("correct")
    if verdict is not None and verdict not in (True, False):
        raise FaultsError([Fault("is neither true nor false", ("correct",))])
    return None if verdict is None else bool(verdict)


def _run_line(row: dict[str, Any], place: str) -> Answers:
    """A row of this project's `episodes.jsonl`. A failed unit is a row without an answer."""
    unit = str(row["unit"])
    item, trial = unit, 1
    if (match := _UNIT.fullmatch(unit)) and match[2] and ("/" in unit or unit.count("#") > 1):
        item, trial = match[1], int(match[2])
    text = row.get("reply", row.get("answer"))
    if text is None and row["status"] in ("completed", "cut", "empty", "only_thought"):
        raise FaultsError([Fault("contains no reply: only runs of single questions contain answers")])
    yield RecordedAnswer(
        text, place, item, trial=trial, reasoning=row.get("reasoning"), finish_reason=row.get("finish_reason")
    )


def _promptcblue_line(row: dict[str, Any], place: str) -> Answers:
    yield RecordedAnswer(
        _text(row, "target"),
        place,
        id=_id(row, "sample_id") if "sample_id" in row else "",
        question=str(row["input"]),
        group=str(row.get("task_dataset") or ""),
        verdict=_verdict(row),
    )


def _lm_eval_line(row: dict[str, Any], place: str) -> Answers:
    """A sample: `doc_id` is its place, `doc` the data's row, `resps` the responses, one list per repetition."""
    doc = row["doc"] if isinstance(row.get("doc"), dict) else {}
    named = next((key for key in ("id", "qid", "sample_id", "original_index") if doc.get(key) is not None), None)
    question = next((doc[key] for key in ("question", "problem", "input") if isinstance(doc.get(key), str)), "")
    responses = row["resps"]
    if not isinstance(responses, list) or not responses or not isinstance(responses[0], list):
        raise FaultsError([Fault("is not a list of lists of texts", ("resps",))])
    if any(not isinstance(text, str) for text in responses[0]):
        raise FaultsError([Fault("contains no texts; only generated answers can be read", ("resps",))])
    for trial, text in enumerate(responses[0], 1):
        yield RecordedAnswer(
            text,
            place,
            id="" if named is None else str(doc[named]),
            position=row["doc_id"] if isinstance(row["doc_id"], int) else None,
            question=question,
            trial=trial,
        )


def _id(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise FaultsError([Fault("is neither a text nor a whole number", (key,))])
    return str(value)


def _finish(reason: object) -> str | None:
    return _CUT.get(reason, reason) if isinstance(reason, str) else None


_FORMS: tuple[tuple[str, set[str], Callable[[dict[str, Any], str], Answers]], ...] = (
    ("this project's run", {"unit", "status"}, _run_line),
    ("lm-evaluation-harness", {"doc_id", "resps"}, _lm_eval_line),
    ("PromptCBLUE", {"input", "target"}, _promptcblue_line),
    ("JSON lines", {"id", "answer"}, _plain_line),
)


def _opencompass(name: str, parts: Parts) -> Answers:
    """Predictions: keys "0", "1", … over all parts of a data set, in the data's order."""
    offset = 0
    for part in in_order(parts):
        file = read_entries(parts[part])
        size = len(file.entries) // file.replicas
        for number, entry in enumerate(file.entries):
            trial, place = divmod(number, size)
            gold = entry.gold if isinstance(entry.gold, dict) else {}
            yield RecordedAnswer(
                entry.prediction,
                f"{parts[part]}: {place}",
                id=next((str(gold[key]) for key in ("qid", "id", "sample_id") if gold.get(key) is not None), ""),
                position=offset + place,
                question=str(gold.get("question") or _prompt(entry.prompt)),
                group=name,
                trial=trial + 1,
            )
        offset += size


def _prompt(value: Any) -> str:
    """A prompt as one text: chat messages are joined. OpenCompass stores a message's text as `prompt`, others as
    `content`.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _prompt(value.get("prompt") or value.get("content") or value.get("text") or "")
    return "\n".join(map(_prompt, value)) if isinstance(value, list) else ""


def _inspect(path: Path, log: tuple[dict[str, Any], list[Any]]) -> AnswerFile:
    header, samples = log
    spec = header.get("eval") or {}
    answers = []
    for number, sample in enumerate(samples):
        place = f"{path}: samples[{number}]"
        if not isinstance(sample, dict) or "id" not in sample:
            raise InputError(f"{place}: is not a sample")
        output = sample.get("output") or {}
        choice = (output.get("choices") or [{}])[0]
        text, thoughts = _content((choice.get("message") or {}).get("content"))
        if text is None:
            text = output.get("completion") or None
        answers.append(
            RecordedAnswer(
                None if sample.get("error") else text,
                place,
                id=str(sample["id"]),
                question=_prompt(sample.get("input")),
                trial=int(sample.get("epoch") or 1),
                reasoning=thoughts or None,
                finish_reason=_finish(choice.get("stop_reason")),
                verdict=_inspect_verdict(sample.get("scores")),
            )
        )
    return AnswerFile(str(path), "Inspect", str(spec.get("model") or path.stem), tuple(answers))


def _inspect_verdict(scores: Any) -> bool | None:
    """The verdict of a sample with one score that is C or I."""
    values = [score.get("value") for score in scores.values() if isinstance(score, dict)] if scores else []
    return {"C": True, "I": False}.get(values[0]) if len(values) == 1 and isinstance(values[0], str) else None


def _content(content: Any) -> tuple[str | None, str]:
    """A message's text and, separately, its reasoning."""
    if not isinstance(content, list):
        return (content if isinstance(content, str) else None), ""
    parts = [part for part in content if isinstance(part, dict)]
    text = "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")
    return text, "".join(str(part.get("reasoning") or "") for part in parts if part.get("type") == "reasoning")


def _helm_states(path: Path, states: list[Any]) -> Answers:
    for number, state in enumerate(states):
        place = f"{path}: request_states[{number}]"
        if not isinstance(state, dict) or not isinstance(state.get("instance"), dict):
            raise InputError(f"{place}: is not a request state")
        if state.get("reference_index") is not None:
            raise InputError(f"{place}: is a multiple-choice request; only generated answers can be read")
        result, instance = state.get("result") or {}, state["instance"]
        completion = (result.get("completions") or [{}])[0] if result.get("success", True) else {}
        yield RecordedAnswer(
            completion.get("text"),
            place,
            id=str(instance.get("id") or ""),
            question=_prompt(instance.get("input")),
            trial=int(state.get("train_trial_index") or 0) + 1,
            finish_reason=_finish((completion.get("finish_reason") or {}).get("reason")),
        )


def _helm_predictions(path: Path, rows: list[Any]) -> Answers:
    """`display_predictions.json`; the questions are in `instances.json` next to it."""
    beside = path.with_name("instances.json")
    instances = read_json(beside, anything) if beside.is_file() else []
    questions = {
        str(instance.get("id")): str((instance.get("input") or {}).get("text") or "")
        for instance in instances
        if isinstance(instance, dict)
    }
    for number, row in enumerate(rows):
        id_ = str(row.get("instance_id") or "")
        yield RecordedAnswer(
            row["predicted_text"] if isinstance(row["predicted_text"], str) else None,
            f"{path}: [{number}]",
            id=id_,
            question=questions.get(id_, ""),
            trial=int(row.get("train_trial_index") or 0) + 1,
        )
