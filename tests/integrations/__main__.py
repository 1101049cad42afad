"""`make integrations`: installs each peer with medagent in a separate environment and runs its check.

A check is a folder here: `peer.toml` names the packages to install. That environment's Python runs `check.py` in an
empty folder; it may import the modules of this folder. It uses the peer's own tools and prints the result; its last
line is the row of the table. It fails by an exception or an exit status. The peers exclude each other (openenv and
mcp, verifiers and openai 3), so each has its environment in `.venv-integrations/`, which is made again if `peer.toml`
or `pyproject.toml` changes.

Variables: STRICT=1 fails if a check could not run, FRESH=1 makes the environments again. With NEWEST=1, each peer that
has a release beyond the bounds is also checked with that release, in an additional environment and a row of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.table import Table

from tools.pythons import interpreter

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".venv-integrations"


class Peer(BaseModel):
    """What one `peer.toml` says: which distribution is asked, and what has to be installed for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    distribution: str
    """The package on PyPI whose version the table names."""
    packages: tuple[str, ...] = ()
    """Requirements beside medagent, with upper bounds."""
    folders: tuple[str, ...] = ()
    """Packages of this repository beside medagent, as `environments/medagent_verifiers`."""
    extras: tuple[str, ...] = ()
    """Extras of medagent."""
    alone: bool = False
    """Whether medagent stays out of the environment, where their requirements exclude each other: the check then
    calls the command that `MEDAGENT` names, and imports what needs nothing but the standard library."""
    python: tuple[int, int] = (3, 11)
    """The oldest Python that the peer runs on."""
    needs: tuple[str, ...] = ()
    """Programs that have to be on the path, as `npx`."""
    shared: tuple[str, ...] = ()
    """Folders of shared/ that have to lie beside the checkout."""
    root: bool = False
    """Whether the check makes users and mounts."""
    minutes: float = 10
    """How long the check may take."""


@dataclass(frozen=True)
class Outcome:
    """One row of the table."""

    name: str
    version: str
    result: str
    passed: bool | None
    """None where the check could not be run on this machine; `result` says why."""


def environment(name: str, peer: Peer, python: Path, *, fresh: bool = False, newest: bool = False) -> Path:
    """The Python of the peer's environment, installed if it is not there yet, or `fresh`. With `newest` the peer is
    then updated to its newest release, whatever medagent's bounds say.

    Raises:
        subprocess.CalledProcessError: uv failed; its output is in the error.
    """
    home = ENVIRONMENTS / (f"{name}-newest" if newest else name)
    peer_python = home / "bin" / "python"
    projects = [ROOT / folder / "pyproject.toml" for folder in (".", *peer.folders)]
    wanted = sha256(b"".join(path.read_bytes() for path in projects) + repr(peer).encode()).hexdigest()
    mark = home / ".installed"
    if fresh or newest or not mark.is_file() or mark.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        uv("venv", "--seed", "--python", python, home)
        folders = [] if peer.alone else [f"{ROOT}[{','.join(peer.extras)}]" if peer.extras else ROOT]
        folders += [ROOT / folder for folder in peer.folders]
        editable = [word for folder in folders for word in ("--editable", folder)]
        uv("pip", "install", "--python", peer_python, *editable, *peer.packages)
        if newest:
            uv("pip", "install", "--python", peer_python, "--upgrade-package", peer.distribution, peer.distribution)
        mark.write_text(wanted)
    return peer_python


def uv(*words: str | Path) -> str:
    """Runs uv, which resolves within seconds what takes pip minutes, from an environment with nothing else. Returns
    what it prints.
    """
    home = ENVIRONMENTS / "uv"
    if not (home / "bin" / "uv").is_file():
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"]
        for command in ([sys.executable, "-m", "venv", home], pip):
            subprocess.run(command, check=True, capture_output=True, text=True)
    return subprocess.run([home / "bin" / "uv", *words], check=True, capture_output=True, text=True).stderr


def has_newer(peer_python: Path, distribution: str) -> bool:
    """Whether a newer release of a peer can be installed into its environment."""
    changes = uv(
        "pip", "install", "--python", peer_python, "--dry-run", "--upgrade-package", distribution, distribution
    )
    return f" + {distribution.replace('_', '-')}==" in changes


def obstacle(peer: Peer) -> str | None:
    """What this machine lacks for the check."""
    if missing := [program for program in peer.needs if not shutil.which(program)]:
        return f"needs {', '.join(missing)} on the path"
    if missing := [folder for folder in peer.shared if not (ROOT.parent / "shared" / folder).is_dir()]:
        return f"needs shared/{missing[0]} beside the checkout"
    if peer.root and os.geteuid() != 0:
        return "needs root"
    if interpreter(peer.python) is None:
        return f"needs Python {'.'.join(map(str, peer.python))} or newer (PYTHON_NEWER=PATH names one)"
    return None


def outcomes(name: str, *, fresh: bool = False, newest: bool = False) -> Iterator[Outcome]:
    """Installs one peer and runs its check; with `newest`, also with a release beyond the bounds if there is one."""
    peer = Peer.model_validate(tomllib.loads((HERE / name / "peer.toml").read_text(encoding="utf-8")))
    python = interpreter(peer.python)
    if (missing := obstacle(peer)) or python is None:
        yield Outcome(name, "–", f"not run: {missing}", None)
        return
    try:
        peer_python = environment(name, peer, python, fresh=fresh)
        yield run_check(name, name, peer, peer_python)
        if newest and has_newer(peer_python, peer.distribution):
            beyond = environment(name, peer, python, newest=True)
            yield run_check(name, f"{name}, newest", peer, beyond)
    except subprocess.CalledProcessError as error:
        yield Outcome(name, "–", f"not installed: {last_line(error.stderr)}", False)


def run_check(folder: str, name: str, peer: Peer, peer_python: Path) -> Outcome:
    """Runs `check.py` of a folder with an environment's Python."""
    asked = f"from importlib.metadata import version; print(version({peer.distribution!r}))"
    version = subprocess.run([peer_python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    given = {
        "PATH": f"{peer_python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT}" if peer.alone else str(HERE),
        "MEDAGENT": str((Path(sys.executable) if peer.alone else peer_python).with_name("medagent")),
        "NO_COLOR": "1",
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:  # a check that is ended leaves processes
        try:
            ran = subprocess.run(
                [peer_python, HERE / folder / "check.py"],
                cwd=empty,
                env=os.environ | given,
                capture_output=True,
                text=True,
                check=False,
                timeout=peer.minutes * 60,
            )
        except subprocess.TimeoutExpired:
            return Outcome(name, version, f"still running after {peer.minutes:g} minutes", False)
    if ran.returncode:
        sys.stderr.write(f"--- {name}\n{ran.stdout}{ran.stderr}")
        return Outcome(name, version, last_line(ran.stderr or ran.stdout), False)
    return Outcome(name, version, last_line(ran.stdout), True)


def last_line(text: str) -> str:
    """The last line of an output that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


def is_set(variable: str) -> bool:
    """Whether an environment variable switches something on."""
    return os.environ.get(variable, "") not in ("", "0")


def main() -> int:
    """Runs the named checks, or all; prints the table and the counts; 1 if one failed, or with STRICT was not run."""
    names = sys.argv[1:] or sorted(path.parent.name for path in HERE.glob("*/peer.toml"))
    table = Table("integration", "peer's version", "minutes", "", "result")
    counts = {True: 0, False: 0, None: 0}
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        began = time.monotonic()
        for outcome in outcomes(name, fresh=is_set("FRESH"), newest=is_set("NEWEST")):
            counts[outcome.passed] += 1
            mark = {True: "passed", False: "FAILED", None: "not run"}[outcome.passed]
            minutes = f"{(time.monotonic() - began) / 60:.1f}"
            began = time.monotonic()
            table.add_row(outcome.name, outcome.version, minutes, mark, outcome.result)
            print(f"{outcome.name} {outcome.version}: {mark}, {minutes} minutes", file=sys.stderr, flush=True)
    Console().print(table)
    print(f"{counts[True]} passed, {counts[False]} failed, {counts[None]} not run")
    return 1 if counts[False] or (counts[None] and is_set("STRICT")) else 0


if __name__ == "__main__":
    sys.exit(main())
