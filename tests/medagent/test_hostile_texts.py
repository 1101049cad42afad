"""The texts of files that came from somebody else: no command prints one that steers a terminal or forges a line."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medagent.core.scrub import json_text, markdown_line, markdown_text, one_line
from tests.command import Ran, medagent
from tests.journal_lines import checked_line
from tests.shared_data import ROOT

BUNDLED = ROOT / "medagent/benchmarks/medagentbench/tasks/data/synthetic"
HOSTILE = "t\x1b[31mE\n| 1 | row |<script>x</script>\r[a](b)![c](d)\x9b2J\u2028**e**`\u202e"
Steps = tuple[str | int, ...]
MARKDOWN = ("leaderboard RUN", "leaderboard RUN GOOD", "compare GOOD RUN --markdown", "compare RUN GOOD --markdown")
COMMANDS = (
    *MARKDOWN,
    "show RUN",
    "show RUN --wrong",
    "show RUN task1_1",
    "show RUN task1_1 --full",
    "show RUN --type x",
    "grade RUN",
    "grade RUN --full",
    "grade RUN --json",
    "compare RUN GOOD",
    "compare RUN GOOD --json",
    "validate RUN",
    "report RUN -o out.html",
    "export csv RUN out.csv",
    "submit pack RUN --partial --out out.zip",
    "submit check out.zip",
    "leaderboard out.zip",
)
TESTED = {
    "run.json": ("leaderboard RUN GOOD", "show RUN", "grade RUN --full"),
    "report.json": ("show RUN",),
    "results.json": ("validate RUN",),
}
"""What each field is tried on alone; all of them together are tried on every command."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a right and a wrong item, over a generated set, and the set."""
    place = tmp_path_factory.mktemp("hostile")
    run = ("run", "--version", "v1", "--types", "task1,task2", "--agent", "nop", "--quiet", "--results-dir", place)
    assert medagent(*run).code == 0
    return place / "v1_r1_nop"


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, "run")
    shutil.copytree(finished, "good")
    return Path("run")


def texts(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """The place of each text in a JSON value."""
    if isinstance(value, str):
        yield steps
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from texts(inner, (*steps, name))


def spoil(value: Any, steps: Steps) -> None:
    *outer, last = steps
    for step in outer:
        value = value[step]
    value[last] = HOSTILE


def carried_out(command: str) -> Ran:
    return medagent(*(word.replace("RUN", "run").replace("GOOD", "good") for word in command.split()))


def check(ran: Ran, command: str, about: object) -> None:
    """Whatever the command says, it says it without control characters, on lines of its own."""
    where = (command, about, ran.out[:1500], ran.err[:1500])
    for text in (ran.out, ran.err):
        assert not set(text) & {"\x1b", "\x9b", "\r", "\u2028", "\u202e"}, where
        assert not [line for line in text.split("\n") if line.startswith(("| 1 | row", "medagent: | 1"))], where
    if command in MARKDOWN:
        assert "<script" not in ran.out, where
        assert "row |" not in ran.out.replace("\\|", ""), where
        assert "[a](" not in ran.out, where
        assert "**e**" not in ran.out, where


@pytest.mark.parametrize("name", TESTED)
def test_each_text_of_a_file_alone(run: Path, name: str) -> None:
    document = json.loads((run / name).read_text())
    places = list(texts(document))
    if name == "results.json":
        places = [steps for steps in places if steps[:2] in (("results", 0), ("results", 15)) or len(steps) == 1]
    assert len(places) > 5
    for steps in places:
        changed = json.loads(json.dumps(document))
        spoil(changed, steps)
        (run / name).write_text(json.dumps(changed))
        for command in TESTED[name]:
            check(carried_out(command), command, steps)


NEEDED = {
    "benchmark",
    "version",
    "tasks-digest",
    "ehr-digest",
    "digest",
    "dataset",
    "agent",
    "writes",
    "api-base",
    "rules",
}
"""Texts by which the items are found. Without them the commands end earlier, which the test above tries."""


@pytest.mark.parametrize("keep", [NEEDED, {"benchmark"}])
def test_all_texts_together_through_every_command(run: Path, keep: set[str]) -> None:
    for name in ("run.json", "report.json", "items.jsonl"):
        file = run / name
        rows = [json.loads(line) for line in file.read_text().splitlines()] if name.endswith("l") else None
        document = rows or json.loads(file.read_text())
        for steps in list(texts(document)):
            if not keep & set(steps) and steps[-1] not in ("item", "format"):
                spoil(document, steps)
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows) if rows else json.dumps(document))
    for command in COMMANDS:
        check(carried_out(command), command, "all")


def test_the_texts_of_a_journal(run: Path) -> None:
    """Statuses, errors, models, roles and messages, with checksums that fit."""
    journal = run / "episodes.jsonl"
    lines = []
    for line in journal.read_text().splitlines():
        row = json.loads(line)
        for steps in list(texts(row)):
            if steps[-1] not in ("unit", "task_id", "started", "timestamp", "crc32"):
                spoil(row, steps)
        lines.append(checked_line(json.dumps(row, separators=(",", ":"))))
    journal.write_text("".join(f"{line}\n" for line in lines))
    for command in COMMANDS:
        check(carried_out(command), command, "journal")


def test_each_text_of_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "set"
    shutil.copytree(BUNDLED, folder)
    manifest = folder / "dataset.json"
    document = json.loads(manifest.read_text())
    commands: list[tuple[object, ...]] = [
        ("data", "check", folder),
        ("run", "--dataset", folder, "--version", "v1", "--agent", "nop", "--limit", 1, "--overwrite"),
    ]
    for steps in texts(document):
        changed = json.loads(json.dumps(document))
        spoil(changed, steps)
        manifest.write_text(json.dumps(changed))
        for words in commands if len(steps) == 1 else commands[:1]:
            check(medagent(*words), " ".join(map(str, words)), steps)


@pytest.mark.parametrize(
    ("shown", "text", "expected"),
    [
        (one_line, "a\nb\tc\x1b[1m\x7f\x85\u2029", "a␊b c␛[1m␡\ufffd\ufffd"),
        (markdown_text, "a|b\\|[c](d)<e>`f`\n*g*", "a\\|b\\\\\\|[c\\](d)&lt;e>'f' \\*g\\*"),
        (markdown_line, "# a", "\\# a"),
        (markdown_line, "12. a", "12\\. a"),
        (json_text, '"\x9b\u2028\x7fä"', '"\\u009b\\u2028\\u007fä"'),
    ],
)
def test_each_way_to_show_a_text(shown: Callable[[str], str], text: str, expected: str) -> None:
    assert shown(text) == expected


OWN_WORDS = {
    "cli/_compare.py": 1,  # Markdown, whose texts are escaped
    "cli/_leaderboard.py": 1,
    "cli/_data.py": 1,  # JSON in ASCII
    "terminal/counter.py": 2,  # numbers
    "cli/app.py": 4,
    "reports/end.py": 1,
    "reports/tables.py": 3,
    "reports/show.py": 2,
    "benchmarks/imapscore/_view.py": 1,
    "terminal/groups.py": 1,
    "terminal/signals.py": 3,
}
"""By module: the calls that print numbers, or texts that were made printable before."""


def prints(path: Path) -> Iterator[int]:
    """The lines of a module that print without `put`, `say`, `put_json` or `printable`; JSON in ASCII is allowed."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "typer.echo", "console.print"):
            shown = ast.unparse(node)
            if not any(word in shown for word in ("printable(", "one_line(", "json.dumps(", "json_text(", "document(")):
                yield node.lineno


def test_commands_print_through_these_functions() -> None:
    """So a text of a file cannot reach a terminal in another way. What is left prints words of medagent's own."""
    raw = {}
    for folder in ("cli", "reports", "benchmarks", "terminal", "judging"):
        for path in (ROOT / "medagent" / folder).rglob("*.py"):
            if lines := list(prints(path)):
                raw[str(path.relative_to(ROOT / "medagent"))] = len(lines)
    assert raw == OWN_WORDS
