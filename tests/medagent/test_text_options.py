"""Text options of the Python API: a misspelled one is refused with a suggestion."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from medagent import Report, UserError
from medagent.clinical import Code, lab_test
from medagent.rl import Environment
from medagent.testing import FhirData


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda: Environment(reward="offical"),
            "reward='offical': use 'official' or 'checks'. Did you mean 'official'?",
        ),  # type: ignore[arg-type]
        (lambda: Environment(split="trian"), "split='trian': use 'train', 'dev' or 'ood'. Did you mean 'train'?"),  # type: ignore[arg-type]
        (
            lambda: FhirData().double(writes="exceute"),  # type: ignore[arg-type]
            "writes='exceute': use 'ack' or 'execute'. Did you mean 'execute'?",
        ),
        (
            lambda: Report(benchmark="b", folder="f").to_pandas("item"),
            "table='item': use 'items', 'turns' or 'checks'. Did you mean 'items'?",
        ),
    ],
)
def test_a_misspelled_text_option_is_refused_with_a_suggestion(call: Callable[[], object], problem: str) -> None:
    with pytest.raises(UserError) as raised:
        call()
    assert str(raised.value) == problem


def test_the_width_of_a_time_is_checked() -> None:
    with pytest.raises(ValueError, match="to='day': use 'second', 'minute', 'hour'"):
        lab_test(Code("2823-3"), at=datetime(2026, 1, 1, tzinfo=UTC), to="day")  # type: ignore[arg-type]
