"""Installs the wheel into empty environments, and uses it in empty folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "fhir-client"
FOR_TESTS = ("pytest>=8.3", "hypothesis>=6.120", "requests>=2.32", "respx>=0.22", "fhirpy>=2.0")
SERVER_NEEDS = ("uvicorn>=0.36", "httptools>=0.6", "google-re2>=1.1")
"""All that `fhir_server` needs; in process it needs nothing."""
ALONE = """
from fhir_server import Request, Server
import fhir_server.app, importlib.util, json
with Server.open(None) as server:
    kind = ("Content-Type", "application/fhir+json")
    body = b'{"resourceType": "Patient", "name": [{"family": "Smith"}]}'
    assert server.handle(Request("POST", "/fhir/Patient", [kind], body)).status == 201
    assert json.loads(server.handle(Request("GET", "/fhir/Patient?name=smi")).body)["total"] == 1
assert not [name for name in ("typer", "openai", "aiohttp", "pydantic", "httpx") if importlib.util.find_spec(name)]
"""


class ReleaseError(Exception):
    """A step failed; the text is what a person reads."""


def expect(holds: bool, text: str) -> None:
    """Raise ReleaseError unless something holds."""
    if not holds:
        raise ReleaseError(text)


def try_wheel(python: Path, wheel: Path, folder: Path) -> str:
    """A run, its grade and its report, the server's help, and the sample project's tests; by one Python."""
    home = folder / f"env-{python.parent.parent.name}-{abs(hash(python))}"
    interpreter = environment(python, home)
    constraints = ROOT / "constraints" / "constraints.txt"
    pip(interpreter, "--only-binary", ":all:", "--constraint", constraints, wheel)  # no package needs a compiler
    empty = folder / f"{home.name}-empty"
    empty.mkdir()
    medagent = interpreter.parent / "medagent"
    version = inside(empty, medagent, "--version").split()[1].rstrip(",")
    expect(version == wheel.name.split("-")[1], f"{wheel.name} says that it is {version}")
    inside(empty, medagent, "run", "--limit", "10", "--agent", "reference", "--quiet")
    graded = json.loads(inside(empty, medagent, "grade", "results/v2_r1_reference", "--json"))
    inside(empty, medagent, "report", "results/v2_r1_reference", "-o", "report.html")
    expect((empty / "report.html").stat().st_size > 10_000, "medagent report wrote next to nothing")
    inside(empty, medagent, "doctor")
    expect(inside(empty, medagent, "docs", "models").startswith("# Models"), "medagent docs does not find its pages")
    inside(empty, interpreter, "-m", "fhir_server", "--help")
    pip(interpreter, "--constraint", constraints, *FOR_TESTS)
    shutil.copytree(EXAMPLE, empty / "fhir-client", ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    passed = inside(empty / "fhir-client", interpreter, "-m", "pytest", "-q").strip().splitlines()[-1]
    right = sum(bool(item["correct"]) for item in graded["items"])
    expect(right == 10, f"the reference agent solved {right} of 10 tasks")
    return f"run, grade, report, doctor; examples/fhir-client: {passed}"


def try_alone(wheel: Path, folder: Path) -> str:
    """`fhir_server` with what itself needs."""
    interpreter = environment(None, folder / "env-alone")
    pip(interpreter, "--no-deps", wheel)
    pip(interpreter, "--constraint", ROOT / "constraints" / "constraints.txt", *SERVER_NEEDS)
    empty = folder / "alone-empty"
    empty.mkdir()
    inside(empty, interpreter, "-c", ALONE)
    inside(empty, interpreter, "-m", "fhir_server", "--help")
    return "a resource written and found, `python -m fhir_server --help`"


def try_launchers(tools: Path, wheel: Path, folder: Path) -> str:
    """The ways that install nothing for good."""
    empty = folder / "launchers"
    empty.mkdir()
    words = ("run", "--limit", "1", "--agent", "reference", "--quiet")
    places = {
        "UV_CACHE_DIR": str(folder / "uv"),
        "PIPX_HOME": str(folder / "pipx"),
        "PIPX_BIN_DIR": str(folder / "bin"),
    }
    inside(empty, tools / "uvx", "--from", wheel, "medagent", *words, environ=places)
    inside(empty, tools / "pipx", "run", "--spec", wheel, "medagent", *words, "--round", "pipx", environ=places)
    runs = {path.name for path in (empty / "results").iterdir()}
    expect(runs == {"v2_r1_reference", "v2_pipx_reference"}, f"uvx and pipx left {', '.join(sorted(runs))}")
    return "uvx --from WHEEL medagent run …, pipx run --spec WHEEL medagent run …"


def environment(python: Path | None, home: Path) -> Path:
    """The Python of a new environment."""
    subprocess.run([str(python or "python3"), "-m", "venv", str(home)], check=True, capture_output=True, text=True)
    return home / "bin" / "python"


def pip(interpreter: Path, *words: str | Path) -> None:
    """Install into an environment."""
    command = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)


def inside(folder: Path, *command: str | Path, environ: dict[str, str] | None = None) -> str:
    """The standard output of a command in a folder; nothing of the checkout is on its path."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MEDAGENT"))}
    variables = {**plain, "NO_COLOR": "1", "MEDAGENT_HOME": str(folder.parent / "medagent-home"), **(environ or {})}
    words = list(map(str, command))
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=True)
    return done.stdout
