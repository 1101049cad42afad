"""Both editions: the published 18-task parser's results, score over whatever parse writes, options of the commands."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refsol.errors import InputError
from refsol.promptcblue import parse_answer, parse_file, score_files
from refsol.promptcblue.parse import CCKS, Edition
from refsol.promptcblue.public import EDITIONS, PUBLIC
from refsol.promptcblue.tasks import AnswerKind, specs_of
from tests.refsol.promptcblue.test_command_line import refsol
from tests.refsol.promptcblue.vectors import jsonl, line, text

SOUND: dict[AnswerKind, Any] = {
    AnswerKind.CLASSES: "是的",
    AnswerKind.TEXT: "答",
    AnswerKind.REPORT: {"主诉": "咳嗽"},
    AnswerKind.TREE: [{"role": "D", "logical_rel": "null", "triples": [["a", "b", "c"]]}],
    AnswerKind.EXTRACTION: [],
}
PIECES = (
    "具有病因关系的头尾实体对如下：头实体为甲，尾实体为乙。",
    "头实体：吸烟；尾实体：肺癌",
    "条件关系三元组如下：",
    "头实体：孕妇；尾三元组：头实体：药；尾实体：畸形；关系：因果关系",
    "给定的文本没有指定关系的三元组",
    "疾病实体：感冒，肺癌",
    "主体词：咳嗽；描述词：干，；发生状态：",
    "咳嗽：疾病",
    "主诉：咳嗽",
    "1：role=D；logical_rel=and；triples=[('患者', '治疗药物', '退热药'), (1, 2, 3)]",
    "1：role=D；triples=[('\\ud83d', 'b', 'c')]",
    "：role=；logical_rel=；triples=",
    "```json",
    "{}",
    "\0",
    "",
    "相同",
)


def comparable(task: str, answer: Any) -> Any:
    """An answer without what is documented to differ: CHIP-CDN's order, and triples that are not three texts."""
    if task == "CHIP-CDN":
        return Counter(json.dumps(term, ensure_ascii=False) for term in answer)
    if task != "Text2DT":
        return answer
    return [
        {**node, "triples": [triple for triple in _listed(node["triples"]) if _is_triple(triple)]} for node in answer
    ]


def _listed(triples: Any) -> list[Any]:
    return triples if isinstance(triples, list) else []


def _is_triple(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(part, str) for part in value)


def test_the_published_18_task_parser_gives_the_same() -> None:
    rows = [json.loads(row) for row in text("public18.jsonl").strip().split("\n")]
    assert len(rows) == 3600
    differing = []
    for row in rows:
        task = row["task_dataset"]
        answer = parse_answer(task, row["target"], row["answer_choices"], PUBLIC)
        if "stops" not in row and comparable(task, answer) != comparable(task, row["answer"]):
            differing.append(row["sample_id"])
    assert differing == []


def write_pair(folder: Path, edition: Edition, target: str, choices: list[str]) -> None:
    """A predictions file with this target in every task, and a sound gold."""
    tasks = specs_of(edition)
    lines = [line(task.name, target=target, answer_choices=choices) for task in tasks]
    (folder / "p.json").write_bytes(jsonl(*lines))
    gold = {task.name: [{"sample_id": "s-1", "answer": SOUND[task.kind]}] for task in tasks}
    (folder / "gold.json").write_text(json.dumps(gold, ensure_ascii=False), encoding="utf-8")


@pytest.mark.parametrize("name", ["ccks", "public"])
@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=5),
    choices=st.lists(st.sampled_from(["疾病", "甲", "", "相同"]), max_size=3),
)
def test_score_takes_whatever_parse_writes(name: str, pieces: list[str], choices: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_pair(folder, EDITIONS[name], "\n".join(pieces), choices)
        parse_file(folder / "p.json", folder / "r.json", EDITIONS[name])
        scores = score_files(folder / "r.json", folder / "gold.json", edition=EDITIONS[name])
    assert len(scores.tasks) == len(specs_of(EDITIONS[name]))


def test_a_relation_without_a_heading_is_scored_as_wrong(tmp_path: Path) -> None:
    write_pair(tmp_path, PUBLIC, "头实体：吸烟；尾实体：肺癌", [])
    gold = json.loads((tmp_path / "gold.json").read_text(encoding="utf-8"))
    triple = {"predicate": "因果关系", "subject": "吸烟", "object": "肺癌"}
    gold["CMedCausal"][0]["answer"] = [triple]
    (tmp_path / "gold.json").write_text(json.dumps(gold, ensure_ascii=False), encoding="utf-8")
    parse_file(tmp_path / "p.json", tmp_path / "r.json")
    parsed = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert parsed["CMedCausal"][0]["answer"] == [{**triple, "predicate": None}]
    scores = score_files(tmp_path / "r.json", tmp_path / "gold.json", "CMedCausal")
    assert scores.overall == 0
    gold["CMedCausal"][0]["answer"] = [{**triple, "predicate": None}]
    (tmp_path / "gold.json").write_text(json.dumps(gold, ensure_ascii=False), encoding="utf-8")
    with pytest.raises(InputError, match=r"gold\.json: CMedCausal, item 1, .*predicate is not a text"):
        score_files(tmp_path / "r.json", tmp_path / "gold.json", "CMedCausal")


def test_an_edition_can_be_named_and_is_shown(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(jsonl(line("CHIP-MDCFNPC", target="如下：\n咳嗽：某", answer_choices=["有"])))
    for options, edition, attribute in (
        ([], CCKS, "无实际意义的不标注或者和病人当前的状态独立不标注"),
        (["--edition", "public"], PUBLIC, "不标注"),
    ):
        done = refsol(tmp_path, "parse", "p.json", "r.json", *options)
        assert (done.returncode, done.stdout) == (0, f"edition: {edition.name}\n")
        parsed = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        assert parsed["CHIP-MDCFNPC"][0]["answer"] == [{"entity": "咳嗽", "attr": attribute}]
        table = refsol(tmp_path, "score", "r.json", "--gold", "r.json", "--tasks", "CHIP-MDCFNPC", *options)
        assert table.stdout.startswith(f"edition: {edition.name}\n")


def test_files_in_another_encoding_are_read(tmp_path: Path) -> None:
    sound = jsonl(line("CHIP-STS", target="相同", answer_choices=["是的"]))
    (tmp_path / "p.json").write_bytes(sound.decode().encode("gbk"))
    assert "use --encoding gbk" in refsol(tmp_path, "parse", "p.json", "r.json").stderr
    assert refsol(tmp_path, "parse", "p.json", "r.json", "--encoding", "gbk").returncode == 0
    results = (tmp_path / "r.json").read_text(encoding="utf-8")
    (tmp_path / "gbk.json").write_bytes(results.encode("gbk"))
    arguments = ("score", "gbk.json", "--gold", "gbk.json", "--tasks", "CHIP-STS", "--encoding", "gbk")
    done = refsol(tmp_path, *arguments)
    assert done.returncode == 0
    assert "100.00" in done.stdout


def test_a_file_that_is_not_in_the_named_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(b"\xff\xff\n")
    done = refsol(tmp_path, "parse", "p.json", "r.json", "--encoding", "gbk")
    assert (done.returncode, done.stderr) == (1, "error: p.json: not GBK at byte 1\n")


def test_a_fault_in_another_encoding_names_the_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(jsonl({"input": "问"}).decode().encode("gbk"))
    done = refsol(tmp_path, "parse", "p.json", "r.json", "--encoding", "gbk")
    assert done.returncode == 1
    assert "p.json: line 1: no target" in done.stderr
