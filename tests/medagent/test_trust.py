"""A run's folder may be a stranger's: no command that reads one imports what it names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import medagent as api
from medagent.api import write_report
from medagent.cli.export import app as export_app
from tests.command import medagent

PLANTED = "from pathlib import Path\nPath(r'{marker}').touch()\nclass B: name = 'b'\n"
EXPORTS = [command.name for command in export_app.registered_commands]
COMMANDS: list[tuple[str, ...]] = [
    ("show", "RUN"),
    ("show", "RUN", "--wrong"),
    ("show", "RUN", "task1_1"),
    ("grade", "RUN"),
    ("grade", "RUN", "--json"),
    ("compare", "RUN", "GOOD"),
    ("compare", "GOOD", "RUN", "--markdown"),
    ("report", "RUN", "-o", "out.html"),
    ("leaderboard", "RUN"),
    ("validate", "RUN"),
    ("submit", "pack", "RUN"),
    ("grade", "simpleqa", "--judge", "nobody", "--answers", "RUN"),
    ("simpleqa", "score", "RUN"),
    ("promptcblue", "score", "RUN"),
    ("imapscore", "score", "RUN"),
    *(("export", str(name), "RUN", f"out-{name}") for name in EXPORTS),
]
NAMES = ["planted.py:B", "RUN/planted.py:B", "planted:B", "inner.planted:B", "this:Zen"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of MedAgentBench."""
    place = tmp_path_factory.mktemp("trust")
    ran = medagent("run", "--agent", "reference", "--limit", 2, "--quiet", "--results-dir", place)
    assert ran.code == 0, ran.err
    return place / "v2_r1_reference"


@pytest.fixture
def planted(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a run and with code that leaves a file where it is imported; both on the import path,
    as they are for `python -m medagent`.
    """
    shutil.copytree(finished, tmp_path / "run")
    shutil.copytree(finished, tmp_path / "good")
    for folder in (tmp_path, tmp_path / "run", tmp_path / "inner"):
        folder.mkdir(exist_ok=True)
        (folder / "planted.py").write_text(PLANTED.format(marker=tmp_path / "imported"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def rewrite(run: Path, **values: Any) -> None:
    """Change `run.json`: `benchmark`, or a setting."""
    path = run / "run.json"
    content = json.loads(path.read_text())
    for name, value in values.items():
        table = content if name == "benchmark" else content["settings"]
        table[name.replace("_", "-")] = value
    path.write_text(json.dumps(content))


def name_in(folder: Path, name: str) -> str:
    return name.replace("RUN", str(folder / "run"))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_imports_what_a_run_names_as_its_benchmark(planted: Path, words: tuple[str, ...]) -> None:
    for name in NAMES:
        rewrite(planted / "run", benchmark=name_in(planted, name))
        ran = medagent(*(word.replace("RUN", "run").replace("GOOD", "good") for word in words))
        assert not (planted / "imported").exists()
        assert ran.code == (0 if words[0] == "validate" else 1)  # it reads the results file alone
        assert "Beautiful is better" not in ran.out
        assert "Traceback" not in ran.err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_imports_what_a_run_names_as_agent_or_model(planted: Path, words: tuple[str, ...]) -> None:
    for name in NAMES:
        rewrite(planted / "run", agent=name_in(planted, name), model=name_in(planted, name), embed_model="planted:B")
        ran = medagent(*(word.replace("RUN", "run").replace("GOOD", "good") for word in words))
        assert not (planted / "imported").exists()
        assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", NAMES)
def test_the_api_imports_nothing_and_says_how_to_name_the_code(planted: Path, name: str) -> None:
    name = name_in(planted, name)
    rewrite(planted / "run", benchmark=name)
    for read in (
        api.load_run,
        api.grade,
        lambda run: api.compare(run, "good"),
        lambda run: write_report([run], "r.html"),
    ):
        with pytest.raises(api.UserError) as raised:
            read("run")
        assert str(raised.value) == f"run: run.json names {name}; to read it with that code: --benchmark {name}"
    assert not (planted / "imported").exists()


def test_a_benchmark_that_is_not_installed_is_named(planted: Path) -> None:
    rewrite(planted / "run", benchmark="theirs")
    ran = medagent("show", "run")
    assert ran.code == 1
    assert "run: run.json names the benchmark 'theirs', which is not installed; known: medagentbench" in ran.err


def test_code_that_is_named_reads_a_run_and_an_installed_benchmark_stays_its_own(planted: Path) -> None:
    source = Path(__file__).parents[1] / "outsider" / "outsider"
    shutil.copy(source / "benchmark.py", "sums.py")
    shutil.copy(source / "agent.py", "counter.py")
    words = (
        "run",
        "sums.py:Sums",
        "--agent",
        "counter.py:Counter",
        "--largest",
        "5",
        "--report",
        "live.html",
        "--quiet",
    )
    for round_ in ("r1", "r2"):
        assert medagent(*words, "--round", round_).code == 0
    assert Path("live.html").is_file()
    one, two = "results/sums_r1_Counter", "results/sums_r2_Counter"
    assert "--benchmark sums.py:Sums" in medagent("show", one).err
    code = ("--benchmark", "sums.py:Sums")
    assert "answer: 3" in medagent("show", one, "3+0", *code).out
    assert medagent("grade", one, *code).code == 0
    assert medagent("compare", one, two, *code).code == 0
    assert medagent("report", one, two, "-o", "sums.html", *code).code == 0
    board = medagent("leaderboard", one, "good", *code)
    assert board.code == 0, board.err
    assert "sums" in board.out
    assert "MedAgentBench" in board.out
    for form in ("jsonl", "csv", "atif", "otel"):
        assert medagent("export", form, one, f"sums-{form}", *code).code == 0


def test_no_file_of_a_run_is_a_pickle(finished: Path) -> None:
    for file in finished.iterdir():
        assert not file.read_bytes().startswith(b"\x80")
