"""Read the output folder of an OpenCompass run that a model judged, check that it is complete, and write folders of the
same layout.

The folders (observed): `predictions/<model>/` contains the answers. Judgements are in one of two formats:

- Subjective evaluation: the same files under `results/<model>_judged-by--<judge>/`. Either side may be split into
  parts, independently of the other.
- Generic evaluator: `results/<model>/<ds>_replica0.json`, …, one file per repetition; or `results/<model>/<ds>.json`
  with scores and, with --dump-eval-details, the same entries as `details`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refsol._opencompass import (
    EntryFile,
    OpenCompassEntry,
    Parts,
    data_sets,
    dataset_of,
    in_order,
    is_replica,
    read_entries,
)
from refsol.errors import InputError
from refsol.simpleqa.data import GoldQuestion
from refsol.simpleqa.score import JudgedAnswer, JudgedSet

JUDGED_BY = "_judged-by--"
GENERIC_JUDGE = "judge"
"""The judge's name for the generic evaluator, which does not state one."""
_ID_KEYS = ("qid", "id", "original_index")
_GROUP_KEYS = ("hu_specific_dim", "primary_category", "topic")


def is_opencompass(path: Path) -> bool:
    """Whether a path is an output folder of OpenCompass, a folder in its `results`, or a file in one of these."""
    folder = path.parent if path.is_file() else path
    return (path / "results").is_dir() or JUDGED_BY in folder.name or folder.parent.name == "results"


def read_opencompass(path: Path, items: Sequence[GoldQuestion] | None = None) -> list[JudgedSet]:
    """Read the judged data sets of an output folder or of one folder in its `results`. For a file in one of these, read
    its data set with all its parts.

    `items` are the questions in their original order. They prove that the run is complete and give the groups. Without
    them, the groups come from the gold, if it is a whole record. Raises InputError that says what is missing if parts
    or keys are missing, or if results and predictions differ.
    """
    if path.is_file():
        return [judged for judged in _judged_sets(path.parent, items) if judged.dataset == dataset_of(path)]
    folders = [path] if path.parent.name == "results" else _folders(path / "results")
    return [judged for folder in folders for judged in _judged_sets(folder, items)]


def _folders(results: Path) -> list[Path]:
    """The folders of judgements: the ones with a judge's name, otherwise the generic evaluator's."""
    named = sorted(results.glob(f"*{JUDGED_BY}*"))
    folders = named or sorted(folder for folder in results.glob("*") if folder.is_dir())
    if not folders:
        raise InputError(f"{results}: no folder <model>{JUDGED_BY}<judge>, and none of the generic evaluator")
    return folders


def _judged_sets(folder: Path, items: Sequence[GoldQuestion] | None) -> Iterator[JudgedSet]:
    model, _, judge = folder.name.partition(JUDGED_BY)
    predicted = folder.parent.parent / "predictions" / model
    results, predictions = data_sets(folder), data_sets(predicted)
    if unjudged := sorted(predictions.keys() - results.keys()):
        raise InputError(f"{folder}: no results for {', '.join(unjudged)}; {predicted} contains predictions for them")
    for dataset, parts in results.items():
        entries, judged = _matched(predicted, predictions.get(dataset, {}), folder, parts)
        warnings = tuple(_proof(folder / dataset, entries, items, judged.replicas))
        json_labels = '"evaluation"' in str(judged.entries[0].prompt)  # all rows share one template
        rows = _rows(dataset, judge or GENERIC_JUDGE, entries, judged, items)
        yield JudgedSet(model, dataset, tuple(rows), json_labels, warnings)


def _rows(
    dataset: str,
    judge: str,
    entries: Sequence[OpenCompassEntry],
    judged: EntryFile,
    items: Sequence[GoldQuestion] | None,
) -> Iterator[JudgedAnswer]:
    size = len(entries) // judged.replicas
    for n, (entry, reply) in enumerate(zip(entries, judged.entries, strict=True)):
        replica, place = divmod(n, size)
        id_, group = (items[place].id, items[place].group) if items else _named(entry.gold, place)
        yield JudgedAnswer(
            id=f"{id_}#{replica + 1}" if replica else id_,
            language=dataset,
            group=group,
            prediction=entry.prediction,
            judged={judge: reply.prediction},
            item=id_,
        )


def _named(gold: Any, place: int) -> tuple[str, str]:
    """The id and the group in a gold record. If the gold is not a record, the place and no group."""
    if not isinstance(gold, dict):
        return str(place), ""
    id_ = next((str(gold[key]) for key in _ID_KEYS if gold.get(key) is not None), str(place))
    return id_, next((gold[key] for key in _GROUP_KEYS if isinstance(gold.get(key), str)), "")


def _matched(
    predicted: Path, predictions: Parts, folder: Path, results: Parts
) -> tuple[list[OpenCompassEntry], EntryFile]:
    """Both sides' entries in the order of parts and keys, after a check that they are for the same questions."""
    replicated = any(is_replica(path) for path in results.values())
    if predictions and (replicated or (None in predictions) != (None in results)):
        return _matched_in_total(predictions, results, replicated)
    missing = [str(folder / path.name) for part, path in predictions.items() if part not in results]
    missing += [str(predicted / path.name) for part, path in results.items() if part not in predictions]
    if missing:
        raise InputError(f"missing {', '.join(sorted(missing))}")
    entries: list[OpenCompassEntry] = []
    replies: list[OpenCompassEntry] = []
    replicas = 1
    for part in in_order(results):
        before, judged = read_entries(predictions[part]).entries, read_entries(results[part])
        _check_length(predictions[part], before, results[part], judged.entries)
        replicas = judged.replicas
        entries += before
        replies += judged.entries
    return entries, EntryFile(replies, replicas)


def _matched_in_total(predictions: Parts, results: Parts, replicated: bool) -> tuple[list[OpenCompassEntry], EntryFile]:
    """The entries if the two sides are split differently. Then only the numbers of entries can be compared."""
    before = [entry for part in in_order(predictions) for entry in read_entries(predictions[part]).entries]
    files = [read_entries(results[part]) for part in in_order(results)]
    replies = [entry for file in files for entry in file.entries]
    _check_length(next(iter(predictions.values())), before, next(iter(results.values())), replies)
    return before, EntryFile(replies, len(files) if replicated else files[0].replicas)


def _check_length(
    path: Path, entries: Sequence[OpenCompassEntry], counterpart: Path, others: Sequence[OpenCompassEntry]
) -> None:
    if len(entries) != len(others):
        low, high = sorted((len(entries), len(others)))
        shorter = path if len(entries) < len(others) else counterpart
        raise InputError(f"{shorter}: missing the keys {low} … {high - 1}, which its counterpart contains")


def _proof(
    place: Path, entries: Sequence[OpenCompassEntry], items: Sequence[GoldQuestion] | None, replicas: int
) -> Iterator[str]:
    if items is None:
        yield f"{place}: completeness is not proved (a last part may be missing); name the questions with --data"
        return
    if len(items) * replicas != len(entries):
        rounds = f" in {replicas} repetitions" if replicas > 1 else ""
        raise InputError(f"{place}: {len(entries)} rows{rounds} of the {len(items)} that --data holds")
    different = [
        n for n, entry in enumerate(entries) if _answer(entry.gold) not in (None, items[n % len(items)].answer)
    ]
    if different:
        yield (
            f"{place}: the gold of {len(different)} rows differs from --data (first: row {different[0]});"
            " groups go by position and may be wrong"
        )


def _answer(gold: Any) -> Any:
    """The gold answer. If the gold is a whole record, its answer field."""
    return gold.get("answer") if isinstance(gold, Mapping) else gold


def write_opencompass(folder: Path, judged: JudgedSet, items: Sequence[GoldQuestion]) -> list[Path]:
    """Write `predictions/<model>/` and, for each judge, `results/<model>_judged-by--<judge>/`. Returns the files.

    Each language is a separate data set, named after the set and the language. The gold is the whole record, so that a
    summarizer can group by its fields. Raises InputError if a row's question is not in `items` or a reply is missing:
    OpenCompass cannot mark a failed call and would count it as a grade.
    """
    known = {item.id: item for item in items}
    for row in judged.rows:
        if row.id not in known:
            raise InputError(f"{judged.dataset}: {row.id} is not among the questions; name them with --data")
        if row.prediction is None or any(row.judged.get(judge) is None for judge in judged.judges):
            raise InputError(f"{judged.dataset}: {row.id} lacks an answer or a judgement; finish the run first")
    written = []
    for language in dict.fromkeys(row.language for row in judged.rows):
        rows = [row for row in judged.rows if row.language == language]
        name = judged.dataset if language in ("", judged.dataset) else f"{judged.dataset}_{language}"
        replies = {"predictions/" + judged.model: [row.prediction for row in rows]}
        for judge in judged.judges:
            replies[f"results/{judged.model}{JUDGED_BY}{judge}"] = [row.judged[judge] for row in rows]
        for place, texts in replies.items():
            is_judge = place.startswith("results/")
            entries = {
                str(n): _entry(known[row.id], row, text, judged.json_labels and is_judge)
                for n, (row, text) in enumerate(zip(rows, texts, strict=True))
            }
            written.append(_write(folder / place / f"{name}.json", entries))
    return written


def _entry(item: GoldQuestion, row: JudgedAnswer, text: str | None, json_labels: bool) -> dict[str, Any]:
    """A judged set does not store `origin_prompt`. This is the question and the word that marks JSON labels."""
    prompt = f'{item.question} {{"evaluation"}}' if json_labels else item.question
    gold = {"qid": item.id, "question": item.question, "answer": item.answer, "hu_specific_dim": row.group}
    return {"origin_prompt": prompt, "prediction": text, "gold": gold}


def _write(path: Path, entries: Mapping[str, Any]) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(entries, ensure_ascii=False, indent=4) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path
