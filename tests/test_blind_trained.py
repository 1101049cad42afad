"""Task sets do not tell their answers: an agent that was trained on other sets, and reads no chart, is not better than
the best behaviour of each type.
"""

from __future__ import annotations

import pytest

from tools import blind_trained
from tools.blind_trained import Shown


@pytest.mark.long
@pytest.mark.parametrize("benchmark", blind_trained.SETS)
def test_an_agent_trained_on_other_sets_is_no_better_than_the_best_behaviour(
    benchmark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["blind_trained", "--benchmark", benchmark])
    assert blind_trained.main() == 0


def test_a_wording_that_tells_the_answer_is_found_out() -> None:
    def items(telling: bool) -> list[Shown]:
        right = ["due", "nothing", "nothing"] * 10
        words = [f"Wording {one if telling else number % 2}" for number, one in enumerate(right)]
        return [Shown("t", text, place, "S1", one) for place, (text, one) in enumerate(zip(words, right, strict=True))]

    telling = blind_trained.score([items(True)] * 8, items(True))
    assert telling == (30, 20)
    silent = [[Shown("t", "The same", 0, "S1", one.right) for one in items(False)] for _ in range(8)]
    assert blind_trained.score(silent, silent[0]) == (20, 20)
