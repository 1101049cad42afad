"""Structured files that cannot be scored: the recorded situations and others, each with its clear error."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refsol.promptcblue import ProblemsError, parse_file, score_files, select_tasks
from refsol.promptcblue.files import read_structured
from tests.refsol.promptcblue.vectors import jsonl, line, text, value

Structured = dict[str, Any]
Change = Callable[[Structured], Any]
GOLD = value("gold.json")


def put(task: str, number: int, **changes: Any) -> Change:
    return lambda structured: structured[task][number].update(changes)


def replaced(new: Any) -> Callable[[Structured], Any]:
    return lambda structured: new


# What each recorded situation does to the results file, and words of the error that it gets.
SITUATIONS: dict[str, tuple[Change, list[str]]] = {
    "missing-task": (lambda s: s.pop("CHIP-CDN") and s, ["pred.json: CHIP-CDN: the task is missing"]),
    "one-sample-extra": (
        lambda s: s["CMeIE"].append({"sample_id": "more", "answer": []}) or s,
        ["pred.json: CMeIE: samples not in the gold: more"],
    ),
    "reversed-nlg": (
        lambda s: s["MedDG"].reverse() or s,
        ["pred.json: MedDG: item 1, sample v101-11-79: the samples are in another order; the gold shows v101-11-0"],
    ),
    "reversed-mrg": (lambda s: s["IMCS-V2-MRG"].reverse() or s, ["pred.json: IMCS-V2-MRG: item 1", "another order"]),
    "inst-no-id-ie": (
        lambda s: s["CMeEE-V2"][2].pop("sample_id") and s,
        ["pred.json: CMeEE-V2, item 3: no sample_id"],
    ),
    "answer-wrong-type-ie": (
        lambda s: put("CMeEE-V2", 0, answer="肺")(s) or s,
        ["pred.json: CMeEE-V2, item 1, sample v101-0-0: the answer must be a list of objects"],
    ),
    "mrg-str": (
        lambda s: put("IMCS-V2-MRG", 0, answer="主诉：咳")(s) or s,
        ["pred.json: IMCS-V2-MRG, item 1, sample v101-12-0: the answer must be an object of sections"],
    ),
    "task-is-dict-len5": (
        lambda s: {**s, "CMeIE": {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}},
        ["pred.json: CMeIE: must be a list"],
    ),
    "top-list": (replaced([]), ["pred.json: must be an object with the answers by task"]),
    "top-null": (replaced(None), ["pred.json: must be an object with the answers by task"]),
    "empty-file": (replaced(b""), ["pred.json: not JSON: Expecting value at column 1"]),
    "missing-file": (replaced(Path("missing")), ["pred.json: cannot be read: No such file or directory"]),
    "id-null": (
        lambda s: put("KUAKE-IR", 0, sample_id=None)(s) or s,
        ["pred.json: KUAKE-IR, item 1, sample None: sample_id is neither a text nor a whole number"],
    ),
}
# The same for the two situations that lie in the gold file as well.
GOLD_SITUATIONS: dict[str, tuple[Change, list[str]]] = {
    "gold-missing-task": (lambda s: s.pop("CHIP-CDN") and s, ["gold.json: CHIP-CDN: the task is missing"]),
    "all-tasks-zero-samples": (
        lambda s: {task: [] for task in s},
        [f"gold.json: {task}: no samples; name the other tasks with --tasks" for task in GOLD],
    ),
}


def score_changed(folder: Path, predicted: Any = GOLD, gold: Any = GOLD, **options: Any) -> Any:
    for name, content in (("pred.json", predicted), ("gold.json", gold)):
        if not isinstance(content, Path):
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            (folder / name).write_bytes(data)
    return score_files(folder / "pred.json", folder / "gold.json", **options)


def error_of(folder: Path, predicted: Any = GOLD, gold: Any = GOLD) -> str:
    with pytest.raises(ProblemsError) as caught:
        score_changed(folder, predicted, gold)
    return str(caught.value).replace(f"{folder}/", "")


def test_every_recorded_situation_is_here() -> None:
    recorded = {case["case"] for case in value("file_error_cases.json")}
    assert recorded == SITUATIONS.keys() | GOLD_SITUATIONS.keys() | {"extra-task"}


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name: str, tmp_path: Path) -> None:
    change, messages = SITUATIONS[name]
    error = error_of(tmp_path, change(copy.deepcopy(GOLD)))
    assert all(message in error for message in messages)


@pytest.mark.parametrize("name", GOLD_SITUATIONS)
def test_gold_situation(name: str, tmp_path: Path) -> None:
    change, messages = GOLD_SITUATIONS[name]
    changed = change(copy.deepcopy(GOLD))
    error = error_of(tmp_path, changed if name == "all-tasks-zero-samples" else GOLD, changed)
    assert all(message in error for message in messages)


def test_an_extra_task_is_scored_with_a_warning(tmp_path: Path) -> None:
    recorded = next(case for case in value("file_error_cases.json") if case["case"] == "extra-task")["out"]
    scores = score_changed(tmp_path, {**GOLD, "MedQA": [], "CMeIE-V2": []})
    assert scores.to_json()["score"] == pytest.approx(recorded["score"], abs=1e-9)
    assert scores.to_json()["scoreJson"] == pytest.approx(recorded["scoreJson"], abs=1e-9)
    assert [str(warning).replace(f"{tmp_path}/", "").split(";")[0] for warning in scores.warnings] == [
        "warning: pred.json: unknown task 'MedQA'",
        "warning: pred.json: CMeIE-V2 is a task of the public 18-task edition, not of this one (16 tasks, CCKS 2023)",
    ]


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + text("gold.json").encode()
    assert score_changed(tmp_path, data, data).warnings == ()


def test_everything_wrong_in_both_files_is_reported_at_once(tmp_path: Path) -> None:
    predicted, gold = copy.deepcopy(GOLD), copy.deepcopy(GOLD)
    del predicted["CMeIE"]
    predicted["MedQA"] = []
    predicted["KUAKE-QIC"][0]["answer"] = None
    predicted["CHIP-STS"][0] = "是的"
    predicted["CHIP-CDEE"][0]["answer"] = [{"主体词": 1, "发生状态": "", "描述词": "甲", "解剖部位": [], "x": 1}, "痛"]
    predicted["IMCS-V2-MRG"][0]["answer"] = {"主诉": 1}
    del predicted["IMCS-V2-MRG"][1]["answer"]
    gold["CHIP-CTC"][0]["answer"] = ""
    error = error_of(tmp_path, predicted, gold).split("\n")
    assert sorted(error[:10]) == sorted(
        [
            "pred.json: CMeIE: the task is missing",
            "pred.json: KUAKE-QIC, item 1, sample v101-8-0: the answer must be a text",
            "pred.json: CHIP-STS, item 1: must be an object {sample_id, answer}",
            "pred.json: CHIP-CDEE, item 1, sample v101-3-0: entry 1 of the answer must have the keys "
            "主体词, 发生状态, 描述词, 解剖部位; found 主体词, 发生状态, 描述词, 解剖部位, x",
            "pred.json: CHIP-CDEE, item 1, sample v101-3-0: entry 1 of the answer: 主体词 is not a text",
            "pred.json: CHIP-CDEE, item 1, sample v101-3-0: entry 1 of the answer: 描述词 is not a list of texts",
            "pred.json: CHIP-CDEE, item 1, sample v101-3-0: entry 2 of the answer is not an object",
            "pred.json: IMCS-V2-MRG, item 1, sample v101-12-0: section 主诉 is not a text",
            "pred.json: IMCS-V2-MRG, item 2, sample v101-12-1: no answer",
            "gold.json: CHIP-CTC, item 1, sample v101-5-0: the gold label is empty",
        ]
    )
    assert error[10].startswith("warning: pred.json: unknown task 'MedQA'")


def test_missing_doubled_and_unknown_ids_are_named(tmp_path: Path) -> None:
    predicted = copy.deepcopy(GOLD)
    predicted["MedDG"][1]["sample_id"] = "v101-11-0"
    predicted["KUAKE-IR"] = [{**item, "sample_id": f"n{n}"} for n, item in enumerate(predicted["KUAKE-IR"])]
    error = error_of(tmp_path, predicted)
    assert "pred.json: MedDG: samples missing: v101-11-1\n" in error
    assert "pred.json: MedDG: samples doubled: v101-11-0\n" in error or error.endswith("doubled: v101-11-0")
    assert "pred.json: KUAKE-IR: samples not in the gold: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 70 more" in error


def test_other_sections_of_a_report_are_not_scored_and_said_so(tmp_path: Path) -> None:
    predicted = copy.deepcopy(GOLD)
    predicted["IMCS-V2-MRG"][0]["answer"]["其他"] = "x"
    scores = score_changed(tmp_path, predicted)
    place = f"{tmp_path}/pred.json: IMCS-V2-MRG, item 1, sample v101-12-0"
    assert [str(warning) for warning in scores.warnings] == [f"warning: {place}: section 其他 is not scored"]


def test_a_gold_without_any_section_is_refused(tmp_path: Path) -> None:
    gold = copy.deepcopy(GOLD)
    for item in gold["IMCS-V2-MRG"]:
        item["answer"] = {}
    assert "gold.json: IMCS-V2-MRG: no report contains a section" in error_of(tmp_path, GOLD, gold)


def test_the_gold_has_the_six_sections_only(tmp_path: Path) -> None:
    gold = copy.deepcopy(GOLD)
    gold["IMCS-V2-MRG"][0]["answer"]["其他"] = "x"
    message = "gold.json: IMCS-V2-MRG, item 1, sample v101-12-0: section 其他 is not one of the six"
    assert error_of(tmp_path, GOLD, gold) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"CMeIE": [], "CMeIE": []}', "pred.json: the key 'CMeIE' occurs twice in one object"),
        (b'{"CMeIE": [{"\\u65e5": 1, "\xe6\x97\xa5": 2}]}', "pred.json: the key '\u65e5' occurs twice in one object"),
        (b'{"CMeIE": "\xff"}', "pred.json:1: is not UTF-8 at byte 12 of the line"),
        (b'{"a":\n' * 100_000, "pred.json: not usable: nested too deeply"),
        (b"{\n  'a'", "pred.json: not JSON: Expecting property name enclosed in double quotes at line 2, column 3"),
    ],
)
def test_unreadable_file(data: bytes, message: str, tmp_path: Path) -> None:
    assert error_of(tmp_path, data) == message


def test_a_file_may_begin_with_a_byte_order_mark_and_be_laid_out_in_any_way(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    text = json.dumps(GOLD, ensure_ascii=False).replace('"CMeIE": ', '\r\n "CMe\\u0049E"\t: ')
    path.write_bytes(b"\xef\xbb\xbf \n" + text.encode() + b"\n\t")
    assert dict(read_structured(path).value) == GOLD


def test_results_are_laid_out_as_python_does(tmp_path: Path) -> None:
    predictions, results = tmp_path / "predictions.json", tmp_path / "results.json"
    lines = [line("CHIP-CDN", answer_choices=["问"]), line("MedDG", target='"甲"\\\n乙'), line("MedDG", target="")]
    predictions.write_bytes(jsonl(*lines))
    parse_file(predictions, results)
    written = results.read_text("utf-8")
    assert written == json.dumps(json.loads(written), ensure_ascii=False, indent=2)
    assert [item["answer"] for item in json.loads(written)["MedDG"]] == ['"甲"\\\n乙', ""]


def test_a_part_needs_only_its_own_tasks(tmp_path: Path) -> None:
    part = {task: GOLD[task] for task in ("CMeIE", "MedDG")}
    scores = score_changed(tmp_path, part, part, tasks=select_tasks("MedDG"))
    assert [score.task.name for score in scores.tasks] == ["MedDG"]
    assert scores.warnings == ()
