"""Measures the FHIR server: import, start, searches over HTTP and in process, overlays, memory, writes.

    python -m benchmarks.fhir [--resources N] [--seconds S] [--floor]
    python -m benchmarks.fhir --against http://localhost:8081/fhir

Without --resources, the synthetic hospital is measured; with it, N resources that are copied from the hospital's
(2,000,000 take 4 GB of disk). --floor also measures a C program over the same file (`fhir_floor.c`;
needs cc and SQLite's headers).

--against measures this server and another one in turns, and prints how many times as long the other one takes: an
import by transactions of 500, and each shape of requests of `fhir_searches.py` on one connection. The times contain the
client's own CPU, which is printed for both. The other server must be empty at the start.

Requests over HTTP are sent by `fhir_client.py` (one process, connections kept alive). CPU per request is the server's
processes' CPU, from /proc; unlike a rate, it is useful on a loaded machine. Lines with bars are for
`benchmarks/table.py`.
"""

from __future__ import annotations

import argparse
import compileall
import http.client
import json
import lzma
import os
import re
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
from benchmarks.fhir_client import get, in_turn, lasting, load
from benchmarks.fhir_running import Running
from benchmarks.table import machine, row
from fhir_server import Request, Server

JSON = [("Content-Type", "application/fhir+json")]
NOTE = json.dumps({"resourceType": "Observation", "status": "final", "code": {"text": "BP"}}).encode()
HOSPITAL = Path(__file__).parent / "data" / "hospital.ndjson.xz"
WARM_S = 20.0
"""Another server runs this long before it is measured: a JVM compiles while it runs."""
TURNS = 3
"""How often each server is measured with each shape. The requests of a further turn warm the other server."""


def report(what: str, figure: str) -> None:
    print(f"{what:<48} {figure}", flush=True)


def hospital() -> list[str]:
    """The 59,017 resources that every number of benchmarks/measured is measured on; they do not change."""
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


def by_transactions(base: str, lines: list[str], cpu: Callable[[], float] = lambda: 0) -> tuple[float, float]:
    """Resources a second by transactions of 500 over HTTP, and µs of CPU a resource; making the Bundles not counted."""
    bundles = []
    for start in range(0, len(lines), 500):
        resources = [json.loads(line) for line in lines[start : start + 500]]
        entries = [
            {"resource": resource, "request": {"method": "PUT", "url": f"{resource['resourceType']}/{resource['id']}"}}
            for resource in resources
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


def transactions(folder: Path, lines: list[str]) -> None:
    """Resources a second; the median of several starts, each with an empty store."""
    figures = []
    for number in range(fhir_searches.STARTS):
        with Running(folder / f"transactions{number}.sqlite") as running:
            running.first_answer("/metadata")
            figures.append(by_transactions(running.base, lines, running.cpu))
    rate, spent = map(statistics.median, zip(*figures, strict=True))
    row("transactions of 500, a resource", "", spent, "µs of CPU")
    report("import by transactions of 500 over HTTP", f"{rate:,.0f}/s")


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
    done = load(running.base, in_turn(requests, posting.is_alive), 2)
    text = f"{done.rate:,.0f}/s, worst {done.worst:,.0f} ms; it took {time.perf_counter() - begin:.1f} s: {statuses[0]}"
    report("reads during 20,000 entries in 45 MB", text)


def writes(running: Running, seconds: float) -> None:
    """Creates of an Observation on one connection, one after the other."""
    head = f"POST /fhir/Observation HTTP/1.1\r\nHost: {urlsplit(running.base).netloc}\r\n"
    head += f"Content-Type: application/fhir+json\r\nContent-Length: {len(NOTE)}\r\n\r\n"
    done = load(running.base, in_turn([head.encode() + NOTE], lasting(seconds)), 1)
    report(f"creates {' '.join(running.options)}", f"{done.rate:,.0f}/s, median {done.median:.2f} ms")


def seconds_per_call(action: Callable[[], object], count: int) -> float:
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
    row("NDJSON, a resource, all processes", "", spent / loaded * 1e6, "µs of CPU")


def cpu_of(action: Callable[[], list[str]]) -> tuple[float, list[str]]:
    """What an action takes of the processor in seconds, and what it gives."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def measure(folder: Path, count: int | None, seconds: float, *, floor: bool) -> None:
    """Prints all numbers of this server."""
    data, lines = folder / "store.sqlite", list(islice(resources(count), 20_000))
    with Server.open(data) as server:
        imported(server, count)
        loaded = sum(server.stats().values())
    row("the file, a resource", "", data.stat().st_size / loaded, "bytes")
    pairs = fhir_searches.pairs(data)
    paths = fhir_searches.paths(pairs)
    new = fhir_searches.in_process(data, pairs)
    if floor:
        least = fhir_searches.floor(data, pairs)
        row("a new search in process, beside the floor", "≤ 6", new / least, "×")
    with Server.open(data) as server:
        fhir_searches.growing(server)
        overlay(server)
        report("overlay: open, three writes, drop", f"{seconds_per_call(lambda: overlay(server), 200) * 1000:.2f} ms")
    starts = after_starts(data, pairs, paths[0], 16, fhir_searches.STARTS - 1)
    with Running(data) as running:
        row("start to first answer", "≤ 1", running.first_answer(paths[0]) / 1000, "s")
        starts.append(fhir_searches.first_asked(running, pairs, connections=16))
        fhir_searches.first_rows(starts, connections=16)
        row("memory after all that (Pss)", "", running.pss(), "MB")
        during_a_transaction(running, paths)
    fhir_searches.first_rows(after_starts(data, pairs, paths[0], 1, fhir_searches.STARTS), connections=1)
    for options in ([], ["--durable"]):
        with Running(folder / f"writes{len(options)}.sqlite", *options) as running:
            running.first_answer("/metadata")
            writes(running, seconds)
    transactions(folder, lines)


def against(folder: Path, base: str, seconds: float) -> None:
    """Measures this server and another one in turns. Prints how many times as long the other one takes."""
    data, lines = folder / "store.sqlite", hospital()
    with Running(data) as running:
        running.first_answer("/metadata")
        rates: list[list[float]] = [[], []]
        for start in range(0, len(lines), 10_000):
            for listed, address in zip(rates, (running.base, base), strict=True):
                listed.append(by_transactions(address, lines[start : start + 10_000])[0])
        ours, theirs = map(statistics.median, rates)
        row("import by transactions of 500", "≥ 8", ours / theirs, f"× ({ours:,.0f}/s and {theirs:,.0f}/s)")
        shapes = fhir_searches.shapes(data)
        requests = [shape.requests(base, TURNS, TURNS + 1)[0] for shape in shapes.values()]
        load(base, in_turn(requests, lasting(WARM_S)), 1)
        for name, shape in shapes.items():
            times: list[list[tuple[float, float]]] = [[], []]
            for turn in range(TURNS):
                for server_times, address in zip(times, (running.base, base), strict=True):
                    requests = shape.requests(address, turn, TURNS + 1)
                    done = load(address, in_turn(requests, lasting(seconds)), 1)
                    server_times.append((done.median, done.client))
            (ours, our_client), (theirs, their_client) = (
                map(statistics.median, zip(*measured, strict=True)) for measured in times
            )
            words = f"{ours:.2f} and {theirs:.2f} ms; of which the client {our_client:.2f} and {their_client:.2f}"
            row(name, shape.target, theirs / ours, f"× ({words})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resources", type=int, help="measure this number of resources instead of the hospital")
    parser.add_argument(
        "--seconds", type=float, default=2, help="how long a search or a create is repeated (default 2)"
    )
    parser.add_argument("--against", metavar="URL", help="the base address of another, empty server")
    parser.add_argument("--floor", action="store_true", help="also measure a C program over the same file")
    options = parser.parse_args()
    machine()
    # As an installation does; without bytecode a start takes 80 ms more, each time where Python is told to write none.
    compileall.compile_dir(Path(fhir_server.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        if options.against:
            against(Path(folder), options.against.rstrip("/"), options.seconds)
        else:
            measure(Path(folder), options.resources, options.seconds, floor=options.floor)


if __name__ == "__main__":
    main()
