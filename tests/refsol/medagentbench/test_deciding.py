"""The table of deciding tests agrees with the facts that the rules name, on every task of the bundled data set."""

from __future__ import annotations

from datetime import datetime

from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from refsol.medagentbench import PUBLISHED, KeyEhr, deciding_test
from refsol.medagentbench.grade import evaluate_unanswered


def test_every_fact_that_decides_is_of_the_test_and_in_its_window() -> None:
    dataset = load_dataset("synthetic", "v2")
    assert dataset.key is not None
    facts = KeyEhr(dataset.key)
    seen = set()
    for task in dataset.tasks:
        evaluation = evaluate_unanswered(task.model_dump(), facts)
        assert evaluation is not None
        test = deciding_test(task.type)
        labs = [fact for fact in evaluation.because.facts if fact.unit is not None]
        assert bool(labs) == (test is not None), task.id
        for fact in labs if test else ():
            assert test is not None
            assert (fact.name, fact.unit) == (test.code, test.unit)
            if fact.time and test.start is not None and test.window == "the last 24 h count":
                assert datetime.fromisoformat(fact.time) >= test.start
            seen.add(task.type)
    assert seen == {"task4", "task5", "task6", "task7", "task9", "task10"}


def test_thresholds_are_those_of_the_constants() -> None:
    magnesium, potassium = deciding_test("task5"), deciding_test("task9")
    assert magnesium is not None
    assert potassium is not None
    assert [level for level, _ in magnesium.thresholds] == [level for level, _ in PUBLISHED.magnesium_doses]
    assert [level for level, _ in potassium.thresholds] == [PUBLISHED.potassium_low]
    assert deciding_test("task1") is None
