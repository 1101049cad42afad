"""Hostile code in every sandbox that works here: what its author is told, and that nothing else is changed."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from medagent.sandbox.programs import Programs
from tests.medagent.sandbox.attacks import ATTACKS, Attack
from tests.medagent.sandbox.trying import LIMITS, NAMES, SURFACE, left, marked, opened, serve, working

KEY = "sk-secret-of-the-run-0123456789"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Variables that tell hostile code what it could attack; a secret in a file and in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(KEY)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as listener:
        listener.bind("listener")
        listener.listen()
        yield (
            f"PORT = {server.getsockname()[1]}\nSECRET_FILE = {str(tmp_path / 'secret')!r}\n"
            f"SOCKET_FILE = {str(tmp_path / 'listener')!r}\n"
        )


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.parametrize("name", NAMES)
def test_an_attack_harms_its_own_program_alone(name: str, attack: Attack, places: str, tmp_path: Path) -> None:
    working(name)
    pattern = attack.monty if name == "monty" else attack.told
    # A busy machine may need long for what does not last: only what never ends is cut off soon.
    limits = marked(replace(LIMITS, seconds=1.5 if "1.5 seconds" in pattern else 60))
    before = sorted(path.name for path in tmp_path.iterdir())

    async def run() -> tuple[str, str, str]:
        async with (
            opened(name, limits) as interpreters,
            Programs(interpreters, SURFACE, limits, serve) as neighbour,
            Programs(interpreters, SURFACE, limits, serve) as programs,
        ):
            await neighbour.run("mine = 41")
            await programs.run(places + "early = 1")
            told = programs.text(await programs.run(attack.code))
            after = programs.text(await programs.run("print(6 * 7)"))
            return told, after, neighbour.text(await neighbour.run("print(mine + 1, get('x')['args'])"))

    told, after, elsewhere = asyncio.run(run())
    assert re.search(pattern, told), told
    assert "medagent" not in told
    assert "sandbox" not in told
    assert after.endswith("42") or "Stopped: " in after  # what broke the next program broke its own interpreter
    assert elsewhere == "42 ['x']"
    assert KEY not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "secret").read_text() == KEY
    assert left(limits) == []


def test_the_table_lists_every_attack() -> None:
    table = Path(__file__).with_name("attacks.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w[^|]*?) \|", table, re.MULTILINE)
    assert rows[1:] == [attack.name for attack in ATTACKS]
