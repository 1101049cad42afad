"""Starts the compared servers, loads them with the recorded data, and sends the requests."""

from __future__ import annotations

import json
import lzma
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tools.hapi_diff.client import Answer, Case, Client

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "hapi" / "data.ndjson.xz"
CHANCE = "<HAPI's own choice>"
"""The body of an answer that is another one each time."""
REPEATS = 7
PAGES = 3
"""How many pages behind the first one are asked for."""
_GIVEN_ID = re.compile(r'(?<=/)\d{3,}(?=[/"\\ ?]|$)|(?<="id": ")\d{3,}(?=")|(?<=<id value=")\d{3,}(?=")')


def recorded_data() -> list[str]:
    """The resources that both servers are loaded with, as JSON."""
    return lzma.decompress(DATA.read_bytes()).decode("utf-8").splitlines()


def load(client: Client) -> None:
    """Puts the recorded data on a server, in its order."""
    for line in recorded_data():
        resource = json.loads(line)
        answer = client.send(Case.with_json("PUT", f"{resource['resourceType']}/{resource['id']}", line))
        if answer.status not in (200, 201):
            sys.exit(f"{client.base} refused {resource['resourceType']}/{resource['id']}: {answer.raw[:300]}")


class Side:
    """One of the servers, and what it created last."""

    def __init__(self, base: str) -> None:
        self.client = Client(base)
        self.last = "Patient/nothing-yet"

    def send(self, case: Case) -> Answer:
        """The answer, with the ids that the server gave blanked."""
        answer = self.client.send(replace(case, url=case.url.replace("{last}", self.last)))
        try:
            created = json.loads(answer.raw) if case.method == "POST" and answer.status == 201 else {}
        except ValueError:
            created = {}
        if "id" in created:
            self.last = f"{created['resourceType']}/{created['id']}"
        return _without_ids(answer)

    def _settled(self, case: Case) -> Answer:
        """The answer. HAPI reports any one of several references that lead nowhere, and sorts equal keys in any order.
        Such a request is repeated, and if the answers differ, it is `CHANCE`.
        """
        answer = self.send(case)
        by_chance = "HAPI-1094" in answer.body or (case.method == "GET" and "_sort" in case.url)
        if by_chance and any(self.send(case).body != answer.body for _ in range(REPEATS)):
            return replace(answer, body=CHANCE)
        return answer

    def pages(self, case: Case) -> list[Answer]:
        """The answer to a request, and the next pages behind it."""
        pages = [self._settled(case)]
        while len(pages) <= PAGES:
            link = re.search(r'"relation": "next",\s+"url": "([^"]+)"', pages[-1].raw)
            if link is None:
                break
            pages.append(_without_ids(self.client.follow(link[1])))
        return pages


def _without_ids(answer: Answer) -> Answer:
    headers = {name: without_given_ids(value) for name, value in answer.headers.items()}
    return replace(answer, body=without_given_ids(answer.body), headers=headers)


def without_given_ids(text: str) -> str:
    """A text with `<n>` for the ids that a server gave."""
    return _GIVEN_ID.sub("<n>", text)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def own_server() -> Iterator[str]:
    """This server on a free port, over a new file; its address."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fhir_server", "--data", f"{folder}/store.sqlite", "--port", str(port)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            yield _ready(f"http://localhost:{port}/fhir", process)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def hapi(script: Path) -> Iterator[str]:
    """A HAPI on a free port, fresh and empty, that keeps no searches to use again; its address."""
    port = _free_port()
    command = [str(script), str(port), "--hapi.fhir.reuse_cached_search_results_millis=-1"]
    environment = {"JAVA_OPTS": "-Xmx1500m", **os.environ}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    try:
        yield _ready(f"http://localhost:{port}/fhir", process)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _ready(base: str, process: subprocess.Popen[bytes]) -> str:
    """The address, as soon as it answers; ends the program where the server ends first."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{base}/metadata", timeout=60) as answer:
                answer.read()
            return base
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit(f"the server for {base} ended before it answered (exit status {process.returncode})")
