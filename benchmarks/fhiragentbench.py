"""Measures FHIR-AgentBench over the MIMIC-IV demo, as whole processes, and compares another checkout of the project.

Run: `python -m benchmarks.fhiragentbench ../shared/fhiragentbench --base CHECKOUT`. The folder contains questions.csv
and mimic-demo/. `--only import,charts,questions,growth` selects parts:

* import: the demo's files, both checkouts in turns, the least CPU of three;
* charts: all pages of seven types for all patients over HTTP, 1,000 per page; CPU of the server, least of three;
* questions: the questions, answered by the agent that reads whole charts;
* growth: the demo, and the demo with half and with all of 668,862 synthetic chart events (928,935 resources).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from uuid import UUID

from benchmarks.process import Cost, cost

ROOT = Path(__file__).resolve().parents[1]
TYPES = (
    "Encounter",
    "Condition",
    "MedicationRequest",
    "Procedure",
    "Observation",
    "MedicationAdministration",
    "Specimen",
)
CHART_EVENTS = 668_862
"""Those of the demo, of which the official file is missing."""
TURNS = 3
MIMIC = "http://mimic.mit.edu/fhir/mimic/CodeSystem"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--only", default="import,charts,questions,growth")
    options = parser.parse_args()
    checkouts = {"now": ROOT, **({"base": options.base.resolve()} if options.base else {})}
    parts = options.only.split(",")
    with tempfile.TemporaryDirectory() as aside:
        data, folder = options.data.resolve(), Path(aside)
        files = {checkout: folder / f"{name}.sqlite" for name, checkout in checkouts.items()}
        if "import" in parts:
            compare("import, CPU", checkouts, lambda checkout: imported(checkout, demo(data), files[checkout]).cpu)
        for checkout, file in files.items():
            if not file.is_file() and ("charts" in parts or (checkout == ROOT and "questions" in parts)):
                imported(checkout, demo(data), file)
        if "charts" in parts:
            patients = sorted({row["patient_fhir_id"] for row in questions(data)})
            compare("charts over HTTP, CPU", checkouts, lambda checkout: charts(checkout, files[checkout], patients))
        if "questions" in parts:
            words = (
                "--dataset",
                str(data / "questions.csv"),
                "--ehr",
                str(files[ROOT]),
                "--results-dir",
                aside,
                "--quiet",
            )
            show("questions by fetch-all", medagent(ROOT, "run", "fhir-agentbench", "--agent", "fetch-all", *words))
        if "growth" in parts:
            growth(data, folder)


def compare(what: str, checkouts: dict[str, Path], measure: Callable[[Path], float]) -> None:
    """Measure all checkouts in turns, and print the least of each and their ratio."""
    seconds: dict[str, list[float]] = {name: [] for name in checkouts}
    for _ in range(TURNS):
        for name, checkout in checkouts.items():
            seconds[name].append(measure(checkout))
    least = {name: min(times) for name, times in seconds.items()}
    ratio = f", {least['now'] / least['base']:.0%} of base" if "base" in least else ""
    print(f"{what}: {', '.join(f'{name} {shortest:.1f} s' for name, shortest in least.items())}{ratio}", flush=True)


def growth(data: Path, folder: Path) -> None:
    """Import ever more resources: CPU a resource and the file's bytes a resource should stay as they are."""
    ehr = folder / "growth.sqlite"
    for count in (0, CHART_EVENTS // 2, CHART_EVENTS):
        events = folder / "MimicObservationChartevents.ndjson.gz"
        with gzip.open(events, "wt", compresslevel=1, encoding="utf-8") as file:
            file.writelines(islice(chart_events(data), count))
        done = imported(ROOT, [*demo(data), *([events] if count else [])], ehr)
        total = 260_073 + count
        size = f"{ehr.stat().st_size / 1e6:,.0f} MB file, {1e6 * done.cpu / total:.0f} µs a resource"
        show(f"{total:,} resources", done, size)


def chart_events(data: Path) -> Iterator[str]:
    """Made-up chart events in the format of the official file: vital signs of the ICU stays, in turn."""
    with gzip.open(data / "mimic-demo" / "MimicEncounterICU.ndjson.gz", "rt", encoding="utf-8") as file:
        stays = [json.loads(line) for line in file]
    for number in range(CHART_EVENTS):
        stay, code = stays[number % len(stays)], 220_000 + number // len(stays) % 1_500
        minutes = number // (len(stays) * 40)
        time_ = f"2150-{1 + minutes // 40_320 % 12:02}-{1 + minutes // 1440 % 28:02}T{minutes // 60 % 24:02}"
        moment = f"{time_}:{minutes % 60:02}:00-04:00"
        coding = {"code": str(code), "system": f"{MIMIC}/mimic-d-items", "display": f"Chart item {code}"}
        category = {"code": "Routine Vital Signs", "system": f"{MIMIC}/mimic-observation-category"}
        event = {
            "id": str(UUID(bytes=hashlib.sha256(str(number).encode()).digest()[:16])),
            "code": {"coding": [coding]},
            "meta": {"profile": ["http://mimic.mit.edu/fhir/mimic/StructureDefinition/mimic-observation-chartevents"]},
            "issued": moment,
            "status": "final",
            "subject": stay["subject"],
            "category": [{"coding": [category]}],
            "encounter": {"reference": f"Encounter/{stay['id']}"},
            "resourceType": "Observation",
            "valueQuantity": {"code": "bpm", "unit": "bpm", "value": number % 977, "system": f"{MIMIC}/mimic-units"},
            "effectiveDateTime": moment,
        }
        yield json.dumps(event) + "\n"


def demo(data: Path) -> list[Path]:
    return sorted((data / "mimic-demo").glob("*.ndjson.gz"))


def questions(data: Path) -> list[dict[str, str]]:
    csv.field_size_limit(1 << 24)
    with (data / "questions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def imported(checkout: Path, files: list[Path], ehr: Path) -> Cost:
    """Import the files into a new SQLite file."""
    for suffix in ("", "-wal", "-shm"):
        ehr.with_name(ehr.name + suffix).unlink(missing_ok=True)
    return medagent(checkout, "ehr", "import", *map(str, files), "--data", str(ehr))


def medagent(checkout: Path, *words: str) -> Cost:
    """What `medagent` of a checkout costs with these words. Python stores compiled modules, as it does for users."""
    changes = ("-u", "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH=1", f"PYTHONPATH={checkout}")
    return cost("env", *changes, sys.executable, "-m", "medagent", *words)


def show(what: str, done: Cost, more: str = "") -> None:
    extra = f", {more}" if more else ""
    print(f"{what}: {done.cpu:.1f} s CPU, {done.seconds:.1f} s, {done.peak:.0f} MB{extra}", flush=True)


def charts(checkout: Path, ehr: Path, patients: list[str]) -> float:
    """Seconds of CPU of a server that is asked for all charts, its start included."""
    command = [sys.executable, "-m", "medagent", "serve", "--data", str(ehr), "--port", "18099"]
    environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(checkout)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as server:
        try:
            base = "http://localhost:18099/fhir"
            wait(f"{base}/metadata")
            for patient in patients:
                for kind in TYPES:
                    read_pages(f"{base}/{kind}?patient={patient}&_count=1000")
        finally:
            server.terminate()
            _, status, used = os.wait4(server.pid, 0)
            server.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def read_pages(url: str) -> None:
    while url:
        with urllib.request.urlopen(url) as reply:
            body = reply.read()
        head = body.partition(b'  "entry": [')[0].rstrip().rstrip(b",") + b"}"
        links = json.loads(head if not head.endswith(b"}}") else body).get("link", [])
        url = next((link["url"] for link in links if link["relation"] == "next"), "")


def wait(url: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(url).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(url)


if __name__ == "__main__":
    main()
