"""Learning agents: the example of lessons, killed again and again, keeps what an undisturbed run keeps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from medagent.engine.learning import digest_of
from tests.command import Ran
from tests.medagent.benchmarks.psb300 import made
from tests.medagent.benchmarks.psb300.conftest import Set
from tests.shared_data import ROOT
from tests.starts import start

AGENT = ROOT / "examples" / "learning" / "lessons.py"
IDS = "task1_1,task2_1,task4_2,task8_1,task9_2,task10_3"
"""All but task9_2 are wrong if nothing is done."""
MODEL = """
import os
import signal
from pathlib import Path

import medagent

DEATH = Path(__file__).with_name("die-at")


class Dying(medagent.Model):
    calls = 0

    async def complete(self, messages, *, tools=(), seed=None, session=""):
        Dying.calls += 1
        if DEATH.exists() and Dying.calls == int(DEATH.read_text()):
            os.kill(os.getpid(), signal.SIGKILL)
        if messages[0].content.startswith("You made a mistake"):
            return medagent.Completion(f"When asked {session},\\n  order it.", usage=medagent.Usage(1, 1))
        Path(__file__).with_name("seen.txt").open("a").write(f"{session} {messages[0].content.count('When asked')}\\n")
        return medagent.Completion("FINISH([])", usage=medagent.Usage(1, 1))
"""


def run(folder: Path, published: Set, *args: object) -> Ran:
    (folder / "dying.py").write_text(MODEL)
    words = [
        "run", "psb-300", "--dataset", "published", "--ehr", published.patients, "--clock", made.CLOCK, "--quiet",
        "--sequential", "score", "--agent", f"{AGENT}:Lessons", "--model", f"{folder / 'dying.py'}:Dying", "--ids", IDS,
        "--results-dir", folder / "results", *args,
    ]  # fmt: skip
    return start(*words, cwd=ROOT, env={**os.environ, "MEDAGENT_HOME": str(published.home)}).ended()


def learned(path: Path) -> list[dict[str, Any]]:
    """The rows of `learned.jsonl` of a run's folder that are complete."""
    rows = [json.loads(line) for line in (path / "learned.jsonl").read_text().splitlines()]
    return [row for row in rows if row["status"] == "completed"]


def test_lessons_survive_kills_in_play_and_in_learn(published: Set, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    done = run(whole, published, "--trials", 2, "--full")
    assert done.code == 0, done.err
    (path,) = (whole / "results").iterdir()
    rows = learned(path)
    assert [row["number"] for row in rows] == list(range(1, 13))
    lessons = (path / "agent" / "current" / "lessons.txt").read_text().splitlines()
    assert len(lessons) == 5
    assert all(line.startswith("When asked task") and line.endswith("lesson, order it.") for line in lessons)
    counts = [int(line.rpartition(" ")[2]) for line in (whole / "seen.txt").read_text().splitlines()]
    assert counts == sorted(counts[:6]) * 2
    assert (counts[0], counts[6]) == (0, 0)  # the second trial begins with nothing
    assert counts[5] > 2
    line = next(line for line in done.out.splitlines() if line.startswith("Learned: "))
    assert line.startswith("Learned: from the scores (value, correct, kind) of 12 items, each after its own: task1_1, ")
    assert digest_of(path / "agent" / "12") == rows[-1]["digest"]

    for call in (2, 3, 2, 1):  # some of these come while the agent learns
        (killed / "die-at").write_text(str(call))
        assert run(killed, published, "--trials", 2).code == -9
    (killed / "die-at").unlink()
    assert run(killed, published, "--trials", 2).code == 0
    (again,) = (killed / "results").iterdir()
    assert [(row["unit"], row["digest"]) for row in learned(again)] == [(row["unit"], row["digest"]) for row in rows]
    copies = [{child.name for child in (run_folder / "agent").iterdir()} for run_folder in (path, again)]
    assert copies[0] == copies[1] == {"current", *map(str, range(1, 13))}
    finished = run(killed, published, "--trials", 2)
    assert "is complete and was not changed" in finished.err


def test_an_error_in_learn_stops_the_run_and_is_done_again(published: Set, tmp_path: Path) -> None:
    agent = tmp_path / "failing.py"
    agent.write_text(
        "from pathlib import Path\nimport medagent\n\n\nclass Failing(medagent.Agent):\n"
        "    def play(self, task, prompt):\n        yield 'FINISH([])'\n\n"
        "    def learn(self, task, row, score):\n"
        "        with (self.context.folder / 'seen.txt').open('a') as file:\n"
        "            file.write(f'{task.id} {row.answer} {score.correct} {score.reason[:10]} {len(score.facts)}\\n')\n"
        f"        if not Path({str(tmp_path / 'mended')!r}).exists():\n"
        "            raise ValueError('cannot learn this')\n"
    )
    words = ("--agent", f"{agent}:Failing", "--ids", "task1_1,task9_2", "--sequential", "facts")
    results = ("--results-dir", tmp_path / "results")
    stopped = published.run(*words, *results)
    assert stopped.code == 1
    assert "learn after task1_1#1: ValueError: cannot learn this" in stopped.err
    (tmp_path / "mended").touch()
    done = published.run(*words, "--full", *results)
    assert done.code == 0, done.err
    (path,) = (tmp_path / "results").iterdir()
    seen = (path / "agent" / "current" / "seen.txt").read_text().splitlines()
    assert seen == ["task1_1 [] False never read 1", "task9_2 [] True all checks 1"]
    assert len((path / "episodes.jsonl").read_text().splitlines()) == 2  # the first one was not played again
    assert "value, correct, kind, reason, checks, facts" in done.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--sequential", "score", "--workers", 2), "--sequential and --workers exclude each other"),
        (("--sequential", "score", "--cluster", "tcp://x:1"), "--sequential and --cluster exclude each other"),
        (("--sequential", "often"), "'often' is not one of 'score', 'facts'"),
        ((), "learns from each score; pass --sequential score"),
    ],
)
def test_what_does_not_go_with_learning_is_refused(
    published: Set, tmp_path: Path, words: tuple[object, ...], problem: str
) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"*": ["FINISH([])"]}')
    model = f"scripted:{script}"
    ran = published.run("--agent", f"{AGENT}:Lessons", "--model", model, *words, "--results-dir", tmp_path)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert problem in ran.err


def test_a_copy_that_was_changed_is_not_put_back(published: Set, tmp_path: Path) -> None:
    (tmp_path / "die-at").write_text("3")
    assert run(tmp_path, published).code == -9
    (path,) = (tmp_path / "results").iterdir()
    last = path / "agent" / str(len(learned(path)))
    (last / "lessons.txt").write_text("another lesson\n")
    (tmp_path / "die-at").unlink()
    refused = run(tmp_path, published)
    assert (refused.code, "differs from the copy in learned.jsonl" in refused.err) == (1, True)


def test_judged_benchmarks_refuse_to_learn(tmp_path: Path) -> None:
    from tests.command import medagent

    (tmp_path / "model.json").write_text(json.dumps({"*": ["Paris"]}))
    (tmp_path / "judge.json").write_text(json.dumps({"*": ['{"evaluation": "CORRECT"}']}))
    words = ("--model", f"scripted:{tmp_path / 'model.json'}", "--judge", f"scripted:{tmp_path / 'judge.json'}")
    ran = medagent(
        "run", "simpleqa", *words, "--lang", "hu", "--sequential", "score", "--results-dir", tmp_path / "results"
    )
    assert ran.code == 1
    assert "whose scores exist only after all answers are judged" in ran.err.splitlines()[-1]
