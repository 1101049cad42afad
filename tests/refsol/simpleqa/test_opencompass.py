"""OpenCompass folders: read whole, or refused with what is missing named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from refsol.errors import InputError
from refsol.simpleqa.data import GoldQuestion
from refsol.simpleqa.opencompass import is_opencompass, read_opencompass
from refsol.simpleqa.score import score

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
    with pytest.raises(InputError, match="stands beside its parts"):
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
