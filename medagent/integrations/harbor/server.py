"""The server of an agent's container: `/fhir` is its record, POST `/finish` takes the answers and ends the episode.

It runs as a separate user, so that the agent can neither write the log nor read the package, which can generate the
bundled tasks from their seed. Harbor's health check starts it, since not every sandbox runs an entry point.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fhir_server.app import create_app
from fhir_server.episodes import Record
from fhir_server.errors import FhirError
from fhir_server.processes.http import serving
from fhir_server.wire.http import Request, Response, split_target
from fhir_server.wire.outcome import refused
from medagent.core.errors import UserError
from medagent.fhir_data.embedded import EhrFile, EmbeddedEhr, empty_file, imported_file
from medagent.fhir_episodes.fhir_base import API_BASE, refusal
from medagent.integrations.harbor._log import LogWriter

BASE = API_BASE.rstrip("/")
FINISH = "/finish"
SERVER_LOG = "server.log"
START_S = 60.0
"""Seconds in which the server has to start."""
_JSON = [("Content-Type", "application/json")]
_PATH = urlsplit(BASE).path


def packed_patients(file: Path) -> EhrFile:
    """The patients of a task's environment. The file is empty if the items bring their charts. Raises UserError."""
    try:
        with gzip.open(file) as unpacked:
            is_empty = file.suffix == ".gz" and not unpacked.read(1)
    except OSError:
        is_empty = False  # the import says what is wrong
    return empty_file() if is_empty else imported_file(file)


class OneEpisode:
    """Serves one record and takes its answers. Each exchange is logged before the response is sent.

    The record's clock starts at `now`. `change` is a file with the change of a twin's chart, and the chart that the
    item brings. The record carries out creates, or with `all_writes` all writes of FHIR. Raises UserError if the
    patients cannot be read or the log exists.
    """

    def __init__(
        self, patients: Path, now: datetime, log: Path, change: Path | None = None, *, all_writes: bool = False
    ) -> None:
        self._ehr = EmbeddedEhr.open(packed_patients(patients).path, BASE, now)
        item: dict[str, Any] = json.loads(change.read_bytes()) if change else {"change": (), "chart": ""}
        overlay = self._ehr.server.overlay("harbor", now, item["change"], item["chart"])
        refuse = partial(refusal, all_writes=all_writes)
        self._record = Record(id="harbor", base=BASE, token="", overlay=overlay, refuse=refuse, used=0.0)
        self._log = LogWriter(log)
        self._ended = False

    def handle(self, request: Request) -> Response:
        """Answer one request."""
        try:
            return self._handle(request)
        except FhirError as error:
            return refused(error)

    def close(self) -> None:
        """Close log and record."""
        self._log.close()
        self._record.overlay.close()
        self._ehr.close()

    def _handle(self, request: Request) -> Response:
        path = split_target(request.target)[0]
        if path not in (_PATH, FINISH) and not path.startswith(f"{_PATH}/"):
            raise FhirError(404, f"Unknown path; use {_PATH} or {FINISH}", "not-found")
        if self._ended:
            raise FhirError(410, "The episode has ended: the answers were sent", "deleted")
        if path == FINISH:
            return self._finish(request)
        response = self._record.handle(request)
        self._logged(lambda: self._log.exchange(self._record.exchanges[-1], self._record.overlay.replaced))
        return response

    def _finish(self, request: Request) -> Response:
        if request.method != "POST":
            raise FhirError(405, f"{FINISH} takes a POST, with the answers as a JSON list", "not-supported")
        try:
            text = request.body.decode()
            wrong = not isinstance(json.loads(text), list)
        except (ValueError, RecursionError):
            wrong = True
        if wrong:
            form = 'a JSON list, as ["answer1", "answer2"], or [] where nothing was asked'
            raise FhirError(400, f"The answers are {form}", "invalid")
        self._ended = True
        self._logged(lambda: self._log.answers(text))
        return Response(200, list(_JSON), b'{"finished": true}\n')

    def _logged(self, write: Callable[[], None]) -> None:
        """Write to the log. A failure ends the episode, since it could not be graded without the log."""
        try:
            write()
        except OSError as error:
            self._ended = True
            raise FhirError(507, f"The log cannot be written: {error.strerror}", "exception") from None


def serve(patients: Path, now: datetime, log: Path, change: Path | None, *, all_writes: bool = False) -> None:
    """Serve at `BASE` until the process ends. Raises UserError."""
    port = urlsplit(BASE).port
    episode = OneEpisode(patients, now, log, change, all_writes=all_writes)
    try:
        listener = socket.create_server(("127.0.0.1", port))  # last, so that the log exists once clients can connect
    except OSError as error:
        raise UserError(f"cannot listen on port {port}: {error.strerror}") from None
    with closing(episode), listener, serving(create_app(episode), listener):
        threading.Event().wait()


def start(
    patients: Path, now: datetime, log: Path, user: str | None, change: Path | None, *, all_writes: bool = False
) -> None:
    """If no server answers, start one as `user` that outlives this process.

    Its output goes into a file next to the log. Raises UserError if it does not answer in time.
    """
    if _answers():
        return
    output = log.with_name(SERVER_LOG)
    command = [sys.executable, "-m", "medagent", "harbor", "serve", str(patients), str(log), "--now", now.isoformat()]
    command += [*(["--change", str(change)] if change else []), *(["--all-writes"] if all_writes else [])]
    try:
        with output.open("ab") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=log.parent,
                env={**os.environ, "HOME": str(log.parent)},
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=[] if user else None,
            )
    except (OSError, LookupError, subprocess.SubprocessError) as error:
        raise UserError(f"the server cannot be started: {error}") from None
    until = time.monotonic() + START_S
    while not _answers():
        if process.poll() is not None:
            reason = output.read_text("utf-8", "replace").strip() or "it printed nothing"
            raise UserError(f"the server has ended: {reason}")
        if time.monotonic() > until:
            raise UserError(f"the server does not answer after {START_S:g} s; its output is in {output}")
        time.sleep(0.05)


def _answers() -> bool:
    try:
        socket.create_connection(("127.0.0.1", urlsplit(BASE).port or 80), timeout=1).close()
    except OSError:
        return False
    return True
