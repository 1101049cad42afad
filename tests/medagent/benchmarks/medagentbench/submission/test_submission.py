"""`medagent submit`: a pack is checked without its model, and one that was altered is found."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest

from medagent.benchmarks.medagentbench.submission.pack import PACK, write_archive
from tests.command import medagent
from tests.journal_lines import checked_line
from tests.medagent.benchmarks.medagentbench.submission.packs import read, write


def test_a_pack_says_what_is_verified_and_what_is_claimed(made: tuple[Path, Path]) -> None:
    ran = medagent("submit", "check", made[0], "--dataset", made[1])
    assert ran.code == 0, ran.out
    verified, claimed, score, needless = ran.out.splitlines()
    assert verified.startswith("verified by replay: prompts, replies, orders, endings and answers of 20 episodes (")
    assert verified.endswith("; results files; score")
    assert claimed == (
        "claimed only: agent reference; the agent's messages; tokens; cost; times; versions and commit; "
        "programs, notes, items and table; "
        "that no other run was made and left out"
    )
    assert score == "score: 20 of 20 (100.0%)"
    assert re.fullmatch(r"max-rounds 8: no episode reached it \(most messages: \d\), so it needs no check", needless)
    lists = json.loads(medagent("submit", "check", made[0], "--dataset", made[1], "--json").out)
    assert list(lists) == [
        "exit_code",
        "problems",
        "verified_by_replay",
        "claimed_only",
        "could_not_be_checked",
        "needs_no_check",
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
    assert "Could not be checked" not in ran.out  # the limit that no episode reached needs no check


def test_refused_packs_are_below_the_boards(made: tuple[Path, Path], tmp_path: Path) -> None:
    files = read(made[0])
    files["run.json"]["data"]["version"] = "v9"
    changed, broken = write(tmp_path / "changed.zip", files), tmp_path / "broken.zip"
    broken.write_text("not a zip file")
    ran = medagent("leaderboard", changed, made[0], broken, "--dataset", made[1])
    assert ran.code == 1
    assert "**reference** (`whole.zip`)" in ran.out
    boards, _, refused = ran.out.partition("## Refused packs")
    assert "| 1 | 1 | reference (claimed) |" in boards
    assert [line.split(":")[0].rpartition("/")[2] for line in refused.split("\n* ")[1:]] == [
        "changed.zip",
        "broken.zip",
    ]
    assert [line.partition(": ")[2].partition(": ")[0] for line in ran.err.splitlines()] == [str(changed), str(broken)]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("version", "v9", "the data's version is 'v9' instead of 'v"),
        ("name", "Other", "the data's name is 'Other' instead of '"),
        ("digest", "0" * 64, "the data's digest is '0000"),
        ("note", "another remark", ""),
    ],
)
def test_what_differs_in_a_packs_data_is_named(
    name: str, value: str, words: str, made: tuple[Path, Path], tmp_path: Path
) -> None:
    """A remark is not the data: another version of medagent may word it otherwise, and the board has today's."""
    files = read(made[0])
    for file in ("run.json", PACK, "report.json"):
        files[file]["data"][name] = value
    pack = write(tmp_path / "changed.zip", files)
    ran = medagent("submit", "check", pack, "--dataset", made[1])
    assert (ran.code, words in ran.out) == (1 if words else 0, True), ran.out
    assert value not in medagent("leaderboard", pack, "--dataset", made[1]).out.partition("## Refused")[0]


def test_a_folder_instead_of_a_pack_names_the_way(made: tuple[Path, Path], tmp_path: Path) -> None:
    ran = medagent("submit", "check", tmp_path)
    expected = f"medagent: {tmp_path}: is a folder; pack the run first: medagent submit pack {tmp_path}\n"
    assert (ran.code, ran.err) == (1, expected)


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
    for key in tables:
        table = table[key]
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


def first_key_twice(text: bytes) -> bytes:
    """A JSON object with a member before all others that has the key of the first one."""
    key = re.match(rb'\{\s*("\w+"):', text)
    assert key is not None
    return b"{" + key[1] + b":0," + text[1:]


def checked(rows: bytes) -> bytes:
    first, rest = rows.split(b"\n", 1)
    return checked_line(first_key_twice(first).decode()).encode() + b"\n" + rest


@pytest.mark.parametrize("name", ["run.json", "report.json", "results.json", "episodes.jsonl", "pack.json"])
def test_a_key_that_an_object_of_a_pack_has_twice_is_one_line(
    made: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    with zipfile.ZipFile(made[0]) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(files[PACK])
    files[name] = (checked if name == "episodes.jsonl" else first_key_twice)(files[name])
    if name != PACK:
        digests = {held: hashlib.sha256(content).hexdigest() for held, content in files.items() if held != PACK}
        files[PACK] = json.dumps({**about, "files": digests}).encode()
    write_archive(tmp_path / "twice.zip", files)
    for command in (("submit", "check"), ("leaderboard",)):
        ran = medagent(*command, tmp_path / "twice.zip", "--dataset", made[1])
        shown = ran.err if command == ("leaderboard",) else ran.out + ran.err
        said = [line for line in shown.splitlines() if "twice" in line.replace("twice.zip", "")]
        assert ran.code == 1
        assert len(said) == 1, (ran.out, ran.err)
        assert name in said[0]
        assert "an object contains the key '" in said[0]


def test_a_run_whose_results_file_is_of_a_part_is_not_packed(shift: Path, tmp_path: Path) -> None:
    run = ("run", "--dataset", shift, "--version", "v1", "--agent", "reference", "--quiet", "--results-dir", tmp_path)
    assert medagent(*run, "--limit", 4).code == 0
    assert medagent(*run, "--limit", 2).code == 0
    pack = ("submit", "pack", tmp_path / "v1_r1_reference", "--partial", "--out", tmp_path / "part.zip")
    refused = medagent(*pack)
    assert refused.code == 1
    assert "results.json: contains 2 of the 4 episodes in the journal" in refused.err
    assert medagent(*run, "--limit", 4).code == 0
    assert medagent(*pack).code == 0
    assert medagent("submit", "check", tmp_path / "part.zip", "--dataset", shift).code == 0
