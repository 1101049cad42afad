"""Task sets do not tell their answers: an agent that was trained on other sets, and reads no chart, is not better than
the best behaviour of each type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.layout import ROOT
from tools import blind_trained
from tools.blind_trained import Shown

CARD = ROOT / "docs" / "data-card.md"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MedAgentBench", ()),
        ("psb-300", ("--benchmark", "psb-300")),
        ("own types", ("--benchmark", f"{ROOT}/tests/own_types.py", "--train", "8", "--test", "4")),
    ],
)
def test_an_agent_trained_on_other_sets_is_no_better_than_the_best_behaviour(
    name: str, words: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data card states the scores."""
    monkeypatch.setattr("sys.argv", ["blind_trained", "--seed", "guard", *words])
    assert blind_trained.main() == 0
    rates = re.findall(r"\((.*)%\)", capsys.readouterr().out)
    assert f"| {name} | {' | '.join(f'{rate}%' for rate in rates)} |" in CARD.read_text("utf-8")


def test_a_wording_that_tells_the_answer_is_found_out() -> None:
    def items(telling: bool) -> list[Shown]:
        right = ["due", "nothing", "nothing"] * 10
        words = [f"Wording {label if telling else number % 2}" for number, label in enumerate(right)]
        return [
            Shown("t", text, place, "S1", label, False)
            for place, (text, label) in enumerate(zip(words, right, strict=True))
        ]

    telling = blind_trained.score([items(True)] * 8, items(True))
    assert (telling.trained, telling.best, telling.tells) == (30, 20, True)
    silent = [[Shown("t", "The same", 0, "S1", item.right, False) for item in items(False)] for _ in range(8)]
    told = blind_trained.score(silent, silent[0])
    assert (told.trained, told.best, told.tells) == (20, 20, False)
