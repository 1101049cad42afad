"""Another package: its benchmark, agent and model run from the command line like the bundled ones."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from medagent.core import plugins
from medagent.core.errors import UserError
from tests.command import Ran, medagent
from tests.shared_data import ROOT
from tests.starts import start

PATH = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "outsider"), str(ROOT)])}
AGENT = """
from datetime import date
from medagent import Agent
import json

class AgeAgent(Agent):
    def play(self, task, prompt):
        reply = yield f"GET {self.context.base}Patient?identifier={task.mrn}"
        bundle = json.JSONDecoder().raw_decode(reply, reply.index("{"))[0]
        born = date.fromisoformat(bundle["entry"][0]["resource"]["birthDate"])
        yield f"FINISH([{2023 - born.year - ((11, 13) < (born.month, born.day))}])"
"""


def outsider(folder: Path, *words: object) -> Ran:
    return start(*words, cwd=folder, env=PATH).ended()


def test_a_benchmark_of_somebody_elses_is_run_killed_continued_shown_and_compared(tmp_path: Path) -> None:
    words = ["run", "sums", "--largest", "5", "--model", "abacus", "--trials", "2", "--workers", "2"]
    folder = tmp_path / "results" / "sums_r1_Abacus"
    process = start(*words, "--concurrency", 4, "--quiet", cwd=tmp_path, env=PATH)
    journal = folder / "episodes.jsonl"
    give_up = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") < 10:
        assert process.poll() is None
        assert time.monotonic() < give_up
        time.sleep(0.01)
    process.kill()
    assert process.ended().code == -signal.SIGKILL
    kept = [json.loads(line)["unit"] for line in journal.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"]
    assert 10 <= len(kept) < 72
    ran = outsider(tmp_path, *words)
    assert ran.code == 0, ran.err
    assert f"72 units, {len(kept)} already done" in ran.err
    assert "Score 83.3% (60 of 72)" in ran.out
    units = [json.loads(line)["unit"] for line in journal.read_text().splitlines()]
    assert len(units) == len(set(units)) == 72
    assert "60       72" in outsider(tmp_path, "show", folder).out
    details = outsider(tmp_path, "show", folder, "3+1#2").out
    assert "answer: 3" in details
    assert outsider(tmp_path, "run", "sums", "--largest", "5", "--agent", "counter", "--trials", "2").code == 0
    compared = outsider(tmp_path, "compare", folder, tmp_path / "results" / "sums_r1_Counter")
    assert "Only B right: 3+0, 3+1, 3+2, 3+3, 3+4, 3+5" in compared.out
    assert "A dozen" not in outsider(tmp_path, "run", "sums", "--help").out
    assert "--largest" in outsider(tmp_path, "run", "sums", "--help").out


def test_an_agent_of_a_local_file_runs_here_and_on_workers(tmp_path: Path) -> None:
    (tmp_path / "age_agent.py").write_text(AGENT)
    path = f"{tmp_path / 'age_agent.py'}:AgeAgent"
    words = ["run", "--types", "task2", "--results-dir", tmp_path, "--quiet", "--agent", path]
    here = medagent(*words, "--round", "here")
    assert here.code == 0, here.err
    assert "Score 100.0% (30 of 30)" in here.out
    there = medagent(*words, "--round", "there", "--workers", "2", "--limit", "4")
    assert there.code == 0, there.err
    run = json.loads((tmp_path / "v2_here_AgeAgent" / "run.json").read_text())
    assert len(run["settings"]["agent-digest"]) == 64
    (tmp_path / "age_agent.py").write_text(AGENT + "# changed\n")
    assert "agent-digest" in medagent(*words, "--round", "here").err


def test_a_benchmark_of_a_local_file_is_run_and_read_by_its_path(tmp_path: Path) -> None:
    source = (ROOT / "tests" / "outsider" / "outsider" / "benchmark.py").read_text()
    (tmp_path / "sums.py").write_text(source)
    (tmp_path / "counter.py").write_text((ROOT / "tests" / "outsider" / "outsider" / "agent.py").read_text())
    path = f"{tmp_path / 'sums.py'}:Sums"
    words = ["run", path, "--agent", f"{tmp_path / 'counter.py'}:Counter", "--results-dir", tmp_path, "--largest", 2]
    ran = medagent(*words, "--workers", 2)
    assert ran.code == 0, ran.err
    assert f"--benchmark {path}" in ran.out
    folder = tmp_path / "sums_r1_Counter"
    assert json.loads((folder / "run.json").read_text())["benchmark"] == path
    assert "9 completed" in medagent("show", folder, "--benchmark", path).out
    assert medagent("grade", folder, "--benchmark", path).code == 0
    assert f"medagent run {path} --agent " in medagent(*words, "--largest", 3).err


def test_what_a_generator_spends_on_its_model_is_counted(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(
        "from medagent import Agent, Message\n"
        "class Asking(Agent):\n"
        "    async def play(self, task, prompt):\n"
        "        said = await self.context.model.complete([Message('user', prompt)])\n"
        "        yield said.text\n"
    )
    (tmp_path / "replies.json").write_text(json.dumps({"*": ["FINISH([])"]}))
    words = ["--agent", f"{tmp_path / 'asking.py'}:Asking", "--model", f"scripted:{tmp_path / 'replies.json'}"]
    ran = medagent("run", *words, "--limit", 3, "--results-dir", tmp_path)
    assert ran.code == 0, ran.err
    assert "3 model calls" in medagent("run", *words, "--limit", 3, "--results-dir", tmp_path, "--full").out


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("my_agent.py:AgeAgent", True),
        ("folder/my_agent.py:age", True),
        ("package.module:Class", True),
        ("module:Class", True),
        ("gpt-4o-mini", False),
        ("qwen3:8b", False),
        ("mistral:latest", False),
        ("scripted:replies.json", False),
        ("scripted:Replies", False),
        ("deepseek/deepseek-r1:free", False),
        ("org/Model:Free", False),
        ("a-b:Class", False),
        ("", False),
    ],
)
def test_what_is_an_import_path(name: str, path: bool) -> None:
    assert plugins.is_import_path(name) is path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("away.py:Agent", "away.py:Agent: no such file"),
        ("no_such_package.module:Agent", "no_such_package.module:Agent: No module named 'no_such_package'"),
        ("json:Agent", "json:Agent: does not define Agent; its classes: "),
    ],
)
def test_a_path_that_leads_nowhere_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    ran = medagent("run", "--results-dir", tmp_path, "--agent", text, "--limit", 1)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert words in ran.err


def test_a_file_that_raises_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import json\n1 / 0\n")
    plugin = plugins.find(f"{tmp_path / 'broken.py'}:Agent", "medagent.agents")
    assert plugin is not None
    with pytest.raises(UserError, match=r"cannot be imported: ZeroDivisionError: division by zero \(.*broken\.py:2\)"):
        plugin.load()


def test_an_installed_class_of_another_source_is_not_loaded() -> None:
    plugin = plugins.find("json:JSONDecoder", "medagent.agents")
    assert plugin is not None
    assert plugin.load() is json.JSONDecoder
    with pytest.raises(UserError, match="json: its source differs from that at the start of the run; install the same"):
        replace(plugin, digest="0" * 64).load()


def test_an_unknown_benchmark_names_those_that_are_there() -> None:
    ran = medagent("run", "sudoku")
    assert ran.code == 1
    known = "medagentbench, fhir-agentbench, imapscore, promptcblue, psb-300, simpleqa"
    assert f"unknown benchmark 'sudoku'; known: {known}" in ran.err
