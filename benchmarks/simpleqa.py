"""Measures scoring of 100,000 judged rows: in memory, from OpenCompass files, and from a run's folder.

python -m benchmarks.simpleqa [ROWS]
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.process import medagent
from benchmarks.table import machine, row
from medagent.benchmarks.simpleqa._folder import Question, RunFiles
from medagent.engine.folder import few_collections
from medagent.engine.journal import Journal
from medagent.judging.calls import PanelCalls, Replies
from medagent.judging.panel import Panel
from medagent.judging.rows import ExchangeRow
from medagent.judging.rubric import Subject
from medagent.models.settings import ModelSettings
from refsol.simpleqa.opencompass import read_opencompass
from refsol.simpleqa.prompts import judge_prompt
from refsol.simpleqa.score import DIMENSIONS, JudgedAnswer, score
from refsol.simpleqa.verdict import RULES, read_verdict

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
REPLY = '```json\n{"answer": "Petőfi Sándor", "confidence_score": 85}\n```'
JUDGED = ['{\n    "evaluation": "CORRECT"\n}', '{"evaluation": "INCORRECT"}', "NOT_ATTEMPTED", "I cannot say."]


@contextmanager
def timed(what: str, target: str = "") -> Iterator[None]:
    cpu = time.process_time()
    yield
    row(f"{what}: CPU", target, time.process_time() - cpu, "s")


def opencompass(folder: Path) -> None:
    for name, replies in (("predictions/M", [REPLY]), ("results/M_judged-by--J", JUDGED)):
        (folder / name).mkdir(parents=True)
        entries = {
            str(n): {"origin_prompt": "", "prediction": replies[n % len(replies)], "gold": "g"} for n in range(ROWS)
        }
        (folder / name / "hu.json").write_text(json.dumps(entries), encoding="utf-8")


async def run_folder(folder: Path) -> None:
    """A finished run of questions that one judge has judged."""
    files = RunFiles(folder)
    panel = Panel(judges=[ModelSettings(name="J")], prompt=judge_prompt())
    calls = PanelCalls(files.judging.rubric, panel, Replies())
    questions = [
        Question(
            unit=f"q{n}/hu", id=f"q{n}", language="hu", line=n, question=f"{n}?", gold="g", group=DIMENSIONS[n % 8]
        )
        for n in range(ROWS)
    ]
    files.keep_questions(questions)
    files.judging.add(panel)
    settings = {"model": "M", "variant": "husimpleqa"}
    head = {"format": 1, "command": "medagent run simpleqa", "benchmark": "simpleqa", "data": {"name": ""}}
    run = {**head, "settings": settings, "places": {}, "versions": {}}
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    answers = Journal(folder / "episodes.jsonl", ExchangeRow)
    judgements = Journal(folder / "judgements.jsonl", ExchangeRow)
    for n, question in enumerate(questions):
        answer = ExchangeRow(unit=question.unit, status="completed", model="M", message=f"{n}?", reply=REPLY)
        (call,) = calls.owed([Subject(question.unit, question, REPLY)])
        answered = answers.append(answer)
        verdict = ExchangeRow(unit=call.key, status="completed", model="J", message=call.message, reply=JUDGED[n % 4])
        judged = judgements.append(verdict)
    await asyncio.gather(answered, judged)  # what was appended before is on disk with them
    answers.close()
    judgements.close()


def main() -> None:
    machine()
    rows = [JudgedAnswer(str(n), "hu", DIMENSIONS[n % 8], REPLY, {"J": JUDGED[n % 4]}) for n in range(ROWS)]
    with timed(f"score {ROWS:,} judged rows in memory"):
        score(rows)
    for rule in RULES:
        with timed(f"read {ROWS:,} verdicts, {rule}"):
            for judgement in rows:
                read_verdict(judgement.judged["J"] or "", rule)
    with tempfile.TemporaryDirectory() as name:
        opencompass(Path(name))
        with timed(f"read and score {ROWS:,} rows of OpenCompass"):
            score(read_opencompass(Path(name))[0].rows)
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(run_folder(Path(name)))
        with few_collections(), timed(f"read and score a run folder of {ROWS:,} rows"):
            score(RunFiles(Path(name)).judged_set().rows)
        cost = medagent("grade", name)
        row(f"medagent grade of {ROWS:,} rows: CPU", "", cost.cpu, "s")
        row(f"medagent grade of {ROWS:,} rows: peak memory", "", cost.peak, "MB")


if __name__ == "__main__":
    main()
