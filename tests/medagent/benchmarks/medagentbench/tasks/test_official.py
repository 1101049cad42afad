"""The import of a checkout: the published files, and texts found by their shape in a made-up runner."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from medagent.benchmarks.medagentbench.tasks.official import FILES, SOURCE, import_official, read_texts
from medagent.core.errors import UserError
from medagent.fhir_episodes.protocol import load_protocol
from tests.command import medagent
from tests.shared_data import DATA, SHARED, need, read_xz

# Made-up words in the published runner's shape; the assert must never run.
RUNNER = '''
"""A runner."""
import json
from a_package_that_is_not_here import Task

HINT = "Not the prompt: {context} {question}"
WORDS = """Functions under {api_base}: {functions}
Keep braces: {{"a": 1}}. {context}
{question}"""
assert False, "executed"


class Bench(Task):
    async def start(self, index, session):
        session.inject({"role": "user", "content": WORDS.format(api_base=self.base, functions=json.dumps(self.funcs))})
        for _ in range(8):
            message = (await session.action()).content
            if message.startswith("GET"):
                got = fetch(message[3:].strip() + "&_format=json")
                if "data" in got:
                    session.inject({"role": "user", "content": f"It says {{so}}:\\n{got['data']}. Go on."})
                else:
                    session.inject({"role": "user", "content": f"It broke: {got['error']}"})
            else:
                try:
                    json.loads("")
                except Exception as e:
                    session.inject({"role": "user", "content": "Bad POST"})
                else:
                    session.inject({"role": "user", "content": "POST request accepted. Go on."})
'''


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    folder = tmp_path / "checkout"
    data = folder / "data" / "medagentbench"
    data.mkdir(parents=True)
    for name in FILES:
        shutil.copy(need(SHARED / "medagentbench" / "official" / name), data / name)
    (folder / SOURCE).parent.mkdir(parents=True)
    (folder / SOURCE).write_text(RUNNER, encoding="utf-8")
    return folder


def test_the_imported_data_set_is_the_published_one(checkout: Path) -> None:
    folder = import_official(checkout)
    dataset = load_dataset("official", "v2")
    assert dataset.digest == FILES["test_data_v2.json"]
    assert len(dataset.tasks) == 300
    assert hashlib.sha256((folder / "functions.json").read_bytes()).hexdigest() == FILES["funcs_v1.json"]


def test_a_run_sends_the_official_words_and_needs_the_official_patients(checkout: Path, tmp_path: Path) -> None:
    import_official(checkout)
    words = ("run", "--dataset", "official", "--agent", "reference", "--results-dir", tmp_path / "results")
    ran = medagent(*words)
    assert (ran.code, ran.out) == (1, "")
    assert "name their FHIR server with --fhir, or a file of them" in ran.err
    ehr = tmp_path / "rebuilt.ndjson"
    ehr.write_text(read_xz(DATA / "medagentbench" / "rebuilt_ehr.ndjson.xz"), encoding="utf-8")
    ran = medagent(*words, "--ehr", ehr, "--json")
    assert (ran.code, json.loads(ran.out)["grades"][0]["overall"]["right"]) == (0, 300), ran.err
    with (tmp_path / "results" / "v2_r1_reference" / "episodes.jsonl").open(encoding="utf-8") as rows:
        row = next(row for row in map(json.loads, rows) if row["task_id"] == "task7_1")
    prompt, get, got, _ = (turn["content"] for turn in row["transcript"])
    assert prompt.startswith("Functions under http://localhost:8080/fhir/: [{")
    assert get.startswith("GET http://localhost:8080/fhir/Observation?")
    assert got.startswith('It says {so}:\n{\n  "resourceType": "Bundle"')
    assert got.endswith("}. Go on.")


def test_the_protocol_sends_what_the_runner_sends(checkout: Path) -> None:
    folder = import_official(checkout)
    protocol = load_protocol("text", file=folder / "protocol.toml", functions=folder / "functions.json")
    listed = json.dumps(json.loads((folder / "functions.json").read_text(encoding="utf-8")))
    assert protocol.first_message("http://x/", "C {question}", "Q") == (
        f'Functions under http://x/: {listed}\nKeep braces: {{"a": 1}}. C {{question}}\nQ'
    )
    assert protocol.get_reply == "It says {so}:\n{body}. Go on."
    assert protocol.get_error == "It broke: {error}"
    assert protocol.http_error == "{status} {kind} Error: {reason} for url: {url}"
    assert protocol.post_accepted == "POST request accepted. Go on."
    assert protocol.post_invalid == "Bad POST"
    assert protocol.format_parameter == "append"


@pytest.mark.parametrize("name", [*(f"data/medagentbench/{name}" for name in FILES), SOURCE])
def test_a_missing_file_is_named(checkout: Path, name: str) -> None:
    (checkout / name).unlink()
    with pytest.raises(UserError, match=r"cannot be read: No such file.*checkout of the official repository") as caught:
        import_official(checkout)
    assert str(checkout / name) in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_named_and_nothing_is_written(checkout: Path, tmp_path: Path, name: str) -> None:
    path = checkout / "data" / "medagentbench" / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(UserError, match="SHA-256 differs") as caught:
        import_official(checkout)
    assert str(path) in str(caught.value)
    assert not (tmp_path / "home").exists()


def test_what_could_not_be_found_is_said() -> None:
    source = RUNNER.replace("It broke: {got['error']}", "It broke").replace("{api_base}", "{base}")
    with pytest.raises(UserError, match="contains no text of the expected shape for prompt, get_error"):
        read_texts(source, Path("x.py"))


def test_a_source_that_is_no_python_is_said() -> None:
    with pytest.raises(UserError, match=r"x\.py: is not valid Python"):
        read_texts("def (", Path("x.py"))


def test_the_first_message_is_the_published_runners_to_the_byte(checkout: Path) -> None:
    """The prompt's frame is taken from a recorded message; functions, context and question come from the files."""
    lines = need(SHARED / "medagentbench" / "transcripts.jsonl").read_text(encoding="utf-8").splitlines()
    episodes = [json.loads(line) for line in lines]
    official = SHARED / "medagentbench" / "official"
    tasks = {task["id"]: task for task in json.loads((official / "test_data_v2.json").read_text(encoding="utf-8"))}
    shown = next(episode for episode in episodes if tasks[episode["task_id"]]["context"])
    task = tasks[shown["task_id"]]
    frame = (
        shown["messages"][0]["content"].replace(task["instruction"], "{question}").replace(task["context"], "{context}")
    )
    head, _, rest = frame.partition("http://localhost:8080/fhir/")
    between, _, tail = rest.partition("[{")
    prompt = head + "{api_base}" + between + "{functions}" + tail[tail.rindex("}]") + 2 :]
    start, end = RUNNER.index('WORDS = """'), RUNNER.index('"""\nassert')
    source = RUNNER[:start] + f'WORDS = """{prompt}' + RUNNER[end:]
    (checkout / SOURCE).write_text(source, encoding="utf-8")
    folder = import_official(checkout)
    protocol = load_protocol("text", file=folder / "protocol.toml", functions=folder / "functions.json")
    for episode in episodes:
        task = tasks[episode["task_id"]]
        message = protocol.first_message("http://localhost:8080/fhir/", task["context"], task["instruction"])
        assert message == episode["messages"][0]["content"]
