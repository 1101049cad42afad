"""Measures uncached searches, and searches over many resources, in CPU time. Shapes of requests for comparisons."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.fhir_client import get, once, post
from benchmarks.fhir_running import Running
from benchmarks.table import row
from fhir_server import Request, Server

Pairs = list[tuple[str, str]]
STARTS = 3
"""First requests are measured after this number of starts, since the figures of single starts differ by a tenth."""
MOST = 4_000
"""The largest number of pairs."""
COUNTS, PACKED_COUNT = (7, 20, 33), 21


def pairs(data: Path) -> Pairs:
    """Every patient with each code of the patient's Observations, shuffled."""
    with closing(sqlite3.connect(data)) as connection:

        def rows(name: str, columns: str) -> sqlite3.Cursor:
            number = "SELECT param FROM params WHERE type = 'Observation' AND name = ?"
            return connection.execute(f"SELECT {columns} WHERE param = ({number}) AND row_id < 120000", (name,))

        codes = {row_id: value for value, row_id in rows("code", "value, row_id FROM tokens")}
        links = rows("patient", "target, row_id FROM links")
        listed = sorted({(target.partition("/")[2], codes[row_id]) for target, row_id in links if row_id in codes})
    random.Random(23).shuffle(listed)
    return listed[:MOST]


def paths(pairs: Pairs, count: int | None = None) -> list[str]:
    """The searches, each with `count` entries per page."""
    more = f"&_count={count}" if count else ""
    return [f"/Observation?patient={patient}&code={code}{more}" for patient, code in pairs]


GZIP = "Accept-Encoding: gzip, deflate\r\n"
"""What most HTTP clients send unless they are told not to."""


def first_asked(running: Running, pairs: Pairs, connections: int) -> list[float]:
    """CPU of a request over HTTP in µs: of all pairs, each once after a start, then with other pages, then packed."""
    others = [path for count in COUNTS for path in paths(pairs, count)]
    figures = []
    for targets, headers in ((paths(pairs), ""), (others, ""), (paths(pairs, PACKED_COUNT), GZIP)):
        before = running.cpu()
        done = once(running.base, targets, connections, headers)
        figures.append((running.cpu() - before) / done.requests * 1e6)
    return figures


def first_rows(starts: list[list[float]], connections: int) -> None:
    """Print the rows of first requests: the median of several starts.

    Over one connection, the server waits for each request, and the CPU of waking up is added to each answer.
    """
    of = f"over HTTP, connections: {connections}"
    names = (
        "all patients and codes once",
        "the same again with other _count",
        "the same again with yet another, packed by gzip",
    )
    for name, figures in zip(names, zip(*starts, strict=True), strict=True):
        row(f"{name}, {of}", "", statistics.median(figures), "µs of CPU")


def in_process(data: Path, pairs: Pairs) -> float:
    """The first two without HTTP. Returns the CPU of a search in µs."""
    others = [path for count in COUNTS for path in paths(pairs, count)]
    figures: list[list[float]] = [[], []]
    for _ in range(STARTS):
        with Server.open(data) as server:
            server.handle(Request("GET", "/fhir/metadata"))
            for times, targets in zip(figures, (paths(pairs), others), strict=True):
                start = time.process_time()
                for path in targets:
                    server.handle(Request("GET", f"/fhir{path}"))
                times.append((time.process_time() - start) / len(targets) * 1e6)
    new = statistics.median(figures[0])
    row("all patients and codes once, in process", "", new, "µs of CPU")
    row("the same again with other _count, in process", "", statistics.median(figures[1]), "µs of CPU")
    return new


GROWING = (
    "Observation?code=K&date=ge2023-06-01",
    "Observation?_summary=count",
    "Observation?code=K&_sort=-date",
    "Observation?code=K&_summary=count",
    "Observation?code=K&_sort=date",
    "Observation?code=MG&date=ge2023-06-01&_count=50",
    "Observation?code=K&date=lt2022",
    "Observation?date=ge2023-06-01T00:00:00Z",
    "Observation?_sort=-date",
)
"""Searches whose cost may depend on the number of resources."""
_TARGETS = {"Observation?_summary=count": "≥ 3", "Observation?code=K&_summary=count": "≥ 2"}
"""Targets below the usual one: a short answer takes 0.3 ms, most of it HTTP, and HAPI is warm."""


def growing(server: Server) -> None:
    """Print the searches of `GROWING`: best of five in process."""
    for query in GROWING:
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            server.handle(Request("GET", f"/fhir/{query}"))
            best = min(best, time.process_time() - start)
        row(f"`{query}`", "", best * 1000, "ms of CPU")


NEW = "Cache-Control: no-cache\r\n"
"""Asks HAPI not to answer from its cache of results; this server has none."""


class Shape(NamedTuple):
    """Requests of one shape: GET of paths, or POST of a body if there is one.

    `{}` in headers and body of a POST is the number of the request.
    """

    paths: list[str]
    target: str
    headers: str = NEW
    body: str = ""

    def requests(self, base: str, turn: int, turns: int) -> list[bytes]:
        """The requests of one of some turns, for the server at `base`."""
        if not self.body:
            return [get(base, path, self.headers) for path in self.paths[turn::turns] or self.paths]
        numbers = range(turn, POSTS, turns)
        return [
            post(base, self.paths[0], self.body.replace("{}", str(n)), self.headers.replace("{}", str(n)))
            for n in numbers
        ]


_IF_NONE = "If-None-Exist: identifier=urn:x|{}\r\n"
POSTS = 15_000
"""The number of different requests with a body."""


def shapes(data: Path) -> dict[str, Shape]:
    """The shapes of requests that are compared with another server."""
    known, target = pairs(data), "≥ 5"
    patient, code = known[0]
    panel = {
        "resourceType": "Observation",
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": "85354-9"}]},
        "subject": {"reference": f"Patient/{patient}"},
        "effectiveDateTime": "2024-01-01T10:00:00Z",
        "component": [
            {"code": {"coding": [{"system": "http://loinc.org", "code": code}]}, "valueQuantity": _mmhg(value)}
            for code, value in (("8480-6", 120), ("8462-4", 80))
        ],
    }
    person = {"resourceType": "Patient", "identifier": [{"system": "urn:x", "value": "{}"}]}
    identified = [f"/Patient?identifier={patient}" for patient in dict.fromkeys(patient for patient, _ in known)]
    has = f"/Patient?_has:Observation:patient:code={code}"
    return {
        "Observation?patient&code": Shape(paths(known), target, ""),
        "Observation?patient&code&_count=7": Shape(paths(known, COUNTS[0]), target, ""),
        "Observation?patient&code&_count=33": Shape(paths(known, COUNTS[-1]), target, ""),
        "Observation?patient&code, packed by gzip": Shape(paths(known, PACKED_COUNT), target, GZIP),
        "`Patient?identifier`": Shape(identified, "≥ 4"),
        **{f"`{query}`": Shape([f"/{query}"], _TARGETS.get(query, target)) for query in GROWING},
        **{f"`{query}`, again and again": Shape([f"/{query}"], "", "") for query in GROWING},
        "page of 500 with `_elements`": Shape(["/Observation?_count=500&_elements=code,valueQuantity"], target),
        "page of 200 with `_summary`": Shape(["/Observation?_count=200&_summary=true"], target),
        "one `_has`": Shape([has], target),
        "two `_has`": Shape([f"{has}&_has:Condition:patient:clinical-status=active"], target),
        "`_history` of a type": Shape(["/Observation/_history"], "≥ 2"),
        "`_history` of the server": Shape(["/_history"], "≥ 3"),
        "`_history` of a resource": Shape([f"/Patient/{patient}/_history"], "≥ 3"),
        "`$everything`": Shape([f"/Patient/{patient}/$everything"], target),
        "`$validate`": Shape(["/Observation/$validate"], "≥ 3", body=json.dumps(panel | {"id": "v{}"})),
        "create": Shape(["/Observation"], "≥ 2", body=json.dumps(panel)),
        "conditional create": Shape(["/Patient"], "≥ 1.5", _IF_NONE, json.dumps(person)),
    }


def _mmhg(value: int) -> dict[str, object]:
    return {"value": value, "unit": "mmHg", "system": "http://unitsofmeasure.org", "code": "mm[Hg]"}


def floor(data: Path, pairs: Pairs) -> float:
    """What a C program takes for the same pages, without HTTP and without anything to understand."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("no floor: there is no C compiler (cc)")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "floor"
        source = Path(__file__).with_name("fhir_floor.c")
        made = subprocess.run(
            [compiler, "-O2", source, "-lsqlite3", "-o", program], capture_output=True, text=True, check=False
        )
        if made.returncode:
            problem = re.search(r"error: .*", made.stderr)
            sys.exit(f"no floor: {problem[0] if problem else made.stderr.strip()}")
        lines = "".join(f"{patient} {code} 20\n" for patient, code in pairs)
        done = subprocess.run([program, data], input=lines, capture_output=True, text=True, check=True)
    least = float(done.stdout.split()[0])
    row("the floor: a C program over the same file", "", least, "µs of CPU")
    return least
