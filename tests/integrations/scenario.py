"""The agents of examples/agentbeats/scenario.toml, started by its commands as AgentBeats' runner starts them."""

import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "examples" / "agentbeats" / "scenario.toml"
MODEL = f"{Path(__file__).with_name('knows.py')}:Knows"


@contextmanager
def started() -> Iterator[tuple[str, dict[str, Any]]]:
    """The green agent's address, and the request that the runner sends to it. `medagent` has to be on the path."""
    stated = tomllib.loads(FILE.read_text(encoding="utf-8").replace("gpt-4o-mini", MODEL))
    parties = [stated["green_agent"], *stated["participants"]]
    processes = [subprocess.Popen(shlex.split(party["cmd"]), stderr=subprocess.PIPE, text=True) for party in parties]
    try:
        for process in processes:
            assert process.stderr is not None
            assert "http://" in process.stderr.readline(), process.args
        addresses = {participant["role"]: participant["endpoint"] for participant in stated["participants"]}
        yield stated["green_agent"]["endpoint"], {"participants": addresses, "config": stated["config"]}
    finally:
        for process in processes:
            process.terminate()
            process.communicate(timeout=60)
