"""A score is kept, so that a grader is not called twice. All else is computed from the journal and the scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from medagent import load_run
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

    def metrics(self, scores):
        note("metrics")
        return super().metrics(scores)


def note(what):
    with open("notes.txt", "a") as file:
        file.write(f"{what}\\n")
'''
MISSING = """

def missing(self, source):
    raise medagent.UserError("no sums here")


Sums.items = missing
"""
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


def test_the_same_command_changes_nothing(noted: Callable[[], list[str]]) -> None:
    before = {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.name != ".lock"}
    times = {
        file.name: file.stat().st_mtime_ns for file in FOLDER.iterdir() if file.name not in (".lock", "official.txt")
    }
    again = medagent(*RUN)
    assert (again.code, noted()) == (0, ["metrics"])
    assert "is complete and was not changed" in again.err
    assert "Score " in again.out
    assert {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.name != ".lock"} == before
    assert {name: (FOLDER / name).stat().st_mtime_ns for name in times} == times
    assert json.loads(medagent(*RUN, "--json").out)["items"][47]["item"] == "3+3"


@pytest.mark.parametrize("changed", ["report.json", "items.jsonl", "official.txt"])
def test_what_was_changed_is_made_again(noted: Callable[[], list[str]], changed: str) -> None:
    whole = (FOLDER / changed).read_text()
    (FOLDER / changed).write_text(whole.replace("4", "5", 1) if "4" in whole else "")
    assert medagent(*RUN).code == 0
    assert noted() == ["metrics"]
    assert (FOLDER / changed).read_text() == whole


def test_scores_are_read_from_their_file_as_long_as_all_that_they_rest_on_is_unchanged(
    noted: Callable[[], list[str]],
) -> None:
    code, scores = "--benchmark=sums.py:Sums", FOLDER / "scores.jsonl"
    whole = scores.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert medagent("show", FOLDER, code).code == 0
    assert noted() == ["metrics"]
    row = json.loads(lines[2])["row"].encode()
    for stored, count in (
        (b"".join(lines[:40]), 8),
        (whole[:-20], 1),  # a line that a crash left incomplete
        (b"{broken\n" + b"".join(lines[1:]), 1),
        (whole.replace(b'"row":"%s"' % row, b'"row":"00000000"'), 1),
        (whole.replace(b'"digests":{', b'"digests":{"other":"1"', 5), 5),
    ):
        scores.write_bytes(stored)
        assert medagent("show", FOLDER, code).code == 0
        assert noted().count("score") == count
        assert scores.read_bytes() == stored, "show writes nothing"
        assert medagent(*RUN).code == 0
        assert noted().count("score") == count
        assert scores.read_bytes().startswith(stored)
        assert medagent(*RUN).code == 0
        assert noted().count("score") == 0
    scores.unlink()
    assert medagent(*RUN).code == 0
    assert noted().count("score") == 48
    assert sorted(scores.read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_every_unit_is_graded_for_grade_and_leaderboard(noted: Callable[[], list[str]]) -> None:
    code = "--benchmark=sums.py:Sums"
    assert medagent("grade", FOLDER, code).code == 0
    assert noted().count("score") == 48
    assert medagent(*RUN, "--limit", 2).code == 0
    assert noted() == ["metrics"]
    assert "| 48 |" in medagent("leaderboard", FOLDER, code).out
    assert noted().count("score") == 48


def test_a_run_that_was_stopped_is_shown_as_its_command_left_it(noted: Callable[[], list[str]]) -> None:
    words = (*RUN, "--round", "s", "--max-tokens-total", 1)
    assert medagent(*words).code == 2
    folder = FOLDER.with_name("sums_s_scripted-replies.json")
    before = json.loads((folder / "report.json").read_text())
    report = load_run(folder, benchmark="sums.py:Sums").report
    assert (list(report.owed), report.stopped, report.complete) == (before["owed"], before["stopped"], False)
    assert len(report.items) == 48
    assert report.overall.n == 48 - len(report.owed)


def test_a_finished_run_is_shown_without_its_data(noted: Callable[[], list[str]]) -> None:
    code = "--benchmark=sums.py:Sums"
    whole = medagent("show", FOLDER, code).out
    Path("sums.py").write_text(BENCHMARK + MISSING)
    assert medagent("show", FOLDER, code).out == whole
    assert "3+3#3" in medagent("show", FOLDER, "--wrong", code).out
    (FOLDER / "report.json").unlink()
    assert "Not graded yet: no sums here" in " ".join(load_run(FOLDER, benchmark="sums.py:Sums").report.notes)


def test_a_journal_that_was_changed_is_refused(noted: Callable[[], list[str]]) -> None:
    journal = FOLDER / "episodes.jsonl"
    raw = bytearray(journal.read_bytes())
    raw[len(raw) // 2] ^= 1
    journal.write_bytes(raw)
    for words in (RUN, ("leaderboard", FOLDER, "--benchmark=sums.py:Sums")):
        done = medagent(*words)
        assert (done.code, noted()) == (1, [])
        assert "is damaged" in done.err


@pytest.mark.parametrize("name", ["run.json", "report.json", "items.jsonl"])
def test_a_key_twice_in_a_file_of_the_run_is_one_line(noted: Callable[[], list[str]], name: str) -> None:
    file = FOLDER / name
    text = file.read_text()
    key = text[text.index('"') : text.index(":")]
    file.write_text(f"{{{key}:0,{text[1:]}")
    if name == "items.jsonl":  # it is read if the data is missing
        Path("sums.py").write_text(BENCHMARK + MISSING)
    done = medagent("show", FOLDER, "--benchmark=sums.py:Sums")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert f"{name}: is damaged (an object contains the key {key.replace(chr(34), chr(39))} twice" in done.err


def test_a_score_with_a_key_twice_is_made_again(noted: Callable[[], list[str]]) -> None:
    noted()
    scores = FOLDER / "scores.jsonl"
    first, rest = scores.read_text().split("\n", 1)
    scores.write_text('{"unit":"none",' + first[1:] + "\n" + rest)
    assert medagent(*RUN).code == 0
    assert Counter(noted())["score"] == 1


def test_a_page_has_the_blocks_of_every_unit(noted: Callable[[], list[str]]) -> None:
    code = "--benchmark=sums.py:Sums"
    assert medagent("report", FOLDER, "-o", "report.html", code).code == 0
    assert Counter(noted()) == {"blocks": 48, "metrics": 1}
    page, parts = unpacked(Path("report.html"))
    assert (len(page["items"]), sum(map(len, parts))) == (48, 48)
    outcomes = items(Path("report.html"))
    assert [outcomes[name][0][0] for name in ("1+3.2", "1+2.2")] == [True, False]


def test_a_run_in_progress_grades_each_unit_once_for_all_its_pages(noted: Callable[[], list[str]]) -> None:
    code, journal, scores = "--benchmark=sums.py:Sums", FOLDER / "episodes.jsonl", FOLDER / "scores.jsonl"
    rows, lines = (file.read_bytes().splitlines(keepends=True) for file in (journal, scores))
    for count in (30, 48):  # a score is on disk as soon as it is known
        journal.write_bytes(b"".join(rows[:count]))
        scores.write_bytes(b"".join(lines[:count]))
        assert medagent("report", FOLDER, "-o", "report.html", code).code == 0
        assert noted().count("score") == 0
        assert len(items(Path("report.html"))) == count
