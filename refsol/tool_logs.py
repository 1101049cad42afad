"""The outcomes of items in other tools' logs, as each tool scores them. Logs are read as data; nothing in them runs.

| tool | log | an item | a trial | a scorer |
|---|---|---|---|---|
| Inspect | `.eval` or `.json` | sample id | epoch | a scorer, or `scorer/key` if its values are objects |
| Harbor | a job's folder | task | the attempts of the task, in order of their start | a reward's name |
| lm-evaluation-harness | a folder with logged samples, or one of these files | task and doc id | – | `metric,filter` |

A log is the work of one model or agent.

An error or a cancelled sample is without a value: it is not a wrong answer.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import InputFile, anything, json_object, read_json
from refsol.json_values import as_object, objects

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_LOWER = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Inspect's texts for values (`inspect_ai.scorer.value_to_float`)."""
_SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)")
_LM_EVAL_FIELDS = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash"),
}
_LM_EVAL_UNSCORED = "bypass"
"""The metric of --predict_only. Its value, 999, measures nothing."""
_HEAVY = frozenset(("messages", "events", "attachments", "store", "timelines", "events_data"))
"""Fields of Inspect's samples that are dropped while they are read."""
_SUMMARY = 5120
"""The characters of a text that the summaries of an `.eval` file contain."""
_NOT_MEASURED = frozenset(
    (
        # the environment and the agent's setup
        *("EnvironmentStartTimeoutError", "SandboxBuildFailedError", "AgentSetupTimeoutError", "HealthcheckError"),
        *("SandboxLikelyOutOfMemoryError", "MemoryLimitExceededError", "SSHAccessError", "GKEExecStreamClosedError"),
        *("GKEPodNotFoundError", "RuntimeRequestError", "VercelScopeError", "DspyImportError", "MissingExtraError"),
        # the model's API
        *("ApiError", "ApiRateLimitError", "ApiInternalServerError", "ApiOverloadedError", "ApiConnectionClosedError"),
        *("ApiResponseStalledError", "UnknownApiError", "NetworkConnectionError", "ApiConnectionError"),
        *("ApiUsageLimitError", "ApiProviderResourceNotFoundError", "RateLimitError", "InternalServerError"),
        *("ServiceUnavailableError", "APIConnectionError", "APIError", "Timeout", "APIResponseValidationError"),
        *("AgentAuthenticationError", "AuthenticationError", "PermissionDeniedError", "ModelNotFoundError"),
        *("NotFoundError", "BudgetExceededError"),
        # what the request asks of the model
        *("UnsupportedModelParametersError", "BadRequestError", "UnprocessableEntityError", "UnsupportedParamsError"),
        "ServiceOperationsUnsupportedError",
        # the verifier
        *("AddTestsDirError", "DownloadVerifierDirError", "VerifierTimeoutError", "RewardFileNotFoundError"),
        *("RewardFileEmptyError", "VerifierOutputParseError", "RegradeError"),
        "CancelledError",
    )
)
"""Exceptions after which Harbor 0.26 does not count a reward (`harbor.models.trial.error_policy`). It stores that as
`reward_valid`; earlier versions store only the exception.
"""
_LISTED = 20
_SHOWN = 80
"""The shown characters of a value."""


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """One trial of one item. `values` are its values by scorer; None if it failed for the reason in `error`.

    `unread` says by scorer why a value is not a number. `content` identifies the item's question within its tool.
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
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolLog:
    """A log: its tool, the benchmarks in it, the agent or model, and the number of items of the data (0: unknown)."""

    path: Path
    tool: str
    benchmarks: frozenset[str]
    who: str
    outcomes: Sequence[LoggedOutcome]
    items: int = 0

    def named(self, name: str) -> list[str]:
        """The scorers that a name may mean. lm-eval's filter may be left out."""
        known = dict.fromkeys(
            value for outcome in self.outcomes for value in (*(outcome.values or ()), *outcome.unread)
        )
        return [value for value in known if value == name] or [
            value for value in known if value.partition(",")[0] == name
        ]

    def scorer(self, name: str | None) -> str:
        """The scorer that a name chooses, or the only one with numbers. Raises InputError, for example if a value of
        the scorer is not a number.
        """
        faults = {name: fault for outcome in reversed(self.outcomes) for name, fault in outcome.unread.items()}
        known = list(dict.fromkeys(name for outcome in self.outcomes for name in outcome.values or ())) or list(faults)
        if not known:
            raise InputError(f"{self.path}: contains no sample with a value")
        chosen = known if name is None else self.named(name)
        if len(chosen) != 1:
            what = "it contains several scorers" if name is None else f"unknown scorer {name!a}"
            raise InputError(f"{self.path}: {what}; choose one with --scorer: {', '.join(known[:_LISTED])}")
        if chosen[0] in faults:
            raise InputError(faults[chosen[0]])
        return chosen[0]


def read_tool_log(path: Path) -> ToolLog | None:
    """The log at a path; None if it is not one of these tools' logs. Raises InputError if it is damaged."""
    try:
        return _read(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (AttributeError, TypeError, KeyError, IndexError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: does not match the format of its tool ({error})") from None


def _read(path: Path) -> ToolLog | None:
    if path.is_dir():
        if trials := sorted(result for result in path.glob("*/result.json") if result.parent.is_dir()):
            return _harbor(path, trials)
        samples = [*path.glob("samples_*.jsonl"), *path.glob("*/samples_*.jsonl")]
        return _lm_eval(path, samples) if samples else None
    if path.suffix == ".eval":
        return _inspect(path, *inspect_archive(path, samples=False))
    if path.suffix == ".json" and path.is_file():
        log = _inspect_document(path)
        return None if log is None else _inspect(path, log, log.get("samples") or [])
    return _lm_eval(path, [path]) if _SAMPLES.fullmatch(path.stem) and path.suffix == ".jsonl" else None


def _inspect_document(path: Path) -> dict[str, Any] | None:
    """Inspect's log in a JSON file; None if it is another document. Its keys may have any order."""
    text = path.read_bytes()
    if not text[:100].lstrip().startswith(b"{") or b'"status"' not in text or b'"eval"' not in text:
        return None
    log: dict[str, Any] = json.loads(text, object_pairs_hook=_light)
    return log if {"status", "eval"} <= log.keys() else None


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
            parts = sorted({name for name in names if name.startswith("samples/") and name.endswith(".json")})
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
    scorers = as_object(header.get("results")).get("scores") or [{}]
    read = [_sample(path, number, sample, scorers[0].get("name") or "score") for number, sample in enumerate(samples)]
    size = as_object(spec.get("dataset")).get("samples")
    return ToolLog(
        path=path,
        tool="Inspect",
        benchmarks=frozenset([str(spec["task"]).rpartition("/")[2]]),
        who=str(spec.get("model") or ""),
        outcomes=list(
            {(outcome.item, outcome.trial): outcome for outcome in read}.values()
        ),  # Inspect counts a sample's last record
        items=size if isinstance(size, int) else 0,
    )


def _sample(path: Path, number: int, sample: Mapping[str, Any], scorer: str) -> LoggedOutcome:
    """A sample. `scorer` is the only scorer of an old log, whose samples have one `score` without a name."""
    place = f"{path}: samples[{number}]"
    if not isinstance(sample, dict) or "id" not in sample:
        raise InputError(f"{place}: is not a sample")
    scores = {scorer: sample["score"]} if sample.get("score") else sample.get("scores") or {}
    values: dict[str, float] = {}
    unread: dict[str, str] = {}
    for name, score in scores.items():
        value = None if score is None else score["value"]
        parts = (
            {f"{name}/{key}": element for key, element in value.items()} if isinstance(value, dict) else {name: value}
        )
        for part, content in parts.items():
            if content is None:
                continue  # an unscored sample, as NaN is: some writers of JSON replace NaN by null
            known = _inspect_value(content)
            if known is None:
                shown = json.dumps(content)[:_SHOWN]
                unread[part] = f"{place}: the score {part} is {shown}, which is not a number, C, I, P or N"
            elif math.isfinite(known):
                values[part] = known
    first: Mapping[str, Any] = as_object(next(iter(scores.values()), None))
    if error := sample.get("error"):
        reason = str(error["message"] if isinstance(error, dict) else error).strip().partition("\n")[0]
    else:
        reason = "" if values or unread else "not scored"
    return LoggedOutcome(
        item=str(sample["id"]),
        trial=int(sample.get("epoch") or 1),
        values=None if reason else values,
        question="\n".join(_inspect_texts(sample.get("input"))),
        target=_one_text(sample.get("target")),
        answer=str(first.get("answer") or ""),
        explanation=str(first.get("explanation") or ""),
        error=reason,
        content="\n".join(text[:_SUMMARY] for text in _inspect_texts(sample.get("input"))),
        unread=unread,
    )


def _inspect_texts(question: Any) -> Iterator[str]:
    """The texts of a sample's input. Of a message's other content there is only the type, as in a summary; its id is
    random.
    """
    if isinstance(question, str):
        yield question
        return
    for message in question or ():
        yield f"{message['role']}:"
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield part["text"] if part["type"] == "text" else f"({part['type'].capitalize()})"


def _one_text(value: Any) -> str:
    return " | ".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _inspect_value(value: Any) -> float | None:
    """A value as Inspect counts it; None for one that Inspect cannot count."""
    if isinstance(value, str):
        value = _WORDS.get(value, _LOWER.get(value.lower(), value))
    with suppress(ValueError, OverflowError):
        return float(value) if isinstance(value, int | float | str) else None
    return None


def _harbor(path: Path, files: Sequence[Path]) -> ToolLog | None:
    """A job. Its trials are folders with a `result.json`. A task's name is unique only within its source, the data
    set.
    """
    trials = []
    for file in files:
        trial = read_json(file, anything)
        if isinstance(trial, dict) and "task_name" in trial and "trial_name" in trial:
            trials.append(trial)
    if not trials:
        return None
    agents = sorted({_agent(trial) for trial in trials})
    if len(agents) > 1:
        raise InputError(
            f"{path}: contains trials of several agents: {', '.join(agents[:_LISTED])}; move the trials of each to a "
            "folder of its own, and pass that"
        )
    trials.sort(key=lambda trial: (str(trial.get("started_at") or ""), trial["trial_name"]))
    tasks = [(str(trial.get("source") or ""), str(trial["task_name"])) for trial in trials]
    sources = Counter(name for _, name in set(tasks))
    numbers: Counter[tuple[str, str]] = Counter()
    outcomes = []
    for trial, (source, name) in zip(trials, tasks, strict=True):
        numbers[source, name] += 1
        item = f"{source}/{name}" if source and sources[name] > 1 else name
        outcomes.append(_trial(trial, item, numbers[source, name]))
    return ToolLog(
        path=path,
        tool="Harbor",
        benchmarks=frozenset(source for source, _ in tasks if source),
        who=agents[0],
        outcomes=outcomes,
    )


def _agent(trial: Mapping[str, Any]) -> str:
    agent = as_object(trial.get("agent_info"))
    names = agent.get("name"), as_object(agent.get("model_info")).get("name")
    return " with ".join(str(name) for name in names if name)


def _trial(trial: Mapping[str, Any], item: str, number: int) -> LoggedOutcome:
    """A trial. Whether its reward counts although an exception ended it, or one of its steps, is Harbor's decision."""
    rewards = as_object(as_object(trial.get("verifier_result")).get("rewards"))
    ended = [as_object(result.get("exception_info")) for result in (trial, *objects(trial.get("step_results")))]
    exceptions = [exception for exception in ended if exception.get("exception_type")] or [{}]
    values = {
        name: float(value) for name, value in rewards.items() if isinstance(value, int | float) and math.isfinite(value)
    }
    valid = trial.get("reward_valid")
    if valid is None:
        valid = _NOT_MEASURED.isdisjoint(str(exception.get("exception_type")) for exception in exceptions)
    counts = bool(values) and valid
    return LoggedOutcome(
        item=item,
        trial=number,
        values=values if counts else None,
        group=str(trial.get("source") or ""),
        explanation=str(exceptions[0].get("exception_message") or ""),
        error="" if counts else str(exceptions[0].get("exception_type") or "no reward"),
        content=str(trial.get("task_checksum") or ""),
    )


def _lm_eval(path: Path, files: Sequence[Path]) -> ToolLog:
    """Logged samples, one file for each task. If a task was run several times, the last file counts."""
    folders = sorted({file.parent for file in files})  # one for each model
    if len(folders) > 1:
        names = ", ".join(map(str, folders[:_LISTED]))
        raise InputError(f"{path}: contains samples of several models; pass one of these folders: {names}")
    newest: dict[str, Path] = {}
    for file in sorted(files, key=lambda path: path.stem):
        name = _SAMPLES.fullmatch(file.stem)
        newest[name[1] if name else file.stem.removeprefix("samples_")] = file
    samples: dict[tuple[str, int], LoggedOutcome] = {}
    for task, file in newest.items():
        for outcome in _lm_eval_samples(task, file):
            place = outcome.item, outcome.trial
            before = samples.get(place)
            if before is not None:  # the same sample with another filter
                _check_distinct(file, before, outcome)
                outcome = _merged(before, outcome)
            samples[place] = outcome
    (folder,) = folders
    return ToolLog(
        path=path,
        tool="lm-evaluation-harness",
        benchmarks=frozenset(newest),
        who=folder.name.replace("__", "/"),
        outcomes=list(samples.values()),
        items=_lm_eval_items(folder, newest),
    )


def _check_distinct(path: Path, before: LoggedOutcome, outcome: LoggedOutcome) -> None:
    """Raises InputError for a second value of a sample by the same metric and filter: nothing says which one counts."""
    if twice := [name for name in outcome.values or () if name in (before.values or ())]:
        raise InputError(
            f"{path}: contains two values of {twice[0]} for doc_id {outcome.item.rpartition('/')[2]}, and nothing says "
            "which one counts; keep one line of each doc_id and filter. Old versions of lm-evaluation-harness do not "
            "log the filter: log again with a current one, or with one filter"
        )


def _merged(outcome: LoggedOutcome, counterpart: LoggedOutcome) -> LoggedOutcome:
    return replace(outcome, values={**(outcome.values or {}), **(counterpart.values or {})})


def _lm_eval_samples(task: str, path: Path) -> Iterator[LoggedOutcome]:
    with InputFile(path, expected="each line must be one sample") as file:
        for line, row in file.json_lines(json_object):
            if "doc_id" not in row:
                raise InputError(f"{path}:{line}: is not a sample of lm-evaluation-harness: doc_id is missing")
            listed = row.get("metrics") or [name for name in row if name not in _LM_EVAL_FIELDS]
            names = [name for name in listed if name != _LM_EVAL_UNSCORED]
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
