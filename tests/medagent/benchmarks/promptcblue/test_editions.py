"""The edition of a run: of the data file, whichever lines are selected; two runs compared by the official score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran, medagent
from tests.medagent.reports.test_report import unpacked
from tests.refsol.promptcblue.vectors import jsonl, line

FINDING = "上述对话中临床发现实体以及对应的阴阳性判别标签如下：\n咳嗽：某"
TRIPLE = {"predicate": "因果关系", "subject": "吸烟", "object": "肺癌"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two lines of both editions, whose answers are read otherwise in each, and one of the public edition alone."""
    shared: list[Any] = [
        line("CHIP-MDCFNPC", target=FINDING, answer_choices=["有"], sample_id=f"s{number}") for number in (1, 2)
    ]
    causal = line(
        "CMedCausal", target="因果关系三元组如下：\n头实体：吸烟；尾实体：肺癌", answer_choices=[], sample_id="c1"
    )
    (tmp_path / "test.json").write_bytes(jsonl(*shared, causal))
    gold = {
        "CHIP-MDCFNPC": [{"sample_id": f"s{n}", "answer": [{"entity": "咳嗽", "attr": "不标注"}]} for n in (1, 2)],
        "CMedCausal": [{"sample_id": "c1", "answer": [TRIPLE]}],
    }
    (tmp_path / "gold.json").write_text(json.dumps(gold, ensure_ascii=False), "utf-8")
    return tmp_path


def run(folder: Path, *words: object) -> Ran:
    common = ("--data", folder / "test.json", "--gold", folder / "gold.json", "--results-dir", folder, "-q")
    return medagent("run", "promptcblue", "--agent", "gold", *common, *words)


def overall(ran: Ran) -> Any:
    return json.loads(ran.out)["overall"]["value"]


def test_a_selection_of_lines_does_not_change_the_rules(data: Path) -> None:
    whole = run(data, "--json")
    assert (whole.code, overall(whole)) == (0, 1.0), whole.err
    for number, words in enumerate((["--ids", "CHIP-MDCFNPC#1"], ["--per-type", "1"], ["--limit", "1"])):
        part = run(data, *words, "--round", f"p{number}", "--json")
        assert (part.code, overall(part)) == (0, 1.0), f"{words} {part.err}"
    parsed = json.loads((data / "promptcblue_p0_gold" / "results.json").read_text("utf-8"))
    assert parsed["CHIP-MDCFNPC"] == [{"sample_id": "s1", "answer": [{"entity": "咳嗽", "attr": "不标注"}]}]
    shown = run(data).out
    assert "PromptCBLUE (18 tasks, public)" in shown
    assert "Edition: 18 tasks, public" in shown
    document = json.loads((data / "promptcblue_r1_gold" / "run.json").read_text("utf-8"))
    assert document["settings"]["edition"] == "public"
    scored = medagent("promptcblue", "score", data / "promptcblue_r1_gold", "--tasks", "CHIP-MDCFNPC,CMedCausal")
    assert scored.out.startswith("edition: 18 tasks, public\n"), scored.err


def test_an_edition_can_be_named_for_a_part_of_a_file(data: Path) -> None:
    lines = (data / "test.json").read_bytes().splitlines(keepends=True)
    (data / "test.json").write_bytes(lines[0])
    gold = json.loads((data / "gold.json").read_text("utf-8"))
    gold = {"CHIP-MDCFNPC": gold["CHIP-MDCFNPC"][:1]}
    (data / "gold.json").write_text(json.dumps(gold, ensure_ascii=False), "utf-8")
    assert overall(run(data, "--round", "inferred", "--json")) == 0.0, "a file without a public task is of the 16"
    named = run(data, "--round", "named", "--edition", "public", "--json")
    assert overall(named) == 1.0
    again = run(data, "--round", "named", "--edition", "ccks")
    assert (again.code, "edition public → ccks" in again.err) == (1, True), again.err
    assert overall(medagent("grade", data / "promptcblue_named_gold", "--json")) == 1.0


def test_parse_and_score_take_edition_and_encoding(data: Path) -> None:
    text = (data / "test.json").read_text("utf-8")
    (data / "gbk.json").write_bytes(text.encode("gbk"))
    parsed = medagent("promptcblue", "parse", data / "gbk.json", data / "r.json", "--encoding", "gbk")
    assert (parsed.code, parsed.out) == (0, "edition: 18 tasks, public\n"), parsed.err
    assert json.loads((data / "r.json").read_text("utf-8"))["CMedCausal"] == [{"sample_id": "c1", "answer": [TRIPLE]}]
    refused = medagent("promptcblue", "parse", data / "test.json", data / "r.json", "--edition", "ccks")
    assert (refused.code, "CMedCausal" in refused.err) == (1, True)
    for name in ("r.json", "gold.json"):
        (data / f"gbk-{name}").write_bytes((data / name).read_text("utf-8").encode("gbk"))
    words = ("--gold", data / "gbk-gold.json", "--encoding", "gbk", "--tasks", "CHIP-MDCFNPC,CMedCausal")
    scored = medagent("promptcblue", "score", data / "gbk-r.json", *words)
    assert (scored.code, "mean of 2 tasks" in scored.out) == (0, True), scored.err
    ccks = medagent("promptcblue", "score", data / "gbk-r.json", *words, "--edition", "ccks")
    assert (ccks.code, "--tasks" in ccks.err) == (1, True)


def test_two_runs_are_compared_by_the_official_score(tmp_path: Path) -> None:
    for agent in ("majority", "gold"):
        assert medagent("run", "promptcblue", "--agent", agent, "--results-dir", tmp_path, "-q").code == 0
    folders = [tmp_path / f"promptcblue_r1_{agent}" for agent in ("majority", "gold")]
    values = [json.loads((folder / "report.json").read_text("utf-8"))["overall"]["value"] for folder in folders]
    found = json.loads(medagent("compare", *folders, "--json").out)
    assert (found["figure"], found["items"], found["uncompared"]) == ("score", 32, [])
    assert found["means"] == pytest.approx(values)
    assert found["difference"] == pytest.approx(values[1] - values[0])
    assert found["interval"]["low"] < found["difference"] < found["interval"]["high"]
    shown = medagent("compare", *folders).out
    assert f"score of B {100 * values[1]:.2f}" in " ".join(shown.split())
    assert f"B − A: +{100 * (values[1] - values[0]):.2f}" in shown
    part = medagent(
        "run", "promptcblue", "--agent", "gold", "--results-dir", tmp_path, "-q", "--limit", "30", "--round", "p"
    )
    assert part.code == 0, part.err
    said = medagent("compare", folders[0], tmp_path / "promptcblue_p_gold").out
    assert "Not compared: 2 of 32: " in said


def test_the_report_of_two_runs_has_the_difference_of_the_official_score(tmp_path: Path) -> None:
    for agent in ("majority", "gold"):
        assert medagent("run", "promptcblue", "--agent", agent, "--results-dir", tmp_path, "-q").code == 0
    folders = [tmp_path / f"promptcblue_r1_{agent}" for agent in ("majority", "gold")]
    assert medagent("report", *folders, "-o", tmp_path / "r.html").code == 0
    (pair,) = unpacked(tmp_path / "r.html")[0]["comparison"]["pairs"]
    values = [json.loads((folder / "report.json").read_text("utf-8"))["overall"]["value"] for folder in folders]
    assert (pair["difference"], pair["groups"]) == (pytest.approx(values[1] - values[0]), [])
