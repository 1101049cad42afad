"""An environment of Harbor without a container engine: this machine's own files under an overlay, as root on Linux.

What a Dockerfile's RUN and COPY do goes into one layer, what a trial does into another above it. A trial has mounts,
processes and a network of its own, and users that its image made. Of the image that FROM names there is only a Python.
No folder is shared with the host: as by Harbor's default since 0.25, Harbor copies the files that it needs.
"""

import asyncio
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

OWN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
LAYERS = Path(os.environ["MACHINE_LAYERS"])
"""A folder for them, of another file system than this machine's root: the kernel takes no layer inside another."""
FROM = f"""ln -sf {sys._base_executable} /usr/local/bin/python3
path={sys.base_prefix}; while [ "$path" != / ]; do chmod o+x "$path"; path=$(dirname "$path"); done"""
"""The base image: a Python that every user can run."""


def overlay(lower: list[Path | str], layer: Path) -> str:
    """Shell commands that put a machine together at LAYER/root."""
    for name in ("upper", "work", "root"):
        (layer / name).mkdir(parents=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={layer}/upper,workdir={layer}/work"
    root = layer / "root"
    return f"""set -e
mount -t overlay overlay -o {options} {root}
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount --rbind /sys {root}/sys
"""


def build(dockerfile: Path, layer: Path) -> None:
    """Carry out a Dockerfile; what apt-get would install has to be on this machine."""
    script = [overlay(["/"], layer), f"cd {dockerfile.parent}"]
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE)).splitlines()
    for line in filter(None, lines):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            rest = FROM
        elif word == "COPY":
            *files, target = rest.split()
            script.append(f"mkdir -p {layer}/root{target} && cp {' '.join(files)} {layer}/root{target}")
            continue
        elif word != "RUN" or rest.startswith("apt-get "):
            continue
        script.append(f"chroot {layer}/root sh -c {shlex.quote(rest)}")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": OWN_PATH})
    if done.returncode:
        shutil.rmtree(layer)
        raise RuntimeError(f"{dockerfile}: {done.stdout}{done.stderr}")


class Machine(BaseEnvironment):
    """See the module."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._layer = LAYERS / self.session_id
        self._holder = None

    @staticmethod
    @override
    def type():
        return "machine"

    @property
    @override
    def capabilities(self):
        return EnvironmentCapabilities(mounted=True)

    @override
    def _validate_definition(self):
        if not (self.environment_dir / "Dockerfile").is_file():
            raise FileNotFoundError(self.environment_dir / "Dockerfile")

    @override
    async def start(self, force_build):
        image = LAYERS / f"image-{self.environment_id[:16]}"
        await asyncio.to_thread(self._built, image)
        root = self._layer / "root"
        script = overlay([image / "upper", "/"], self._layer)
        for mount in self._mounts:
            place = f"{root}{mount['target']}"
            script += f"mkdir -p {place}; chmod 777 {place}\n"
        script += "ip link set lo up\necho ready\nexec sleep infinity\n"
        await asyncio.to_thread(self._begin, script)

    def _begin(self, script):
        command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", script]
        self._holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if (said := self._holder.stdout.readline()) != "ready\n":
            raise RuntimeError(said + self._holder.stdout.read())
        parent = self._holder.pid
        self._init = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0]

    def _built(self, image):
        LAYERS.mkdir(exist_ok=True)
        with (LAYERS / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not image.exists():
                build(self.environment_dir / "Dockerfile", image)

    @override
    async def stop(self, delete):
        if self._holder is not None:
            self._holder.kill()  # the first process of the trial's dies with it, and all the others with that
            await asyncio.to_thread(self._holder.communicate)
            self._holder = None
            shutil.rmtree(self._layer)

    def _inside(self, path):
        return Path(f"/proc/{self._init}/root{self._layer}/root{path}")

    @override
    async def upload_file(self, source_path, target_path):
        shutil.copyfile(source_path, self._inside(target_path))

    @override
    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, self._inside(target_dir), dirs_exist_ok=True)

    @override
    async def download_file(self, source_path, target_path):
        shutil.copyfile(self._inside(source_path), target_path)

    @override
    async def download_dir(self, source_dir, target_dir):
        shutil.copytree(self._inside(source_dir), target_dir, dirs_exist_ok=True)

    @override
    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        given = {"PATH": OWN_PATH, "LANG": "C.UTF-8", **(self._merge_env(env) or {})}
        who = str(self._resolve_user(user) or "root")
        inside = f"cd {shlex.quote(cwd or self.task_env_config.workdir or '/')} && {command}"
        process = await asyncio.create_subprocess_exec(
            *("nsenter", "--target", self._init, "--mount", "--pid", "--net"),
            *("chroot", f"--userspec={who}:{who}", f"{self._layer}/root"),
            *("env", "-i", *(f"{name}={value}" for name, value in given.items())),
            *("sh", "-c", inside),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except TimeoutError:
            process.kill()
            raise
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)
