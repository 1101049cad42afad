"""OpenCompass asks PromptCBLUE's lines and we grade its predictions; its summarizers read our export as we count it."""

import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from mini import chat_endpoint, endpoint, medagent, rows, same_table
from opencompass.datasets.simpleqa import simpleqa_postprocess
from opencompass.summarizers.subjective.utils import get_judgeanswer_and_reference

CONFIG = """from answering import Answering
models = [dict(abbr='mini', type=Answering, path='mini', max_seq_len=4096, max_out_len=512, batch_size=8)]
datasets = [dict(abbr='promptcblue', path='questions.jsonl', data_type='qa', infer_method='gen')]
"""


def predictions() -> Path:
    """The folder of predictions that OpenCompass writes for PromptCBLUE's mini set."""
    lines = [json.dumps({"question": row["input"], "answer": row["target"]}, ensure_ascii=False) for row in rows()]
    Path("questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("config.py").write_text(CONFIG, encoding="utf-8")
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]])
    subprocess.run(
        [str(Path(sys.executable).with_name("opencompass")), "config.py", "-w", "out", "--mode", "infer", "--debug"],
        check=True,
        env=os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"},
    )
    (folder,) = Path("out").glob("*/predictions/mini")
    return folder


def judged(asked: dict[str, Any]) -> str:
    """The model answers with a word; the judge's label goes by the length of what it reads."""
    text = asked["messages"][-1]["content"]
    if asked["model"] != "judge":
        return "Szeged"
    return json.dumps({"evaluation": ("correct", "incorrect", "not_attempted")[len(text) % 3]})


def letter(judgement: str) -> str:
    """The label of a judgement, as SimpleQA's letters."""
    (label,) = re.findall(r'"evaluation": "(.*?)"', judgement)
    return {"correct": "A", "incorrect": "B", "not_attempted": "C"}[label]


def same_figures() -> str:
    """Export a judged run, read it as OpenCompass' summarizers do, and hold its figures against ours."""
    with chat_endpoint(judged) as url:
        run = medagent("run", "simpleqa", "--model", "mini", "--judge", "judge", "--base-url", url)["folder"]
    (ours,) = medagent("simpleqa", "score", run)
    subprocess.run([os.environ["MEDAGENT"], "simpleqa", "export", run, "exported"], check=True)
    compared = 0
    for section in ours["sections"]:
        if section["name"] not in ("en", "hu"):
            continue
        (written,) = Path("exported").glob(f"results/*/*_{section['name']}.json")
        labels, gold = get_judgeanswer_and_reference({"abbr": written.stem}, str(written.parent), letter)
        counted = Counter((record["hu_specific_dim"], label) for label, record in zip(labels, gold, strict=True))
        for group, figures in section["groups"].items():
            rows = figures["rows"]
            assert [counted[group, label] for label in "ABC"] == [
                rows["correct"], rows["incorrect"], rows["not_attempted"]
            ], f"{written}: {group}"  # fmt: skip
            compared += 3
        entries = json.loads(written.read_text(encoding="utf-8"))
        for entry in entries.values():
            entry["prediction"] = letter(entry["prediction"])
        theirs, total = simpleqa_postprocess(entries, ""), section["total"]
        for figure, value in (
            (theirs["accuracy"] / 100, total["correct"]),
            (theirs["accuracy_given_attempted"] / 100, total["correct_given_attempted"]),
            (theirs["f1"], total["f_score"]),
        ):
            assert math.isclose(figure, value), f"{written}: {figure} for {value}"
            compared += 1
    assert compared == 2 * (8 * 3 + 3), f"{compared} figures compared"
    return f"{compared} figures of an export equal"


if __name__ == "__main__":
    figures = same_figures()
    with endpoint() as url:
        print(f"{same_table(url, predictions())}; {figures}")
