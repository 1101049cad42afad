"""`medagent …` in a process of its own that starts at once: it is forked from a server that has imported medagent.

Such a process may be killed, has an environment and a working folder of its own, and ends with the command's exit code.
The imports and the exit of the interpreter are multiprocessing's: a test of these starts `sys.executable`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NamedTuple

from tests.command import Ran

_IMPORTED = [
    "distributed.nanny",
    "fhir_server.server",
    "medagent.benchmarks.medagentbench.benchmark",
    "medagent.engine.cluster",
    "medagent.models.endpoint",
    "medagent.reports.runs",
    "tests.starts",
]


class Start(NamedTuple):
    """What a process needs to know."""

    words: list[str]
    folder: str
    environment: dict[str, str]
    out: str
    err: str


class Started:
    """A command that was started, used like `subprocess.Popen`; its output is read when it has ended."""

    def __init__(
        self, words: list[str], folder: Path, environment: Mapping[str, str], work: Callable[[Start], None]
    ) -> None:
        self._output = tempfile.TemporaryDirectory(prefix="medagent-start-")
        self._files = [Path(self._output.name, name) for name in ("out", "err")]
        start = Start(words, str(folder), dict(environment), *map(str, self._files))
        self._process: Any = _server().Process(target=work, args=(start,))
        self._process.start()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """The exit code, once there is one."""
        code: int | None = self._process.exitcode
        return code

    def send_signal(self, sent: signal.Signals) -> None:
        os.kill(self.pid, sent)

    def kill(self) -> None:
        self._process.kill()

    def ended(self, timeout: float = 300.0) -> Ran:
        """Wait for the end. A process that is still there after `timeout` seconds is killed, and the test fails."""
        self._process.join(timeout)
        late = self._process.exitcode is None
        self._process.kill()
        self._process.join()
        with self._output:
            out, err = (file.read_text("utf-8") if file.exists() else "" for file in self._files)
        assert not late, f"it did not end within {timeout:g} s\n{out}{err}"
        return Ran(self._process.exitcode, out, err)


def start(*words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Started:
    """Start `medagent` with these words; `env` is its whole environment."""
    return Started([*map(str, words)], cwd or Path.cwd(), os.environ if env is None else env, carry_out)


def fork_workers() -> None:
    """Let the workers of `--workers N` in this process be forked too."""
    import dask.config
    from distributed.utils import get_mp_context

    if dask.config.get("distributed.worker.multiprocessing-method") != "forkserver":
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
        get_mp_context()  # it names what the server is to import, which the next line overrules
        _server()


def _server() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    forkserver.ensure_running()
    return context


def carry_out(start: Start) -> None:
    """Run the command in this process."""
    from medagent.cli.app import main

    for place, name in enumerate((start.out, start.err), 1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, place)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background with SIGINT ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup, with SIGHUP
    os.environ.clear()
    os.environ.update(start.environment)
    sys.path[:0] = filter(None, start.environment.get("PYTHONPATH", "").split(os.pathsep))
    os.chdir(start.folder)
    sys.argv = ["medagent", *start.words]
    main()
