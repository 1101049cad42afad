"""What a person sees while resources come or go."""

from __future__ import annotations

import sys

import pytest

from medagent.cli._ehr import Counter


def test_lines_for_a_file_are_few_and_the_last_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    counter = Counter("resources")
    for done in range(0, 2001, 500):
        counter(done, 2000)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("2,000 of 2,000 resources, ")


def test_a_terminal_sees_one_line_grow(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    counter = Counter("resources")
    counter(500, 1000)
    counter(1000, 1000)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("\r500 of 1,000 resources\x1b[K\r1,000 of 1,000 resources, ")
