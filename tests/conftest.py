"""Every test runs without the network: a socket that would leave this machine fails the test that opens it."""

from __future__ import annotations

import atexit
import gc
import ipaddress
import os
import socket
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import settings

from medagent.core import scrub
from tests.once import session_folder

# Where a machine keeps Python from writing bytecode, each of the hundreds of commands that tests start would compile
# the project anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test depends on the speed of the machine, and only long ones on chance: a new find must not stop another's change.
settings.register_profile("same examples", deadline=None, derandomize=True)
settings.register_profile("new examples", deadline=None)

# The suite holds much that stays to its end, and few cycles: one look for them among all that takes a second.
gc.set_threshold(50_000, 20, 100)

LONG_S = 3600
"""Seconds that bound a test marked `long`; `timeout` in pyproject.toml bounds all others."""


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("new examples" if config.option.markexpr == "long" else "same examples")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what has been imported and collected stays


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends a worker of xdist at once, as soon as it has reported: to free all that it holds takes seconds."""
    if hasattr(config, "workerinput"):
        atexit._run_exitfuncs()
        os._exit(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", type=_part, metavar="I/N", help="every N-th test, from the I-th on: 2/4 is a quarter")


def _part(text: str) -> slice:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ArgumentTypeError(f"{text!r} is no part such as 2/4")
    return slice(int(number) - 1, None, int(count))


@pytest.hookimpl(trylast=True)  # after the tests were chosen by -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = items[config.getoption("part") or slice(None)]
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(LONG_S))


class NetworkRefusedError(RuntimeError):
    """A test tried to reach something that is not on this machine."""


def _is_local(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True  # a unix socket's path
    host = str(address[0])
    if host in {"localhost", ""}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of user code puts its folder first in sys.path, where tests/ would hide medagent from a new process."""
    monkeypatch.setattr(sys, "path", sys.path[:])


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process hides all secrets that it has seen. Those of earlier tests, by the hundred, would cost each later one
    time.
    """
    monkeypatch.setattr(scrub, "_forms", scrub._forms[:])


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if not _is_local(address):
            raise NetworkRefusedError(f"a test tried to connect to {address}")
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        if not _is_local(address):
            raise NetworkRefusedError(f"a test tried to connect to {address}")
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not _is_local((name,)):
            raise NetworkRefusedError(f"a test tried to look up {name}")
        return getaddrinfo(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)


def _one_authority(folder: Path) -> Path:
    """A file of one certificate authority: no test needs any, and each HTTP client reads all of them, in 30 ms."""
    end = "-----END CERTIFICATE-----\n"
    file = folder / "authority.pem"
    file.write_text(Path(certifi.where()).read_text("utf-8").partition(end)[0] + end, "utf-8")
    return file


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Data, caches and settings of the user's are neither read nor written: the tests have a home of their own.

    The workers of one session share it, so that the hospital is built once or twice and not once a worker.
    """
    base = tmp_path_factory.getbasetemp()
    home = session_folder(tmp_path_factory) / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDAGENT_HOME", str(home))
        patch.setenv("SSL_CERT_FILE", str(_one_authority(base)))
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
            patch.delenv(name, raising=False)
        for name in ("MEDAGENT_FHIR_TOKEN", "MEDAGENT_FHIR_TOKEN_FILE", "MEDAGENT_PRICES"):
            patch.delenv(name, raising=False)
        yield
