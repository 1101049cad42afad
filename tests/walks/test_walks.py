"""The walks of eight newcomers: each types what the pages say, in an empty folder, and ends as its page here shows.

A walk is a page of commands. A line `…` stands for any lines, and `exit 2` is the status of a command that fails. See
`tools/doc_pages.py` for what is compared.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import doc_pages

WALKS = sorted(Path(__file__).parent.glob("*.md"))


def test_there_are_eight_walks() -> None:
    assert len(WALKS) == 8


@pytest.mark.long
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.stem)
def test_a_walk_ends_as_its_page_shows(walk: Path, tmp_path: Path) -> None:
    outcome = doc_pages.play(walk.read_text(encoding="utf-8"), tmp_path, codes=True)
    assert not outcome.problems, "\n\n".join(outcome.problems)
    assert not outcome.skipped, "a walk contains only commands that run here"
