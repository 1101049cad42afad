"""The journal's file: its lock, its checksums, and what others may do to it while a run goes on."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medagent.core.errors import UserError
from medagent.engine.journal import Journal, last_rows
from tests.medagent.engine.counting import NumberRow

ROWS = [NumberRow(unit=f"n{number}", status="completed", square=number**2) for number in range(4)]


def written(path: Path, rows: list[NumberRow]) -> bytes:
    """The bytes of a journal of these rows."""

    async def write() -> None:
        await asyncio.gather(*(journal.append(row) for row in rows))

    journal = Journal(path, NumberRow)
    asyncio.run(write())
    journal.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "j"
    written(path, ROWS)
    return path


@given(place=st.integers(0, 10_000), change=st.integers(1, 255))
@example(place=-1, change=1)
def test_no_changed_byte_is_accepted(whole: Path, place: int, change: int) -> None:
    raw, path = bytearray(whole.read_bytes()), whole.with_name("changed")
    raw[place % len(raw)] ^= change
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"changed:\d: (the row is damaged|written by a newer medagent)"):
        list(last_rows(path, NumberRow))


def checked(text: str) -> bytes:
    """A line with a checksum."""
    return f'{text},"format":3,"crc32":"{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def test_rows_without_checksum_or_number_and_rows_out_of_place_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = written(path, ROWS).splitlines(keepends=True)
    plain = b'{"unit":"n9","status":"completed","spent":{"calls":1},"square":81}\n'
    numberless = checked('{"unit":"n8","status":"completed","spent":{},"square":64')
    for odd, words in (
        ([*lines, plain], r":5: the row is damaged \(its checksum is missing\); restore it"),
        ([*lines, numberless], r":5: the row is damaged \(its number is missing\)"),
        ([plain, *lines], ":1: the row is damaged"),
        (lines[1:], ":1: this is row 2, so lines before it were removed, added or moved"),
        ([lines[1], lines[0], *lines[2:]], ":1: this is row 2"),
        ([*lines, lines[-1]], ":5: this is row 4"),
    ):
        path.write_bytes(b"".join(odd))
        with pytest.raises(UserError, match=words):
            list(last_rows(path, NumberRow))
    path.write_bytes(b"".join([lines[0], b"\n", *lines[2:]]))  # a person gave one up
    assert [row.square for row in last_rows(path, NumberRow)] == [0, 4, 9]


def test_a_journal_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for text in ('{"unit":"a","format":4,"crc32":"00000000"}\n', '{"format":7,"unit":"a"}\n'):
        path.write_text(text)
        with pytest.raises(UserError, match=r"written by a newer medagent \(journal format [47];"):
            Journal(path, NumberRow)
        assert path.read_text() == text


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replaced(path: Path) -> None:
    raw = path.read_bytes()
    path.unlink()
    path.write_bytes(raw)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


@pytest.mark.parametrize("spoil", [Path.unlink, moved, replaced, cut, grown])
def test_a_file_that_was_touched_meanwhile_gets_no_row(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    path = tmp_path / "j"
    written(path, ROWS[:2])
    journal = Journal(path, NumberRow)
    spoil(path)
    before = path.read_bytes() if path.exists() else None

    async def write() -> None:
        await journal.append(ROWS[2])

    with pytest.raises(UserError, match="during the run, so the run stops"):
        asyncio.run(write())
    assert (path.read_bytes() if path.exists() else None) == before
    journal.close()


def test_the_lock_is_the_journals_own(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", NumberRow)
    (tmp_path / ".lock").unlink()
    with pytest.raises(UserError, match="process unknown is writing to this folder"):
        Journal(tmp_path / "j", NumberRow)
    assert list(last_rows(tmp_path / "j", NumberRow)) == []  # reading needs no lock
    journal.close()
    Journal(tmp_path / "j", NumberRow).close()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (
            errno.ENOLCK,
            r"does not support locks \(ENOLCK\), like NFS without a lock service; put the results on",
        ),
        (errno.EINVAL, "cannot be locked: Invalid argument"),
        (errno.EWOULDBLOCK, "is writing to this folder"),
    ],
)
def test_why_there_is_no_lock_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    """No file system of this machine refuses locks, so the system call is stood in for."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refused)
    with pytest.raises(UserError, match=words):
        Journal(tmp_path / "j", NumberRow)


def test_what_a_journal_holds_is_told_by_its_content(tmp_path: Path) -> None:
    entry = json.loads(written(tmp_path / "a", ROWS[:1]))
    assert list(entry)[-3:] == ["row", "format", "crc32"]
    states = []
    for name, rows in (("b", ROWS[:2]), ("c", ROWS[:2]), ("d", [ROWS[0], ROWS[2]])):
        written(tmp_path / name, rows)
        journal = Journal(tmp_path / name, NumberRow, writable=False)
        states.append(journal.state)
        journal.close()
    assert states[0] == states[1] != states[2]
    assert states[0].partition(":")[0] == states[2].partition(":")[0]
