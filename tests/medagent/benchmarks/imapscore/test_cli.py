from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tests.command import medagent

DATA = Path(str(files("refsol.imapscore") / "data"))
IMAPS, ITEMS, GRAPH = (str(DATA / name) for name in ("imaps.jsonl", "items.jsonl", "graph.tsv"))


def imapscore(*words: object) -> str:
    """What `medagent imapscore` prints."""
    ran = medagent("imapscore", *words)
    assert ran.code == 0, ran.err
    return ran.out


def test_score_prints_every_item_and_the_mean() -> None:
    lines = imapscore("score", IMAPS).splitlines()
    assert [line.split() for line in lines if line.strip().startswith(("en-2", "en-3", "en-4"))] == [
        ["en-2", "1.6667", "5/3", "ok"],
        ["en-3", "1.4000", "7/5", "ok"],
        ["en-4", "-0.3333", "-1/3", "ok"],
    ]
    assert lines[-2:] == [
        "mean 1.7903 over 12 of 12 items · ok 10, empty_response 1, no_shared_term 1",
        "items with warnings: 1 (first: en-8); `explain` shows them",
    ]


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        ([], "7/5"),
        (["--penalty", "count"], "9/10"),
        (["--penalty", "off"], "29/10"),
        (["--penalty", "best"], "7/5"),
        (["--normalize", "label"], "7/30"),
        (["--normalize", "shared"], "7/20"),
    ],
)
def test_json_has_one_line_an_item(options: list[str], exact: str) -> None:
    rows = [json.loads(line) for line in imapscore("score", IMAPS, "--json", *options).splitlines()]
    assert len(rows) == 12
    assert (rows[2]["id"], rows[2]["status"], rows[2]["exact"]) == ("en-3", "ok", exact)
    assert rows[2]["terms"][1]["links"][0] == {
        "label": "prednisone",
        "response": "corticosteroids",
        "relation": "b",
    }


def test_a_graph_relates_what_was_not_recorded(tmp_path: Path) -> None:
    bare = [json.loads(line) for line in Path(IMAPS).read_text(encoding="utf-8").splitlines()]
    for row in bare:
        row.pop("relations", None)
    path = tmp_path / "bare.jsonl"
    path.write_text("\n".join(map(json.dumps, bare)), encoding="utf-8")
    exact = [
        {row["id"]: row["exact"] for row in map(json.loads, imapscore(*arguments, "--json").splitlines())}
        for arguments in (("score", str(path)), ("score", str(path), "--graph", GRAPH))
    ]
    assert (exact[0]["en-3"], exact[1]["en-3"]) == ("0", "7/5")
    assert (exact[0]["zh-2"], exact[1]["zh-2"]) == ("2", "4")


def test_graph_warnings_go_to_stderr(tmp_path: Path) -> None:
    graph = tmp_path / "g.obo"
    graph.write_text("format-version: 1.2\nontology: t\n\n[Term]\nid: A\nname: a\nis_a: B\n", encoding="utf-8")
    ran = medagent("imapscore", "score", IMAPS, "--json", "--graph", str(graph))
    assert "A is_a B" in ran.err
    assert all(json.loads(line) for line in ran.out.splitlines())


def test_explain_shows_both_imaps_the_links_and_the_sum() -> None:
    text = imapscore("explain", IMAPS, "en-3")
    assert "Inform-department-nephrology" in text
    assert "diagnosis: recall 1 + precision 1/2 − λ 1 = 1/2" in text
    assert "score = 1/2 + 9/10 = 7/5 (1.4000)" in text
    linked = next(line for line in text.splitlines() if line.startswith("ACE inhibitor"))
    assert "c  response more specific" in linked
    assert linked.rstrip().endswith("lisinopril")
    divided = imapscore("explain", IMAPS, "en-3", "--normalize", "label", "--penalty", "off")
    assert "score = (3/2 + 7/5) / 6 = 29/60 (0.4833)" in divided


def test_explain_of_items_without_a_sum(tmp_path: Path) -> None:
    assert "item en-7 · empty_response · 0" in imapscore("explain", IMAPS, "en-7")
    failed = {"id": "x", "digest": "d", "question": "Query-a", "failure": "no_agreement", "reason": "label: 3 samples"}
    path = tmp_path / "failed.jsonl"
    path.write_text(json.dumps(failed), encoding="utf-8")
    text = imapscore("explain", str(path), "x")
    assert "item x · no_agreement · no score" in text
    assert "label: 3 samples" in text
    assert "warning: question: line 1: Query without `-?`" in text
    ran = medagent("imapscore", "score", path)
    assert (ran.code, "none of the items could be scored" in ran.err) == (2, True)
    assert "mean – over 0 of 1 items · no_agreement 1" in ran.out


def test_an_unknown_item_is_one_clear_line() -> None:
    ran = medagent("imapscore", "explain", IMAPS, "99")
    assert (ran.code, bool(re.search("no item 99", ran.err))) == (1, True)


def test_correlate_by_file_and_on_average(tmp_path: Path) -> None:
    copy = tmp_path / "again.jsonl"
    copy.write_text(Path(ITEMS).read_text(encoding="utf-8"), encoding="utf-8")
    arguments = ["--imaps", IMAPS, "--metric", "imapscore", "--metric", "rouge-l+imap", "--draws", "20"]
    text = imapscore("correlate", ITEMS, str(copy), *arguments, "--pair", "imapscore", "bleu")
    for title in ("spearman × 100, average", "kendall × 100, average", "again.jsonl"):
        assert title in text.replace("\n", "")
    assert "2 kept as 0" in text
    assert "0 left out, no_agreement 0, extraction_failed 0" in text.replace("\n", " ")
    assert "imapscore − bleu" in text
    assert "rouge-2" not in text
    assert "76.1 [" in text


def test_correlate_without_imaps_has_the_raw_baselines() -> None:
    text = imapscore("correlate", ITEMS, "--draws", "10")
    assert "rouge-l" in text
    assert "imap" not in text.replace("imapscore/data", "")


def test_correlate_with_imaps_of_other_items(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in Path(ITEMS).read_text(encoding="utf-8").splitlines()]
    rows[3]["Question"] += "?"
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ran = medagent("imapscore", "correlate", str(path), "--imaps", IMAPS)
    assert (ran.code, bool(re.search(r"items\.jsonl: no imaps for 1 of 12 items \(first: item en-4\)", ran.err))) == (
        1,
        True,
    )


_WITHOUT_EXTRA = """
import sys
for name in ("rapidfuzz", "scipy", "obonet", "rouge_score", "sacrebleu", "numpy"):
    sys.modules[name] = None
from medagent.cli.app import main
sys.argv[1:1] = ["imapscore"]
main()
"""


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["score", IMAPS], None),
        (["explain", IMAPS, "en-1"], None),
        (["score", IMAPS, "--graph", GRAPH], "rapidfuzz"),
        (["correlate", ITEMS], "rouge_score"),
    ],
)
def test_without_the_extra(arguments: list[str], missing: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_EXTRA, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is (missing is None)
    if missing:
        assert f"this needs the package {missing}: pip install 'medagent[imapscore]'" in " ".join(done.stderr.split())
