"""`report.json` and `items.jsonl`: the stored report of a run. Items are in a separate file, one per line, because
there may be a million of them.

Both files are derived from the journals. `Basis` names the code and files that they were made from. A stored report is
used only if all of these are unchanged. A report with a wrong digest of itself was edited, and is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from pydantic import TypeAdapter, ValidationError

from medagent.core.errors import UserError
from medagent.engine.files import file_digest, write_changed, write_changed_parts
from medagent.engine.report import ItemOutcome, Report
from refsol.json_values import unicode_json

REPORT, ITEMS = "report.json", "items.jsonl"
_BASIS = "made_from"
_OF_ONE_CALL = {"command", "reused"}
"""Fields that are not stored: the command has the addresses of endpoints, and `reused` applies to one call only."""
_OUTCOME = TypeAdapter(ItemOutcome)


@dataclass(frozen=True, slots=True)
class Basis:
    """The inputs of a stored report in addition to the journals.

    `code` is the digest of the grading code, `request` that of the command's settings, `units` the number of units in
    the journal, `files` the SHA-256 of each file that was written with the report. An empty digest equals no other.
    """

    code: str = ""
    request: str = ""
    units: int = 0
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report that was read from a folder, with its inputs."""

    report: Report
    basis: Basis

    def holds(self, folder: Path, name: str) -> bool:
        """Whether a file of the folder is unchanged since it was written with the report."""
        path = folder / name
        return path.parent == folder and path.is_file() and file_digest(path) == self.basis.files.get(name)


class StoredItems(Sequence[ItemOutcome]):
    """The items of a stored report. Each iteration reads them from their file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _count(self) -> int:
        with self._path.open("rb") as file:
            return sum(1 for _ in file)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ItemOutcome]:
        try:
            with self._path.open("rb") as file:
                for line in file:
                    yield _outcome(line)
        except (OSError, ValueError):
            raise _damaged(self._path) from None

    @overload
    def __getitem__(self, place: int) -> ItemOutcome: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ItemOutcome]: ...
    def __getitem__(self, place: int | slice) -> ItemOutcome | Sequence[ItemOutcome]:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as for any sequence that is compared by its items


def keep(folder: Path, report: Report, basis: Basis) -> None:
    """Write both files, unless they already have the report. Raises UserError."""
    write_changed_parts(folder / ITEMS, lambda: map(_line, report.items))
    made = [name for name in report.files if name not in (REPORT, "run.json", *report.journals)]
    files = {name: file_digest(folder / name) for name in made if (folder / name).is_file()}
    document = report.model_dump(mode="json", exclude={"items", *_OF_ONE_CALL})
    document[_BASIS] = {**asdict(basis), "files": files}
    document[_BASIS]["sha256"] = _digest(document)
    write_changed(folder / REPORT, json.dumps(document, indent=1) + "\n")


def read_report(folder: Path) -> StoredReport | None:
    """The stored report of a run; None if there is none. Raises UserError if it is damaged."""
    path = folder / REPORT
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_bytes())
        basis = document.pop(_BASIS, {})
        digest = basis.pop("sha256", "")
        whole = digest == _digest({**document, _BASIS: basis})
        report = Report.model_validate(document)
        if (folder / ITEMS).is_file() and not report.items:
            report = report.model_copy(update={"items": StoredItems(folder / ITEMS)})
        return StoredReport(report, Basis(**basis) if whole else Basis())
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise _damaged(path) from None


def document(report: Report) -> str:
    """The report with its items as one JSON object, indented by 1."""
    return json.dumps(report.model_dump(mode="json", exclude=_OF_ONE_CALL), indent=1) + "\n"


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _line(item: ItemOutcome) -> str:
    """A line in ASCII, because a model's text may not be valid UTF-8."""
    return json.dumps(_OUTCOME.dump_python(item), separators=(",", ":")) + "\n"


def _outcome(line: bytes) -> ItemOutcome:
    try:
        return _OUTCOME.validate_json(line)
    except ValidationError:  # the texts of earlier versions may contain half of a surrogate pair
        return _OUTCOME.validate_json(unicode_json(line.decode()))


def _damaged(path: Path) -> UserError:
    return UserError(f"{path}: is damaged; remove it, and repeat the run's command to make it again")
