"""docker or podman: a read-only container without network and capabilities, from an image named by its digest."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import uuid
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from medagent.sandbox.base import FILES, MEGABYTE, Limits, SandboxError
from medagent.sandbox.interpreters import Interpreter, Interpreters, spawn, start_up

_IMAGE = re.compile(r"\w[\w./:-]*@sha256:[0-9a-f]{64}")
_SCRATCH = 32
"""Megabytes of /tmp."""
_ABOVE = 64
"""Megabytes of a container beyond the limit that its interpreter sets itself."""
_THREADS = 16
_SECONDS = 20
_PACKAGES = "/packages"


@dataclass(frozen=True, slots=True)
class Docker:
    """A sandbox by docker or podman. The image must contain `python3` (3.11 or later); it is not pulled."""

    image: str | None = None
    packages: Path | None = None
    files: Path | None = None
    name: str = "docker"

    @property
    def install(self) -> str:
        """The command that installs it."""
        if _tool() is None:
            return "sudo apt-get install docker.io"
        if self.image is None:
            return "docker pull python:3.13-slim, which prints a digest for --sandbox-image python@sha256:…"
        return f"docker pull {self.image}"

    def version(self) -> str:
        """Its version and its Python's. Raises SandboxError if it is not installed."""
        tool = _tool()
        if tool is None:
            raise SandboxError("docker and podman are missing")
        if self.image is None:
            raise SandboxError("needs --sandbox-image NAME@sha256:…")
        if not _IMAGE.fullmatch(self.image):
            raise SandboxError(f"--sandbox-image {self.image}: name the image by its digest, NAME@sha256:…")
        _ask(tool, "info")
        return f"{_ask(tool, '--version')}, {self.image}"

    @asynccontextmanager
    async def open(self, limits: Limits, ahead: int) -> AsyncIterator[Interpreters]:
        """Open it; about `ahead` interpreters are started before they are needed. Raises SandboxError."""
        await asyncio.to_thread(self.version)
        tool = _tool()
        assert tool is not None
        assert self.image is not None
        _ask(tool, "image", "inspect", self.image)
        spawned = partial(_spawn, tool, self.image, self.packages, self.files, limits)
        async with Interpreters(spawned, ahead) as interpreters:
            yield interpreters


def _arguments(name: str, image: str, packages: Path | None, files: Path | None, limits: Limits) -> list[str]:
    """The arguments of `docker` that run an interpreter in a container of that name."""
    memory = f"{limits.memory + _ABOVE}m"
    words = ["run", "--rm", "--interactive", "--name", name, "--pull", "never"]
    words += ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    words += ["--pids-limit", str(_THREADS), "--memory", memory, "--memory-swap", memory, "--ipc", "none"]
    words += [
        "--user",
        "65534:65534",
        "--hostname",
        "sandbox",
        "--workdir",
        "/tmp",
        "--tmpfs",
        f"/tmp:size={_SCRATCH}m",
    ]
    words += ["--env", "PYTHONHASHSEED=0", "--env", "TZ=UTC", "--env", "HOME=/tmp", "--env", "MALLOC_ARENA_MAX=1"]
    if packages is not None:
        words += ["--volume", f"{packages.resolve()}:{_PACKAGES}:ro"]
    if files is not None:
        words += ["--volume", f"{files.resolve()}:{FILES}:ro"]
    inside = [_PACKAGES] if packages is not None else []
    code = start_up(limits, files=_SCRATCH * MEGABYTE, processes=1, packages=inside)
    return [*words, "--entrypoint", "python3", image, *code]


async def _spawn(tool: str, image: str, packages: Path | None, files: Path | None, limits: Limits) -> Interpreter:
    name = f"medagent-{uuid.uuid4().hex}"
    # The client needs its settings (DOCKER_HOST, HOME); a container gets none of them.
    process = await spawn([tool, *_arguments(name, image, packages, files, limits)], dict(os.environ))
    return Interpreter(process, limits, partial(_kill, tool, name))


async def _kill(tool: str, name: str) -> None:
    """End a container: it continues after the client that started it."""
    process = await asyncio.create_subprocess_exec(tool, "kill", name, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    await process.wait()


def _tool() -> str | None:
    return shutil.which("docker") or shutil.which("podman")


def _ask(tool: str, *words: str) -> str:
    """The output of a docker command. Raises SandboxError with the last line of its error."""
    try:
        done = subprocess.run([tool, *words], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{Path(tool).name} {words[0]}: {error}") from None
    if done.returncode:
        trouble = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise SandboxError(f"{Path(tool).name} {words[0]}: {trouble}")
    return done.stdout.strip()
