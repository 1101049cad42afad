"""What agents that read nothing get right."""

from __future__ import annotations

import json

from refsol.medagentbench import PUBLISHED, baselines
from tests.refsol.medagentbench.items import (
    MRN,
    RECENT,
    MadeUpEhr,
    lab,
)


def test_blind_places_the_orders_that_the_text_spells_out_where_they_are_right_most_often() -> None:
    words = f"{MRN}: order {PUBLISHED.a1c_test}; record {PUBLISHED.blood_pressure}; refer {PUBLISHED.referral_code}: "
    text = {"instruction": words + PUBLISHED.referral, "eval_MRN": MRN}
    kinds = ("task3", "task8", "task10")
    tasks = [{"id": f"{kind}_{number}", **text} for kind in kinds for number in range(2)]
    found = baselines(tasks, MadeUpEhr())
    assert [found.outcomes(task["id"]) for task in tasks] == [{"nop": False, "constant": False, "blind": True}] * 6
    recent = baselines(tasks, lab("A1C", (RECENT, 6)))
    assert recent.behaviours("blind")["task10"].orders == ()
    silent = [{**task, "instruction": f"{MRN}: as always"} for task in tasks]
    assert not any(baselines(silent, MadeUpEhr()).outcomes(task["id"])["blind"] for task in silent)


def test_constant_gives_the_most_frequent_right_answer_of_each_type() -> None:
    tasks = [
        {"id": "task1_1", "eval_MRN": MRN, "sol": [MRN]},
        {"id": "task1_2", "sol": ["Patient not found"]},
        *({"id": f"{kind}_1", "eval_MRN": MRN} for kind in ("task2", "task3", "task5")),
    ]
    constant = baselines(tasks, MadeUpEhr()).behaviours("constant")
    assert {kind: behaviour.answer for kind, behaviour in constant.items()} == {
        "task1": f'["{MRN}"]',
        "task2": "[60]",
        "task3": "[]",
        "task5": "[]",
    }


def test_blind_guesses_a_dose() -> None:
    text = {"instruction": f"{MRN} {PUBLISHED.magnesium_drug} {PUBLISHED.potassium_drug} {PUBLISHED.potassium_test}"}
    tasks = [{"id": f"{kind}_1", "eval_MRN": MRN, **text} for kind in ("task5", "task9")]
    low = MadeUpEhr({**lab("MG", (RECENT, 1.2)).readings, **lab("K", (RECENT, 3.1)).readings})
    found = baselines(tasks, low)
    quantities = [
        json.loads(behaviour.orders[0])["dosageInstruction"][0]["doseAndRate"][0]
        for behaviour in found.behaviours("blind").values()
    ]
    assert [quantity["doseQuantity"] for quantity in quantities] == [
        {"value": 2, "unit": "g"},
        {"value": 40, "unit": "mEq"},
    ]
    assert all(found.outcomes(task["id"])["blind"] for task in tasks)
