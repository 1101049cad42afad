"""The outcomes of items in other tools' logs, as each tool scores them. Logs are read as data; nothing in them runs.

| tool | log | an item | a trial | a scorer |
|---|---|---|---|---|
| Inspect | `.eval` or `.json` | sample id | epoch | a scorer, or `scorer/key` if its values are objects |
| Harbor | a job's folder | task | the attempts of the task, in order of their start | a reward's name |
| lm-evaluation-harness | a folder with logged samples, or one of these files | task and doc id | – | `metric,filter` |

An error or a cancelled sample is without a value: it is not a wrong answer.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import InputFile, anything, json_object, read_json
from refsol.json_values import as_object

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_LOWER = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Inspect's texts for values (`inspect_ai.scorer.value_to_float`)."""
_SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)")
_LM_EVAL_FIELDS = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash"),
}
_HEAVY = frozenset(("messages", "events", "attachments", "store", "timelines", "events_data"))
"""Fields of Inspect's samples that are dropped while they are read."""
_LISTED = 20


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """One trial of one item. `values` are its values by scorer; None if it failed for the reason in `error`.

    `content` identifies the item's question within its tool.
    """

    item: str
    trial: int
    values: Mapping[str, float] | None
    group: str = ""
    question: str = ""
    target: str = ""
    answer: str = ""
    explanation: str = ""
    error: str = ""
    content: str = ""


@dataclass(frozen=True, slots=True)
class ToolLog:
    """A log: its tool, the benchmarks in it, the agent or model, and the number of items of the data (0: unknown)."""

    path: Path
    tool: str
    benchmarks: frozenset[str]
    who: str
    outcomes: Sequence[LoggedOutcome]
    items: int = 0

    @property
    def scorers(self) -> list[str]:
        """The names of all scorers, in the order of the log."""
        return list(dict.fromkeys(name for one in self.outcomes for name in one.values or ()))

    def scorer(self, name: str | None) -> str:
        """The scorer that a name chooses, or the only one. lm-eval's filter may be left out. Raises InputError."""
        known = self.scorers
        if not known:
            raise InputError(f"{self.path}: contains no sample with a value")
        chosen = [one for one in known if name in (None, one)] or [
            one for one in known if one.partition(",")[0] == name
        ]
        if len(chosen) != 1:
            what = "it contains several scorers" if name is None else f"unknown scorer {name!a}"
            raise InputError(f"{self.path}: {what}; choose one with --scorer: {', '.join(known[:_LISTED])}")
        return chosen[0]


def read_tool_log(path: Path) -> ToolLog | None:
    """The log at a path; None if it is not one of these tools' logs. Raises InputError if it is damaged."""
    try:
        return _read(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (AttributeError, TypeError, KeyError, IndexError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: does not match the format of its tool ({error})") from None


def _read(path: Path) -> ToolLog | None:
    if path.is_dir():
        if trials := sorted(one for one in path.glob("*/result.json") if one.parent.is_dir()):
            return _harbor(path, trials)
        samples = sorted([*path.glob("samples_*.jsonl"), *path.glob("*/samples_*.jsonl")])
        return _lm_eval(path, samples) if samples else None
    if path.suffix == ".eval":
        return _inspect(path, *inspect_archive(path, samples=False))
    if path.suffix == ".json" and path.is_file() and _is_inspect(path):
        log = json.loads(path.read_bytes(), object_pairs_hook=_light)
        return _inspect(path, log, log.get("samples") or [])
    return _lm_eval(path, [path]) if _SAMPLES.fullmatch(path.stem) and path.suffix == ".jsonl" else None


def _is_inspect(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(400)
    return head.lstrip().startswith(b"{") and b'"status"' in head and b'"eval"' in head


def _light(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if name not in _HEAVY}


def inspect_archive(path: Path, *, samples: bool = True) -> tuple[dict[str, Any], list[Any]]:
    """The header and the samples of Inspect's zip file; without `samples`, their summaries if the file contains them.

    It is compressed with zstandard. zipfile reads that since Python 3.14; before, the package zipfile-zstd adds it.
    """
    with suppress(ImportError):
        import zipfile_zstd  # noqa: F401  # adds zstandard to zipfile
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            start = "header.json" if "header.json" in names else "_journal/start.json"
            header = json.loads(archive.read(start))
            if not samples and "summaries.json" in names:
                return header, json.loads(archive.read("summaries.json"))
            parts = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
            hook = None if samples else _light
            return header, [json.loads(archive.read(name), object_pairs_hook=hook) for name in parts]
    except NotImplementedError:
        raise InputError(
            f"{path}: is compressed with zstandard; `pip install zipfile-zstd` (medagent[inspect] and"
            " medagent[imapscore] include it), or convert it: `inspect log convert --to json`"
        ) from None
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not an Inspect log: {error}") from None


def _inspect(path: Path, header: Mapping[str, Any], samples: Sequence[Any]) -> ToolLog:
    spec = header["eval"]
    outcomes = [_sample(path, number, sample) for number, sample in enumerate(samples)]
    return ToolLog(
        path=path,
        tool="Inspect",
        benchmarks=frozenset([str(spec["task"]).rpartition("/")[2]]),
        who=str(spec.get("model") or ""),
        outcomes=outcomes,
        items=as_object(spec.get("dataset")).get("samples") or 0,
    )


def _sample(path: Path, number: int, sample: Mapping[str, Any]) -> LoggedOutcome:
    if not isinstance(sample, dict) or "id" not in sample:
        raise InputError(f"{path}: samples[{number}]: is not a sample")
    scores, error = sample.get("scores") or {}, sample.get("error")
    values: dict[str, float] = {}
    for name, score in scores.items():
        value = score["value"]
        parts = {f"{name}/{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        for scorer, one in parts.items():
            known = _inspect_value(f"{path}: samples[{number}]: the score {scorer}", one)
            if math.isfinite(known):  # Inspect's mark of an unscored sample is NaN
                values[scorer] = known
    first: Mapping[str, Any] = next(iter(scores.values()), {})
    question = sample.get("input")
    if not isinstance(question, str):
        question = json.dumps(question)
    if error:
        reason = str(error["message"] if isinstance(error, dict) else error).strip().partition("\n")[0]
    else:
        reason = "" if values else "not scored"
    return LoggedOutcome(
        item=str(sample["id"]),
        trial=int(sample.get("epoch") or 1),
        values=None if reason else values,
        question=question,
        target=_one_text(sample.get("target")),
        answer=str(first.get("answer") or ""),
        explanation=str(first.get("explanation") or ""),
        error=reason,
        content=question,
    )


def _one_text(value: Any) -> str:
    return " | ".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _inspect_value(place: str, value: object) -> float:
    """A value as Inspect counts it. Raises InputError for one that Inspect cannot count."""
    if isinstance(value, int | float):
        return float(value)
    text = value if isinstance(value, str) else ""
    known = _WORDS.get(text, _LOWER.get(text.lower()))
    if known is None:
        with suppress(ValueError):
            known = float(text)
    if known is None:
        raise InputError(f"{place} is {json.dumps(value)}, which is not a number, C, I, P or N")
    return known


def _harbor(path: Path, files: Sequence[Path]) -> ToolLog | None:
    """A job. Its trials are folders with a `result.json`."""
    trials = []
    for file in files:
        trial = read_json(file, anything)
        if isinstance(trial, dict) and "task_name" in trial and "trial_name" in trial:
            trials.append(trial)
    if not trials:
        return None
    trials.sort(key=lambda trial: (str(trial.get("started_at") or ""), trial["trial_name"]))
    numbers: dict[str, int] = {}
    outcomes = []
    for trial in trials:
        task = str(trial["task_name"])
        numbers[task] = numbers.get(task, 0) + 1
        outcomes.append(_trial(trial, task, numbers[task]))
    agent = as_object(trials[0].get("agent_info"))
    names = agent.get("name"), as_object(agent.get("model_info")).get("name")
    return ToolLog(
        path=path,
        tool="Harbor",
        benchmarks=frozenset(str(trial["source"]) for trial in trials if trial.get("source")),
        who=" with ".join(str(name) for name in names if name),
        outcomes=outcomes,
    )


def _trial(trial: Mapping[str, Any], task: str, number: int) -> LoggedOutcome:
    """A trial. Whether its reward counts although an exception ended it is Harbor's decision, which newer versions
    store; a reward of an older one counts.
    """
    rewards = as_object(as_object(trial.get("verifier_result")).get("rewards"))
    exception = as_object(trial.get("exception_info"))
    values = {name: float(value) for name, value in rewards.items() if isinstance(value, int | float)}
    counts = bool(values) and trial.get("reward_valid", True)
    reason = str(exception.get("exception_type") or "no reward")
    return LoggedOutcome(
        item=task,
        trial=number,
        values=values if counts else None,
        group=str(trial.get("source") or ""),
        explanation=str(exception.get("exception_message") or ""),
        error="" if counts else reason,
        content=str(trial.get("task_checksum") or ""),
    )


def _lm_eval(path: Path, files: Sequence[Path]) -> ToolLog:
    """Logged samples, one file for each task. If a task was run several times, the last file counts."""
    newest: dict[str, Path] = {}
    for file in sorted(files, key=lambda one: one.stem):
        name = _SAMPLES.fullmatch(file.stem)
        newest[name[1] if name else file.stem.removeprefix("samples_")] = file
    samples: dict[tuple[str, int], LoggedOutcome] = {}
    for task, file in newest.items():
        for outcome in _lm_eval_samples(task, file):
            place = outcome.item, outcome.trial
            before = samples.get(place)
            if before is not None:  # the same sample with another filter
                outcome = _merged(before, outcome)
            samples[place] = outcome
    folder = next(iter(newest.values())).parent
    return ToolLog(
        path=path,
        tool="lm-evaluation-harness",
        benchmarks=frozenset(newest),
        who=folder.name.replace("__", "/"),
        outcomes=list(samples.values()),
        items=_lm_eval_items(folder, newest),
    )


def _merged(one: LoggedOutcome, other: LoggedOutcome) -> LoggedOutcome:
    return replace(one, values={**(one.values or {}), **(other.values or {})})


def _lm_eval_samples(task: str, path: Path) -> Iterator[LoggedOutcome]:
    with InputFile(path, expected="each line must be one sample") as file:
        for line, row in file.json_lines(json_object):
            if "doc_id" not in row:
                raise InputError(f"{path}:{line}: is not a sample of lm-evaluation-harness: doc_id is missing")
            names = row.get("metrics") or [name for name in row if name not in _LM_EVAL_FIELDS]
            name = str(row.get("filter") or "none")
            values = {
                f"{metric},{name}": float(row[metric])
                for metric in names
                if isinstance(row.get(metric), int | float) and math.isfinite(row[metric])
            }
            doc = as_object(row.get("doc"))
            answers = row.get("filtered_resps") or [""]
            texts = [doc[key] for key in ("question", "problem", "input") if isinstance(doc.get(key), str)]
            yield LoggedOutcome(
                item=f"{task}/{row['doc_id']}",
                trial=1,
                values=values or None,
                group=task,
                question=texts[0] if texts else "",
                target=str(row.get("target") or ""),
                answer=str(answers[0]),
                error="" if values else "no value",
                content=str(row.get("doc_hash") or ""),
            )


def _lm_eval_items(folder: Path, tasks: Mapping[str, Path]) -> int:
    """The number of documents of all tasks, from the newest results file next to the samples; 0 if there is none."""
    results = sorted(folder.glob("results_*.json"))
    if not results:
        return 0
    counts = as_object(as_object(json.loads(results[-1].read_bytes())).get("n-samples"))
    return sum(as_object(counts.get(task)).get("original") or 0 for task in tasks)
