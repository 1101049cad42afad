"""`medagent grade` scores equal rows of an item once. Trials that differ in anything that counts keep their scores."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from medagent import grade, load_run
from tests.command import medagent
from tests.shared_data import ROOT

AGENT = f"""
import sys
from collections import Counter
sys.path.insert(0, {str(ROOT)!r})
from medagent import Agent
from medagent.agents.base import AgentContext
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent
from tests.medagent.reports.erring import _altered

TIMES = Counter()

class Varying(Agent):
    def play(self, task, prompt):
        # Right twice; then another order; then right without an order, or with another answer.
        number = (1, 1, 2, 4, 5)[TIMES[task.id] % 5]
        TIMES[task.id] += 1
        base = self.context.base.rstrip("/")
        yield from _altered(number, ReferenceAgent(AgentContext(base=base)).solver(task), base, task.mrn)
"""


def test_grade_gives_each_trial_the_score_that_the_run_gave_it(tmp_path: Path) -> None:
    agent = tmp_path / "varying.py"
    agent.write_text(AGENT, encoding="utf-8")
    ids = ",".join(f"{kind}_{number}" for kind in ("task3", "task5", "task6", "task8") for number in range(1, 6))
    words = ["--agent", f"{agent}:Varying", "--trials", 5, "--ids", ids, "--results-dir", tmp_path, "--quiet"]
    assert medagent("run", *words).code == 0
    folder = tmp_path / "v2_r1_Varying"
    by_the_run = load_run(folder).report.items
    assert grade(folder).items == by_the_run
    trials = defaultdict(set)
    for item in by_the_run:
        trials[item.item].add(item.correct)
    assert len(by_the_run) == 100
    assert sum(outcomes == {True, False} for outcomes in trials.values()) >= 10
