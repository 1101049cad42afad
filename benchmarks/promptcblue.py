"""Measures parsing and scoring at full test size: 16 tasks of 645 samples, generated texts of about 200 tokens.

Run: `python -m benchmarks.promptcblue`. Prints the best of three for parsing all 10,320 predictions, for scoring them,
and for ROUGE on the same number of pairs of 200 tokens, each on one core.

`python -m benchmarks.promptcblue --rows N` measures a whole run over N lines instead, answered by a baseline: the run,
its command again on the finished run, and `medagent grade`, each as a whole process. The limits are for 30,000 lines.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.process import medagent
from benchmarks.table import machine, row
from refsol.promptcblue import parse_file, parse_predictions, score
from refsol.promptcblue._metrics import rouge
from refsol.promptcblue.parse import PARSERS, REPORT_SECTIONS

SAMPLES_A_TASK = 645
TOKENS = 200
CHARACTERS = "患者反复咳嗽发热三天伴有头晕乏力建议多饮水注意休息必要时复查血常规考虑上呼吸道感染可能性大"
TYPES = ["疾病", "药物", "症状"]
LABELS = ["甲类", "乙类", "丙类", "丁类"]


def text(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(CHARACTERS + "，。", k=length))


def altered(rng: random.Random, original: str) -> str:
    """The text with a tenth of its characters changed, as a fair model's answer would be."""
    return "".join(rng.choice(CHARACTERS) if rng.random() < 0.1 else char for char in original)


def target(rng: random.Random, task: str) -> str:
    def word() -> str:
        return "".join(rng.choices(CHARACTERS, k=4))

    if task == "MedDG":
        return text(rng, TOKENS)
    if task == "IMCS-V2-MRG":
        body = "\n".join(f"{name}：{text(rng, TOKENS // 6)}" for name in REPORT_SECTIONS)
        return f"上述问诊对话的诊疗报告如下：\n{body}"
    if task in ("CMeEE-V2", "IMCS-V2-NER"):
        return "上述句子中的实体包含：\n" + "\n".join(
            f"{kind}实体：{'，'.join(word() for _ in TYPES)}" for kind in TYPES
        )
    if task == "CMeIE":
        return "具有临床表现关系的头尾实体对如下：" + "".join(f"头实体为{word()}，尾实体为{word()}。" for _ in range(4))
    if task == "CHIP-CDEE":
        event = f"主体词：{word()}；发生状态：；描述词：{word()}，{word()}；解剖部位：{word()}"
        return f"上述句子中的临床发现事件如下：\n{event}\n{event}"
    if task in ("CHIP-MDCFNPC", "IMCS-V2-SR"):
        return "判别如下：\n" + "\n".join(f"{word()}：{rng.choice(LABELS)}" for _ in range(4))
    return rng.choice(LABELS)


def predictions(rng: random.Random, samples: int = SAMPLES_A_TASK) -> tuple[bytes, bytes]:
    """The file of predictions and the file of gold texts, with `samples` samples for each task."""
    predicted, gold = [], []
    for task in PARSERS:
        for number in range(samples):
            gold_text = target(rng, task)
            line: dict[str, Any] = {"input": text(rng, TOKENS), "target": gold_text, "task_type": "x"}
            line |= {"answer_choices": TYPES + LABELS, "task_dataset": task, "sample_id": f"{task}-{number}"}
            gold.append(json.dumps(line, ensure_ascii=False))
            predicted.append(json.dumps({**line, "target": altered(rng, gold_text)}, ensure_ascii=False))
    return "\n".join(predicted).encode(), "\n".join(gold).encode()


def best_of_three(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(3):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def whole_run(rows: int) -> None:
    """Print the costs of a run over `rows` lines, of its command again on the finished run, and of its grading."""
    with tempfile.TemporaryDirectory() as folder:
        data, gold = Path(folder) / "test.jsonl", Path(folder) / "gold.json"
        _, lines = predictions(random.Random(7), rows // len(PARSERS))
        data.write_bytes(lines)
        parse_file(data, gold)
        places = ("--data", str(data), "--gold", str(gold), "--results-dir", folder)
        run = ("run", "promptcblue", "--agent", "gold", "--round", "r1", "--quiet", *places)
        for name, limit, command in (
            ("the run", "", run),
            ("the same command again", "", run),
            ("medagent grade", "≤ 40", ("grade", f"{folder}/promptcblue_r1_gold")),
        ):
            cost = medagent(*command)
            row(f"{rows:,} lines, {name}: CPU", limit, cost.cpu, "s")
            row(f"{rows:,} lines, {name}: peak memory", "≤ 500", cost.peak, "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="Measure a whole run over N lines.")
    arguments = parser.parse_args()
    machine()
    if arguments.rows is None:
        parsing_and_scoring()
    else:
        whole_run(arguments.rows)


def parsing_and_scoring() -> None:
    """Print how long refsol takes at full test size."""
    rng = random.Random(7)
    answers, solutions = predictions(rng)
    predicted, gold = parse_predictions(answers)[0], parse_predictions(solutions)[0]
    pairs = [
        (reference, altered(rng, reference)) for reference in (text(rng, TOKENS) for _ in range(16 * SAMPLES_A_TASK))
    ]
    count = f"{len(pairs):,}"
    row(f"parse {count} lines: CPU", "", best_of_three(lambda: parse_predictions(answers)), "s")
    row(f"score {count} samples: CPU", "", best_of_three(lambda: score(gold, predicted)), "s")
    row(f"ROUGE of {count} pairs: CPU", "", best_of_three(lambda: [rouge(*pair) for pair in pairs]), "s")


if __name__ == "__main__":
    main()
