"""Harbor loads every exported task, and its own runner plays them: oracle has 1.0 everywhere, nop 0.0.

It runs in a `Machine`, which has users, processes and a network of its own but no container engine. Two agents of
`agents` then try what an agent may not.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from harbor.models.task.task import Task

HARBOR = str(Path(sys.executable).with_name("harbor"))
PATHS = os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]])
GIVEN = os.environ | {"PYTHONPATH": PATHS, "HARBOR_TELEMETRY": "0", "HOME": str(Path.cwd())}
TYPES = {f"task{number}" for number in range(1, 11)}


def rewards(agent: str, tasks: str) -> dict[str, float]:
    """The rewards of a job of Harbor's, by task."""
    name = agent.rpartition(":")[2]
    command = [HARBOR, "run", "--path", tasks, "--agent", agent, "--env", "machine:Machine", "--n-concurrent", "2"]
    done = subprocess.run(
        [*command, "--jobs-dir", "jobs", "--job-name", name, "--quiet", "--yes"],
        env=GIVEN,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {}
    for path in Path("jobs", name).glob("*/result.json"):
        trial = json.loads(path.read_text())
        assert trial["exception_info"] is None, trial["exception_info"]
        kept = trial["verifier_result"]["rewards"]
        assert list(kept) == ["reward"], kept
        found[trial["task_name"]] = kept["reward"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(found) == len(list(Path(tasks).glob("*/task.toml"))), done.stdout + done.stderr
    return found


def exported(folder: str, *words: str) -> list[Task]:
    """The tasks of an export, as Harbor reads them."""
    subprocess.run([os.environ["MEDAGENT"], "export", "harbor", folder, *words], check=True)
    return [Task(path.parent) for path in Path(folder).glob("*/task.toml")]


def listed(folder: str) -> None:
    """`dataset.toml` is what Harbor itself writes of the same folders, by name and digest."""
    ours = tomllib.loads(Path(folder, "dataset.toml").read_text())
    theirs = Path("theirs")
    shutil.copytree(folder, theirs, ignore=shutil.ignore_patterns("dataset.toml"))
    subprocess.run([HARBOR, "dataset", "init", ours["dataset"]["name"]], cwd=theirs, env=GIVEN, check=True)
    assert ours["tasks"], ours
    by_name = {task["name"]: task["digest"] for task in ours["tasks"]}
    made = tomllib.loads((theirs / "dataset.toml").read_text())
    assert by_name == {task["name"]: task["digest"] for task in made["tasks"]}
    assert ours["dataset"].keys() == made["dataset"].keys(), made["dataset"]


tasks = exported("tasks", "--per-type", "3")
listed("tasks")
exported("one", "--ids", "task9_1")
assert {task.config.metadata["type"] for task in tasks} == TYPES
with TemporaryDirectory(dir="/dev/shm") as layers:
    GIVEN["MACHINE_LAYERS"] = layers
    for agent, reward in (("oracle", 1.0), ("nop", 0.0)):
        found = rewards(agent, "tasks")
        assert set(found.values()) == {reward}, {name: got for name, got in found.items() if got != reward}
    assert set(rewards("agents:Thief", "one").values()) == {0.0}
    assert set(rewards("agents:Leaver", "one").values()) == {1.0}
print(
    f"{len(tasks)} tasks, dataset.toml as Harbor's own; oracle 1.0, nop 0.0 in each; no reach for facts, log or reward"
)
