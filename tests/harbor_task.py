"""Plays and verifies a folder of `medagent export harbor` with the files of its containers, but without containers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path

from fhir_server.wire.http import Request
from medagent.integrations.harbor.server import OneEpisode


def played(task: Path, answers: str, log: Path, *targets: str) -> list[str]:
    """The replies to GETs in the container of an agent, which then sends its answers."""
    environment = task / "environment"
    now = (task / "task.toml").read_text("utf-8").partition("--now ")[2].split()[0]
    patients = environment / "patients.ndjson.gz"
    episode = OneEpisode(patients, datetime.fromisoformat(now), log, environment / "change.json")
    with closing(episode):
        replies = [episode.handle(Request("GET", f"/fhir/{target}")).body.decode() for target in targets]
        assert episode.handle(Request("POST", "/finish", body=answers.encode())).status == 200
    return replies


def reward(task: Path, log: Path, aside: Path) -> float:
    """What the verifier's script writes in a process that has neither data sets nor packages of this one."""
    aside.mkdir()
    script = (task / "tests" / "test.sh").read_text("utf-8")
    for place, here in (
        ("/opt/medagent/venv/bin/medagent", f"{sys.executable} -m medagent"),
        ("/var/lib/medagent/episode.jsonl", str(log)),
        ("/logs/verifier", str(aside)),
        ("$0", str(task / "tests" / "test.sh")),
    ):
        script = script.replace(place, here)
    environment = {**os.environ, "MEDAGENT_HOME": str(aside / "home"), "PYTHONPATH": ""}
    ran = subprocess.run(["bash", "-c", script], env=environment, cwd=aside, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return float(json.loads((aside / "reward.json").read_text("utf-8"))["reward"])
