"""Skills: what is read of a folder, and what agents get of it by each protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import medagent
from medagent import Agent
from medagent.agents.skills import read_skill, read_skills
from medagent.core.errors import UserError
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.protocol import APPENDED, load_protocol
from medagent.fhir_episodes.tools import Toolbox
from tests.command import medagent as command

FRONT = "---\nname: {name}\ndescription: >\n  How to dose,\n  by level.\nlicense: MIT\n---\n\nGive 2 g below 1.5.\n"


def skill(folder: Path, name: str = "dosing", **files: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(FRONT.format(name=name))
    for path, text in files.items():
        target = folder / path.replace("__", "/")
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    return folder


def test_a_skill_is_its_instructions_and_its_text_files(tmp_path: Path) -> None:
    folder = skill(tmp_path / "any", notes="n", references__table="t")
    (folder / "logo").write_bytes(b"\x89PNG\xff\0")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("hidden")
    read = read_skill(folder)
    assert (read.name, read.description, read.body) == ("dosing", "How to dose, by level.", "Give 2 g below 1.5.")
    assert read.files == (("notes", "n"), ("references/table", "t"))
    (folder / "notes").write_text("m")
    assert read_skill(folder).digest != read.digest
    (folder / "notes").write_text("n")
    assert read_skill(folder).digest == read.digest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "contains no SKILL.md; a skill is a folder with it"),
        ("Just text.", "SKILL.md: lacks `name`; write `name: …` between two lines ---"),
        ("---\nname: a\n---\nText.", "SKILL.md: lacks `description`; "),
        ("---\nname: A b\ndescription: c\n---\n", "name 'A b': only small letters, digits and '-'"),
    ],
)
def test_a_folder_that_is_no_skill_is_one_line(tmp_path: Path, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / "SKILL.md").write_text(text)
    with pytest.raises(UserError) as error:
        read_skill(tmp_path)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_skill_may_be_stored_as_windows_editors_do(tmp_path: Path) -> None:
    text = FRONT.format(name="dosing").replace("\n", "\r\n")
    (tmp_path / "SKILL.md").write_bytes(b"\xef\xbb\xbf" + text.encode())
    read = read_skill(tmp_path)
    assert (read.name, read.description, read.body) == ("dosing", "How to dose, by level.", "Give 2 g below 1.5.")
    (tmp_path / "SKILL.md").write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    with pytest.raises(UserError, match=r"SKILL\.md: is not UTF-8 text; store it as UTF-8"):
        read_skill(tmp_path)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (tmp_path / "outside").mkdir()
    for target in ("secret", "outside"):
        folder = skill(tmp_path / f"with-{target}")
        (folder / "link").symlink_to(tmp_path / target)
        with pytest.raises(UserError, match=r"link is a link out of the folder, which medagent does not follow"):
            read_skill(folder)
    inner = skill(tmp_path / "inner", notes="n")
    (inner / "again").symlink_to("notes")
    assert dict(read_skill(inner).files) == {"notes": "n", "again": "n"}
    with pytest.raises(UserError, match="an earlier skill has the name dosing too"):
        read_skills([inner, skill(tmp_path / "second")])


@pytest.mark.parametrize("target", ["link", "missing"])
def test_a_link_that_leads_nowhere_is_one_line(target: str, tmp_path: Path) -> None:
    folder = skill(tmp_path / "any")
    (folder / "link").symlink_to(target)
    with pytest.raises(UserError, match=r"^--skill .*/any: .*/any/link is a link that leads nowhere; remove it$"):
        read_skill(folder)


def test_by_text_further_files_are_appended_up_to_a_size(tmp_path: Path) -> None:
    folder = skill(tmp_path / "any", a="short", b="x" * (APPENDED + 1), c="last")
    system = load_protocol("text").with_skills(read_skills([folder])).system
    assert system.startswith("# Skill dosing\n\nGive 2 g below 1.5.")
    assert "## File dosing/a\n\nshort" in system
    assert "## File dosing/c\n\nlast" in system
    assert "xxx" not in system
    assert system.endswith("These files of the skills are too long to be shown: dosing/b.")


def test_by_tools_further_files_are_read_on_demand(tmp_path: Path) -> None:
    plain = load_protocol("tools")
    protocol = plain.with_skills(read_skills([skill(tmp_path / "any", notes="n")]))
    assert "read_skill_file(path) shows a further file of the skills: dosing/notes." in protocol.system
    toolbox = Toolbox.of(protocol, API_BASE)
    added = {tool.name for tool in toolbox.tools()} - {tool.name for tool in Toolbox.of(plain, API_BASE).tools()}
    assert added == {"read_skill_file"}
    assert toolbox.call("SKILL dosing/notes") == ("read_skill_file", {"path": "dosing/notes"})
    without_files = plain.with_skills(read_skills([skill(tmp_path / "bare", "bare")]))
    assert Toolbox.of(without_files, API_BASE).tools() == Toolbox.of(plain, API_BASE).tools()
    assert plain.with_skills(()) is plain


READS = """
import json
from collections.abc import Iterator
import medagent
from medagent.models.base import ToolCall

class Reads(medagent.Model):
    async def complete(self, messages, *, tools=(), **_):
        said = [message.content for message in messages]
        if len(said) == 2:
            call = ToolCall("1", "read_skill_file", json.dumps({"path": "dosing/notes"}))
        elif len(said) == 4:
            call = ToolCall("2", "read_skill_file", json.dumps({"path": "../secret"}))
        else:
            call = ToolCall("3", "finish", json.dumps({"answers": [said[3], said[5]]}))
        return medagent.Completion("", medagent.Usage(1, 1), tool_calls=(call,))

class Writes(medagent.Model):
    async def complete(self, messages, **_):
        code = (
            "read = open('/skills/dosing/notes').read()\\n"
            "try:\\n    open('/skills/dosing/notes', 'w')\\nexcept OSError as error:\\n    finish([read, str(error)])"
        )
        return medagent.Completion(f"```python\\n{code}\\n```", medagent.Usage(1, 1))
"""


@pytest.mark.parametrize(
    ("name", "protocol", "answers"),
    [
        (
            "Reads",
            "tools",
            ["what the file says", "This call was not carried out: no such file; the files are dosing/notes"],
        ),
        ("Writes", "code", ["what the file says", "Read-only file system"]),
    ],
)
def test_an_agent_reads_a_file_and_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, protocol: str, answers: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reads.py").write_text(READS)
    skill(tmp_path / "any", notes="what the file says")
    ran = command(
        *("run", "--model", f"reads.py:{name}", "--protocol", protocol, "--skill", "any", "--ids", "task2_1", "-q")
    )
    if "no sandbox works here" in ran.err:
        pytest.skip(ran.err)
    assert ran.code == 0, ran.err
    (row,) = medagent.load_run(f"results/v2_r1_{name}").rows()
    first, second = json.loads(str(row.answer))  # type: ignore[attr-defined]  # the rows are of episodes
    assert first == answers[0]
    assert answers[1] in second


class Told(Agent):
    """Answers with the instructions of its skills."""

    def play(self, task: object, prompt: str) -> Iterator[str]:
        yield f"FINISH({json.dumps([skill.body for skill in self.context.skills])})"


def test_an_agent_of_ones_own_gets_the_skills_and_the_table_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = skill(tmp_path / "any")
    report = medagent.run_sync("medagentbench", agent=Told, skill=[folder], ids=["task2_1"])
    (row,) = medagent.load_run(report.folder).rows()
    assert row.answer == '["Give 2 g below 1.5."]'  # type: ignore[attr-defined]  # the rows are of episodes
    assert report.settings["skills"] == [f"dosing {read_skill(folder).digest}"]
    assert " · skill dosing" in " ".join(command("grade", report.folder).out.split())
    (folder / "SKILL.md").write_text(FRONT.format(name="dosing") + "Changed.\n")
    with pytest.raises(UserError, match="the run uses other settings"):
        medagent.run_sync("medagentbench", agent=Told, skill=[folder], ids=["task2_1"])
    refused = command("run", "--agent", "reference", "--skill", folder)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "the agent reference reads no skill" in refused.err
