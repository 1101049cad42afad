from __future__ import annotations

import copy
from typing import Any

import pytest

from refsol.errors import InputError
from refsol.promptcblue import TASKS, score, select_tasks
from refsol.promptcblue._metrics import PRF, Rouge
from refsol.promptcblue.score import measure
from refsol.promptcblue.tasks import AnswerKind, Average, TaskSpec
from tests.refsol.promptcblue.vectors import value

# The published scorer takes these by accident; here they are refused.
REFUSED = {"pred-all-lists"}
CASES = {f"{case['kind']}-{case['case']}": case for case in value("score_cases.json")["cases"]}


def items(*answers: Any) -> list[dict[str, Any]]:
    return [{"sample_id": f"s{number}", "answer": answer} for number, answer in enumerate(answers)]


def figures(case: dict[str, Any]) -> tuple[float, ...]:
    kinds = {"ie": AnswerKind.EXTRACTION, "cls": AnswerKind.CLASSES, "nlg": AnswerKind.TEXT}
    spec = TaskSpec(
        case["kind"],
        kinds.get(case["kind"], AnswerKind.REPORT),
        "",
        empty_label=case["labels"][0] if case["kind"] == "cls" else "",
        average=Average.MACRO if case.get("macro") else Average.WEIGHTED,
    )
    found = measure(spec, case["gold"], case["pred"]).figures
    assert isinstance(found, PRF | Rouge)
    if isinstance(found, Rouge):
        return found.rouge1, found.rouge2, found.rouge_l
    return found.precision, found.recall, found.f1


@pytest.mark.parametrize("name", CASES)
def test_score_case(name: str) -> None:
    case = CASES[name]
    if "ok" in case["official"] and case["case"] not in REFUSED:
        assert figures(case) == pytest.approx(case["official"]["ok"], abs=1e-9)
    else:
        with pytest.raises(InputError):
            figures(case)


def test_an_empty_gold_label_is_refused() -> None:
    with pytest.raises(InputError, match="an empty gold label"):
        measure(TaskSpec("x", AnswerKind.CLASSES, "", empty_label="相关"), items(""), items("相关"))


def test_vectors() -> None:
    scores = score(value("gold.json"), value("structured.json"))
    official, details = value("scores.json"), value("scores_detail.json")
    shape = scores.to_json(details=True)
    assert list(shape) == ["success", "score", "scoreJson", "details"]
    assert shape["success"] is True
    assert shape["score"] == pytest.approx(official["score"], abs=1e-9)
    assert list(shape["scoreJson"]) == list(official["scoreJson"])
    assert shape["scoreJson"] == pytest.approx(official["scoreJson"], abs=1e-9)
    assert list(shape["details"]) == list(details)
    assert shape["details"].pop("Overall") == pytest.approx(details.pop("Overall"), abs=1e-9)
    for task, expected in details.items():
        assert shape["details"][task] == pytest.approx(expected, abs=1e-9)
    assert "details" not in scores.to_json()


def test_plain_metrics_have_names_of_their_own() -> None:
    gold, predicted = value("gold.json"), value("structured.json")
    official, plain = score(gold, predicted).to_json(), score(gold, predicted, plain=True).to_json()
    assert "score" not in plain
    assert "score" not in plain["scoreJson"]
    changed = plain["scoreJson"].keys() - official["scoreJson"].keys()
    assert changed == {
        "CHIP-STS-True-Micro-F1",
        "KUAKE-IR-True-Micro-F1",
        "KUAKE-QQR-True-Micro-F1",
        "KUAKE-QTR-True-Micro-F1",
        "CHIP-CDEE-Set-Micro-F1",
        "plain score",
    }
    assert plain["plain score"] == pytest.approx(sum(list(plain["scoreJson"].values())[:-1]) / 16)
    right = sum(
        (given["answer"] or "是的") == wanted["answer"]
        for given, wanted in zip(predicted["CHIP-STS"], gold["CHIP-STS"], strict=True)
    )
    assert plain["scoreJson"]["CHIP-STS-True-Micro-F1"] == pytest.approx(100 * right / len(gold["CHIP-STS"]))


def test_plain_metrics_take_event_lists_as_sets() -> None:
    event = {"主体词": "痛", "发生状态": "", "描述词": ["a", "b"], "解剖部位": []}
    turned = {**event, "描述词": ["b", "a"]}
    tasks = select_tasks("CHIP-CDEE")
    gold, predicted = {"CHIP-CDEE": items([event])}, {"CHIP-CDEE": items([turned])}
    assert score(gold, predicted, tasks).overall == 0
    assert score(gold, predicted, tasks, plain=True).overall == 1


def test_a_part_is_not_named_score() -> None:
    scores = score(value("gold.json"), value("structured.json"), select_tasks(" MedDG,CMeEE-V2,,MedDG"))
    shape, official = scores.to_json(details=True), value("scores.json")["scoreJson"]
    mean = (official["CMeEE-V2-Micro-F1"] + official["MedDG-RougeL"]) / 2
    assert list(shape["scoreJson"]) == ["CMeEE-V2-Micro-F1", "MedDG-RougeL", "mean of 2 tasks"]
    assert shape["mean of 2 tasks"] == pytest.approx(mean, abs=1e-9)
    assert shape["details"]["mean of 2 tasks"] == pytest.approx(mean / 100, abs=1e-9)
    assert "Overall" not in shape["details"]


def test_a_task_that_is_empty_on_both_sides_has_no_figure() -> None:
    structured = {"CMeEE-V2": [], "KUAKE-IR": items("相关"), "MedDG": []}
    scores = score(structured, copy.deepcopy(structured), select_tasks("CMeEE-V2,KUAKE-IR,MedDG"))
    shape = scores.to_json(details=True)
    assert shape["scoreJson"] == {
        "CMeEE-V2-Micro-F1": None,
        "KUAKE-IR-Micro-F1": 100.0,
        "MedDG-RougeL": None,
        "mean of 1 task": 100.0,
    }
    assert shape["details"]["MedDG"] is None
    row = next(row for row in scores.table().split("\n") if row.startswith("CMeEE-V2"))
    assert row.split() == ["CMeEE-V2", "0", "Micro-F1", "–", "–", "–"]


def test_nothing_at_all_has_no_score() -> None:
    nothing: dict[str, list[Any]] = {task.name: [] for task in TASKS}
    with pytest.raises(InputError, match="nothing to score"):
        score(nothing, nothing)


def test_the_table_marks_the_main_figure() -> None:
    table = score(value("gold.json"), value("structured.json")).table().split("\n")
    assert [row.split()[0] for row in table[1:-1]] == [task.name for task in TASKS]
    assert all(row.split()[5].startswith("*") and row.count("*") == 1 for row in table[1:-1])
    assert table[1].split()[:6] == ["CMeEE-V2", "80", "Micro-F1", "78.95", "67.95", "*73.04"]
    assert table[-1].split()[:3] == ["score", "1280", "63.00"]
    assert all(len(row) <= 80 for row in table)


def test_every_task_has_its_number_of_samples_and_an_interval() -> None:
    scores = score(value("gold.json"), value("structured.json"))
    intervals = scores.intervals(draws=200)
    assert list(intervals) == [*(task.name for task in TASKS), "score"]
    for scored in scores.tasks:
        assert scored.samples == 80
        assert scored.main is not None
        assert intervals[scored.task.name].low < scored.main < intervals[scored.task.name].high
    assert intervals["score"].low < scores.overall < intervals["score"].high
    widths = [interval.high - interval.low for interval in intervals.values()]
    assert widths[-1] == min(widths)
    assert scores.intervals(draws=200) == intervals


def test_what_is_all_right_has_no_spread() -> None:
    gold = value("gold.json")
    for interval in score(gold, gold).intervals(draws=5).values():
        assert (interval.low, interval.high) == pytest.approx((1, 1), abs=1e-7)


@pytest.mark.parametrize(
    ("names", "message"),
    [("CMeIE-V2", "18-task edition"), ("CMeEE-V2,MedQA", "unknown task 'MedQA'"), (" ,", "no task is named")],
)
def test_unknown_selection(names: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select_tasks(names)
