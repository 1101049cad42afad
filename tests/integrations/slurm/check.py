"""A cluster of Slurm of this one machine, started for this; the program of docs/cluster.md starts workers as its jobs,
adaptively, and a run continues while one of them is ended. Then a job array with a model for each job.

It checks that no episode is lost or repeated, not what is right or wrong.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE, ROOT = Path.cwd(), Path(__file__).parents[3]
MEDAGENT = str(Path(sys.executable).with_name("medagent"))
DOCS = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
HOST = os.uname().nodename.partition(".")[0]
CONFIG = f"""
ClusterName=check
SlurmctldHost={HOST}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={HERE}/munge.socket
CryptoType=crypto/munge
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={HERE}/state
SlurmdSpoolDir={HERE}/spool
SlurmctldPidFile={HERE}/slurmctld.pid
SlurmdPidFile={HERE}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName={HOST} NodeAddr=127.0.0.1 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=16000
PartitionName=all Nodes={HOST} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
SlurmdParameters=config_overrides
"""


def block(language: str, holds: str) -> str:
    """The block of code in docs/cluster.md that holds a text."""
    return next(code for code in re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL) if holds in code)


@contextmanager
def slurm() -> Iterator[None]:
    """Munge, the controller and the node's daemon, all in the foreground of this program."""
    (HERE / "slurm.conf").write_text(CONFIG)
    (HERE / "munge.key").write_bytes(os.urandom(128))
    (HERE / "munge.key").chmod(0o400)
    for name in ("state", "spool"):
        (HERE / name).mkdir()
    HERE.chmod(0o755)
    os.environ["SLURM_CONF"] = f"{HERE}/slurm.conf"
    munged = ["munged", "--foreground", "--force", f"--socket={HERE}/munge.socket", f"--key-file={HERE}/munge.key"]
    munged += [f"--log-file={HERE}/munged.log", f"--pid-file={HERE}/munged.pid", f"--seed-file={HERE}/munge.seed"]
    daemons = []
    try:
        for words in (munged, ["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", HOST]):
            daemons.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=(HERE / words[0]).open("w")))
            time.sleep(2)
        until(lambda: "idle" in output("sinfo", "--noheader"), "the node is idle")
        yield
    finally:
        subprocess.run(["scancel", "--user", "root"], check=False)
        time.sleep(2)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(20)


def output(*words: str) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout


def until(holds: Callable[[], object], what: str, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def workers() -> list[str]:
    """The jobs that run."""
    return output("squeue", "--noheader", "--states=RUNNING", "--format=%A").split()


def adaptive() -> None:
    """The program of the docs, with smaller jobs, and a run on it."""
    program = block("python", "SLURMCluster").replace("cores=4", "cores=1").replace("processes=4", "processes=1")
    Path("cluster.py").write_text(program.replace("8GB", "1GB").replace("maximum_jobs=8", "maximum_jobs=2"))
    cluster = subprocess.Popen([sys.executable, "cluster.py"])
    try:
        until(lambda: Path("scheduler.txt").exists() and Path("scheduler.txt").read_text(), "the scheduler listens")
        address = Path("scheduler.txt").read_text()
        assert not workers(), "no job before there is work"
        words = ["run", "--agent", "reference", "--trials", "10", "--quiet", "--cluster", address]
        run = subprocess.Popen([MEDAGENT, *words, "--wait-for-workers", "1", "--concurrency", "8"])
        journal = Path("results/v2_r1_reference/episodes.jsonl")
        until(lambda: journal.exists() and journal.stat().st_size, "rows come")
        subprocess.run(["scancel", workers()[0]], check=True)
        assert run.wait(400) == 0
        rows = [json.loads(line) for line in journal.read_text().splitlines()]
        assert len({row["unit"] for row in rows}) == len(rows) == 3000
        until(lambda: not workers(), "jobs end when there is no work")
        print(f"adaptive: {len(rows)} episodes, none lost or repeated, while a job was cancelled")
    finally:
        cluster.send_signal(signal.SIGINT)
        cluster.wait(30)


def array() -> None:
    """The job array of the docs, with scripted models."""
    script = block("sh", "#SBATCH --array")
    for name in ("one", "two", "three"):
        Path(f"{name}.json").write_text(json.dumps({"*": ["FINISH([1])"]}))
    script = script.replace("gpt-4o-mini gpt-4o o4-mini", "scripted:one.json scripted:two.json scripted:three.json")
    script = script.replace("medagent run", f"{MEDAGENT} run --per-type 1").replace("--trials 5", "--trials 2")
    Path("array.sh").write_text(script)
    subprocess.run(["sbatch", "--wait", "array.sh"], check=True, timeout=300)
    folders = sorted(Path("results").glob("v2_array_*"))
    lines = [len((folder / "episodes.jsonl").read_text().splitlines()) for folder in folders]
    assert lines == [20, 20, 20], lines
    print(f"array: {len(folders)} models, one folder each")


with slurm():
    adaptive()
    array()
print("workers as jobs of Slurm, adaptive, one cancelled; a job array")
