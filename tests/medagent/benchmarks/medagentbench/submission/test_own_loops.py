"""A pack of a run whose agent owns its loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medagent
from tests.command import medagent as command


def test_a_pack_of_an_agent_with_its_own_loop_is_done_again(
    shift: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing(medagent.Agent):
        async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
            await env.call("get_patient", identifier="S1")
            await env.call("no_such_tool")
            return []

    monkeypatch.chdir(tmp_path)
    report = medagent.run_sync("medagentbench", agent=Nothing, version="v1", dataset=str(shift))
    assert command("submit", "pack", report.folder, "--out", "pack.zip").code == 0
    checked = command("submit", "check", "pack.zip", "--dataset", shift)
    assert checked.code == 0, checked
    assert "replies, orders, endings and answers of 20 episodes" in checked.out
