"""What a path given to `medagent simpleqa` holds: judged rows to score, or labels to compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from medagent.errors import UserError
from refsol.simpleqa.agree import Labelling, read_labels
from refsol.simpleqa.data import Item
from refsol.simpleqa.opencompass import is_opencompass, read_opencompass
from refsol.simpleqa.score import JudgedSet, label_of
from refsol.simpleqa.verdict import Rule

BUNDLED = Path(__file__).parent / "data" / "hungarian.jsonl"


def judged_sets(paths: Iterable[Path], items: Sequence[Item] | None = None) -> list[JudgedSet]:
    """The judged sets of run folders and OpenCompass folders, in the order given.

    Raises UserError for a path that is neither, and InputError where a part of one is missing or broken.
    """
    return [judged for path in paths for judged in _sets_of(path, items)]


def _sets_of(path: Path, items: Sequence[Item] | None) -> list[JudgedSet]:
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if is_opencompass(path):
        return read_opencompass(path, items)
    raise UserError(f"{path}: neither a run of `medagent run simpleqa` nor an output folder of OpenCompass")


def labellings(first: str, second: str, rule: Rule) -> tuple[Labelling, Labelling]:
    """The two labellings to compare. One without languages (a file of people's labels) fits one in one language.

    Raises UserError where a place holds several judges and none is named.
    """
    one, other = _labelling(first, rule), _labelling(second, rule)
    return _in_language_of(other, one), _in_language_of(one, other)


def _labelling(place: str, rule: Rule) -> Labelling:
    folder, _, judge = (place, "", "") if Path(place).exists() else place.rpartition("@")
    path = Path(folder or place)
    if path.is_file():
        return read_labels(path)
    sets = judged_sets([path])
    judges = sorted({name for judged in sets for name in judged.judges})
    if judge and judge not in judges:
        raise UserError(f"{path}: has no judge {judge}; it has {', '.join(judges)}")
    if not judge and len(judges) > 1:
        raise UserError(f"{path}: holds several judges; name one as {path}@JUDGE: {', '.join(judges)}")
    return {
        (row.id, row.language): label_of(reply, rule) if reply is not None else None
        for judged in sets
        for row in judged.rows
        for name, reply in zip(judged.judges, row.judged, strict=True)
        if name == (judge or judges[0]) and row.prediction is not None
    }


def _in_language_of(other: Labelling, labels: Labelling) -> Labelling:
    languages = {language for _, language in other}
    if len(languages) > 1 or {language for _, language in labels} != {""}:
        return labels
    return {(id_, language): label for (id_, _), label in labels.items() for language in languages}
