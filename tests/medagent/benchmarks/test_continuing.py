"""The command that continues a run is run as it is printed, for several kinds of runs."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import medagent as api
from fhir_server import Server
from fhir_server.app import create_app
from medagent.fhir_data.embedded import bundled_file
from tests.command import medagent
from tests.serving import serving
from tests.shared_data import ROOT

AGENTS = """
from medagent import Agent

class OwnLoop(Agent):
    async def solve(self, task, prompt, env):
        return []

class Learner(Agent):
    def __init__(self, context=None, shots=1):
        super().__init__(context)
    def play(self, task, prompt):
        yield "FINISH([])"
    def learn(self, task, row, score):
        pass
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A FHIR server with the bundled hospital, and a folder of its own with the files of the commands."""
    monkeypatch.chdir(tmp_path)
    Path("agents.py").write_text(AGENTS)
    shutil.copy(ROOT / "tests" / "own_types.py", "ward.py")
    Path("card.toml").write_text('backbone = "Q"\ntrained_share = 0.8\ndata = "train"\n')
    Path("model.json").write_text(json.dumps({"*": ["```python\nfinish([])\n```"]}))
    Path("judge.json").write_text(json.dumps({"*": ["A"]}))
    Path("tasks.json").write_text(json.dumps([api.tasks()[0].published]))
    file = Path(shutil.copy(bundled_file().path, "hospital.sqlite"))
    with Server.open(file) as hospital, serving(create_app(hospital)) as url:
        yield f"{url}/fhir"


@pytest.mark.parametrize(
    "command",
    [
        "--agent reference --writes execute",
        "--agent reference --writes private --fhir SERVER",
        "--agent reference --writes execute --fhir SERVER --allow-writes 127.0.0.1",
        "--agent agents.py:OwnLoop --writes execute",
        "--agent agents.py:Learner --agent-arg shots=3 --sequential facts",
        "--agent reference --dataset tasks.json",
        "--model scripted:model.json --protocol code --code seconds=9,memory=300 --writes execute",
        "psb-300 --agent reference --protocol tools --split val --clock 2026-01-31T12:00:00Z",
        "fhir-agentbench --agent reference --judge scripted:judge.json --rules a2a",
        "ward.py --agent reference --writes execute",
        "simpleqa --model scripted:model.json --judge scripted:judge.json --lang hu",
        "promptcblue --agent gold --card card.toml",
    ],
)
def test_the_printed_command_continues_the_run(server: str, command: str) -> None:
    run = ["run", *command.replace("SERVER", server).split(), "--limit", 1, "--quiet"]
    first = medagent(*run)
    assert first.code == 0, first.err + first.out
    refused = medagent(*run, "--per-item", "time=77")
    printed = refused.err.partition("Continue it with its settings: ")[2].partition("; or choose another")[0]
    again = medagent(*shlex.split(printed)[1:])
    assert (again.code, "is complete and was not changed" in again.err) == (0, True), f"{printed}\n{again.err}"
