"""A finished run is not derived again: the same command, the leaderboard and the page use what is stored, as long as
all that it rests on is unchanged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from medagent._finished import PageWriter
from tests.command import medagent
from tests.medagent.reports.test_report import items, unpacked

BENCHMARK = '''
from pathlib import Path

import medagent
from tests.outsider.outsider.benchmark import Sums as Plain, SumsGrader


class Sums(Plain):
    """Sums that note what is asked of them."""

    def grader(self, source, rules):
        return Noting()

    def blocks(self, item, row, score):
        note("blocks")
        return super().blocks(item, row, score)

    def write(self, run, scores):
        (run.path / "official.txt").write_text(f"{len(scores)}\\n")
        return ["official.txt"]


class Noting(SumsGrader):
    def score(self, item, row, judged=None):
        note("score")
        return super().score(item, row, judged)

    def figures(self, scores):
        note("figures")
        return super().figures(scores)


def note(what):
    with open("notes.txt", "a") as file:
        file.write(f"{what}\\n")
'''
RUN = ("run", "sums.py:Sums", "--model", "scripted:replies.json", "--trials", 3, "--quiet")
FOLDER = Path("results/sums_r1_scripted-replies.json")


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A finished run of 48 units in the working folder; gives what its benchmark was asked since the last call."""
    monkeypatch.chdir(tmp_path)
    Path("sums.py").write_text(BENCHMARK)
    Path("replies.json").write_text(json.dumps({"*": ["4"]}))
    assert medagent(*RUN).code == 0

    def since() -> list[str]:
        notes = Path("notes.txt")
        lines = notes.read_text().split() if notes.exists() else []
        notes.write_text("")
        return lines

    since()
    return since


def test_a_grader_may_allow_equal_rows_to_be_graded_once(noted: Callable[[], list[str]]) -> None:
    words = ("grade", FOLDER, "--benchmark=sums.py:Sums")
    every = medagent(*words)
    assert (every.code, noted().count("score")) == (0, 48)
    Path("sums.py").write_text(BENCHMARK.replace("(SumsGrader):\n", "(SumsGrader):\n    by_content = True\n\n"))
    once = medagent(*words)
    assert (once.code, noted().count("score")) == (0, 16)
    assert once.out == every.out
    lines = (FOLDER / "episodes.jsonl").read_text().splitlines()
    body = lines[20].partition(',"format"')[0].replace('"reply":"4"', '"reply":"5"')
    lines[20] = f'{body},"format":3,"crc32":"{zlib.crc32(body.encode()):08x}"}}'
    (FOLDER / "episodes.jsonl").write_text("\n".join([*lines, ""]))
    assert medagent(*words).code == 0
    assert noted().count("score") == 17


def test_the_same_command_derives_nothing(noted: Callable[[], list[str]]) -> None:
    before = {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.name != ".lock"}
    again = medagent(*RUN)
    assert (again.code, noted()) == (0, [])
    assert "is complete and was not changed" in again.err
    assert "overall" in again.out
    assert {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.name != ".lock"} == before
    assert json.loads(medagent(*RUN, "--json").out)["items"][47]["item"] == "3+3"


@pytest.mark.parametrize("changed", ["report.json", "items.jsonl", "official.txt"])
def test_what_was_changed_is_made_again(noted: Callable[[], list[str]], changed: str) -> None:
    whole = (FOLDER / changed).read_text()
    (FOLDER / changed).write_text(whole.replace("4", "5", 1) if "4" in whole else "")
    assert medagent(*RUN).code == 0
    assert noted() == ["figures"]
    assert (FOLDER / changed).read_text() == whole


def test_another_request_and_other_code_are_no_repetition(noted: Callable[[], list[str]]) -> None:
    assert medagent(*RUN, "--limit", 2).code == 0
    assert noted() == ["figures"]
    code = "--benchmark=sums.py:Sums"
    ranked = medagent("leaderboard", FOLDER, code)  # the stored report is of six units of 48
    assert "| 48 |" in ranked.out, ranked.err
    assert set(noted()) == {"score", "figures"}
    assert medagent(*RUN).code == 0
    noted()
    assert medagent("leaderboard", FOLDER, code).out == ranked.out
    assert noted() == []
    Path("sums.py").write_text(BENCHMARK.replace("== item.target", "") + "\n# other code\n")
    assert medagent(*RUN).code == 0
    assert noted() == ["figures"]


def test_a_journal_that_was_changed_is_refused(noted: Callable[[], list[str]]) -> None:
    journal = FOLDER / "episodes.jsonl"
    raw = bytearray(journal.read_bytes())
    raw[len(raw) // 2] ^= 1
    journal.write_bytes(raw)
    for words in (RUN, ("leaderboard", FOLDER, "--benchmark=sums.py:Sums")):
        done = medagent(*words)
        assert (done.code, noted()) == (1, [])
        assert "is damaged" in done.err


def test_trials_that_went_alike_share_a_part_of_the_page(noted: Callable[[], list[str]]) -> None:
    code = "--benchmark=sums.py:Sums"
    assert medagent("report", FOLDER, "-o", "report.html", code).code == 0
    assert len(noted()) == 40  # of the first ones, for what their prompts share; 16 would do
    page, parts = unpacked(Path("report.html"))
    assert (len(page["items"]), sum(map(len, parts))) == (48, 16)
    outcomes = items(Path("report.html"))
    assert outcomes["1+3.1"][0][10] == outcomes["1+3.3"][0][10]
    assert [outcomes[name][0][0] for name in ("1+3.2", "1+2.2")] == [True, False]


def test_a_page_that_is_written_again_takes_what_it_had(noted: Callable[[], list[str]]) -> None:
    for derived in ("report.json", "items.jsonl", "scores.jsonl"):
        (FOLDER / derived).unlink()
    journal = FOLDER / "episodes.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    writer = PageWriter([FOLDER], "sums.py:Sums", {})
    asked = []
    for count in (30, 48, 48):
        journal.write_bytes(b"".join(lines[:count]))
        writer.write("report.html")
        asked.append(noted().count("score"))
    assert asked == [30, 18, 0]
    assert len(items(Path("report.html"))) == 48
