"""A run's folder may be a stranger's: no command that reads one imports what it names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import medagent as api
from medagent._api import write_report
from medagent.cli._export import app as export_app
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


OUTSIDE = {
    "medagentbench": ("ehr", "dataset"),
    "promptcblue": ("data", "gold"),
    "psb-300": ("dataset",),
}
"""What of `run.json` names data, by benchmark."""
CASES = [(benchmark, key) for benchmark, keys in OUTSIDE.items() for key in keys]


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each benchmark."""
    place = tmp_path_factory.mktemp("each")
    for name in OUTSIDE:
        agent = "empty" if name == "promptcblue" else "nop"
        ran = medagent("run", name, "--agent", agent, "--limit", 1, "--quiet", "--results-dir", place / name)
        assert ran.code == 0, ran.err
    return place


@pytest.mark.parametrize(("benchmark", "key"), CASES)
def test_no_command_reads_data_outside_the_folder_that_only_the_folder_names(
    one_of_each: Path, tmp_path: Path, benchmark: str, key: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(next((one_of_each / benchmark).iterdir()), run)
    (run / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "theirs").write_text("secret")
    content = json.loads((run / "run.json").read_text())
    for value in (str(tmp_path / "theirs"), str(run / "link"), "../../../../../../../../../../../etc/passwd"):
        content["settings" if key in content["settings"] else "places"][key] = value
        (run / "run.json").write_text(json.dumps(content))
        ran = medagent("grade", run)
        assert ran.code == 1
        assert f"run.json: names --{key} {value}, a path outside its folder that you have not named" in ran.err
        assert f"medagent data allow {value}" in ran.err
    assert medagent("data", "allow", tmp_path / "theirs").code == 0
    content["settings" if key in content["settings"] else "places"][key] = str(tmp_path / "theirs")
    (run / "run.json").write_text(json.dumps(content))
    assert "a path outside its folder" not in medagent("grade", run).err


def test_data_in_the_run_s_folder_and_data_that_the_user_has_named_are_read(
    one_of_each: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "lines.jsonl"
    shutil.copy(Path(api.__file__).parent / "benchmarks/promptcblue/mini/test.jsonl", data)
    words = ("--data", data, "--limit", 1, "--quiet", "--results-dir", tmp_path)
    assert medagent("run", "promptcblue", "--agent", "empty", *words).code == 0
    run = next(tmp_path.glob("promptcblue_*"))
    assert medagent("grade", run).code == 0
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "another-user"))
    assert "a path outside its folder" in medagent("grade", run).err
    shutil.move(data, run)
    content = json.loads((run / "run.json").read_text())
    content["places"]["data"] = str(run / data.name)
    (run / "run.json").write_text(json.dumps(content))
    assert medagent("grade", run).code == 0


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
        way_on = f"to read it with that code: --benchmark {name}"
        assert str(raised.value) == f"run: run.json is of the benchmark {name}; {way_on}"
    assert not (planted / "imported").exists()


def test_a_benchmark_that_is_not_installed_is_named(planted: Path) -> None:
    rewrite(planted / "run", benchmark="theirs")
    ran = medagent("show", "run")
    assert ran.code == 1
    assert "run: run.json is of the benchmark 'theirs', which is not installed; known: medagentbench" in ran.err


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
    first, second = "results/sums_r1_Counter", "results/sums_r2_Counter"
    assert "--benchmark sums.py:Sums" in medagent("show", first).err
    code = ("--benchmark", "sums.py:Sums")
    assert "answer: 3" in medagent("show", first, "3+0", *code).out
    assert medagent("grade", first, *code).code == 0
    assert medagent("compare", first, second, *code).code == 0
    assert medagent("report", first, second, "-o", "sums.html", *code).code == 0
    board = medagent("leaderboard", first, "good", *code)
    assert board.code == 0, board.err
    assert "sums" in board.out
    assert "MedAgentBench" in board.out
    for form in ("jsonl", "csv", "atif", "otel"):
        assert medagent("export", form, first, f"sums-{form}", *code).code == 0


def test_no_file_of_a_run_is_a_pickle(finished: Path) -> None:
    for file in finished.iterdir():
        assert not file.read_bytes().startswith(b"\x80")
