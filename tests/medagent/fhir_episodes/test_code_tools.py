"""Programs of the code protocol that define the names of tools: the tools are put back before the next program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import medagent as command
from tests.loopback import ModelServer

DEFINES = {
    "def": "```python\ndef finish(value):\n    print('mine')\nfinish([1])\n```",
    "assignment": "```python\nfinish = print\nget = None\n```",
    "search": "```python\ndef search(type, **params):\n    return []\nFINISH = 3\n```",
}


@pytest.mark.parametrize("sandbox", ["bwrap", "monty"])
@pytest.mark.parametrize("defines", DEFINES)
def test_the_tools_are_put_back(defines: str, sandbox: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    last = "```python\nsearch('Patient', _count=1)\nfinish([40])\n```"
    replies = iter([DEFINES[defines], last])
    with ModelServer(lambda _: next(replies)) as server:
        model = ("--model", "m", "--base-url", server.url)
        ran = command("run", *model, "--protocol", "code", "--sandbox", sandbox, "--ids", "task2_1", "--quiet")
    if "not usable here" in ran.err:
        pytest.skip(ran.err)
    assert ran.code == 0, ran.err
    (journal,) = tmp_path.rglob("episodes.jsonl")
    row = json.loads(journal.read_text("utf-8"))
    assert (row["status"], row["answer"]) == ("completed", "[40]")
    assert "the name of a tool; the tools are put back" in row["programs"][0]["output"]
    assert "the name of a tool" not in row["programs"][1]["output"]
