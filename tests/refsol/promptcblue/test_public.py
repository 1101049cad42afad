"""The public edition of 18 tasks: recognised, parsed, scored. The trees were scored by the published scorer."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from refsol.promptcblue import ProblemsError, parse_answer, parse_file, parse_predictions, score_files
from refsol.promptcblue.parse import CCKS
from refsol.promptcblue.public import PUBLIC, edition_of, edition_of_lines
from refsol.promptcblue.tasks import PUBLIC_SPECS
from refsol.promptcblue.tree import compare_trees, tree_figures
from tests.refsol.promptcblue.vectors import jsonl, line, text

CAUSES = (
    "因果关系三元组如下：\n头实体：吸烟；尾实体：肺癌\n没有头的一行\n条件关系三元组如下：\n"
    "头实体：孕妇；尾三元组：头实体：药；尾实体：畸形；关系：因果关系\n上下位关系三元组如下：\n头实体：肿瘤；尾实体：肺癌"
)
TREE = (
    "根据给定的指南文本抽取的诊疗决策树如下：\n1：role=C；logical_rel=null；triples=[('患者', '临床表现', '发热')]\n"
    "2：role=D；logical_rel=and；triples=[('患者', '治疗药物', '退热药'), ('x', 'y')]\n"
    "3：role=D；logical_rel=null；triples=坏的\n无"
)


def test_trees_are_scored_as_the_published_scorer_did() -> None:
    cases = [json.loads(row) for row in text("trees.jsonl").splitlines()]
    assert len(cases) == 300
    for case in cases:
        part = compare_trees(case["gold"], case["given"])
        assert [part.edits, list(part.nodes), list(part.paths)] == [case["edits"], case["nodes"], case["paths"]]


def test_the_same_trees_are_no_edit_apart() -> None:
    tree = parse_answer("Text2DT", TREE, None, PUBLIC)
    figures = tree_figures([compare_trees(tree, tree)])
    assert (figures.edit_ratio, figures.node_f1, figures.path_f1) == pytest.approx((1, 1, 1), abs=1e-5)


def test_the_new_tasks_are_parsed() -> None:
    assert parse_answer("CMedCausal", CAUSES, None, PUBLIC) == [
        {"predicate": "因果关系", "subject": "吸烟", "object": "肺癌"},
        {
            "predicate": "条件关系",
            "subject": "孕妇；尾三元组：",  # as the published parser cuts it
            "object": {"predicate": "因果关系", "subject": "药", "object": "畸形"},
        },
        {"predicate": "上下位关系", "subject": "肿瘤", "object": "肺癌"},
    ]
    assert parse_answer("CMedCausal", "给定的文本没有指定关系的三元组\n头实体：甲；尾实体：乙", None, PUBLIC) == []
    assert parse_answer("Text2DT", TREE, None, PUBLIC) == [
        {"role": "C", "logical_rel": "null", "triples": [["患者", "临床表现", "发热"]]},
        {"role": "D", "logical_rel": "and", "triples": [["患者", "治疗药物", "退热药"]]},
        {"role": "D", "logical_rel": "null", "triples": []},
    ]
    assert parse_answer("Text2DT", "不知道", None, PUBLIC) == [{"role": "D", "logical_rel": "null", "triples": []}]


def test_what_differs_between_the_editions() -> None:
    target = "判断如下:\n咳嗽：某"
    assert parse_answer("CHIP-MDCFNPC", target, ["有"], PUBLIC) == [{"entity": "咳嗽", "attr": "不标注"}]
    assert parse_answer("CHIP-MDCFNPC", target, ["有"])[0]["attr"].startswith("无实际意义")
    half = "实体如下\n疾病实体：甲,乙"
    assert [item["entity"] for item in parse_answer("CMeEE-V2", half, ["疾病"], PUBLIC)] == ["甲,乙"]
    assert [item["entity"] for item in parse_answer("CMeEE-V2", half, ["疾病"])] == ["甲", "乙"]


def test_the_edition_is_recognised_by_its_tasks() -> None:
    assert edition_of(["MedDG", "Text2DT"]) is PUBLIC
    assert edition_of(["MedDG", "CMeIE"]) is CCKS
    assert edition_of_lines(io.BytesIO(jsonl(line(), line("CMedCausal")))) is PUBLIC
    _, problems = parse_predictions(jsonl(line("CMeIE")), PUBLIC)
    assert "CMeIE is a task of the edition with 16 tasks" in str(problems[0])


def whole(tmp_path: Path) -> tuple[Path, Path]:
    """A predictions file with a line of each of the 18 tasks, and what becomes of it."""
    said: dict[str, Any] = {"Text2DT": TREE, "CMedCausal": CAUSES}
    said |= {
        "IMCS-V2-MRG": "报告如下：\n主诉：咳嗽",
        "CHIP-CDEE": "如下：\n主体词：咳嗽；发生状态：；描述词：；解剖部位：",
    }
    said |= {"CMeEE-V2": "如下：\n疾病实体：感冒", "IMCS-V2-NER": "如下：\n疾病实体：感冒", "CHIP-CDN": "如下：\n疾病"}
    said |= {"CMeIE-V2": "具有病因关系的头尾实体对如下：头实体为甲，尾实体为乙"}
    said |= dict.fromkeys(("CHIP-MDCFNPC", "IMCS-V2-SR"), "如下：\n咳嗽：疾病")
    lines = [line(task.name, target=said.get(task.name, "疾病"), answer_choices=["疾病"]) for task in PUBLIC_SPECS]
    (tmp_path / "p.json").write_bytes(jsonl(*lines))
    assert parse_file(tmp_path / "p.json", tmp_path / "r.json") == ()
    return tmp_path / "p.json", tmp_path / "r.json"


def test_a_whole_file_is_scored_in_the_official_shape(tmp_path: Path) -> None:
    _, results = whole(tmp_path)
    scores = score_files(results, results)
    assert scores.official
    found = scores.to_json()
    assert len(found["scoreJson"]) == 19
    assert found["scoreJson"]["Text2DT-TreeLenvRatio"] == pytest.approx(100)
    assert found["score"] == pytest.approx(100)
    assert "Text2DT" in scores.table()


@pytest.mark.parametrize(
    ("task", "answer", "message"),
    [
        ("Text2DT", [], "with one at least"),
        ("Text2DT", [{"role": "D"}], "node 1 must be an object with role, logical_rel and triples"),
        ("Text2DT", [{"role": "D", "logical_rel": None, "triples": []}], "role and logical_rel must be texts"),
        ("Text2DT", [{"role": "D", "logical_rel": "x", "triples": [["a", "b"]]}], "lists of three texts"),
        ("CMedCausal", [{"predicate": "a", "subject": "b", "object": 1}], "object is neither a text nor an object"),
        ("IMCS-V2-MRG", "主诉：咳嗽", "the published description of the results file asks for a text"),
    ],
)
def test_answers_of_another_form_are_named(tmp_path: Path, task: str, answer: Any, message: str) -> None:
    _, results = whole(tmp_path)
    changed = json.loads(results.read_text("utf-8"))
    changed[task][0]["answer"] = answer
    (tmp_path / "bad.json").write_text(json.dumps(changed, ensure_ascii=False), "utf-8")
    with pytest.raises(ProblemsError) as raised:
        score_files(tmp_path / "bad.json", results)
    assert message in str(raised.value)
