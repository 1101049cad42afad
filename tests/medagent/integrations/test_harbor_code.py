"""What `medagent export harbor` packs of a benchmark that is not part of medagent, and what the files say about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.harbor_task import played, reward

MODULE = '''
"""A benchmark in a single file, with a helper module beside it and a package."""

import medagent
from medagent import clinical as c
from {helper} import POTASSIUM


class LastPotassium(c.TaskType):
    name = "last_potassium"
    text = "What is the last potassium (K) of {{mrn}}? [value] or [-1]."

    def rule(self, chart):
        from {package}.rounding import rounded

        last = chart.latest(POTASSIUM, several="lowest")
        return c.answer([-1] if last is None else [rounded(last.value)])


class Benchmark(medagent.ClinicalBenchmark[medagent.ClinicalSettings]):
    """The last potassium."""

    name = "beside"
    types = (LastPotassium(),)
'''
HELPER = """from medagent import clinical as c

POTASSIUM = c.Lab("K", c.LOINC, "potassium", unit="mmol/L")
"""
ROUNDING = """from pathlib import Path

DIGITS = int(Path(__file__).with_name("digits.txt").read_text())


def rounded(value):
    return round(value, DIGITS)
"""
METADATA = "Metadata-Version: 2.1\nName: beside\nVersion: 1.0\n"


def written(folder: Path, suffix: str = "") -> dict[str, str]:
    """Write the module, its helper and its package; returns the texts by place."""
    helper, package = f"potassium{suffix}", f"arithmetic{suffix}"
    files = {
        f"beside{suffix}.py": MODULE.format(helper=helper, package=package),
        f"{helper}.py": HELPER,
        f"{package}/__init__.py": "",
        f"{package}/rounding.py": ROUNDING,
        f"{package}/digits.txt": "1",
    }
    for place, text in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, "utf-8")
    return files


def command(packages: Path, aside: Path, *words: object) -> str:
    """What a command prints in a process that has these packages; a folder `user` has installed ones."""
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYTHONUSERBASE": str(aside / "user")}
    line = [sys.executable, "-m", "medagent", *map(str, words)]
    ran = subprocess.run(line, env=environment, cwd=aside, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rewards(folder: Path, aside: Path) -> list[float]:
    """The rewards of the reference agent's answers in the tasks of a folder."""
    values = []
    for task in sorted(folder.glob("*/")):
        acts = json.loads((task / "solution" / "acts.json").read_text("utf-8"))
        log = aside / f"{task.name}.jsonl"
        played(task, acts[-1].removeprefix("FINISH(").removesuffix(")"), log)
        values.append(reward(task, log, aside / f"verified-{task.name}"))
    return values


@pytest.mark.parametrize("is_installed", [False, True], ids=["local", "installed"])
def test_modules_that_a_benchmark_imports_are_packed(tmp_path: Path, is_installed: bool) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tmp_path / "user" / "lib" / version / "site-packages" if is_installed else tmp_path / "packages"
    files = written(packages)
    about = packages / "beside-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"{METADATA}Author-email: Ada Byron <ada@example.org>\n", "utf-8")
    (about / "entry_points.txt").write_text("[medagent.benchmarks]\nbeside = beside:Benchmark\n", "utf-8")
    (about / "RECORD").write_text("".join(f"{place},,\n" for place in files), "utf-8")
    command(
        packages, tmp_path, "data", "new", "set", "--like", "beside", "--seed", "1", "--patients", 8, "--per-type", 2
    )
    command(packages, tmp_path, "export", "harbor", "beside", "tasks", "--dataset", "set")
    package = tmp_path / "tasks" / "last_potassium_1" / "tests" / "package"
    packed = {file.relative_to(package).as_posix() for file in package.rglob("*") if file.is_file()}
    assert packed == files.keys()
    assert set(rewards(tmp_path / "tasks", tmp_path)) == {1.0}
    name = json.loads((tmp_path / "set" / "dataset.json").read_text("utf-8"))["name"]
    manifest = tomllib.loads((tmp_path / "tasks" / "dataset.toml").read_text("utf-8"))["dataset"]
    assert (manifest["name"], manifest["authors"]) == (f"beside/{name}", [{"name": "Ada Byron"}])
    task = tomllib.loads((package.parents[1] / "task.toml").read_text("utf-8"))
    assert task["metadata"] == {**task["metadata"], "benchmark": "beside", "dataset": "beside", "version": name}
    assert task["task"]["authors"] == [{"name": "Ada Byron"}]
    page = (tmp_path / "tasks" / "README.md").read_text("utf-8")
    assert f" of beside ({name}), written by medagent " in page
    assert "synthetic" not in page, "nobody said so"


def test_modules_that_a_file_of_types_imports_are_packed(tmp_path: Path) -> None:
    text = written(tmp_path, "_of_file")["beside_of_file.py"]
    (tmp_path / "beside_of_file.py").write_text(text.partition("class Benchmark")[0], "utf-8")
    words = ("--from", "beside_of_file.py", "--seed", "1", "--patients", 8, "--per-type", 2)
    command(tmp_path, tmp_path, "data", "new", "set", *words)
    command(tmp_path, tmp_path, "export", "harbor", "beside_of_file.py", "tasks", "--dataset", "set")
    tests = tmp_path / "tasks" / "last_potassium_1" / "tests"
    assert (tests / "potassium_of_file.py").read_text("utf-8") == HELPER
    assert set(rewards(tmp_path / "tasks", tmp_path)) == {1.0}
    manifest = tomllib.loads((tmp_path / "tasks" / "dataset.toml").read_text("utf-8"))["dataset"]
    assert manifest["authors"] == []
    assert manifest["name"].startswith("beside_of_file/")


def test_tasks_sampled_without_a_set_are_called_by_their_digest(tmp_path: Path) -> None:
    written(tmp_path, "_sampled")
    words = ("export", "harbor", "beside_sampled:Benchmark", "tasks", "--per-type", 1)
    command(tmp_path, tmp_path, *words)
    manifest = tomllib.loads((tmp_path / "tasks" / "dataset.toml").read_text("utf-8"))["dataset"]
    [task] = (tmp_path / "tasks").glob("*/task.toml")
    digest = tomllib.loads(task.read_text("utf-8"))["metadata"]["tasks_sha256"]
    assert manifest["name"] == f"beside/{digest[:12]}"
    assert manifest["description"] == "Tasks of beside over a FHIR R4 record."
