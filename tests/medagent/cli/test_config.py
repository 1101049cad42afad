"""Files of the current folder are not trusted with addresses, secrets, code and paths elsewhere; a named file is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from medagent.benchmarks.base import find, names
from medagent.core.options import Option, OptionField, options
from tests.command import medagent
from tests.loopback import ModelServer

LOCAL = ("medagent.toml", "pyproject.toml")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, inside another one that has a file."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(name: str, lines: str, table: str = "run") -> None:
    """A file of defaults with these lines."""
    prefix = "tool.medagent." if name == "pyproject.toml" else ""
    Path(name).write_text(f"[{prefix}{table}]\n{lines}\n")


REFUSED = [
    ("run", 'base-url = "http://127.0.0.1:1/v1"', "run.base-url: sets where requests go"),
    ("run", 'api-key-env = ["HOME"]', "run.api-key-env: sets which secret is used"),
    ("run", 'cluster = "tcp://127.0.0.1:1"', "run.cluster: sets where requests go"),
    ("run", 'agent = "planted.py:B"', "run.agent: names code to run"),
    ("run", 'agent = "planted:B"', "run.agent: names code to run"),
    ("run", 'model = "planted:B"', "run.model: names code to run"),
    ("run", 'model = "scripted:../secret.txt"', "run.model: points outside this folder"),
    ("run", 'results-dir = ".."', "run.results-dir: points outside this folder"),
    ("run", 'results-dir = "/tmp/elsewhere"', "run.results-dir: points outside this folder"),
    ("run", 'results-dir = "~/elsewhere"', "run.results-dir: points outside this folder"),
    ("run.medagentbench", 'fhir = "http://127.0.0.1:1/fhir"', "run.medagentbench.fhir: sets where requests go"),
    ("run.medagentbench", 'fhir-header = ["A: b"]', "run.medagentbench.fhir-header: sets which secret is used"),
    ("run.medagentbench", 'dataset = "../theirs"', "run.medagentbench.dataset: points outside this folder"),
    ("run.medagentbench", 'system = "../secret.txt"', "run.medagentbench.system: points outside this folder"),
    ("run.medagentbench", 'system = "link.txt"', "run.medagentbench.system: points outside this folder"),
    ("run.medagentbench", 'system = "a\\u0000b"', "run.medagentbench.system: points outside this folder"),
]


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize(("table", "line", "problem"), REFUSED)
def test_a_file_that_was_not_named_is_refused_with_its_name_the_key_and_the_way_on(
    here: Path, name: str, table: str, line: str, problem: str
) -> None:
    (here / "link.txt").symlink_to(here.parent / "secret.txt")
    (here / "planted.py").write_text("raise SystemExit('imported')\n")
    write(name, line, table)
    ran = medagent("run", "--agent", "nop", "--limit", 1)
    assert ran.code == 1
    assert ran.err.startswith(f"medagent: {name}: {problem}")
    assert ran.err.endswith(f"--config {name}\n")
    assert not Path("results").exists()


@pytest.mark.parametrize("name", LOCAL)
def test_the_same_file_is_trusted_when_it_is_named(here: Path, name: str) -> None:
    write(name, 'results-dir = "../elsewhere"\nagent = "mine.py:Mine"')
    Path("mine.py").write_text(
        "from medagent import Agent\n"
        "class Mine(Agent):\n"
        "    def play(self, task, prompt):\n"
        "        yield 'FINISH([])'\n"
    )
    ran = medagent("run", "--limit", 1, "--quiet", "--config", name)
    assert ran.code == 0, ran.err
    assert Path("../elsewhere/v2_r1_Mine").is_dir()


def test_a_key_goes_nowhere_that_only_the_current_folder_names(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    with ModelServer() as model:
        write("medagent.toml", f'model = "m"\nbase-url = ["{model.url}"]')
        assert medagent("run", "--limit", 1).code == 1
        assert not model.calls
        assert medagent("run", "--limit", 1, "--quiet", "--config", "medagent.toml").code == 0
        assert model.calls


def test_what_is_harmless_is_taken(here: Path) -> None:
    (here / "own.txt").write_text("You are brief.")
    lines = 'model = "scripted:replies.json"\nresults-dir = "mine"\nlimit = 1\n'
    write("medagent.toml", lines + '[run.medagentbench]\nsystem = "own.txt"\n')
    Path("replies.json").write_text(json.dumps({"*": ["FINISH([])"]}))
    assert medagent("run", "--quiet").code == 0
    assert list(Path("mine").glob("v2_r1_*"))


def every_option() -> Iterator[tuple[str, OptionField]]:
    return ((f"{name} --{field.flag}", field) for name in names() for field in options(find(name).Settings))


def test_an_option_without_a_kind_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="kind"):
        Option("A group")  # type: ignore[call-arg]  # the error is tested


def test_the_kinds_fit_what_types_and_names_say() -> None:
    for name, field in every_option():
        kind = field.option.kind
        if "Path" in str(field.info.annotation):
            assert kind == "path", name
        if any(word in field.flag for word in ("url", "cluster")) or field.flag == "fhir":
            assert kind == "address", name
        if any(word in field.flag for word in ("key", "header", "secret")) or field.flag == "token":
            assert kind == "secret", name
        if "import path" in field.help or "class of yours" in field.help:
            assert kind == "code", name
        if kind == "value":
            assert "FILE" not in (field.option.metavar or ""), name
