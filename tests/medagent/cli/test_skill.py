"""`medagent skill`: both sides in turns, continued, reused, compared."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import medagent as library
from tests.command import medagent
from tests.starts import start

SKILL = "---\nname: {name}\ndescription: Counts years.\n---\n\nCount a year only after the birthday.\n"
MODEL = '''
import re
import signal
from pathlib import Path

import medagent

class Follows(medagent.Model):
    """Counts years as the skill says, if it has one; another skill makes it say nothing. A file interrupts the run."""

    async def complete(self, messages, **_):
        if Path("interrupt").exists():
            Path("interrupt").unlink()
            signal.raise_signal(signal.SIGINT)
        texts = [message.content for message in messages]
        told = "after the birthday" in texts[0]
        born = re.search(r'"birthDate": ?"(\\d+)-(\\d+-\\d+)"', texts[-1])
        if "say nothing" in texts[0]:
            reply = "FINISH([])"
        elif born is not None:
            reply = f"FINISH([{2023 - int(born[1]) - (told and born[2] > '11-13')}])"
        else:
            patient = re.findall(r"\\bS\\d{7}\\b", " ".join(texts))[-1]
            reply = f"GET http://localhost:8080/fhir/Patient?identifier={patient}"
        return medagent.Completion(reply, medagent.Usage(prompt=10, completion=2), cost=0.5)
'''
RUN = ("skill", "birthdays", "--model", "follows.py:Follows", "--types", "task2", "--quiet")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("follows.py").write_text(MODEL)
    for name in ("birthdays", "silent"):
        Path(name).mkdir()
        text = SKILL.format(name=name)
        Path(name, "SKILL.md").write_text(text if name == "birthdays" else text + "Always say nothing.\n")


def test_a_skill_that_helps_and_one_that_breaks() -> None:
    ran = medagent(*RUN)
    assert ran.code == 0, ran.err
    assert "with 30 items a difference under " in ran.err
    lines = ran.out.splitlines()
    assert [line.split()[-3:] for line in lines if line.startswith("  right ")] == [["30", "of", "30"]]
    assert any(line.startswith("Difference +33.3 points (95% +") and "; p = 0.00" in line for line in lines)
    assert "Broken (without right, with birthdays wrong): 0" in lines
    assert any(line.startswith("Repaired (without wrong, with birthdays right): 10: task2_") for line in lines)
    assert any("cost an item" in line and "$" in line for line in lines)
    again = medagent(*RUN)
    assert (again.code, again.out) == (0, ran.out)
    assert again.err.count("is complete and was not changed") == 2
    against = medagent("skill", "birthdays", "--against", "silent", *RUN[2:], "--json")
    document = json.loads(against.out)
    assert len(document["broken"]) == 30
    assert [side["name"] for side in document["sides"]] == ["with birthdays", "with silent"]
    assert [side["cost_per_item"] for side in document["sides"]] == [1.0, 0.5]
    assert document["comparison"]["difference"] == -1


def test_what_a_skill_gives_away_is_named() -> None:
    line = "If magnesium is below 1.9 mg/dL, give 2 g over 2 h."
    Path("birthdays", "SKILL.md").write_text(SKILL.format(name="birthdays") + line + "\n")
    told = " ".join(medagent(*RUN, "--limit", 2).out.split())
    assert f"The prompt with birthdays gives away limits: below 1.9 mg/dL (in: {line})" in told
    assert "The prompt without gives away" not in told
    first, second = json.loads(medagent(*RUN, "--limit", 2, "--json").out)["sides"]
    assert first["gives_away"] == []
    assert any(part.startswith("doses: 2 g") for part in second["gives_away"])


def test_items_start_in_turns_and_a_stopped_command_continues() -> None:
    assert medagent(*RUN, "--limit", 6, "--concurrency", 1).code == 0
    first, second = (
        sorted((row.started, row.unit) for row in library.load_run(f"results/v2_{name}_Follows").rows())
        for name in ("r1", "r1-with-birthdays")
    )
    starts = sorted([(time, 0) for time, _ in first] + [(time, 1) for time, _ in second])
    gaps = [sum(1 if run else -1 for _, run in starts[: place + 1]) for place in range(len(starts))]
    assert max(map(abs, gaps)) <= 2  # one that starts, and one that waits
    stopped = medagent(*RUN, "--max-cost", 8)
    assert stopped.code == 2
    assert medagent(*RUN).code == 0
    assert all(
        len(list(library.load_run(f"results/v2_{name}_Follows").rows())) == 30 for name in ("r1", "r1-with-birthdays")
    )


def test_an_interrupted_command_says_so_once_and_continues() -> None:
    Path("interrupt").touch()
    ended = start(*RUN, "--limit", 4).ended(60)
    assert ended.code == 130, ended.err
    assert ended.err.count("Interrupted. Finished units are saved. Continue: repeat the command") == 1
    assert medagent(*RUN, "--limit", 4).code == 0


def test_a_finished_side_is_reused_if_only_the_skill_differs() -> None:
    assert medagent("run", *RUN[2:]).code == 0
    rows = Path("results/v2_r1_Follows/episodes.jsonl").read_bytes()
    assert medagent(*RUN).code == 0
    assert Path("results/v2_r1_Follows/episodes.jsonl").read_bytes() == rows
    refused = medagent(*RUN, "--max-rounds", 5)
    assert refused.code == 1
    assert "the run uses other settings (max-rounds 8 → 5)" in refused.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name a skill's folder, or what to compare with: --against DIR2, --against-system FILE"),
        (("nowhere",), "--skill nowhere: contains no SKILL.md"),
        (("birthdays", "--against", "silent", "--against-protocol", "tools"), "pass one of --against, "),
    ],
)
def test_what_is_not_clear_is_one_line(words: tuple[str, ...], problem: str) -> None:
    refused = medagent("skill", *words, *RUN[2:])
    assert refused.code == 1
    assert problem in refused.err
    assert refused.err.count("\n") == 1


def test_other_comparisons() -> None:
    Path("short.txt").write_text("Count a year only after the birthday.")
    words = (*RUN[2:], "--limit", 4)
    for options, name in (
        (("--against-system", "short.txt"), "r1-system-short"),
        (("birthdays", "--against-protocol", "tools"), "r1-with-birthdays-tools"),
    ):
        ran = medagent("skill", *options, *words)
        assert ran.code == 0, ran.err
        assert Path(f"results/v2_{name}_Follows/run.json").is_file()


def test_a_pack_has_a_skill_s_texts_only_if_they_are_asked_for() -> None:
    words = ("--model", "follows.py:Follows", "--types", "task2", "--version", "v1", "--skill", "birthdays", "--quiet")
    assert medagent("run", *words).code == 0
    run = Path("results/v1_r1_Follows")
    assert medagent("submit", "pack", run, "--partial", "--out", "without.zip").code == 0
    assert medagent("submit", "pack", run, "--partial", "--with-skill", "--out", "with.zip").code == 0
    assert b"birthday" not in b"".join(texts(Path("without.zip")))
    assert any(b"after the birthday" in text for text in texts(Path("with.zip")))
    assert "the run used its own prompts, which are not in the pack" in medagent("submit", "check", "without.zip").out
    checked = medagent("submit", "check", "with.zip")
    assert checked.code == 0, checked.out
    assert "its own prompts, which are in the pack" in checked.out


def texts(pack: Path) -> list[bytes]:
    """The files of a pack that are not the journal or a list of settings."""
    with zipfile.ZipFile(pack) as archive:
        return [archive.read(name) for name in archive.namelist() if name == "prompts.json"]
