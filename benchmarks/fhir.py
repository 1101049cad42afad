"""Measures the FHIR server: import, start, search over HTTP and in process, overlays, memory, workers, writes.

    python -m benchmarks.fhir [--resources N] [--seconds S] [--floor]
    python -m benchmarks.fhir --against http://localhost:8081/fhir     the same for that server, and the ratios

Without --resources, the synthetic hospital is measured; with it, N resources that are copied from the hospital's
(2,000,000 take ten minutes and 4 GB of disk). --floor also measures a C program over the same file (`fhir_floor.c`;
needs cc and SQLite's headers), and a server with a ready answer (`fhir_ready.py`). --against first loads the hospital
into the other server (by transactions of 500), so that server should be empty. Requests over HTTP are sent by wrk if
it is installed, otherwise by `fhir_client.py` (one process, connections kept alive). CPU per request is that of the
server's processes, from /proc; unlike a rate, it is useful on a loaded machine. Lines with bars are for
`benchmarks/table.py`.

Targets on two cores with the client beside the server: import 20,000 resources/s from NDJSON and 5,000/s by
transactions; first answer within 300 ms of the start; 3,000 searches/s on 1 connection (median under 0.5 ms) and
5,000 on 16; an overlay with three writes in under 2 ms; under 150 MB of memory; with 600,000 resources less than a
third slower.
HAPI 7.6.0 on such a machine: start 27 s, 450 resources/s by transactions, 200 and 470 searches/s, 2.0 GB.
"""

from __future__ import annotations

import argparse
import compileall
import http.client
import json
import lzma
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import fhir_server
from benchmarks import fhir_searches
from benchmarks.fhir_client import get, in_turn, lasting, load, once, own_client
from benchmarks.fhir_running import Running, Serving
from benchmarks.table import machine, row
from fhir_server import Request, Server

JSON = [("Content-Type", "application/fhir+json")]
CODES = ("MG", "K", "GLU", "A1C", "BP")
NOTE = json.dumps({"resourceType": "Observation", "status": "final", "code": {"text": "BP"}}).encode()
HOSPITAL = Path(__file__).parent / "data" / "hospital.ndjson.xz"
WARM_S = 20.0
"""So long another server is asked before it is measured: a JVM compiles while it runs."""
Figures = list[tuple[str, float]]


def report(what: str, figure: str) -> None:
    print(f"{what:<48} {figure}", flush=True)


def hospital() -> list[str]:
    """The 59,017 resources that every figure of docs/performance.md is measured on; they do not change."""
    return lzma.decompress(HOSPITAL.read_bytes()).decode().splitlines()


def resources(count: int | None) -> Iterator[str]:
    """The hospital, or as many copies of its patients as give `count` resources."""
    lines = hospital()
    if count is None:
        yield from lines
        return
    for copy in range(-(-count // len(lines))):
        for line in lines[: count - copy * len(lines)]:
            moved = re.sub(r'"reference":"(\w+)/([^"]+)"', rf'"reference":"\1/\2x{copy}"', line)
            yield re.sub(r'"id":"([^"]+)"', rf'"id":"\1x{copy}"', moved, count=1)


def paths_of(server: Server) -> list[str]:
    """`Observation?patient&code` for a hundred patients."""
    patients = [json.loads(line)["id"] for line in islice(server.export("Patient"), 100)]
    return [f"/Observation?patient={patient}&code={code}" for patient in patients for code in CODES]


def by_transactions(base: str, lines: list[str], cpu: Callable[[], float] = lambda: 0) -> tuple[float, float]:
    """Resources a second by transactions of 500 over HTTP, and µs of CPU a resource; making the Bundles not counted."""
    bundles = []
    for start in range(0, len(lines), 500):
        resources = [json.loads(line) for line in lines[start : start + 500]]
        entries = [
            {"resource": one, "request": {"method": "PUT", "url": f"{one['resourceType']}/{one['id']}"}}
            for one in resources
        ]
        bundles.append(json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries}).encode())
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    start_time, before = time.perf_counter(), cpu()
    for bundle in bundles:
        connection.request("POST", parts.path, bundle, dict(JSON))
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            sys.exit(f"{base} refused a transaction: {answer.status} {text[:300]!r}")
    return len(lines) / (time.perf_counter() - start_time), (cpu() - before) / len(lines) * 1e6


def transactions(folder: Path, lines: list[str]) -> float:
    """Resources a second; the median of several starts, each with an empty store."""
    figures = []
    for number in range(fhir_searches.STARTS):
        with Running(folder / f"transactions{number}.sqlite") as running:
            running.first_answer("/metadata")
            figures.append(by_transactions(running.base, lines, running.cpu))
    rate, spent = map(statistics.median, zip(*figures, strict=True))
    row("transactions of 500, a resource", "≤ 150", spent, "µs of CPU")
    report("import by transactions of 500 over HTTP", f"{rate:,.0f}/s")
    return float(rate)


def searches(base: str, paths: list[str], seconds: float, cpu: Callable[[], float] | None = None) -> Figures:
    figures = []
    once(base, paths)
    for connections in (1, 16):
        before = cpu() if cpu else 0
        done = load(base, paths, connections, seconds)
        text = f"{done.rate:,.0f}/s, median {done.median:.2f} ms"
        report(f"Observation?patient&code, connections: {connections}", text)
        if cpu:
            spent = (cpu() - before) / done.requests * 1e6
            row(f"a repeated search over HTTP, connections: {connections}", "≤ 75", spent, "µs of CPU")
        figures.append((f"searches a second, connections: {connections}", done.rate))
    return figures


def ready(paths: list[str], length: int, seconds: float) -> None:
    """A server that has an answer of the searches' mean length ready."""
    with Serving("benchmarks.fhir_ready", "PORT", str(length)) as running:
        running.first_answer(paths[0])
        for connections in (1, 16):
            before = running.cpu()
            done = load(running.base, paths, connections, seconds)
            spent = (running.cpu() - before) / done.requests * 1e6
            row(
                f"a ready answer of {length / 1000:.0f} kB, by uvloop alone, connections: {connections}",
                "",
                spent,
                "µs of CPU",
            )


def after_starts(data: Path, pairs: fhir_searches.Pairs, path: str, connections: int, starts: int) -> list[list[float]]:
    """What `fhir_searches.first_asked` gives after each of some starts."""
    figures = []
    for _ in range(starts):
        with Running(data) as running:
            running.first_answer(path)
            figures.append(fhir_searches.first_asked(running, pairs, connections))
    return figures


def during_a_transaction(running: Running, paths: list[str]) -> None:
    """Reads on two connections while a transaction of 20,000 entries is carried out."""
    entry = {"resource": json.loads(NOTE), "request": {"method": "POST", "url": "Observation"}}
    body = json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": [entry] * 20_000}).encode()
    body += b" " * (45_000_000 - len(body))
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=600)
    statuses: list[int] = []

    def post() -> None:
        connection.request("POST", "/fhir", body, dict(JSON))
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)

    posting = threading.Thread(target=post)
    begin = time.perf_counter()
    posting.start()
    requests = [get(running.base, path) for path in paths]
    done = own_client(running.base, in_turn(requests, posting.is_alive), 2)
    text = f"{done.rate:,.0f}/s, worst {done.worst:,.0f} ms; it took {time.perf_counter() - begin:.1f} s: {statuses[0]}"
    report("reads during 20,000 entries in 45 MB", text)


def writes(running: Running, seconds: float) -> None:
    """Creates of an Observation on one connection, one after the other."""
    head = f"POST /fhir/Observation HTTP/1.1\r\nHost: {urlsplit(running.base).netloc}\r\n"
    head += f"Content-Type: application/fhir+json\r\nContent-Length: {len(NOTE)}\r\n\r\n"
    done = own_client(running.base, in_turn([head.encode() + NOTE], lasting(seconds)), 1)
    report(f"creates {' '.join(running.options)}", f"{done.rate:,.0f}/s, median {done.median:.2f} ms")


def by_workers(data: Path, paths: list[str], seconds: float) -> None:
    """The searches again by several processes, on 16 connections."""
    for count in (1, 2, 4):
        with Running(data, "--workers", str(count)) as running:
            running.first_answer(paths[0])
            load(running.base, paths, 16, 2)  # until all have started
            before = running.cpu()
            done = load(running.base, paths, 16, seconds)
            spent = (running.cpu() - before) / done.requests * 1e6
            text = f"{done.rate:,.0f}/s, median {done.median:.2f} ms, CPU {spent:,.0f} µs each"
            report(f"Observation?patient&code, workers: {count}", text)


def each(action: Callable[[], object], count: int) -> float:
    """Seconds a call."""
    start = time.perf_counter()
    for _ in range(count):
        action()
    return (time.perf_counter() - start) / count


def overlay(server: Server) -> None:
    with server.overlay("benchmark", datetime(2024, 1, 1, tzinfo=UTC)) as copy:
        for _ in range(3):
            assert copy.handle(Request("POST", "/fhir/Observation", JSON, NOTE)).status == 201


def imported(server: Server, count: int | None) -> None:
    """Imports the resources; making their lines is not counted."""
    making = 0.0

    def lines() -> Iterator[str]:
        nonlocal making
        copies = resources(count)
        while part := cpu_of(lambda: list(islice(copies, 10_000))):
            making += part[0]
            if not part[1]:
                return
            yield from part[1]

    before, start = os.times(), time.perf_counter()
    loaded = server.load(lines())
    after, seconds = os.times(), time.perf_counter() - start
    spent = sum(after[:4]) - sum(before[:4]) - making
    report(f"import of {loaded:,} resources from NDJSON", f"{loaded / (seconds - making):,.0f}/s")
    row("NDJSON, a resource, all processes", "≤ 70", spent / loaded * 1e6, "µs of CPU")


def cpu_of(action: Callable[[], list[str]]) -> tuple[float, list[str]]:
    """What an action takes of the processor in seconds, and what it gives."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def measure(folder: Path, count: int | None, seconds: float, *, floor: bool) -> tuple[Figures, list[str]]:
    """All figures of this server; those that another can be held against are returned, with the searches."""
    data, lines = folder / "store.sqlite", list(islice(resources(count), 20_000))
    with Server.open(data) as server:
        imported(server, count)
        loaded = sum(server.stats().values())
    row("the file, a resource", "≤ 2,000", data.stat().st_size / loaded, "bytes")
    pairs = fhir_searches.pairs(data)
    fhir_searches.in_process(data, pairs)
    with Server.open(data) as server:
        paths = paths_of(server)
        fhir_searches.growing(server)
        overlay(server)
        report("overlay: open, three writes, drop", f"{each(lambda: overlay(server), 200) * 1000:.2f} ms")
        length = statistics.mean(len(server.handle(Request("GET", f"/fhir{path}")).body) for path in paths)
    if floor:
        fhir_searches.floor(data, pairs)
        ready(paths, round(length), seconds)
    starts = after_starts(data, pairs, paths[0], 16, fhir_searches.STARTS - 1)
    with Running(data) as running:
        report("start to first answer", f"{running.first_answer(paths[0]):,.0f} ms")
        row("start to first answer", "≤ 0.2", running.cpu(), "s of CPU")
        starts.append(fhir_searches.first_asked(running, pairs, connections=16))
        fhir_searches.first_rows(starts, connections=16)
        rates = searches(running.base, paths, seconds, running.cpu)
        row("memory after all that (Pss)", "≤ 100", running.pss(), "MB")
        during_a_transaction(running, paths)
    fhir_searches.first_rows(after_starts(data, pairs, paths[0], 1, fhir_searches.STARTS), connections=1)
    by_workers(data, paths, seconds)
    for options in ([], ["--durable"]):
        with Running(folder / f"writes{len(options)}.sqlite", *options) as running:
            running.first_answer("/metadata")
            writes(running, seconds)
    rate = transactions(folder, lines)
    return [*rates, ("resources a second by transactions", rate)], paths


def against(base: str, own: Figures, paths: list[str], seconds: float) -> None:
    """The same on another server, and how many times as fast this one is."""
    print(f"\n{base}")
    rate, _ = by_transactions(base, hospital())
    report("import by transactions of 500 over HTTP", f"{rate:,.0f}/s")
    once(base, paths)
    load(base, paths, 16, WARM_S)
    theirs = [*searches(base, paths, seconds), ("", rate)]
    print()
    for (what, ours), (_, other) in zip(own, theirs, strict=True):
        report(what, f"{ours / other:,.1f} times as fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resources", type=int, help="measure this number of resources instead of the hospital")
    parser.add_argument("--seconds", type=float, default=5, help="how long to search (default 5)")
    parser.add_argument("--against", metavar="URL", help="the base address of another, empty server")
    parser.add_argument("--floor", action="store_true", help="also measure a C program over the same file")
    options = parser.parse_args()
    machine()
    # As an installation does; without bytecode a start takes 80 ms more, each time where Python is told to write none.
    compileall.compile_dir(Path(fhir_server.__file__).parent, quiet=1)
    print(f"client: {'wrk' if shutil.which('wrk') else 'the one in this file'}")
    with tempfile.TemporaryDirectory() as folder:
        own, paths = measure(Path(folder), options.resources, options.seconds, floor=options.floor)
    if options.against:
        against(options.against.rstrip("/"), own, paths, options.seconds)


if __name__ == "__main__":
    main()
