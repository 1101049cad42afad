"""Damaged journals: a run over one is equal to the undisturbed one, or is refused in one line that names the place.

What stands at the end of a file is all that may be missing: that is an earlier state of the run.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from medagent.core.errors import UserError
from medagent.engine.journal import Journal
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress
from medagent.engine.run import Watch, run_units
from tests.medagent.engine.counting import Counting, NumberRow, numbers

UNITS = 8


def run(path: Path, job: Counting) -> tuple[dict[str, tuple[str, int]], float]:
    """Run the units; what each row says in the end, and what all calls cost."""
    journal = Journal(path, NumberRow)
    try:
        asyncio.run(run_units(job, numbers(UNITS), journal, LocalExecutor(2), Watch(Progress(quiet=True))))
        return {row.unit: (row.status, row.square) for row in journal.rows()}, journal.spent.cost or 0.0
    finally:
        journal.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal in which one unit failed, and was done again: ten rows of one dollar each."""
    path = tmp_path_factory.mktemp("whole") / "j"
    run(path, Counting(failing=frozenset({3}), cost=1.0))
    assert run(path, Counting(cost=1.0))[1] == UNITS + 1
    return path


def flip(raw: bytearray, rng: random.Random) -> None:
    raw[rng.randrange(len(raw))] ^= rng.randint(1, 255)


def cut_the_end(raw: bytearray, rng: random.Random) -> None:
    del raw[rng.randrange(len(raw)) :]


def cut_a_piece(raw: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(raw))
    del raw[start : start + rng.randint(1, 400)]


def overwrite(raw: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(raw))
    stop = min(len(raw), start + rng.randint(1, 400))
    raw[start:stop] = bytes(stop - start) if rng.random() < 0.5 else rng.randbytes(stop - start)


def insert(raw: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(raw))
    raw[place:place] = rng.choice((b"\n", b"{}\n", b"\r", b"x", rng.randbytes(40)))


def by_lines(change: Callable[[list[bytes], random.Random], None]) -> Callable[[bytearray, random.Random], None]:
    def damage(raw: bytearray, rng: random.Random) -> None:
        lines = raw.splitlines(keepends=True)
        change(lines, rng)
        raw[:] = b"".join(lines)

    return damage


def remove(lines: list[bytes], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def repeat(lines: list[bytes], rng: random.Random) -> None:
    lines.insert(rng.randint(0, len(lines)), rng.choice(lines))


def swap(lines: list[bytes], rng: random.Random) -> None:
    first, second = rng.sample(range(len(lines)), 2)
    lines[first], lines[second] = lines[second], lines[first]


def shuffle(lines: list[bytes], rng: random.Random) -> None:
    rng.shuffle(lines)


def join(lines: list[bytes], rng: random.Random) -> None:
    place = rng.randrange(len(lines))
    lines[place] = lines[place].rstrip(b"\n")


DAMAGES = {
    "byte flipped": flip,
    "end cut": cut_the_end,
    "piece cut": cut_a_piece,
    "overwritten": overwrite,
    "inserted": insert,
    **{name: by_lines(change) for name, change in {
        "row removed": remove, "row repeated": repeat, "rows swapped": swap, "rows shuffled": shuffle,
        "rows joined": join,
    }.items()},
}  # fmt: skip


@pytest.mark.parametrize("count", [5, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_journal_is_refused_or_ends_as_the_undisturbed_one(
    tmp_path: Path, whole: Path, name: str, count: int
) -> None:
    rng, path, intact = random.Random(name), tmp_path / "j", whole.read_bytes()
    undisturbed, spent = run(whole, Counting())
    ended: Counter[str] = Counter()
    for _ in range(count):
        raw = bytearray(intact)
        DAMAGES[name](raw, rng)
        path.write_bytes(raw)
        job = Counting(cost=1.0)
        refusal = ""
        try:
            rows, cost = run(path, job)
        except UserError as error:
            refusal = str(error)
        if refusal:
            ended["refused"] += 1
            assert refusal.startswith(f"{path}:")
            assert "\n" not in refusal
            assert path.read_bytes() == raw  # nothing is lost
            assert job.ran == []  # and nothing paid
            continue
        ended["equal"] += 1
        kept = raw[: raw.rfind(b"\n") + 1].rstrip(b"\n")
        assert intact.startswith(kept)  # whatever is missing is missing at the end
        assert rows == undisturbed
        lines = [line for line in path.read_bytes().splitlines() if line]
        assert cost == len(lines) == len(kept.splitlines()) + len(job.ran)
        assert spent == UNITS + 1
    assert ended.total() == count
    if name != "end cut":
        assert ended["refused"] > 0


def test_a_row_that_a_person_gives_up_is_an_empty_line(tmp_path: Path, whole: Path) -> None:
    path, lines = tmp_path / "j", whole.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    with pytest.raises(UserError, match=r"j:3: this is row 4, .* or put an empty line in the place of each lost row"):
        run(path, Counting())
    path.write_bytes(b"".join([*lines[:2], b"\n", *lines[3:]]))
    job = Counting(cost=1.0)
    rows, cost = run(path, job)
    assert rows == run(whole, Counting())[0]
    assert len(job.ran) == 1
    assert cost == UNITS + 1
    assert run(path, Counting())[0] == rows  # the numbers go on behind it
