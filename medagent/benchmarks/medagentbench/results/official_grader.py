"""The verdicts of a user's copy of the official grader on results files, compared with this project's verdicts.

The official `refsol.py` must not be redistributed, so each user needs a copy. The file contains the functions `task1` …
`task10`, with the task, the results and the FHIR base as parameters. `True` is right; any other value and any exception
is wrong.

The file runs in its own process, which gets no environment variables that could hold keys. If bubblewrap works and the
patients are not on a server, the process cannot use the network.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
from medagent.core.closing import Closing
from medagent.core.errors import UserError
from medagent.core.writing import file_digest
from medagent.engine.report import ItemOutcome, TableLine, TableSection
from medagent.reports.tables import named
from refsol.medagentbench import ResultItem

CHILD = "medagent.benchmarks.medagentbench.results._official_child"
PATIENCE_S = 60.0
"""The time limit for one item, in seconds."""
_MOST_TIMEOUTS = 2
"""After this number of items that exceeded the time limit, the file is not called again."""
_PASSED = re.compile("PATH|HOME|LANG|PYTHON.*")
"""The environment variables that the file's process gets."""


@dataclass(frozen=True, slots=True)
class OfficialData:
    """The target of the file's GETs: an SQLite file of the embedded server, or a FHIR server's address."""

    store: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OfficialVerdict:
    """The file's verdict on an item. If it gave none, `right` is None and `reason` says why.

    `ended` says if the file raised an error or did not return in time.
    """

    right: bool | None
    reason: str = ""
    ended: Literal["", "raised", "timeout"] = ""


@dataclass(frozen=True, slots=True)
class OfficialGrades:
    """The verdicts of `file` by task id, one mapping per trial. `digest` is the SHA-256 of `file`."""

    file: Path
    digest: str
    verdicts: Sequence[Mapping[str, OfficialVerdict]]

    def section(self, items: Sequence[ItemOutcome]) -> TableSection:
        """A table of both verdicts by task type."""
        pairs = self._pairs(items)
        kinds = dict.fromkeys(item.group for item, _ in pairs)
        lines = [self._line(kind, [pair for pair in pairs if pair[0].group == kind]) for kind in kinds]
        title = f"Compared with {self.file.name} (digest {self.digest[:12]})"
        return TableSection(title=title, lines=(*lines, self._line("all", pairs)), name="MedAgentBench", count="items")

    def notes(self, items: Sequence[ItemOutcome]) -> list[str]:
        """Notes about items with different verdicts, without a verdict, and on which the file raised an error."""
        pairs = self._pairs(items)
        notes = []
        if differing := _differing(pairs):
            notes.append(f"Different verdicts by {self.file.name}: {named(differing)}")
        if silent := [(item.item, verdict.reason) for item, verdict in pairs if verdict.right is None]:
            notes.append(f"No verdict by {self.file.name}: {len(silent)} items, first {silent[0][0]}: {silent[0][1]}")
        if raised := [(item.item, verdict.reason) for item, verdict in pairs if verdict.ended == "raised"]:
            notes.append(
                f"{self.file.name} raised an error on {len(raised)} items, which counts as wrong: first "
                f"{raised[0][0]}: {raised[0][1]}"
            )
        return notes

    def document(self, items: Sequence[ItemOutcome]) -> dict[str, Any]:
        """The same as JSON."""
        pairs = self._pairs(items)
        return {
            "file": str(self.file),
            "digest": self.digest,
            "right": sum(verdict.right is True for _, verdict in pairs),
            "wrong": sum(verdict.right is False for _, verdict in pairs),
            "differing": _differing(pairs),
            "items": [
                {"task_id": item.item, "correct": verdict.right, "reason": verdict.reason} for item, verdict in pairs
            ],
        }

    def _pairs(self, items: Sequence[ItemOutcome]) -> list[tuple[ItemOutcome, OfficialVerdict]]:
        unknown = OfficialVerdict(None, "unknown task id")
        return [(item, self.verdicts[item.trial - 1].get(item.item, unknown)) for item in items]

    def _line(self, name: str, pairs: Sequence[tuple[ItemOutcome, OfficialVerdict]]) -> TableLine:
        counts = {
            "right here": sum(item.correct is True for item, _ in pairs),
            "right there": sum(verdict.right is True for _, verdict in pairs),
            "no verdict there": sum(verdict.right is None for _, verdict in pairs),
            "differing": len(_differing(pairs)),
        }
        return TableLine(name=name, n=len(pairs), counts=counts)


def _differing(pairs: Sequence[tuple[ItemOutcome, OfficialVerdict]]) -> list[str]:
    return [item.item for item, verdict in pairs if {item.correct, verdict.right} == {True, False}]


def official_grades(
    source: MedAgentBenchGrading, dataset: TaskSet, results: Sequence[tuple[int, ResultItem]]
) -> OfficialGrades:
    """Grade items, each with its trial, by the user's copy of the official grader. Raises UserError."""
    assert source.official is not None
    if dataset.has_twins:
        raise UserError("--official: the official grader does not know twins, of which each comes with its own chart")
    data = _data(source, dataset)
    tasks = {task.id: task.published for task in dataset.tasks}
    verdicts = []
    for trial in range(1, max((trial for trial, _ in results), default=0) + 1):
        items = [
            (tasks[item.task_id], item)
            for trial_number, item in results
            if trial_number == trial and item.task_id in tasks
        ]
        replies = official_verdicts(source.official, items, data, source.api_base)
        verdicts.append({item.task_id: reply for (_, item), reply in zip(items, replies, strict=True)})
    return OfficialGrades(source.official, file_digest(source.official), verdicts)


def _data(source: MedAgentBenchGrading, dataset: TaskSet) -> OfficialData:
    from medagent.fhir_data.embedded import bundled_file, imported_file

    if source.fhir is not None:
        return OfficialData(url=source.fhir, headers=source.fhir_headers)
    if source.ehr is not None:
        return OfficialData(imported_file(source.ehr).path)
    if source.key is None and dataset.hospital is not None:
        return OfficialData(imported_file(dataset.hospital).path)
    if source.key is None and dataset.over_bundled:
        return OfficialData(bundled_file().path)
    raise UserError("--official needs patients, not an answer key: name them with --ehr FILE or --fhir URL")


def official_verdicts(
    file: Path,
    items: Sequence[tuple[Mapping[str, Any], ResultItem]],
    data: OfficialData,
    base: str,
    *,
    patience_s: float = PATIENCE_S,
) -> list[OfficialVerdict]:
    """The verdict on each item. An item without an answer is wrong, as in the published grader.

    Raises UserError if the file cannot be used.
    """
    if not file.is_file():
        raise UserError(f"{file}: no such file; --official must name your copy of the official refsol.py")
    verdicts, hung = [], 0
    with _Grader(file, data, base, patience_s) as grader:
        for task, item in items:
            if item.answer is None:
                verdicts.append(OfficialVerdict(False, "no answer"))
            elif hung >= _MOST_TIMEOUTS:
                verdicts.append(OfficialVerdict(None, f"not graded, because {hung} earlier items did not return"))
            else:
                verdicts.append(grader.verdict(task, item))
                hung += verdicts[-1].ended == "timeout"
    return verdicts


def without_network() -> Sequence[str]:
    """The prefix that runs a command without network. Empty if bubblewrap is missing or not permitted."""
    path = shutil.which("bwrap")
    if path is None:
        return ()
    words = (path, "--dev-bind", "/", "/", "--unshare-net", "--die-with-parent", "--")
    tried = subprocess.run([*words, sys.executable, "-c", ""], capture_output=True, check=False)
    return words if tried.returncode == 0 else ()


class _Grader(Closing):
    """The process of the user's file. It is restarted after it hung or ended."""

    def __init__(self, file: Path, data: OfficialData, base: str, patience_s: float) -> None:
        self._file = file
        self._patience_s = patience_s
        shown = {**asdict(data), "store": data.store and str(data.store), "base": base}
        self._begin = {"file": str(file.resolve()), "base": base, "data": shown}
        self._without_network = without_network() if data.store is not None else ()
        self._process: subprocess.Popen[bytes] | None = None
        self._functions: set[str] = set()
        self._unread = b""

    def verdict(self, task: Mapping[str, Any], item: ResultItem) -> OfficialVerdict:
        """Grade one item. Raises UserError if the file lacks the task's function."""
        if self._process is None:
            self._start()
        kind = str(task.get("type") or task["id"]).partition("_")[0]
        if kind not in self._functions:
            raise UserError(f"{self._file}: does not contain the function {kind}; is it the official refsol.py?")
        history = [{"role": message.role, "content": message.content} for message in item.post_history]
        reply = self._ask({"function": kind, "task": dict(task), "answer": item.answer, "history": history})
        if reply is None:
            self.close()
            return OfficialVerdict(None, f"did not return in {self._patience_s:g} s", "timeout")
        if not reply:
            self.close()
            return OfficialVerdict(None, "ended its process")
        return OfficialVerdict(reply["right"], reply["reason"], "raised" if reply["raised"] else "")

    def _start(self) -> None:
        # Not isolated (-I), because the file may import packages of the user's environment.
        self._process = subprocess.Popen(
            [*self._without_network, sys.executable, "-m", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)},
        )
        self._unread = b""
        begun = self._ask(self._begin, PATIENCE_S)
        if begun is None:
            raise UserError(f"{self._file}: was not loaded within {PATIENCE_S:g} s")
        if not begun:
            assert self._process.stderr is not None
            error = self._process.stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise UserError(f"{self._file}: its process ended while it was loaded: {error or 'no error output'}")
        if "problem" in begun:
            raise UserError(f"{self._file}: cannot be loaded: {begun['problem']}")
        self._functions = set(begun["functions"])

    def _ask(self, value: Mapping[str, Any], patience_s: float | None = None) -> dict[str, Any] | None:
        """Send a line and return the reply: None after a timeout, an empty dict if the process has ended."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(value).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return {}
        line = self._line(process, time.monotonic() + (patience_s or self._patience_s))
        if line is None:
            return None
        reply: dict[str, Any] = json.loads(line) if line else {}
        return reply

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
        """The next line of the process's output: b"" at its end, None after a timeout."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    return None
                read = os.read(process.stdout.fileno(), 1 << 16)
                if not read:
                    return b""
                self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
