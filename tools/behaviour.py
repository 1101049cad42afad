"""Shows whether a change of the code changed the files of runs, by digests over fixed runs.

    python tools/behaviour.py            # make all runs, compare with tools/behaviour.json, list differences
    python tools/behaviour.py --write    # accept the digests of the current code
    python tools/behaviour.py --keep DIR # also save the run folders, to look at a difference

Each run is a `medagent` process, with models on a loopback server. A digest is a SHA-256 after blanking everything that
differs between any two runs (timestamps, durations, versions, ports). Journals are compared as sets of rows. Runs over
data in ../shared are omitted if that folder is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENAI_API_KEY", "none")
KEPT = ROOT / "tools" / "behaviour.json"
SHARED = ROOT.parent / "shared" / "medagentbench"
BLANKED = {
    *("timestamp", "started", "ended", "seconds", "latency", "waited"),
    *("versions", "folder"),
    *("row", "format", "crc32"),  # rows are numbered as they end, which depends on the machine
}
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
SCRIPTS = re.compile(r"(?<=^scripted:).*/")
"""The folder of a scripted model's file, a temporary one."""


def blanked(value: Any) -> Any:
    """A JSON value without what no two runs share."""
    if isinstance(value, dict):
        return {key: blanked(item) for key, item in value.items() if key not in BLANKED}
    if isinstance(value, list):
        return [blanked(item) for item in value]
    return SCRIPTS.sub("", PORT.sub("PORT", value)) if isinstance(value, str) else value


def digest(path: Path) -> str:
    """The digest of a JSON or JSON-lines file, or of another file's bytes."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        lines = sorted(json.dumps(blanked(json.loads(line))) for line in text.splitlines())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
    if path.suffix == ".json" and not path.name.startswith("test_predictions"):
        # The order of keys and the layout count: files stay byte for byte what they are.
        indent = re.search(r"^( +)", text, re.MULTILINE)
        shape = f"indent {len(indent[1]) if indent else 0}, ends {text[-1:]!r}\n"
        return hashlib.sha256((shape + json.dumps(blanked(json.loads(text)))).encode()).hexdigest()
    return hashlib.sha256(text.encode()).hexdigest()


class Runs:
    """Makes runs into one results folder and collects the digests of what they leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.digests: dict[str, str] = {}

    def run(self, name: str, *words: object, code: int = 0, benchmark: str = "") -> None:
        """`medagent run …`; what lies in the folder afterwards is counted under `name`."""
        command = ["run", *([benchmark] if benchmark else []), "--round", name, "--results-dir", str(self.results)]
        before = set(self.results.iterdir()) if self.results.exists() else set()
        medagent(*command, "--quiet", *map(str, words), code=code)
        made = [path for path in set(self.results.iterdir()) - before if f"_{name}_" in path.name]
        assert len(made) == 1, f"{name}: {made}"
        for file in sorted(made[0].iterdir()):
            if file.name not in (".lock", "items.jsonl", "report.json", "run.json"):
                self.digests[f"{name}/{file.name}"] = digest(file)


def medagent(*words: str, code: int = 0) -> None:
    """Run a command; stops where it exits otherwise than with `code`. Tables are free to change: only files count."""
    ran = subprocess.run(
        [sys.executable, "-m", "medagent", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ran.returncode != code:
        raise SystemExit(f"medagent {' '.join(words)}: exit code {ran.returncode}\n{ran.stderr}")


def medagentbench(runs: Runs) -> None:
    """Agents without a model."""
    runs.run("reference", "--agent", "reference")
    runs.run("nop", "--agent", "nop", "--version", "v1")
    runs.run("constant", "--agent", "constant")
    runs.run("execute", "--agent", "reference", "--writes", "execute")
    runs.run("trials", "--agent", "reference", "--trials", 2, "--types", "task3,task8")
    runs.run("workers", "--agent", "reference", "--workers", 2, "--limit", 40)


def replay(runs: Runs) -> None:
    """The recorded transcripts, over the data they were recorded on."""
    from tests.shared_data import DATA, read_xz

    episodes = [json.loads(line) for line in read_xz(DATA / "medagentbench" / "transcripts.jsonl.xz").splitlines()]
    tasks = [{"id": f"task3_{n}", "instruction": "", "context": ""} for n in range(1, len(episodes) + 1)]
    (runs.folder / "tasks.json").write_text(json.dumps(tasks))
    recorded = [json.dumps({"task_id": t["id"], "actions": e["actions"]}) for t, e in zip(tasks, episodes, strict=True)]
    (runs.folder / "actions.jsonl").write_text("\n".join(recorded) + "\n")
    (runs.folder / "ehr.ndjson").write_text(read_xz(DATA / "hapi" / "data.ndjson.xz"))
    words = ["--dataset", runs.folder / "tasks.json", "--ehr", runs.folder / "ehr.ndjson"]
    runs.run("replay", "--agent", "replay", runs.folder / "actions.jsonl", *words, code=2)


def models(runs: Runs) -> None:
    """The reference agent behind a loopback endpoint, by text and by tools, with faults."""
    from tests import loopback

    oracle = _oracle("medagentbench")
    broken = oracle.TASKS_BY_ID["task2_3"].text

    def fault(call: Any) -> Any:
        if broken in json.dumps(call.body, ensure_ascii=False):
            return loopback.status(400, message="bad")
        return loopback.status(500) if call.number % 7 == 3 else None

    for protocol, reply in (("text", oracle.text_reply), ("tools", oracle.tool_reply)):
        with loopback.ModelServer(reply, faults=fault) as server:
            words = ["--model", "m", "--base-url", server.url, "--protocol", protocol, "--concurrency", 1]
            runs.run(protocol, *words, "--types", "task1,task2,task5,task10", "--limit", 40, code=2)
    script = {"*": ["<think>x</think>GET http://localhost:8080/fhir/Patient?name=a", "FINISH([1])"], "task1_2#1": []}
    (runs.folder / "script.json").write_text(json.dumps(script))
    words = ["--model", f"scripted:{runs.folder / 'script.json'}", "--strip-thinking", "--trials", 2]
    runs.run("scripted", *words, "--limit", 12, code=2)


def others(runs: Runs) -> None:
    """The other benchmarks, their models on a loopback server."""
    from tests import loopback
    from tests.shared_data import DATA, read_xz

    recorded = [json.loads(row) for row in read_xz(DATA / "promptcblue" / "predictions.jsonl.xz").splitlines()]
    lines = [{**row, "input": f"line {number}", "target": ""} for number, row in enumerate(recorded)]
    (runs.folder / "test.json").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    (runs.folder / "gold.json").write_text(read_xz(DATA / "promptcblue" / "gold.json.xz"))
    answers = {line["input"]: row["target"] for line, row in zip(lines, recorded, strict=True)}
    with loopback.ModelServer(lambda request: answers[request["messages"][-1]["content"]]) as server:
        words = ["--data", runs.folder / "test.json", "--gold", runs.folder / "gold.json"]
        runs.run("pcb", "--model", "m", "--base-url", server.url, *words, benchmark="promptcblue")
    with loopback.ModelServer(_oracle("simpleqa").Oracle()) as server:
        words = ["--model", "m", "--judge", "j", "--judge", "strict-j", "--base-url", server.url]
        runs.run("sqa", *words, "--concurrency", 1, benchmark="simpleqa")
    with loopback.ModelServer(_oracle("imapscore").Oracle()) as server:
        words = ["--data", ROOT / "refsol" / "imapscore" / "data" / "items.jsonl", "--g-eval", "--concurrency", 1]
        runs.run("imap", "--model", "m", "--base-url", server.url, *words, benchmark="imapscore")


def official(runs: Runs) -> None:
    """The published tasks, over the data rebuilt from a real results file."""
    words = ["--dataset", SHARED / "official" / "test_data_v2.json", "--ehr", SHARED / "rebuilt_ehr.ndjson"]
    runs.run("official", "--agent", "reference", *words, "--types", "task1,task2,task4,task5,task6,task9", code=0)


def _oracle(benchmark: str) -> Any:
    import importlib

    for folder in (f"tests.medagent.benchmarks.{benchmark}", f"tests.medagent.{benchmark}"):
        try:
            return importlib.import_module(f"{folder}.oracle")
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"no oracle for {benchmark}")


def stages() -> Iterator[Callable[[Runs], None]]:
    """All that can be run here."""
    yield from (medagentbench, replay, models, others)
    if SHARED.exists():
        yield official


def main() -> int:
    """Run, compare or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="accept the digests of the current code")
    parser.add_argument("--keep", type=Path, help="a new folder to save the runs in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as aside:
        folder = arguments.keep or Path(aside)
        folder.mkdir(parents=True, exist_ok=True)
        runs = Runs(folder)
        for stage in stages():
            stage(runs)
    digests = runs.digests
    if arguments.write:
        KEPT.write_text(json.dumps(digests, indent=1) + "\n")
        print(f"{KEPT}: {len(digests)} digests")
        return 0
    stored = json.loads(KEPT.read_text())
    names = [name for name in stored if SHARED.exists() or not name.startswith("official/")]
    differing = [name for name in names if digests.get(name) != stored[name]]
    print("\n".join(f"differs: {name}" for name in differing) or f"all {len(names)} digests are equal")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
