"""The failure boundary: whatever foreign code raises is kept as its unit's row, with its owner and the traceback."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from medagent.core.errors import MedagentError, StopRunError
from medagent.engine.boundary import blame
from medagent.engine.journal import Journal
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress
from medagent.engine.rows import Spent
from medagent.engine.run import Summary, Watch, run_units
from medagent.engine.scores import Grader, Item, Score, graded
from tests.command import medagent
from tests.medagent.engine.counting import Counting, NumberRow, numbers

AGENT = """
from medagent import Agent

class Fragile(Agent):
    def play(self, task, prompt):
        if {condition}:
            raise KeyError("a bug of mine")
        yield "FINISH([])"
"""
MODEL = """
from medagent import Completion, Model

class Fragile(Model):
    async def complete(self, messages, **_):
        if self.settings.extra.get("broken"):
            raise RuntimeError("a bug of the model's")
        return Completion("FINISH([])")
"""


class Raising(Counting):
    """Unit 2 raises something of its own, as its `owner`'s."""

    owner: Any = None

    async def run(self, unit: Any, row: NumberRow) -> None:
        row.spent = Spent(calls=1, prompt=7)
        if unit.value == 2:
            if self.owner is None:
                raise ValueError("mine")
            with blame(self.owner):
                raise ValueError("mine")


def run(path: Path, job: Counting, count: int = 5, grade: Any = None) -> tuple[Summary, dict[str, NumberRow]]:
    journal = Journal(path / "j.jsonl", NumberRow)
    try:
        watch: Watch[NumberRow] = Watch(Progress(quiet=True), grade)
        summary = asyncio.run(run_units(job, numbers(count), journal, LocalExecutor(2), watch))
        assert journal.spent.prompt == 7 * count if isinstance(job, Raising) else True
        return summary, {row.unit: row for row in journal.rows()}
    finally:
        journal.close()


@pytest.mark.parametrize("owner", ["agent", "model", "fhir", None])
def test_each_owner_is_named_and_the_rest_goes_on(tmp_path: Path, owner: Any) -> None:
    job = Raising()
    job.owner = owner
    summary, rows = run(tmp_path, job)
    row = rows["n2"]
    assert (row.status, row.error) == (f"{owner or 'benchmark'}_error", "ValueError: mine")
    assert row.traceback is not None
    assert "test_boundary.py" in row.traceback
    assert row.spent.prompt == 7
    assert summary.owed == ([] if owner == "agent" else ["n2"])
    assert {finished.status for unit, finished in rows.items() if unit != "n2"} == {"completed"}


def test_the_innermost_owner_holds_and_medagents_errors_pass() -> None:
    with pytest.raises(MedagentError) as caught, blame("agent"), blame("model"):
        raise ValueError("x")
    assert caught.value.owner == "model"
    with pytest.raises(StopRunError), blame("agent"):
        raise StopRunError("stop")


def test_a_grader_that_raises_leaves_the_unit_ungraded() -> None:
    class Raising(Grader[NumberRow]):
        def score(self, item: Item, row: NumberRow, judged: Any = None) -> Score:
            raise ZeroDivisionError("a bug in the rules")

    row = NumberRow(unit="n2", status="completed")
    score = asyncio.run(graded(Raising(), Item(id="n2"), row))
    assert (score.graded, score.correct, score.value) == (False, None, None)
    assert re.fullmatch(
        r"the grader raised ZeroDivisionError: a bug in the rules \(test_boundary\.py:\d+\)", score.reason
    )


def test_ten_failures_of_one_kind_at_the_beginning_stop_the_run(tmp_path: Path) -> None:
    class Hopeless(Counting):
        async def run(self, unit: Any, row: NumberRow) -> None:
            raise KeyError(unit.key)

    summary, _ = run(tmp_path, Hopeless(), 100)
    assert summary.stopped is not None
    assert summary.stopped.text.startswith("the first 10 units failed in the same way: benchmark_error: KeyError")
    assert (tmp_path / "j.jsonl").read_text().count("\n") < 20


def test_failures_of_one_kind_after_a_success_stop_nothing(tmp_path: Path) -> None:
    class Failing(Counting):
        async def run(self, unit: Any, row: NumberRow) -> None:
            if unit.value:
                raise KeyError(unit.key)

    summary, _ = run(tmp_path, Failing(), 30)
    assert (summary.stopped, len(summary.owed)) == (None, 29)
    assert (tmp_path / "j.jsonl").read_text().count("\n") == 30


def test_an_agents_failure_is_final_counted_and_repeated_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "fragile.py"
    file.write_text(AGENT.format(condition='task.id == "task3_2"'))
    words = ["run", "--agent", f"{file}:Fragile", "--ids", ",".join(f"task3_{n}" for n in range(1, 6))]
    words += ["--results-dir", tmp_path]
    ran = medagent(*words)
    assert ran.code == 0, ran.err
    assert "1 episode ended because the agent raised an error" in ran.out
    assert "1 agent error\n" in ran.out
    folder = tmp_path / "v2_r1_Fragile"
    row = next(json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines() if "_error" in line)
    assert (row["status"], row["error"]) == ("agent_error", "KeyError: 'a bug of mine'")
    assert "fragile.py" in row["traceback"]
    items = {item["task_id"]: item for item in json.loads((folder / "results.json").read_text())["results"]}
    assert items["task3_2"]["answer"] is None
    grades = {item["task_id"]: item["correct"] for item in json.loads((folder / "grade.json").read_text())["items"]}
    assert grades["task3_2"] is False
    shown = medagent("show", folder, "task3_2").out
    assert "verdict: wrong – the agent raised an error" in shown
    assert "KeyError: 'a bug of mine'" in shown
    assert "is complete and was not changed" in medagent(*words).err
    assert medagent(*words, "--retry", "agent_error").code == 0
    assert (folder / "episodes.jsonl").read_text().count("agent_error") == 2


def test_an_agent_that_always_fails_stops_the_run_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(AGENT.format(condition="True"))
    ran = medagent("run", "--agent", f"{tmp_path / 'fragile.py'}:Fragile", "--results-dir", tmp_path, "--quiet")
    assert ran.code == 2
    assert "the first 10 units failed in the same way: agent_error: KeyError: 'a bug of mine'; " in ran.err
    out = " ".join(ran.out.split())
    assert "episodes ended as agent_error: KeyError: 'a bug of mine'. The score is not a measurement" in out
    assert "KeyError: 'a bug of mine'" in medagent("show", tmp_path / "v2_r1_Fragile", "--wrong").out
    assert "Traceback" not in ran.err


def test_a_model_of_somebody_elses_that_raises_is_a_failure_of_the_model_and_owed(tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(MODEL)
    words = ["run", "--model", f"{tmp_path / 'fragile.py'}:Fragile", "--limit", 4, "--results-dir", tmp_path, "--quiet"]
    assert medagent(*words, "--round", "good").code == 0
    ran = medagent(*words, "--extra", "broken=true")
    assert ran.code == 2
    assert "4 × model_error: RuntimeError: a bug of the model's" in ran.out
