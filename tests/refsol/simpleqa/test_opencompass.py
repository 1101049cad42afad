"""OpenCompass folders: read whole, or refused with what is missing named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from refsol.errors import InputError
from refsol.simpleqa.data import GoldQuestion
from refsol.simpleqa.opencompass import is_opencompass, read_opencompass, write_opencompass
from refsol.simpleqa.score import JudgedAnswer, JudgedSet, score

JUDGED = "M_judged-by--J"


def _part(path: Path, predictions: Sequence[Any], prompt: str = "?") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {str(n): {"origin_prompt": prompt, "prediction": p, "gold": f"g{n}"} for n, p in enumerate(predictions)}
    path.write_text(json.dumps(rows), encoding="utf-8")


def _folder(tmp_path: Path, sizes: Sequence[int], dataset: str = "hu") -> Path:
    for part, size in enumerate(sizes):
        name = f"{dataset}_{part}.json" if len(sizes) > 1 else f"{dataset}.json"
        _part(tmp_path / "predictions" / "M" / name, [f"p{part}-{n}" for n in range(size)])
        _part(tmp_path / "results" / JUDGED / name, ["A"] * size, 'Write {"evaluation": …}')
    return tmp_path


def _items(count: int) -> list[GoldQuestion]:
    return [GoldQuestion(f"q{n}", n + 1, "K?", f"g{n}", "history" if n % 2 else "figure") for n in range(count)]


def test_parts_are_put_together_in_their_order(tmp_path: Path) -> None:
    (judged,) = read_opencompass(_folder(tmp_path, [3] * 11))
    assert (judged.model, judged.judges, judged.dataset) == ("M", ("J",), "hu")
    assert [row.prediction for row in judged.rows] == [f"p{part}-{n}" for part in range(11) for n in range(3)]
    assert judged.json_labels
    assert "completeness is not proved" in judged.warnings[0]


def test_one_file_one_judge_or_all(tmp_path: Path) -> None:
    _folder(tmp_path, [2, 2], "hu")
    _folder(tmp_path, [3], "en")
    results = tmp_path / "results" / JUDGED
    assert all(is_opencompass(path) for path in (tmp_path, results, results / "hu_0.json"))
    assert not is_opencompass(tmp_path / "predictions")
    assert [judged.dataset for judged in read_opencompass(tmp_path)] == ["en", "hu"]
    assert read_opencompass(tmp_path) == read_opencompass(results)
    (judged,) = read_opencompass(results / "hu_1.json")
    assert (judged.dataset, len(judged.rows)) == ("hu", 4)


def test_the_questions_prove_the_total_and_give_groups(tmp_path: Path) -> None:
    (judged,) = read_opencompass(_folder(tmp_path, [3]), _items(3))
    assert not judged.warnings
    assert [row.id for row in judged.rows] == ["q0", "q1", "q2"]
    assert score(judged.rows)[0].groups["figure"].correct == 2
    with pytest.raises(InputError, match="3 rows of the 4 that --data holds"):
        read_opencompass(tmp_path, _items(4))


def test_another_gold_than_that_of_the_questions_is_a_warning(tmp_path: Path) -> None:
    (judged,) = read_opencompass(_folder(tmp_path, [2, 2]), _items(4))
    assert "the gold of 2 rows differs from --data (first: row 2)" in judged.warnings[0]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    _folder(tmp_path, [1, 1, 1, 1])
    for folder in ("predictions/M", f"results/{JUDGED}"):
        (tmp_path / folder / "hu_0.json").unlink()
        (tmp_path / folder / "hu_2.json").unlink()
    with pytest.raises(InputError, match=r"missing hu_0\.json, hu_2\.json"):
        read_opencompass(tmp_path)


@pytest.mark.parametrize("side", ["predictions/M", f"results/{JUDGED}"])
def test_a_part_on_one_side_only_is_named(tmp_path: Path, side: str) -> None:
    _folder(tmp_path, [1, 1, 1])
    (tmp_path / side / "hu_2.json").unlink()
    with pytest.raises(InputError) as raised:
        read_opencompass(tmp_path)
    assert f"missing {tmp_path / side / 'hu_2.json'}" in str(raised.value)


def test_a_data_set_that_was_not_judged_is_named(tmp_path: Path) -> None:
    _folder(tmp_path, [1], "hu")
    _folder(tmp_path, [1], "en")
    (tmp_path / "results" / JUDGED / "en.json").unlink()
    with pytest.raises(InputError, match="no results for en"):
        read_opencompass(tmp_path)


def test_a_whole_file_beside_parts_is_refused(tmp_path: Path) -> None:
    _folder(tmp_path, [1, 1])
    _folder(tmp_path, [1])
    with pytest.raises(InputError, match="and its parts"):
        read_opencompass(tmp_path)


@pytest.mark.parametrize("side", ["predictions/M", f"results/{JUDGED}"])
def test_keys_that_one_side_lacks_are_named(tmp_path: Path, side: str) -> None:
    _folder(tmp_path, [5])
    _part(tmp_path / side / "hu.json", ["A", "A", "A"])
    with pytest.raises(InputError, match=rf"{side}/hu\.json: missing the keys 3 … 4"):
        read_opencompass(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"0": {"prediction": "A"}, "2": {"prediction": "A"}}', "missing the keys 1"),
        ('{"0": {"prediction": 3}}', '["0"]: is not an object whose `prediction` is a text'),
        ('{"0": "A"}', '["0"]: is not an object'),
        ("[]", "not an object with the keys"),
        ("{}", "not an object with the keys"),
        ("{", "not JSON"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    _folder(tmp_path, [1])
    (tmp_path / "results" / JUDGED / "hu.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read_opencompass(tmp_path)
    assert message in str(raised.value)


def test_a_call_without_a_reply_is_a_judge_error(tmp_path: Path) -> None:
    _folder(tmp_path, [3])
    _part(tmp_path / "results" / JUDGED / "hu.json", ["A", None, ""])
    (judged,) = read_opencompass(tmp_path)
    total = score(judged.rows, "letter")[0].total
    assert (total.correct, total.judge_errors, total.not_attempted) == (1, 1, 1)


def test_folders_without_results_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with pytest.raises(InputError, match="no folder <model>_judged-by--<judge>"):
        read_opencompass(tmp_path)
    (tmp_path / "results" / JUDGED).mkdir()
    with pytest.raises(InputError, match="no results"):
        read_opencompass(tmp_path)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _entries(replies: Sequence[Any], **more: Any) -> dict[str, Any]:
    return {
        str(n): {"origin_prompt": "?", "prediction": reply, "gold": f"g{n}", **more} for n, reply in enumerate(replies)
    }


@pytest.mark.parametrize("cut", ["predictions/M", f"results/{JUDGED}"])
def test_parts_on_one_side_and_one_file_on_the_other(tmp_path: Path, cut: str) -> None:
    _folder(tmp_path, [4])
    (tmp_path / cut / "hu.json").unlink()
    _part(tmp_path / cut / "hu_0.json", ["B", "A"])
    _part(tmp_path / cut / "hu_1.json", ["C", "A"])
    (judged,) = read_opencompass(tmp_path)
    side = [row.prediction if cut.startswith("p") else row.judged["J"] for row in judged.rows]
    assert side == ["B", "A", "C", "A"]
    _part(tmp_path / cut / "hu_1.json", ["C"])
    with pytest.raises(InputError, match="missing the keys 3 … 3"):
        read_opencompass(tmp_path)


def test_a_date_in_a_data_sets_name_is_no_part(tmp_path: Path) -> None:
    _folder(tmp_path, [2], "hu_250208")
    _folder(tmp_path, [1, 1], "en_250208")
    assert [(judged.dataset, len(judged.rows)) for judged in read_opencompass(tmp_path)] == [
        ("en_250208", 2),
        ("hu_250208", 2),
    ]


@pytest.mark.parametrize("as_list", [False, True])
def test_figures_wrapped_around_details(tmp_path: Path, as_list: bool) -> None:
    _folder(tmp_path, [2])
    details = _entries(["A", "B"])
    document = {"accuracy": 50.0, "details": list(details.values()) if as_list else details}
    _write(tmp_path / "results" / JUDGED / "hu.json", document)
    (judged,) = read_opencompass(tmp_path)
    assert [row.judged["J"] for row in judged.rows] == ["A", "B"]


def test_figures_alone_are_said(tmp_path: Path) -> None:
    _folder(tmp_path, [2])
    _write(tmp_path / "results" / JUDGED / "hu.json", {"accuracy": 50.0})
    with pytest.raises(InputError, match="contains only scores; run OpenCompass with --dump-eval-details"):
        read_opencompass(tmp_path)


def _generic(tmp_path: Path, rounds: int = 1) -> Path:
    """The generic evaluator's folder: questions asked so often, one round after the other."""
    replies = [f"p{place}-{n}" for place in range(rounds) for n in range(2)]
    golds = [f"g{n}" for _ in range(rounds) for n in range(2)]
    rows = {str(n): {"prediction": p, "gold": g} for n, (p, g) in enumerate(zip(replies, golds, strict=True))}
    _write(tmp_path / "predictions" / "M" / "hu.json", rows)
    return tmp_path / "results" / "M"


def test_the_generic_evaluators_replicas(tmp_path: Path) -> None:
    results = _generic(tmp_path, rounds=2)
    _write(results / "hu.json", {"accuracy (2 runs average)": 50.0})
    _write(results / "hu_replica0.json", _entries(["A", "B"]))
    _write(results / "hu_replica1.json", _entries(["C", "A"]))
    assert all(is_opencompass(path) for path in (tmp_path, results, results / "hu.json"))
    (judged,) = read_opencompass(tmp_path, _items(2))
    assert judged.judges == ("judge",)
    assert [(row.id, row.prediction, row.judged["judge"]) for row in judged.rows] == [
        ("q0", "p0-0", "A"),
        ("q1", "p0-1", "B"),
        ("q0#2", "p1-0", "C"),
        ("q1#2", "p1-1", "A"),
    ]
    assert not judged.warnings
    assert read_opencompass(results / "hu.json", _items(2)) == [judged]
    with pytest.raises(InputError, match="4 rows in 2 repetitions of the 3 that --data holds"):
        read_opencompass(tmp_path, _items(3))
    (results / "hu_replica0.json").unlink()
    with pytest.raises(InputError, match=r"missing hu_replica0\.json"):
        read_opencompass(tmp_path)


def test_the_generic_evaluators_details(tmp_path: Path) -> None:
    results = _generic(tmp_path, rounds=2)
    details = [
        {"example_abbr": "hu_0", "prediction": ["A", "C"], "gold": ["g0", "g0"]},
        {"example_abbr": "hu_1", "pred": ["B", "A"], "ref": ["g1", "g1"], "origin_grade_response": ["B", "A"]},
    ]
    _write(results / "hu.json", {"accuracy": 50.0, "details": details})
    (judged,) = read_opencompass(tmp_path, _items(2))
    assert [row.judged["judge"] for row in judged.rows] == ["A", "B", "C", "A"]
    assert [row.prediction for row in judged.rows] == ["p0-0", "p0-1", "p1-0", "p1-1"]


def test_a_gold_that_is_the_whole_record_gives_ids_and_groups(tmp_path: Path) -> None:
    _folder(tmp_path, [2])
    golds = [{"qid": f"h{n}", "question": "K?", "answer": f"g{n}", "hu_specific_dim": "figure"} for n in range(2)]
    rows = {str(n): {"origin_prompt": "?", "prediction": "p", "gold": gold} for n, gold in enumerate(golds)}
    _write(tmp_path / "predictions" / "M" / "hu.json", rows)
    (judged,) = read_opencompass(tmp_path)
    assert [(row.id, row.group) for row in judged.rows] == [("h0", "figure"), ("h1", "figure")]
    (named,) = read_opencompass(tmp_path, _items(2))
    assert [row.id for row in named.rows] == ["q0", "q1"]
    assert not named.warnings
    rows["1"]["gold"] = {**golds[1], "answer": "another"}
    _write(tmp_path / "predictions" / "M" / "hu.json", rows)
    (differing,) = read_opencompass(tmp_path, _items(2))
    assert "the gold of 1 rows differs from --data (first: row 1)" in differing.warnings[0]


def test_a_judged_set_is_written_as_it_is_read(tmp_path: Path) -> None:
    items = _items(3)
    rows = tuple(
        JudgedAnswer(item.id, "hu", item.group, f"p{item.id}", {"J": "A", "K": '{"evaluation": "CORRECT"}'})
        for item in items
    )
    judged = JudgedSet("M", "husimpleqa", rows, json_labels=True)
    written = write_opencompass(tmp_path, judged, items)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "predictions/M/husimpleqa_hu.json",
        "results/M_judged-by--J/husimpleqa_hu.json",
        "results/M_judged-by--K/husimpleqa_hu.json",
    ]
    first, second = read_opencompass(tmp_path, items)
    assert first.json_labels
    assert not first.warnings
    assert [(row.id, row.group, row.prediction, row.judged) for row in second.rows] == [
        (row.id, row.group, row.prediction, {"K": row.judged["K"]}) for row in rows
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (JudgedAnswer("q9", "hu", "", "p", {"J": "A"}), "q9 is not among the questions"),
        (JudgedAnswer("q0", "hu", "", None, {"J": "A"}), "q0 lacks an answer or a judgement"),
        (JudgedAnswer("q0", "hu", "", "p", {"J": None}), "q0 lacks an answer or a judgement"),
    ],
)
def test_what_opencompass_cannot_hold_is_not_written(tmp_path: Path, row: JudgedAnswer, message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_opencompass(tmp_path / "out", JudgedSet("M", "hu", (row,), json_labels=False), _items(1))
    assert not (tmp_path / "out").exists()
