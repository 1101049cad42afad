"""A changed agent is a different run: classes of notebooks, scripts, standard input and files, with their arguments."""

from __future__ import annotations

import json
import linecache
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import medagent
from medagent.core.code_digest import UNKNOWN, code_digest
from tests.command import medagent as command

AGENT = """
class Mine(medagent.Agent):
    def play(self, task, prompt):
        yield f"FINISH({ANSWER})"
"""
READS = """
def age(reply):
    born = re.search(r'"birthDate":\\s*"(\\d+)-(\\d+)-(\\d+)"', reply)
    year, month, day = map(int, born.groups())
    return 2023 - year - ((11, 13) < (month, day))


class Mine(medagent.Agent):
    def play(self, task, prompt):
        reply = yield f"GET {self.context.base}Patient?identifier={task.mrn}"
        yield f"FINISH([{age(reply)}])"
"""
ARGUMENTS = """
class Answers(medagent.Agent):
    def __init__(self, context=None, answer="[]"):
        super().__init__(context)
        self.answer = answer

    def play(self, task, prompt):
        yield f"FINISH({self.answer})"
"""


@dataclass
class Notebook:
    """Cells as IPython runs them: in `__main__`, which has no file, each with its text in linecache."""

    names: dict[str, Any]
    cells: int = 0

    def __call__(self, text: str, file: str = "") -> None:
        self.cells += 1
        name = file or f"<ipython-input-{self.cells}-0123456789ab>"
        if not file:
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.names)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Notebook:
    monkeypatch.chdir(tmp_path)
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    notebook = Notebook(vars(main))
    notebook("import re\nimport medagent\nANSWER = '[]'\n")
    return notebook


def run(agent: Any, **options: Any) -> Any:
    return medagent.run_sync(agent=agent, types=("task2",), per_type=2, **options)


def test_a_changed_cell_is_a_different_run(cell: Notebook) -> None:
    cell(AGENT)
    first, again = run(cell.names["Mine"]), run(cell.names["Mine"])
    assert (first.overall.value, first.reused, again.reused) == (0, 0, 2)
    cell(READS)
    changed = run(cell.names["Mine"])
    assert (changed.overall.value, changed.reused) == (1, 0)
    assert changed.folder != first.folder == again.folder
    cell(READS.replace("2023 - year", "2022 - year"))
    assert run(cell.names["Mine"]).overall.value == 0


def test_globals_and_functions_of_the_notebook_are_part_of_the_agent(cell: Notebook) -> None:
    digests = []
    for before in ("", "ANSWER = '[7]'", "ANSWER = ['a']", "def ANSWER(): return 1", "def ANSWER(): return 2"):
        cell(f"{before}\n{AGENT}")
        digests.append(code_digest(cell.names["Mine"], {}))
    assert len(set(digests)) == 5
    cell(AGENT)
    assert code_digest(cell.names["Mine"], {}) == digests[-1], "the same text in another cell"


@pytest.mark.parametrize("source", ["<stdin>", "global"])
def test_code_that_cannot_be_told_apart_is_not_reused(cell: Notebook, source: str) -> None:
    cell("ANSWER = object()" if source == "global" else "")
    cell(AGENT, file=source if source != "global" else "")
    agent = cell.names["Mine"]
    assert run(agent).reused == 0
    with pytest.raises(
        medagent.UserError, match=r"it is unknown whether its agent is the same .*reuse=True.*overwrite=True"
    ):
        run(agent)
    assert run(agent, reuse=True).reused == 2
    assert run(agent, overwrite=True).reused == 0
    assert str(run(agent, round="other").settings["agent-digest"]).startswith(UNKNOWN)


def test_arguments_are_settings_and_part_of_the_digest(cell: Notebook) -> None:
    cell(ARGUMENTS)
    answers = cell.names["Answers"]
    bound = run(partial(answers, answer="[1]"))
    assert bound.settings["agent-arg"] == ['answer="[1]"']
    assert run(answers, agent_arg={"answer": "[1]"}).reused == 2
    assert run(answers(answer="[1]")).reused == 2, "an instance with the same state"
    changed = run(answers(answer="[2]"))
    assert (changed.reused, changed.settings["agent-arg"]) == (0, ['answer="[2]"'])
    row = next(iter(medagent.load_run(changed.folder).rows()))
    assert row.answer == "[2]"  # type: ignore[attr-defined]  # rows are typed as their base
    assert str(run(answers(answer=object()), round="o").settings["agent-digest"]).startswith(UNKNOWN)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda cls: partial(cls, "[1]"), {}, "functools.partial must have a class and only keyword arguments"),
        (lambda cls: partial(cls, nothing=1), {}, "unexpected keyword argument 'nothing'"),
        (lambda cls: cls(), {"agent_arg": {"answer": "1"}}, "is an instance, which already got its arguments"),
        (lambda cls: "nop", {"agent_arg": {"answer": "1"}}, "--agent-arg: works only with a class"),
        (lambda cls: cls, {"model_arg": {"a": 1}}, "--model-arg: works only with a class"),
    ],
)
def test_arguments_that_nobody_takes(
    cell: Notebook, make: Callable[[Any], Any], options: dict[str, Any], message: str
) -> None:
    cell(ARGUMENTS)
    with pytest.raises(medagent.UserError, match=re.escape(message)):
        run(make(cell.names["Answers"]), **options)


def made(word: str) -> type[medagent.Agent]:
    class Closing(medagent.Agent):
        def play(self, task: Any, prompt: str) -> Iterator[str]:
            yield f"FINISH({word})"

    return Closing


def test_a_class_in_a_file_has_what_it_closes_over() -> None:
    assert code_digest(made("a"), {}) == code_digest(made("a"), {}) != code_digest(made("b"), {})
    assert code_digest(made("a"), {"x": 1}) != code_digest(made("a"), {"x": 2})


def test_a_file_and_the_local_modules_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("from deep import WORD\n")
    (tmp_path / "deep.py").write_text("WORD = 1\n")
    source = "import json\nimport medagent\nfrom words import WORD\n" + AGENT.replace("ANSWER", "[WORD]")
    (tmp_path / "mine.py").write_text(source)
    words = ["run", "--agent", f"{tmp_path / 'mine.py'}:Mine", "--types", "task2", "--limit", 1]
    words += ["--results-dir", tmp_path, "--quiet"]
    folder = tmp_path / "v2_r1_Mine"
    try:
        assert command(*words).code == 0
        before = json.loads((folder / "run.json").read_text())["settings"]["agent-digest"]
        assert len(before) == 64
        assert command(*words).code == 0
        (tmp_path / "deep.py").write_text("WORD = 2\n")
        assert "the run uses other settings (agent-digest" in command(*words).err
    finally:
        for name in ("words", "deep"):
            sys.modules.pop(name, None)
        sys.path.remove(str(tmp_path))


def test_arguments_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import medagent\n" + ARGUMENTS)
    words = ["run", "--agent", f"{tmp_path / 'mine.py'}:Answers", "--types", "task2", "--limit", 1]
    words += ["--results-dir", tmp_path, "--quiet"]
    assert command(*words, "--agent-arg", "answer=[3]").code == 0
    settings = json.loads((tmp_path / "v2_r1_Answers" / "run.json").read_text())["settings"]
    assert settings["agent-arg"] == ["answer=[3]"]
    assert "agent-arg answer=[3] → answer=[4]" in command(*words, "--agent-arg", "answer=[4]").err
    assert "--agent-arg 'answer': write it as name=value" in command(*words, "--agent-arg", "answer").err


MODEL = """
import medagent
from medagent.models.limiter import EndpointStats

class Says:
    name = "says"

    def __init__(self, settings=None, text=""):
        self.text, self.stats = text, EndpointStats(limit=0)

    async def complete(self, messages, *, tools=(), seed=None, session=""):
        return medagent.Completion(self.text)

    async def aclose(self):
        self.text = "closed"
"""


def test_models_take_arguments_too(cell: Notebook) -> None:
    cell(textwrap.dedent(MODEL))
    says = cell.names["Says"]
    for model in (partial(says, text="FINISH([1])"), says(text="FINISH([1])")):
        report = medagent.run_sync(model=model, types=("task2",), per_type=1, overwrite=True)
        assert next(iter(medagent.load_run(report.folder).rows())).answer == "[1]"  # type: ignore[attr-defined]  # rows have an answer here
    assert model.text == "FINISH([1])", "whoever made it closes it"  # type: ignore[attr-defined]  # a move that has text
