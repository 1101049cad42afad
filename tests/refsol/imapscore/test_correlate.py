from __future__ import annotations

import math
import random
from dataclasses import replace

import jieba
import pytest
import rouge_chinese
import sacrebleu

from refsol.errors import InputError
from refsol.imapscore.correlate import Coefficient, Table, coefficients, compare, correlate, rows
from refsol.imapscore.imap import Imap, TermValue
from refsol.imapscore.metrics import BASELINES, BaselineScores, Scored, available, join, table
from refsol.imapscore.records import RatedAnswer, Recording
from refsol.imapscore.score import ImapScore, Status, score

HUMAN = [1.0, 2.0, 2.0, 3.0, 5.0, 4.0] * 2
GOOD = [0.1, 0.3, 0.2, 0.3, 0.9, 0.8] * 2
POOR = [0.4, 0.1, 0.5, 0.2, 0.3, 0.3] * 2


def table_of(name: str = "f", **metrics: list[float]) -> Table:
    return Table(name, metrics, {"accuracy": HUMAN})


@pytest.mark.parametrize(("name", "function"), [("spearman", "spearmanr"), ("kendall", "kendalltau")])
def test_coefficients_are_scipys_times_100(name: str, function: str) -> None:
    from scipy import stats  # takes two seconds, and every worker collects this file

    reference = getattr(stats, function)
    found = correlate([table_of(good=GOOD)], "good", "accuracy", coefficients()[name], 200)
    assert found.value == pytest.approx(100 * reference(GOOD, HUMAN).statistic)
    assert found.interval is not None
    assert -100 <= found.interval.low <= found.value <= found.interval.high <= 100


def test_an_average_is_the_mean_over_files() -> None:
    kendall = coefficients()["kendall"]
    tables = [table_of("f", m=GOOD), table_of("g", m=POOR)]
    alone = [correlate([table], "m", "accuracy", kendall, 10).value for table in tables]
    assert alone[0] is not None
    assert alone[1] is not None
    assert correlate(tables, "m", "accuracy", kendall, 10).value == pytest.approx(sum(alone) / 2)


def test_constant_scores_are_undefined_with_the_reason() -> None:
    spearman = coefficients()["spearman"]
    constant = table_of(m=[1.0] * 12, good=GOOD)
    found = correlate([constant], "m", "accuracy", spearman, 10)
    assert (found.value, found.interval, found.reason) == (None, None, "m is constant (1) in f")
    assert found.n == 12
    assert compare([constant], ("good", "m"), "accuracy", spearman, 10) == found
    flat = Table("g", {"m": GOOD}, {"accuracy": [2.0] * 12})
    assert correlate([flat], "m", "accuracy", spearman, 10).reason == "accuracy is constant (2) in g"
    short = Table("h", {"m": [1.0]}, {"accuracy": [2.0]})
    assert correlate([short], "m", "accuracy", spearman, 10).reason == "m covers fewer than two items in h"


def test_below_ten_items_there_is_no_interval() -> None:
    spearman = coefficients()["spearman"]
    nine, ten = (Table("f", {"m": GOOD[:n]}, {"accuracy": HUMAN[:n]}) for n in (9, 10))
    few, enough = (correlate([sample], "m", "accuracy", spearman, 20) for sample in (nine, ten))
    assert (few.n, few.interval, enough.n) == (9, None, 10)
    assert enough.interval is not None
    assert few.value is not None


def spearman_of() -> Coefficient:
    return coefficients()["spearman"]


def test_the_average_over_human_dimensions() -> None:
    human = {"accuracy": HUMAN, "completeness": POOR}
    table = Table("f", {"m": GOOD}, human)
    (row,) = rows([table], ["m"], None, coefficients()["kendall"], 10)
    (_, _, difference) = rows([Table("f", {"m": GOOD, "o": POOR}, human)], ["m", "o"], ("m", "o"), spearman_of(), 10)
    assert list(difference.cells) == ["accuracy", "completeness", "average"]
    assert list(row.cells) == ["accuracy", "completeness", "average"]
    values = [cell.value for cell in row.cells.values()]
    assert values[2] == pytest.approx((values[0] + values[1]) / 2)
    assert row.cells["average"].interval is not None
    flat = Table("f", {"m": GOOD}, {**human, "specificity": [1.0] * 12})
    (row,) = rows([flat], ["m"], None, coefficients()["kendall"], 10)
    assert row.cells["average"].reason == "specificity is constant (1) in f"


def test_two_metrics_on_the_same_draws() -> None:
    spearman = coefficients()["spearman"]
    same = compare([table_of(a=GOOD, b=GOOD)], ("a", "b"), "accuracy", spearman, 100)
    assert same.value == 0
    assert same.interval is not None
    assert (same.interval.low, same.interval.high) == (0, 0)
    apart = compare([table_of(a=GOOD, b=POOR)], ("a", "b"), "accuracy", spearman, 100)
    values = [correlate([table_of(a=GOOD, b=POOR)], name, "accuracy", spearman, 10).value or math.nan for name in "ab"]
    assert apart.value == pytest.approx(values[0] - values[1])


def test_rows_by_file_and_on_average() -> None:
    found = rows(
        [table_of("f", a=GOOD, b=POOR), table_of("g", a=POOR, b=GOOD)], ["a"], ("a", "b"), coefficients()["kendall"], 10
    )
    assert [(row.file, row.metric) for row in found] == [
        ("f", "a"),
        ("f", "a − b"),
        ("g", "a"),
        ("g", "a − b"),
        ("average", "a"),
        ("average", "a − b"),
    ]
    assert found[-1].cells["accuracy"].value == pytest.approx(0)


ENGLISH = ("The patient has acute pharyngitis, so rest.", "The patient probably has pharyngitis. Rest!")
CHINESE = ("考虑急性咽炎,多喝水。", "可能是咽炎,建议多喝水")


def test_baselines_are_the_packages_own_figures() -> None:
    found = BaselineScores().scores(*ENGLISH)
    from rouge_score.rouge_scorer import RougeScorer  # imports scipy

    rouge = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(*ENGLISH)
    assert found["rouge-1"] == 100 * rouge["rouge1"].fmeasure
    assert found["rouge-2"] == 100 * rouge["rouge2"].fmeasure
    assert found["rouge-l"] == 100 * rouge["rougeL"].fmeasure
    assert found["bleu"] == sacrebleu.sentence_bleu(ENGLISH[1], [ENGLISH[0]]).score
    assert tuple(found) == BASELINES


def test_chinese_is_split_by_characters() -> None:
    found = BaselineScores().scores(*CHINESE)
    # 9 characters in the label, 10 in the response, 5 of them shared: 咽 炎 多 喝 水.
    assert found["rouge-1"] == pytest.approx(100 * 2 * 5 / 19)
    assert found["bleu"] == sacrebleu.sentence_bleu(CHINESE[1], [CHINESE[0]], tokenize="zh").score
    assert BaselineScores().scores("青霉素 500mg", "青霉素 500MG")["rouge-l"] == 100


WORDS = [
    "急性咽炎",
    "患者",
    "建议",
    "多喝水",
    "发热",
    "胸部",
    "检查",
    "的",
    "了",
    "CT",
    "500mg",
    " ",
    "\n",
    "fever",
    "3.5",
]
MARKS = ["，", "。", "！", "？", "?", "……", "......", "”", "’", "“", "。”", ".", "、"]


def made_up(generator: random.Random) -> str:
    return "".join(generator.choice(MARKS if generator.random() < 0.25 else WORDS) for _ in range(30))


def test_rouge_by_words_is_that_of_rouge_chinese() -> None:
    generator, baselines, reference = random.Random(7), BaselineScores("jieba"), rouge_chinese.Rouge()
    for _ in range(250):
        label, response = "咽炎" + made_up(generator), "发热" + made_up(generator)
        words = [" ".join(jieba.cut(text)) for text in (response, label)]
        (expected,) = reference.get_scores(*words)
        found = baselines.scores(label, response)
        for name in ("rouge-1", "rouge-2", "rouge-l"):
            assert found[name] == pytest.approx(100 * expected[name]["f"], abs=1e-9), (label, response)


def test_rouge_by_words_leaves_other_texts_alone() -> None:
    assert BaselineScores("jieba").scores(*ENGLISH) == BaselineScores().scores(*ENGLISH)
    assert BaselineScores("jieba").scores("咽炎", "")["rouge-l"] == 0


def test_empty_texts_score_zero() -> None:
    assert set(BaselineScores().scores("x", "").values()) == {0.0}


def scored(number: int, failure: str | None = None, **human: float) -> Scored:
    item = RatedAnswer(str(number), "q", f"label {number}", f"response {number}", human or {"accuracy": number} | _REST)
    label = Imap(inform=(TermValue("t", f"v{number}"),))
    response = Imap() if number == 0 else Imap(inform=(TermValue("t", f"v{number % 2}"),))
    if failure:
        return Scored(
            item,
            Recording("", "", Imap(), Imap(), Imap(), failure=failure),
            ImapScore(Status(failure), None),
        )
    recording = Recording("", item.digest, Imap(), label, response, scores={"g-eval": 1.0 * number})
    return Scored(item, recording, score(label, response, {}))


_REST = {"completeness": 1.0, "specificity": 1.0}


def test_columns_keep_empty_items_and_leave_out_unscored_ones() -> None:
    items = [scored(0), scored(1), scored(2, "no_agreement"), scored(3, "extraction_failed"), scored(4)]
    columns, kept = table("f", items, ["imapscore", "g-eval", "rouge-1", "rouge-1+imap"])
    assert columns.metrics["imapscore"] == [0, 0, 0]
    assert columns.metrics["g-eval"] == [0, 1, 4]
    assert columns.metrics["rouge-1+imap"][0] == 0
    assert columns.human["accuracy"] == [0, 1, 4]
    assert kept.empty == {Status.EMPTY_RESPONSE: 1}
    assert kept.left_out == {Status.NO_AGREEMENT: 1, Status.EXTRACTION_FAILED: 1}


def test_an_item_that_lacks_a_metric_is_left_out_of_all() -> None:
    first, second = scored(1), scored(4)
    assert second.recording is not None
    unrated = Scored(second.item, replace(second.recording, scores={}), second.result)
    columns, kept = table("f", [first, unrated], ["rouge-1", "g-eval"])
    assert len(columns.metrics["rouge-1"]) == 1
    assert kept.left_out["no g-eval"] == 1
    assert len(table("f", [first, unrated], ["rouge-1"])[0].metrics["rouge-1"]) == 2


def test_metrics_at_hand() -> None:
    raw = Scored(scored(1).item)
    assert available([raw]) == list(BASELINES)
    assert available([scored(1), scored(2)])[-1] == "g-eval"
    with pytest.raises(InputError, match="f: unknown metric 'imapscore'; available: rouge-1, "):
        table("f", [raw], ["imapscore"])
    with pytest.raises(InputError, match=r"item 1 is without a human score for completeness, specificity$"):
        table("f", [scored(1, accuracy=1.0)], ["bleu"])


def test_imaps_of_other_items_are_refused() -> None:
    first, second = scored(1), scored(2)
    assert first.recording is not None
    assert first.result is not None
    recorded = [(first.recording, first.result)]
    assert join("f", [first.item], recorded) == [first]
    with pytest.raises(InputError, match=r"f: no imaps for 1 of 2 items \(first: item 2\)"):
        join("f", [first.item, second.item], recorded)
