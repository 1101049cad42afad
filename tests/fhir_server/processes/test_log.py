"""What a server says on stderr: one line each, and never waiting for who reads it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from fhir_server.processes import http as log

ENDLESS = """
from fhir_server.processes.http import say
for number in range(100_000):
    say(f"line {number}")
print("done", flush=True)
"""


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log.one_line_each()
    try:
        raise ConnectionResetError("gone\nfor good")
    except ConnectionResetError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    logging.getLogger("asyncio").error("Fatal error")
    log.flush()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("fhir_server: Exception in ASGI application: ConnectionResetError: gone for good (")
    assert second == "fhir_server: Fatal error"


def test_nobody_has_to_read_it() -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=writing, text=True
    ) as process:
        os.close(writing)
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"  # some megabytes are said, and a pipe holds 64 kB
        process.kill()
    os.close(reading)
