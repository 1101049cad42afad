"""The server as a library needs only Python."""

from __future__ import annotations

import subprocess
import sys

from tests.shared_data import ROOT


def test_it_needs_no_package_in_process() -> None:
    """`-S` leaves all that is installed out, medagent's own dependencies first of all; a port needs uvicorn alone."""
    code = """
import fhir_server.app, json
from fhir_server import Request, Server
kind = ("Content-Type", "application/fhir+json")
with Server.open(None) as server:
    assert server.handle(Request("POST", "/fhir/Patient", [kind], b'{"resourceType": "Patient"}')).status == 201
    print(json.loads(server.handle(Request("GET", "/fhir/Patient")).body)["total"])
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "1\n"
