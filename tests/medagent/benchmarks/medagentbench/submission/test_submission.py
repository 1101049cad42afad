"""`medagent submit`: a pack is checked without its model, and one that was altered is found."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from medagent.benchmarks.medagentbench.submission.pack import PACK, write_archive
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.submission.packs import read, write


def test_a_pack_says_what_is_verified_and_what_is_claimed(made: tuple[Path, Path]) -> None:
    ran = medagent("submit", "check", made[0], "--dataset", made[1])
    assert ran.code == 0, ran.out
    verified, claimed, unchecked, score = ran.out.splitlines()
    assert verified.startswith("verified by replay: prompts, replies, orders, endings and answers of 40 episodes (")
    assert verified.endswith("; results files; score")
    assert claimed == (
        "claimed only: agent reference; the agent's messages; tokens; cost; times; versions and commit; "
        "programs, notes, items and table; "
        "that no other run was made and left out"
    )
    assert unchecked.startswith("could not be checked: max-rounds 8: no episode reached it (most messages: ")
    assert score == "score: 40 of 40 (100.0%)"
    lists = json.loads(medagent("submit", "check", made[0], "--dataset", made[1], "--json").out)
    assert list(lists) == [
        "exit_code",
        "problems",
        "verified_by_replay",
        "claimed_only",
        "could_not_be_checked",
        "score",
    ]
    assert (lists["exit_code"], lists["problems"], lists["score"]["value"]) == (0, [], 1.0)
    assert "agent reference" in lists["claimed_only"]


def test_packing_twice_gives_the_same_bytes_and_hides_keys(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made[0].parent / "v1_r1_reference"
    assert medagent("submit", "pack", run, "--out", tmp_path / "again.zip").code == 0
    assert (tmp_path / "again.zip").read_bytes() == made[0].read_bytes()
    monkeypatch.setenv("SOME_API_KEY", "v1_r1_reference")
    assert medagent("submit", "pack", run, "--out", tmp_path / "hidden.zip").code == 0
    assert "v1_r1_reference" not in json.dumps(read(tmp_path / "hidden.zip"))


def test_the_leaderboard_takes_packs_and_marks_their_claims(made: tuple[Path, Path]) -> None:
    ran = medagent("leaderboard", made[0], "--dataset", made[1])
    assert ran.code == 0
    assert "| 1 | 1 | reference (claimed) |" in ran.out
    assert "**reference** (`whole.zip`)" in ran.out
    assert re.search(r"\* Ran: .* \(claimed\)\n", ran.out)
    assert "* Claimed only: agent reference; " in ran.out
    assert "* Could not be checked: max-rounds 8: " in ran.out


def test_packs_of_the_version_before_have_the_overall_line_of_the_first_trial(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    files = read(made[0])
    line = files["report.json"]["overall"]
    line |= {"n": 20, "counts": {"right": 20}, "interval": [0.83, 1.0]}
    assert medagent("submit", "check", write(tmp_path / "before.zip", files), "--dataset", made[1]).code == 0
    line |= {"counts": {"right": 19}, "value": 0.95}
    forged = medagent("submit", "check", write(tmp_path / "forged.zip", files), "--dataset", made[1])
    assert (forged.code, "`overall` differs" in forged.out) == (1, True)


def test_a_folder_that_a_pack_names_is_not_read(made: tuple[Path, Path]) -> None:
    """Also where it is there, as it is for whoever packed it."""
    for command in (("submit", "check"), ("leaderboard",)):
        ran = medagent(*command, made[0])
        assert ran.code == 1
        assert (
            f"its data set is the folder '{made[1]}' on the packer's machine; name your copy with --dataset DIR"
            in ran.err
        )
    assert "used another task set" in medagent("submit", "check", made[0], "--dataset", "synthetic").out


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("settings.protocol", "../../../../../../etc/passwd", "settings.protocol: is not 'text', 'tools' or 'code'"),
        ("settings.protocol", 7, "settings.protocol: "),
        ("settings.version", "../v1", "settings.version: "),
        ("settings.dataset", "../../etc", "name your copy with --dataset DIR"),
        ("settings.dataset", ["official"], "settings.dataset: "),
        ("settings.max-rounds", "eight", "settings.max-rounds: "),
        ("settings.max-rounds", None, "settings.max-rounds: "),
        ("settings.max-tokens", "many", "settings.max-tokens: "),
        ("settings.api-base", 5, "settings.api-base: "),
        ("settings.writes", "delete", "settings.writes: "),
        ("settings.strip-thinking", "yes", "settings.strip-thinking: "),
        ("settings.round", {"a": 1}, "run.json: is damaged (settings.round."),
        ("settings", ["v1"], "run.json: is damaged (settings: "),
        ("data", "shift", "run.json: is damaged (data: "),
        ("data", {"name": 7}, "run.json: is damaged (data.name: "),
        ("versions", [1], "run.json: is damaged (versions: "),
        ("places", [1], "run.json: is damaged (places: "),
        ("benchmark", 7, "run.json: is damaged (benchmark: "),
    ],
)
def test_settings_of_a_wrong_type_are_named_and_nothing_else_is_read(
    made: tuple[Path, Path], tmp_path: Path, place: str, value: object, problem: str
) -> None:
    files = read(made[0])
    *tables, name = place.split(".")
    table = files["run.json"]
    for one in tables:
        table = table[one]
    table[name] = value
    words = () if place == "settings.dataset" else ("--dataset", made[1])
    for command in (("submit", "check"), ("leaderboard",)):
        ran = medagent(*command, write(tmp_path / "odd.zip", files), *words)
        assert ran.code == 1
        assert problem in ran.err
        assert ran.err.count("\n") == 1


def test_what_is_no_pack(made: tuple[Path, Path], tmp_path: Path) -> None:
    text = tmp_path / "text.zip"
    text.write_text("not a zip file")
    evil, empty, damaged = tmp_path / "evil.zip", tmp_path / "empty.zip", tmp_path / "damaged.zip"
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr(PACK, "{}")
        archive.writestr("../escape.json", "{}")
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("run.json", "{}")
    files = read(made[0])
    write_archive(damaged, {"run.json": b"{}", PACK: json.dumps(files[PACK]).encode()})
    for path, said in (
        (text, "is not a pack"),
        (tmp_path / "absent.zip", "cannot be read"),
        (evil, "contains the file '../escape.json', which is not allowed in a pack"),
        (empty, "pack.json is missing"),
        (damaged, "its files are not those that"),
    ):
        ran = medagent("submit", "check", path)
        assert (ran.code, said in ran.err) == (1, True), (path, ran.err)
    assert not (tmp_path.parent / "escape.json").exists()
    assert "not a run's folder" in medagent("submit", "pack", tmp_path).err
