"""The figures of issue and paper, what counts where, panels, groups, calibration, and the CSV form."""

from __future__ import annotations

import csv
import io
import json

import pytest

from refsol.simpleqa.export import as_csv, as_json
from refsol.simpleqa.metrics import Tally, calibrate, confidence_of, share
from refsol.simpleqa.score import DIMENSIONS, JudgedAnswer, JudgedSet, outcome_of, score, warnings_of
from refsol.simpleqa.verdict import RULES, Rule


def _row(
    reply: str | None, *others: str | None, id_: str = "1", group: str = "figure", lang: str = "hu"
) -> JudgedAnswer:
    return JudgedAnswer(id_, lang, group, "Petőfi", {f"judge{n}": text for n, text in enumerate((reply, *others))})


def _labelled(label: str) -> str:
    return json.dumps({"evaluation": label})


def _rows(correct: int, incorrect: int, not_attempted: int, unknown: int = 0) -> list[JudgedAnswer]:
    labels = [("CORRECT", correct), ("INCORRECT", incorrect), ("NOT_ATTEMPTED", not_attempted), ("UNSURE", unknown)]
    return [_row(_labelled(label)) for label, count in labels for _ in range(count)]


def _total(rows: list[JudgedAnswer], rule: Rule = "robust") -> Tally:
    return score(rows, rule)[0].total


@pytest.mark.parametrize(
    ("counts", "correct", "given", "f"),
    [
        ((675, 400, 267), 0.5030, 0.6279, 0.5585),
        ((3, 1, 4), 0.375, 0.75, 0.5),
        ((3, 1, 4, 2), 0.3, 0.75, 0.5),
        ((0, 0, 5), 0.0, 0.0, 0.0),
        ((0, 0, 0, 3), 0.0, 0.0, 0.0),
    ],
)
def test_figures(counts: tuple[int, ...], correct: float, given: float, f: float) -> None:
    for rule in ("husimpleqa", "robust"):
        total = _total(_rows(*counts), rule)
        assert round(share(total.correct, total.count), 4) == correct
        assert round(total.correct_given_attempted, 4) == given
        assert round(total.f_score, 4) == f


def test_nothing_at_all_is_zero() -> None:
    assert Tally().f_score == Tally().correct_given_attempted == share(0, 0) == 0.0


@pytest.mark.parametrize(
    ("reply", "outcomes"),
    [
        (_labelled("CORRECT"), ("correct", "correct", "correct", "not_attempted", "not_attempted")),
        (_labelled("NOT_ATTEMPTED"), ("not_attempted", "not_attempted", "not_attempted", "correct", "not_attempted")),
        (_labelled("UNSURE"), ("unscored",) * 3 + ("not_attempted",) * 2),
        ("no verdict", ("unscored", "left_out", "unscored", "not_attempted", "not_attempted")),
        ("", ("unscored", "left_out", "unscored", "not_attempted", "not_attempted")),
        ("B", ("incorrect", "left_out", "unscored", "incorrect", "incorrect")),
        (None, ("judge_errors",) * 5),
    ],
)
def test_what_a_reply_counts_as_under_each_rule(reply: str | None, outcomes: tuple[str, ...]) -> None:
    assert tuple(outcome_of(_row(reply), rule) for rule in RULES) == (*outcomes, outcomes[3]), "autorater is as letter"


def test_a_failed_call_is_never_a_grade() -> None:
    unanswered = JudgedAnswer("1", "hu", "figure", None, {"judge": _labelled("CORRECT")})
    total = _total([_row(_labelled("CORRECT")), _row(None), unanswered])
    assert total == Tally(correct=1, judge_errors=1, unanswered=1)
    assert total.count == 1


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        (("A", "A", "B"), "correct"),
        (("A", "B", "C"), "unscored"),
        (("A", "A", None), "correct"),
        (("A", None, None), "unscored"),
        (("A", "B"), "unscored"),
        (("A", "what"), "unscored"),
        (("B", "B"), "incorrect"),
        ((None, None), "judge_errors"),
    ],
)
def test_a_panels_label_needs_more_than_half_of_all_judges(replies: tuple[str | None, ...], outcome: str) -> None:
    assert outcome_of(_row(*replies), "robust") == outcome


def test_unscored_rows_are_counted_in_three_ways() -> None:
    total = _total(_rows(3, 1, 4, 2))
    assert total.treated("left out") == Tally(3, 1, 4, left_out=2)
    assert total.treated("as not attempted") == Tally(3, 1, 6)
    assert total.treated("as wrong") == Tally(3, 3, 4)


def test_groups_stand_in_a_fixed_order_and_languages_apart() -> None:
    rows = [_row("A", group="zoo", lang="hu"), _row("B", group="history", lang="en"), _row("A", group="", lang="en")]
    sections = score(rows)
    assert [section.name for section in sections] == ["hu", "en", "all"]
    assert list(sections[2].groups) == [*DIMENSIONS, "", "zoo"]
    assert sections[2].groups["history"] == Tally(incorrect=1)
    assert sections[1].groups["figure"] == Tally()
    assert list(score([_row("A", group="Sports"), _row("A", group="Art")])[0].groups) == ["Art", "Sports"]
    assert score([_row("A", group="")])[0].groups == {}


@pytest.mark.parametrize(
    ("reply", "confidence"),
    [
        ('{"answer": "x", "confidence_score": 85}', 0.85),
        ('```json\n{"answer": "x", "confidence_score": 85.5}\n```', 0.855),
        ('{"confidence_score": 10} no, {"confidence_score": 20}', 0.2),
        ('<think>{"confidence_score": 10}</think>{"confidence_score": "90 %"}', 0.9),
        ('{"confidence_score": 0}', 0.0),
        ('{"confidence_score": 101}', None),
        ('{"confidence_score": -1}', None),
        ('{"confidence_score": NaN}', None),
        ('{"confidence_score": true}', None),
        ('{"confidence_score": "high"}', None),
        ('{"confidence_score": 80} {"answer": "x"}', None),
        ("80", None),
    ],
)
def test_the_confidence_is_that_of_the_last_object(reply: str, confidence: float | None) -> None:
    assert confidence_of(reply) == confidence


def test_calibration_by_hand() -> None:
    found = calibrate([(0.9, True), (0.95, False), (1.0, True), (0.2, False), (None, True)])
    assert (found.count, found.left_out) == (4, 1)
    assert found.brier == pytest.approx((0.01 + 0.9025 + 0 + 0.04) / 4)
    assert found.ece == pytest.approx((3 * abs(0.95 - 2 / 3) + 0.2) / 4)
    assert [(b.low, b.high, b.count) for b in found.bins] == [(0.2, 0.3, 1), (0.9, 1.0, 3)]


def test_calibration_is_over_the_attempted_rows() -> None:
    reply = '{"answer": "x", "confidence_score": 80}'
    rows = [JudgedAnswer(str(n), "hu", "", reply, {"judge": letter}) for n, letter in enumerate("ABC?")]
    found = score(rows)[0].calibration
    assert (found.count, found.left_out) == (2, 0)
    assert calibrate([(None, True)]).brier is None


def _set(rows: list[JudgedAnswer], *, json_labels: bool = True) -> JudgedSet:
    return JudgedSet("some/model", "husimpleqa", tuple(rows), json_labels)


def test_csv_has_the_published_columns_and_forms() -> None:
    rows = [_row(_labelled(label), group="history") for label in ("CORRECT", "CORRECT", "INCORRECT", "NOT_ATTEMPTED")]
    judged = _set([*rows, _row("nothing to read", group="history")])
    table = list(csv.DictReader(io.StringIO(as_csv([(judged, score(judged.rows, "husimpleqa"))]))))
    figures = ("correct", "incorrect", "not_attempted", "correct given attempted", "F-Score", "count")
    columns = [f"{dim} {name}" for dim in ("total", *DIMENSIONS) for name in figures]
    assert list(table[0]) == ["model", "language", "judge", *columns]
    assert [table[0][f"total {name}"] for name in figures] == ["0.5000", "0.2500", "0.2500", "0.6667", "0.5714", "4.0"]
    assert [table[0][f"figure {name}"] for name in figures] == ["0.0000"] * 5 + ["0.0"]
    assert table[0]["model"] == "some/model"


def test_csv_names_language_and_judges_on_each_line() -> None:
    judged = _set([_row("A", lang="en"), _row("B", lang="hu")])
    table = list(csv.DictReader(io.StringIO(as_csv([(judged, score(judged.rows))]))))
    assert [(row["model"], row["language"]) for row in table] == [("some/model", name) for name in ("en", "hu", "all")]
    assert {row["judge"] for row in table} == {" + ".join(judged.judges)}


def test_csv_names_the_group_that_has_no_name() -> None:
    judged = _set([_row("A", group=""), _row("B", group="figure")])
    assert "(none) count" in as_csv([(judged, score(judged.rows))]).partition("\n")[0]


def test_json_holds_every_count() -> None:
    judged = _set([_row("A"), _row("?"), _row(None)])
    found = json.loads(json.dumps(as_json(judged, score(judged.rows), "robust", ["careful"])))
    total = found["sections"][0]["total"]
    assert (total["correct"], total["count"], total["rows"]["judge_errors"]) == (0.5, 2, 1)
    assert total["unscored_rows"]["left out"]["correct"] == 1.0
    assert found["warnings"] == ["careful"]


def test_letter_rules_warn_over_json_labels() -> None:
    judged = _set([_row("A")])
    assert "CORRECT is read as C" in warnings_of(judged, "letter")[0]
    assert warnings_of(judged, "strict")
    assert not warnings_of(judged, "robust")
    assert not warnings_of(_set([_row("A")], json_labels=False), "letter")
