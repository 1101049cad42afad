from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

KEY = "sk-a-secret-that-must-not-show"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, and no base URL of the person who runs the tests."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    variables = ("OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "MEDAGENT_PRICES")
    for name in (*variables, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(autouse=True)
def _no_search_for_cycles() -> Iterator[None]:
    """Among all that a run of the whole suite holds, one takes a second: longer than the time-outs of these tests."""
    gc.disable()
    yield
    gc.enable()
