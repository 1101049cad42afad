"""`medagent submit`: a pack is checked without its model, and one that was altered is found."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.medagentbench.submission.check import UNVERIFIABLE
from medagent.benchmarks.medagentbench.submission.check import check as check_pack
from medagent.benchmarks.medagentbench.submission.pack import PACK, write_archive
from tests.command import medagent

Files = dict[str, Any]
"""A pack's files: `episodes.jsonl` as a list of rows, the others as JSON."""


@pytest.fixture(scope="module")
def made(shift: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The pack of a run in two trials, and its data set."""
    folder = tmp_path_factory.mktemp("submission")
    run = ("run", "--dataset", shift, "--version", "v1", "--agent", "reference", "--trials", "2", "--quiet")
    assert medagent(*run, "--writes", "execute", "--results-dir", folder).code == 0
    assert medagent("submit", "pack", folder / "v1_r1_reference", "--out", folder / "whole.zip").code == 0
    return folder / "whole.zip", shift


def read(pack: Path) -> Files:
    with zipfile.ZipFile(pack) as archive:
        files: Files = {name: archive.read(name) for name in archive.namelist()}
    rows = [json.loads(line) for line in files.pop("episodes.jsonl").splitlines()]
    return {**{name: json.loads(content) for name, content in files.items()}, "episodes.jsonl": rows}


def line(number: int, row: dict[str, Any]) -> bytes:
    """A row of a journal whose own number and checksum hold."""
    kept = {name: value for name, value in row.items() if name not in ("row", "format", "crc32")}
    body = json.dumps({**kept, "row": number}, separators=(",", ":")).encode()[:-1]
    return body + b',"format":3,"crc32":"%08x"}\n' % zlib.crc32(body)


def write(path: Path, files: Files) -> Path:
    """A pack whose own digests hold, as whoever alters one would make it."""
    raw = {
        name: json.dumps(content).encode() for name, content in files.items() if name not in (PACK, "episodes.jsonl")
    }
    raw["episodes.jsonl"] = b"".join(line(*numbered) for numbered in enumerate(files["episodes.jsonl"], 1))
    about = {**files[PACK], "files": {name: hashlib.sha256(content).hexdigest() for name, content in raw.items()}}
    write_archive(path, {**raw, PACK: json.dumps(about).encode()})
    return path


def test_a_pack_of_a_run_is_found_right(made: tuple[Path, Path]) -> None:
    ran = medagent("submit", "check", made[0], "--dataset", made[1])
    assert ran.code == 0, ran.out
    lines = ran.out.splitlines()
    assert lines[0].startswith("verified: 40 episodes done again over shift-")
    assert f"not verified: {UNVERIFIABLE}" in lines
    assert lines[-1] == "score: 20 of 20 (100.0 %)"


def test_packing_twice_gives_the_same_bytes_and_hides_keys(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made[0].parent / "v1_r1_reference"
    assert medagent("submit", "pack", run, "--out", tmp_path / "again.zip").code == 0
    assert (tmp_path / "again.zip").read_bytes() == made[0].read_bytes()
    monkeypatch.setenv("SOME_API_KEY", "v1_r1_reference")
    assert medagent("submit", "pack", run, "--out", tmp_path / "hidden.zip").code == 0
    assert "v1_r1_reference" not in json.dumps(read(tmp_path / "hidden.zip"))


def change_answer(files: Files, dice: random.Random) -> None:
    dice.choice(files["results.json"]["results"])["answer"] = "[1234]"


def change_answer_everywhere(files: Files, dice: random.Random) -> None:
    row = dice.choice([row for row in files["episodes.jsonl"] if row["trial"] == 1])
    row["answer"] = "[1234]"
    next(one for one in files["results.json"]["results"] if one["task_id"] == row["task_id"])["answer"] = "[1234]"


def drop_episode(files: Files, dice: random.Random) -> None:
    row = files["episodes.jsonl"].pop(dice.randrange(len(files["episodes.jsonl"])))
    name = "results.json" if row["trial"] == 1 else f"results.{row['trial']}.json"
    files[name]["results"] = [one for one in files[name]["results"] if one["task_id"] != row["task_id"]]


def drop_row(files: Files, dice: random.Random) -> None:
    files["episodes.jsonl"].pop(dice.randrange(len(files["episodes.jsonl"])))


def invent_reply(files: Files, dice: random.Random) -> None:
    rows = [row for row in files["episodes.jsonl"] if len(row["transcript"]) > 2]
    turn = dice.choice([turn for turn in dice.choice(rows)["transcript"][1:] if turn["role"] == "user"])
    turn["content"] = turn["content"].replace("e", "E", 1)


def change_prompt(files: Files, dice: random.Random) -> None:
    dice.choice(files["episodes.jsonl"])["transcript"][0]["content"] += " "


def name_other_set(files: Files, dice: random.Random) -> None:
    name = dice.choice(["tasks-digest", "ehr-digest"])
    files["run.json"]["settings"][name] = "0" * 64


def forget_post(files: Files, dice: random.Random) -> None:
    items = [one for one in files["results.json"]["results"] if one["post_history"]]
    dice.choice(items)["post_history"] = []


def change_write(files: Files, dice: random.Random) -> None:
    row = dice.choice([row for row in files["episodes.jsonl"] if row["created"]])
    row["created"][0]["resource"]["status"] = "draft"


def end_otherwise(files: Files, dice: random.Random) -> None:
    dice.choice(files["episodes.jsonl"])["status"] = "round_limit"


ALTERATIONS: list[Callable[[Files, random.Random], None]] = [
    change_answer,
    change_answer_everywhere,
    drop_episode,
    drop_row,
    invent_reply,
    change_prompt,
    name_other_set,
    forget_post,
    change_write,
    end_otherwise,
]


@pytest.mark.parametrize("alter", ALTERATIONS[1::2])
def test_an_altered_pack_is_found(
    alter: Callable[[Files, random.Random], None], made: tuple[Path, Path], tmp_path: Path
) -> None:
    files = read(made[0])
    alter(files, random.Random(1))
    ran = medagent("submit", "check", write(tmp_path / "altered.zip", files), "--dataset", made[1])
    assert (ran.code, "wrong: " in ran.out, "score" in ran.out) == (1, True, False)


@pytest.mark.long
def test_two_hundred_altered_packs_are_found(made: tuple[Path, Path], tmp_path: Path) -> None:
    for number in range(200):
        files = read(made[0])
        alter = ALTERATIONS[number % len(ALTERATIONS)]
        alter(files, random.Random(number))
        assert check_pack(write(tmp_path / "altered.zip", files), dataset=str(made[1])).problems, (
            number,
            alter.__name__,
        )


def test_replies_made_up_consistently_are_not_found_and_check_says_so(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Another FINISH with everything derived from it: it passes, and the score moves."""
    files = read(made[0])
    row = next(row for row in files["episodes.jsonl"] if row["unit"] == "task2_1#1")
    row["transcript"][-1]["content"], row["answer"] = "FINISH([7])", "[7]"
    item = next(one for one in files["results.json"]["results"] if one["task_id"] == "task2_1")
    item["answer"] = "[7]"
    ran = medagent("submit", "check", write(tmp_path / "altered.zip", files), "--dataset", made[1])
    assert (ran.code, UNVERIFIABLE in ran.out, "score: 19 of 20" in ran.out) == (0, True, True)


def test_the_leaderboard_takes_packs_in_which_nothing_is_wrong(made: tuple[Path, Path], tmp_path: Path) -> None:
    ran = medagent("leaderboard", made[0], "--dataset", made[1])
    assert ran.code == 0
    assert "**1. reference** (`whole.zip`)" in ran.out
    files = read(made[0])
    change_answer_everywhere(files, random.Random(1))
    ran = medagent("leaderboard", made[0], write(tmp_path / "altered.zip", files), "--dataset", made[1])
    assert (ran.code, ran.out, "the answer is not what FINISH held" in ran.err) == (1, "", True)


def test_a_folder_that_a_pack_names_is_not_read(made: tuple[Path, Path]) -> None:
    """Also where it is there, as it is for whoever packed it."""
    for command in (("submit", "check"), ("leaderboard",)):
        ran = medagent(*command, made[0])
        assert ran.code == 1
        assert f"its data set is the folder '{made[1]}' of whoever packed it; name yours: --dataset DIR" in ran.err
    assert "over another task set" in medagent("submit", "check", made[0], "--dataset", "synthetic").out


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("settings.protocol", "../../../../../../etc/passwd", "settings.protocol: Input should be 'text' or 'tools'"),
        ("settings.protocol", 7, "settings.protocol: "),
        ("settings.version", "../v1", "settings.version: "),
        ("settings.dataset", "../../etc", "name yours: --dataset DIR"),
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
        (text, "is no pack"),
        (tmp_path / "absent.zip", "cannot be read"),
        (evil, "holds '../escape.json', which no pack has"),
        (empty, "it has no pack.json"),
        (damaged, "does not hold the files"),
    ):
        ran = medagent("submit", "check", path)
        assert (ran.code, said in ran.err) == (1, True), (path, ran.err)
    assert not (tmp_path.parent / "escape.json").exists()
    assert "is no run's folder" in medagent("submit", "pack", tmp_path).err
