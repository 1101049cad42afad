"""A server as a separate process, with its CPU and memory."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self


class Running:
    """`python -m fhir_server` over a file with further options, on a free port, until the end of the block."""

    def __init__(self, data: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}/fhir"
        self.options = options
        words = ["--data", str(data), "--port", str(self.port), "--no-reference-check", *options]
        self._start = time.perf_counter()
        self._process = subprocess.Popen([sys.executable, "-m", "fhir_server", *words], stderr=subprocess.DEVNULL)

    def first_answer(self, path: str) -> float:
        """Milliseconds from the start of the process to its first answer."""
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                connection.request("GET", f"/fhir{path}")
                connection.getresponse().read()
                return (time.perf_counter() - self._start) * 1000
            except ConnectionRefusedError:
                time.sleep(0.002)

    def pss(self) -> float:
        """Megabytes, those that processes share counted by halves."""
        rollup = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text("ascii")
        match = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
        return int(match[1]) / 1024 if match else float("nan")

    def cpu(self) -> float:
        """Seconds of processor time of the server and the processes under it."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                pid, rest = stat.parent.name, stat.read_text("ascii").rpartition(")")[2].split()
                if str(self._process.pid) in (pid, rest[1]):
                    ticks += int(rest[11]) + int(rest[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
