"""Two labellings compared, and files that people labelled."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from refsol.agreement import Labelled, compare, read_labels
from refsol.errors import InputError

LABELS = ("correct", "incorrect", "not_attempted")


def _labelling(*labels: str | None) -> list[Labelled]:
    return [Labelled(f"{n}/hu", label, (str(n),)) for n, label in enumerate(labels)]


def test_kappa_and_the_table() -> None:
    first = _labelling(*["correct"] * 25, *["incorrect"] * 25)
    second = _labelling(*["correct"] * 20, *["incorrect"] * 5, *["correct"] * 10, *["incorrect"] * 15)
    found = compare(first, second)
    assert found.table == {
        ("correct", "correct"): 20,
        ("correct", "incorrect"): 5,
        ("incorrect", "correct"): 10,
        ("incorrect", "incorrect"): 15,
    }
    assert (found.labelled, found.agreed) == (50, 35)
    assert found.kappa == pytest.approx(0.4)
    assert found.interval is not None
    assert 0 < found.interval.low < 0.4 < found.interval.high < 0.7
    assert len(found.differ) == 15
    assert found.differ[0] == ("20/hu", "correct", "incorrect")
    assert compare(first, second) == found


def test_units_without_a_label_are_shown_and_not_agreed_upon() -> None:
    found = compare(_labelling("correct", None, None), _labelling("correct", None, "incorrect"))
    assert (found.labelled, found.agreed) == (1, 1)
    assert found.table["unscored", "unscored"] == 1
    assert found.differ == (("2/hu", "unscored", "incorrect"),)
    assert math.isnan(found.kappa)
    assert found.as_json()["kappa"] is None


def test_nothing_labelled_has_no_interval() -> None:
    assert compare(_labelling(None), _labelling(None)).interval is None


def test_units_of_one_side_only_are_named() -> None:
    found = compare(_labelling("correct"), [*_labelling("correct"), Labelled("x", "correct")])
    assert (found.only_first, found.only_second) == ((), ("x",))


def test_an_id_stands_for_the_only_unit_that_has_it() -> None:
    people = [Labelled("0", "incorrect"), Labelled("1", "correct")]
    judge = [*_labelling("correct", "correct"), Labelled("1/en", "correct", ("1",))]
    for found in (compare(people, judge), compare(judge, people)):
        assert found.table.keys() <= {("correct", "incorrect"), ("incorrect", "correct")}
        assert sorted(found.only_first + found.only_second) == ["1", "1/en", "1/hu"]


def test_nothing_shared_is_refused() -> None:
    with pytest.raises(InputError, match="share no unit"):
        compare(_labelling("correct"), [Labelled("x", "correct")])


def test_files_that_people_labelled(tmp_path: Path) -> None:
    lines = tmp_path / "labels.jsonl"
    lines.write_text(
        '{"id": 3, "label": "Not attempted"}\n\n{"qid": "b", "language": "en", "label": "INCORRECT"}\n{"label": ""}\n',
        encoding="utf-8",
    )
    labels = [Labelled("3", "not_attempted"), Labelled("b/en", "incorrect"), Labelled("4", None)]
    assert read_labels(lines, LABELS) == labels
    assert [label.label for label in read_labels(lines, ())] == ["Not attempted", "INCORRECT", None]
    table = tmp_path / "labels.csv"
    table.write_text("id,label\r\na,correct\r\nb,\r\n", encoding="utf-8-sig")
    assert read_labels(table, LABELS) == [Labelled("a", "correct"), Labelled("b", None)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("l.jsonl", '{"id": "a", "label": "yes"}\n{"id": "b", "label": 1}\n', "l.jsonl:1: label: is not one of"),
        ("l.jsonl", '{"id": "a", "label": "yes"}\n{"id": "b", "label": 1}\n', "l.jsonl:2: label: is not one of"),
        (
            "l.jsonl",
            '{"id": "a", "label": "correct"}\n{"id": "a", "label": "correct"}\n',
            "l.jsonl:2: a is a duplicate",
        ),
        ("l.csv", "id,verdict\na,correct\n", "no column `label`"),
    ],
)
def test_labels_that_cannot_be_used_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read_labels(path, LABELS)
    assert message in str(raised.value)
