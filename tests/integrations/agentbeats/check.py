"""The client of the `agentbeats` package sends an assessment to the agents of our scenario.toml, and one that fails.

medagent has an environment without it, since the package needs a2a-sdk 0.3. Its runner of scenarios starts agents from
its own cards, so it cannot read ours; `scenario` starts them by their commands.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from agentbeats.utils.agents.a2a import send_message_to_agent
from scenario import MODEL, started

ROOT = Path(__file__).parents[3]


def installed() -> Path:
    """The folder of programs of a new environment with medagent."""
    home = Path("ours").absolute()
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    subprocess.run([home / "bin/python", "-m", "pip", "install", "--quiet", f"{ROOT}[a2a]"], check=True)
    return home / "bin"


def verdicts(count: int) -> dict[str, bool]:
    """Those of `medagent run` with the same model; some are right and some wrong."""
    ran = subprocess.check_output(["medagent", "run", "--model", MODEL, "--limit", str(count), "--json"])
    found = {item["item"]: item["correct"] for item in json.loads(ran)["items"]}
    assert set(found.values()) == {True, False}, found
    return found


os.environ["PATH"] = f"{installed()}{os.pathsep}{os.environ['PATH']}"
with started() as (green, request):
    said = asyncio.run(send_message_to_agent(green, json.dumps(request)))
    away = asyncio.run(
        send_message_to_agent(green, json.dumps(request | {"participants": {"agent": "http://127.0.0.1:9"}}))
    )
expected = verdicts(request["config"]["limit"])
for item, correct in expected.items():
    assert f"{item}: {'right' if correct else 'wrong'}" in said, (item, correct, said)
right = sum(expected.values())
assert f"{right} of {len(expected)} right" in said, said
assert "could not be reached" in away, away
assert " right" not in away, away
print(f"{right} of {len(expected)} right, as by medagent run; the failure of an assessment whose agent is away")
