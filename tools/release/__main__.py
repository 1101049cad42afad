"""`make release`: builds sdist and wheel, checks them, and tries the wheel in empty environments.

    python -m tools.release [--out dist]

It publishes nothing and changes no file of the checkout, except that it writes the two files to `dist/`. It prints a
line for each step. If a step fails, it prints the step's output and ends with exit code 1. At the end it lists the
manual steps. It needs a package index for medagent's dependencies, the programs of constraints/release.txt
(`.venv-release`, made by make), and Go for actionlint (skipped with a message if Go is missing).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tools import repository
from tools.pythons import newest, version_of
from tools.release.tried import ReleaseError, expect, try_alone, try_launchers, try_wheel

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv-release" / "bin"
PACKAGES = ("medagent", "refsol", "fhir_server")
LARGEST = 6_000_000
"""The wheel's maximum size in bytes."""
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"


def main() -> int:
    """Take all steps; 1 where one failed."""
    parser = argparse.ArgumentParser(description="Build and check a release; nothing is published.")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="the folder for sdist and wheel (default: dist/)"
    )
    out: Path = parser.parse_args().out
    try:
        with tempfile.TemporaryDirectory(prefix="medagent-release-") as folder:
            sdist, wheel = build(out, Path(folder))
            check(sdist, wheel)
            for python in dict.fromkeys([Path(sys.executable), newest()]):
                label = ".".join(map(str, version_of(python) or ()))
                said(f"the wheel on Python {label}, outside the checkout", try_wheel(python, wheel, Path(folder)))
            said("fhir_server without what only medagent needs", try_alone(wheel, Path(folder)))
            said("uvx and pipx", try_launchers(TOOLS, wheel, Path(folder)))
            said("the action and the workflows", actions(Path(folder)))
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        words = " ".join(map(str, error.cmd))
        print(f"failed: {words}\n{error.stdout or ''}{error.stderr or ''}", file=sys.stderr)
        return 1
    print(left_to_do(sdist, wheel))
    return 0


def build(out: Path, folder: Path) -> tuple[Path, Path]:
    """Sdist and wheel from a copy without git, and the wheel again from the sdist: both contain the same files."""
    copy = folder / "copy"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    shutil.rmtree(out, ignore_errors=True)
    run(TOOLS / "python", "-m", "build", "--outdir", out, copy)  # the wheel is made from the sdist
    run(TOOLS / "python", "-m", "build", "--wheel", "--outdir", folder / "direct", copy)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    (direct,) = (folder / "direct").glob("*.whl")
    expect(contents(direct) == contents(wheel), f"{sdist.name} builds another wheel than the checkout does")
    said("sdist and wheel", f"{sdist.name}, {wheel.name}: the sdist builds the same wheel, in a copy without tags")
    return sdist, wheel


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def check(sdist: Path, wheel: Path) -> None:
    """What the files must hold, and what twine and check-wheel-contents say of them."""
    run(TOOLS / "twine", "check", "--strict", sdist, wheel)
    run(TOOLS / "check-wheel-contents", "--config", ROOT / "pyproject.toml", wheel)
    files = contents(wheel)
    missing = [f"{package}/py.typed" for package in PACKAGES if f"{package}/py.typed" not in files]
    licences = ("LICENSE", "NOTICE", "licenses/CC0-1.0.txt")
    missing += [name for name in licences if not any(file.endswith(f"licenses/{name}") for file in files)]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing += [
        name
        for name in ("LICENSE", "CHANGELOG.md", "CITATION.cff", "tests/test_docs.py", "docs/README.md")
        if name not in names
    ]
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "skills").rglob("*.md")]
    missing += [
        name for name in (f"medagent/{page.relative_to(ROOT).as_posix()}" for page in pages) if name not in files
    ]
    expect(not missing, f"not packed: {', '.join(missing)}")
    size = wheel.stat().st_size
    expect(size <= LARGEST, f"{wheel.name} is {size:,} bytes, more than {LARGEST:,}")
    said("twine, check-wheel-contents, licence, py.typed", f"{size / 1e6:.1f} MB")


def actions(folder: Path) -> str:
    """actionlint over the workflows, and over the page's recipe with this repository's action."""
    if not shutil.which("go"):
        return "not checked: actionlint needs Go"
    place = folder / "actions"
    workflows = place / ".github" / "workflows"
    workflows.mkdir(parents=True)
    shutil.copy2(ROOT / "action.yml", place)
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        shutil.copy2(file, workflows)
    recipes = re.findall(r"^```yaml\n(name: .*?)^```$", (ROOT / "docs" / "ci.md").read_text("utf-8"), re.M | re.S)
    for number, recipe in enumerate(recipes):
        (workflows / f"recipe-{number}.yml").write_text(re.sub(r"[\w.-]+/medagent@\S+", "./", recipe), encoding="utf-8")
    run("git", "init", "--quiet", place)
    checked = sorted(path.name for path in workflows.iterdir())
    run("go", "run", ACTIONLINT, cwd=place)
    return f"actionlint: {', '.join(checked)} are clean"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """The standard output of a command. Raises CalledProcessError."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=True, env=os.environ)
    return done.stdout


def said(step: str, outcome: str) -> None:
    """A line of a step that is done."""
    print(f"ok  {step}: {outcome}", flush=True)


def left_to_do(sdist: Path, wheel: Path) -> str:
    """What no program may do."""
    version = wheel.name.split("-")[1]
    todo = [] if repository.address() else ["write the repository's address: python tools/repository.py ADDRESS"]
    todo += [
        f"date {version} in CHANGELOG.md and CITATION.cff, and commit",
        f"tag the commit v{version} and push the tag",
        f"upload: twine upload {sdist} {wheel} (needs an account and its token)",
        "raise the version in medagent/core/version.py for the next release",
    ]
    return "Nothing was published. Do these steps by hand:\n" + "\n".join(f"  * {line}" for line in todo)


if __name__ == "__main__":
    sys.exit(main())
