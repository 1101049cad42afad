"""FHIR-AgentBench over the MIMIC-IV demo, as whole processes: the import, whole charts over HTTP, and a run.

Run: `python -m benchmarks.fhiragentbench ../shared/fhiragentbench`; a folder with questions.csv and mimic-demo/.
Prints CPU, wall time and peak memory: of the import (with the size of its file), of all pages of seven types of all
94 patients over HTTP, and of the questions by the agent that reads whole charts.
"""

from __future__ import annotations

import csv
import json
import resource
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from benchmarks.process import Cost, medagent

TYPES = (
    "Encounter",
    "Condition",
    "MedicationRequest",
    "Procedure",
    "Observation",
    "MedicationAdministration",
    "Specimen",
)


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as aside:
        ehr = Path(aside) / "mimic.sqlite"
        files = map(str, sorted((data / "mimic-demo").glob("*.ndjson.gz")))
        show("import", medagent("ehr", "import", *files, "--data", str(ehr)), f"{ehr.stat().st_size / 1e6:.0f} MB file")
        print(charts(ehr, data / "questions.csv"))
        words = ("--dataset", str(data / "questions.csv"), "--ehr", str(ehr), "--results-dir", aside, "--quiet")
        show("questions by fetch-all", medagent("run", "fhir-agentbench", "--agent", "fetch-all", *words))


def show(what: str, cost: Cost, more: str = "") -> None:
    print(f"{what}: {cost.cpu:.1f} s CPU, {cost.seconds:.1f} s, {cost.peak:.0f} MB{f', {more}' if more else ''}")


def charts(ehr: Path, questions: Path) -> str:
    """Read all charts from a server in a process of its own."""
    import subprocess

    csv.field_size_limit(1 << 24)
    with questions.open(encoding="utf-8", newline="") as file:
        patients = sorted({row["patient_fhir_id"] for row in csv.DictReader(file)})
    command = [sys.executable, "-m", "medagent", "serve", "--data", str(ehr), "--port", "18099"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            base = "http://localhost:18099/fhir"
            wait(f"{base}/metadata")
            begun, size = time.monotonic(), 0
            for patient in patients:
                for kind in TYPES:
                    url = f"{base}/{kind}?patient={patient}&_count=1000"
                    while url:
                        with urllib.request.urlopen(url) as reply:
                            body = reply.read()
                        size += len(body)
                        head = body.partition(b'  "entry": [')[0].rstrip().rstrip(b",") + b"}"
                        links = json.loads(head if not head.endswith(b"}}") else body).get("link", [])
                        url = next((link["url"] for link in links if link["relation"] == "next"), "")
            seconds = time.monotonic() - begun
        finally:
            server.terminate()
            server.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    return f"{len(patients)} charts over HTTP: {seconds:.1f} s, {size / 1e6:.0f} MB (CPU of all so far: {cpu:.1f} s)"


def wait(url: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(url).close()
            return
        except OSError:
            time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
