"""The journal: durable rows, torn lines, damaged lines, rows that replace earlier ones."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.core.errors import UserError
from medagent.engine.journal import Journal
from medagent.engine.rows import FailedUnit, Spent
from tests.medagent.engine.counting import NumberRow
from tests.shared_data import ROOT


def append(path: Path, *rows: NumberRow) -> None:
    async def write() -> None:
        await asyncio.gather(*(journal.append(row) for row in rows))

    journal = Journal(path, NumberRow)
    asyncio.run(write())
    journal.close()


def read(path: Path) -> list[NumberRow]:
    journal = Journal(path, NumberRow)
    try:
        return list(journal.rows())
    finally:
        journal.close()


def test_a_row_is_one_line_with_its_newline(tmp_path: Path) -> None:
    append(tmp_path / "j", NumberRow(unit="a", status="completed"), NumberRow(unit="b", status="completed"))
    text = (tmp_path / "j").read_text()
    assert text.endswith("\n")
    assert [json.loads(line)["unit"] for line in text.splitlines()] == ["a", "b"]


def test_a_later_row_of_a_unit_replaces_an_earlier_one(tmp_path: Path) -> None:
    append(tmp_path / "j", NumberRow(unit="a", status="model_error"), NumberRow(unit="b", status="completed"))
    append(tmp_path / "j", NumberRow(unit="a", status="completed", square=4))
    assert [(row.unit, row.status) for row in read(tmp_path / "j")] == [("b", "completed"), ("a", "completed")]


@given(cut=st.integers(min_value=1, max_value=60))
def test_a_torn_last_line_is_owed_again_and_the_others_stay(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "j"
    append(path, NumberRow(unit="a", status="completed"), NumberRow(unit="b", status="completed"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert [row.unit for row in read(path)] == ["a"]
    append(path, NumberRow(unit="b", status="completed"))
    assert [row.unit for row in read(path)] == ["a", "b"]


def test_a_damaged_line_inside_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "j"
    append(path, NumberRow(unit="a", status="completed"))
    before = path.read_bytes() + b"{broken\n"
    path.write_bytes(before)
    with pytest.raises(UserError, match=":2: the row is damaged"):
        Journal(path, NumberRow)
    assert path.read_bytes() == before


def test_what_a_model_said_survives_whatever_it_is(tmp_path: Path) -> None:
    error = "\x00, newline\n, Zoë"
    append(tmp_path / "j", NumberRow(unit="a", status="completed", error=error))
    assert read(tmp_path / "j")[0].error == error


def test_half_of_a_surrogate_pair_is_read_as_the_replacement_character(tmp_path: Path) -> None:
    row = NumberRow(unit="a", status="completed")
    row.error = "half \ud800 \\ud800 😀"
    append(tmp_path / "j", row)
    assert b"half \\ud800 \\\\ud800 \\ud83d\\ude00" in (tmp_path / "j").read_bytes()
    assert read(tmp_path / "j")[0].error == "half \ufffd \\ud800 😀"


@pytest.mark.parametrize("text", ["plain", "two\u2028lines\x85of text", "\x7f", "Zoë"])
def test_a_row_stands_in_ascii_and_on_one_line_for_every_reader(tmp_path: Path, text: str) -> None:
    append(tmp_path / "j", NumberRow(unit="a", status="completed", error=text, seconds=float("inf")))
    written = (tmp_path / "j").read_bytes().decode("ascii")
    assert len(written.splitlines()) == 1
    (row,) = read(tmp_path / "j")
    assert (row.error, row.seconds) == (text, float("inf"))


@pytest.mark.parametrize("length", [10, 3_900, 4_000, 4_096, 20_000])
@pytest.mark.parametrize("text", ["x", "é"])
def test_the_head_of_a_row_is_read_however_long_its_parts_are(tmp_path: Path, length: int, text: str) -> None:
    spent = Spent(calls=2, cost=0.5, prompt=7)
    append(
        tmp_path / "j",
        NumberRow(unit="a", status="model_error", error=text * length, spent=spent, seconds=1.25),
        NumberRow(unit="b", status="completed", traceback="t" * length, spent=spent, seconds=12.5, timestamp="2026"),
    )
    journal = Journal(tmp_path / "j", NumberRow)
    journal.close()
    assert [journal.status(unit) for unit in ("a", "b")] == ["model_error", "completed"]
    assert list(journal.failures()) == [FailedUnit(unit="a", status="model_error", error=text * length)]
    assert (journal.slowest, journal.ended, journal.spent.calls, journal.spent.cost) == (12.5, "2026", 4, 1.0)


def test_two_failed_writes_leave_the_rows_around_them_whole(tmp_path: Path) -> None:
    path = tmp_path / "j"
    full = f"""
import asyncio, pathlib, resource, signal
from medagent.core.errors import UserError
from medagent.engine.journal import Journal
from medagent.engine.rows import FailedUnit, Spent
from tests.medagent.engine.counting import NumberRow
from tests.shared_data import ROOT

async def main():
    path = pathlib.Path({str(path)!r})
    journal = Journal(path, NumberRow)
    await journal.append(NumberRow(unit="a", status="completed"))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, resource.RLIM_INFINITY))
    for _ in range(2):
        try:
            await journal.append(NumberRow(unit="b", status="completed", error="x" * 1000))
        except UserError as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await journal.append(NumberRow(unit="c", status="completed"))
    journal.close()

asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", full], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.count(f"{path}: cannot be written: File too large") == 2
    assert [row.unit for row in read(path)] == ["a", "c"]


def test_only_the_rows_of_selected_units_are_read_and_all_are_checked(tmp_path: Path) -> None:
    names = ("a#1", 'quoted "b"#1', "ő#1", "a#2", "ab#1")
    append(tmp_path / "j", *(NumberRow(unit=name, status="completed", square=4) for name in names))

    def of(prefix: str) -> list[str]:
        journal = Journal(tmp_path / "j", NumberRow, writable=False, only=lambda unit: unit.startswith(prefix))
        try:
            return [row.unit for row in journal.rows()]
        finally:
            journal.close()

    assert of("a#") == ["a#1", "a#2"]
    assert of("ő") == ["ő#1"]
    assert of('quoted "b"') == ['quoted "b"#1']
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"square":4', b'"square":5')]))
    with pytest.raises(UserError, match="its checksum does not match its content"):
        of("a#")
