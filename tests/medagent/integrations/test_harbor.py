"""`medagent export harbor`, and what its containers run, without Harbor and without a container."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import runpy
import shlex
import shutil
import socket
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from fhir_server.app import create_app
from fhir_server.processes.http import serving
from medagent.benchmarks.medagentbench.tasks.dataset import constants_of, load_dataset
from medagent.core.errors import UserError
from medagent.core.paths import data_dir
from medagent.integrations.harbor import server as harbor_server
from medagent.integrations.harbor.server import OneEpisode
from medagent.integrations.harbor.tasks import content_digest
from tests.command import medagent
from tests.medagent.benchmarks.custom.test_changes import Ward
from tests.medagent.benchmarks.medagentbench.generator.made import small

DATASET = "fresh"
FILES = {
    "task.toml",
    "README.md",
    "instruction.md",
    "environment/Dockerfile",
    "environment/medagent-0.1.0-py3-none-any.whl",
    "environment/change.json",
    "environment/patients.ndjson.gz",
    "solution/acts.json",
    "solution/solve.py",
    "solution/solve.sh",
    "tests/dataset.json",
    "tests/reads.jsonl",
    "tests/tasks.jsonl",
    "tests/test.sh",
}
HOST = "localhost:8080"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data set `fresh`, other constants than the published ones, and `tasks`, one of each type."""
    folder = tmp_path_factory.mktemp("harbor")
    (folder / DATASET).mkdir()
    small(folder / DATASET)
    ran = medagent("export", "harbor", folder / "tasks", "--dataset", folder / DATASET, "--per-type", "1")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{folder / 'tasks'}: 10 tasks. Run them: harbor run -p {folder / 'tasks'} -a oracle\n"
    return folder


def folders(home: Path) -> list[Path]:
    return sorted(path for path in (home / "tasks").iterdir() if path.is_dir())


@contextmanager
def answering(task: Path, log: Path) -> Iterator[str]:
    """The server of a task's container, on another port, over the patients of its environment as they were packed."""
    config = tomllib.loads((task / "task.toml").read_text())
    words = config["environment"]["healthcheck"]["command"].split()
    now = datetime.fromisoformat(words[words.index("--now") + 1])
    change = Path(words[words.index("--change") + 1])
    episode = OneEpisode(
        task.parents[1] / DATASET / "hospital.ndjson",
        now,
        log,
        task / "environment" / change.relative_to("/opt/medagent"),
        all_writes="--all-writes" in words,
    )
    with (
        closing(episode),
        socket.create_server(("127.0.0.1", 0)) as listener,
        serving(create_app(episode), listener),
    ):
        yield f"localhost:{listener.getsockname()[1]}"


def verified(task: Path, log: Path, out: Path) -> float:
    """The reward that test.sh's command gives."""
    command = (task / "tests" / "test.sh").read_text().splitlines()[-1]
    words = shlex.split(command.replace('"$(dirname "$0")"', shlex.quote(str(task / "tests"))))
    assert words[:4] == ["exec", "/opt/medagent/venv/bin/medagent", "harbor", "verify"]
    assert words[-2:] == ["/var/lib/medagent/episode.jsonl", "/logs/verifier"]
    out.mkdir()
    ran = medagent(*words[2:-2], log, out)
    assert ran.code == 0, ran.err
    reward = json.loads((out / "reward.json").read_text())
    assert list(reward) == ["reward"]
    assert ran.out.startswith(f"{task.name}: {'right' if reward['reward'] else 'wrong'}: ")
    return float(reward["reward"])


def test_a_task_has_its_files_and_says_what_the_data_set_fixes(home: Path) -> None:
    assert {folder.name.partition("_")[0] for folder in folders(home)} == {f"task{n}" for n in range(1, 11)}
    dataset = load_dataset(str(home / DATASET), "v2")
    for folder in folders(home):
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == FILES
        config = tomllib.loads((folder / "task.toml").read_text())
        assert config["metadata"]["tasks_sha256"] == dataset.digest
        assert constants_of(dataset).now_text in config["environment"]["healthcheck"]["command"]
        assert (config["agent"]["user"], config["verifier"]["environment_mode"]) == ("agent", "separate")
        task = next(candidate for candidate in dataset.tasks if candidate.id == folder.name)
        instruction = (folder / "instruction.md").read_text()
        assert instruction.endswith(f"Context: {task.context}\n\nQuestion: {task.text}\n")
        assert dataset.manifest is not None
        assert instruction.startswith(f"<!-- canary: {dataset.manifest.canary} -->\n\n")


def test_the_set_names_its_tasks_by_their_content(home: Path) -> None:
    manifest = tomllib.loads((home / "tasks" / "dataset.toml").read_text())
    assert manifest["dataset"]["name"].startswith("medagentbench/")
    assert manifest["dataset"]["description"]
    names = [tomllib.loads((folder / "task.toml").read_text())["task"]["name"] for folder in folders(home)]
    assert sorted(task["name"] for task in manifest["tasks"]) == sorted(names)
    digests = {task["digest"] for task in manifest["tasks"]}
    assert digests == {f"sha256:{content_digest(folder)}" for folder in folders(home)}
    assert len(digests) == 10
    pages = [home / "tasks" / "README.md", *(folder / "README.md" for folder in folders(home))]
    assert not [page for page in pages if "{" in page.read_text()]


def test_facts_lie_in_tests_and_solution_alone_and_are_of_one_task(home: Path) -> None:
    dataset = load_dataset(str(home / DATASET), "v2")
    first = folders(home)[0] / "environment"
    with zipfile.ZipFile(first / "medagent-0.1.0-py3-none-any.whl") as wheel:
        names = wheel.namelist()
    assert "medagent/integrations/harbor/verify.py" in names
    assert not [name for name in names if "medagentbench/tasks/data/" in name or "__pycache__" in name]
    patients = gzip.decompress((first / "patients.ndjson.gz").read_bytes())
    assert patients == (home / DATASET / "hospital.ndjson").read_bytes()
    others = {
        task.id: task.fields.get("sol")[0] for task in dataset.tasks if task.type == "task1" and task.fields.get("sol")
    }
    for folder in folders(home):
        assert (folder / "environment" / "Dockerfile").read_bytes() == (first / "Dockerfile").read_bytes()
        open_to_agents = "".join((folder / name).read_text() for name in ("instruction.md", "task.toml"))
        assert not [sol for name, sol in others.items() if name == folder.name and sol in open_to_agents]
        reads = (folder / "tests" / "reads.jsonl").read_text()
        mrn = json.loads((folder / "tests" / "tasks.jsonl").read_text()).get("patient")
        patients_read = set(re.findall(r"(?:identifier|patient)=([^&\"]+)", reads))
        assert patients_read <= {mrn}


def solved(task: Path, solution: Path, aside: Path) -> float:
    """The reward of a task for the actions of a solution."""
    log = aside / "episode.jsonl"
    aside.mkdir()
    with answering(task, log) as host:
        assert verified(task, log, aside / "nop") == 0.0
        for name in ("acts.json", "solve.py"):
            text = (solution / name).read_text("utf-8")
            (aside / name).write_text(text.replace(HOST, host), "utf-8")
        runpy.run_path(str(aside / "solve.py"), run_name="__main__")
    log.write_text(log.read_text("utf-8").replace(host, HOST), "utf-8")
    return verified(task, log, aside / "verified")


def test_the_solution_has_1_and_nothing_has_0(home: Path, tmp_path: Path) -> None:
    for folder in folders(home):
        assert solved(folder, folder / "solution", tmp_path / folder.name) == 1.0
        kept = json.loads((tmp_path / folder.name / "verified" / "verdict.json").read_text())
        assert (kept["correct"], kept["reason"]) == (True, "all checks passed")


@pytest.mark.long
def test_twins_have_their_own_charts_and_no_reply_is_right_on_both(home: Path, tmp_path: Path) -> None:
    few, twins = tmp_path / "few", tmp_path / DATASET
    with_tasks(home, few, lambda tasks: [task for task in tasks if task["id"].startswith("task5_")][:4])
    assert medagent("data", "twins", few, "--out", twins).code == 0
    tasks = {task["id"]: task for task in map(json.loads, (twins / "tasks.jsonl").read_text("utf-8").splitlines())}
    chosen = next(iter(tasks.values()))
    ran = medagent("export", "harbor", tmp_path / "tasks", "--dataset", twins, "--ids", chosen["id"])
    assert ran.code == 0, ran.err
    both = folders(tmp_path)
    assert {tasks[folder.name]["twin"] for folder in both} == {chosen["twin"]}
    assert len(both) == 2
    for folder, twin in (both, reversed(both)):
        change = json.loads((folder / "environment" / "change.json").read_text("utf-8"))
        assert change["change"] == tasks[folder.name].get("change", [])
        assert solved(folder, folder / "solution", tmp_path / f"own-{folder.name}") == 1.0
        assert solved(folder, twin / "solution", tmp_path / f"other-{folder.name}") == 0.0


def test_what_is_not_an_episodes_is_refused_and_the_end_is_one(home: Path, tmp_path: Path) -> None:
    folder, log = folders(home)[0], tmp_path / "log.jsonl"
    with answering(folder, log) as host, httpx.Client(base_url=f"http://{host}") as client:
        assert client.put("/fhir/Patient/a", json={"resourceType": "Patient", "id": "a"}).status_code == 405
        assert [client.get(path).status_code for path in ("/", "/episodes", "/finish")] == [404, 404, 405]
        for wrong in ("", "answer", '{"a": 1}', '"S1"', "[" * 100_000, b"\xff"):
            refused = client.post("/finish", content=wrong)
            assert refused.status_code == 400
            assert "a JSON list" in refused.text
        assert log.read_text() == ""
        found = client.get("/fhir/Patient?_count=1").json()
        assert found["link"][0]["url"].startswith(f"http://{host}/fhir/Patient?")
        assert client.post("/finish", content='["a", 1.50]').json() == {"finished": True}
        assert client.get("/fhir/Patient?_count=1").status_code == 410
        assert client.post("/finish", content="[]").status_code == 410
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("answers") for line in lines] == [None, '["a", 1.50]']
    assert lines[0]["exchange"]["target"] == "/Patient?_count=1"


def test_a_log_that_cannot_be_read_gives_no_reward(home: Path, tmp_path: Path) -> None:
    tests, log = folders(home)[0] / "tests", tmp_path / "log.jsonl"
    for text, said in (
        (None, ": cannot be read: No such file or directory"),
        ("nonsense\n{}\n", ":1: is not JSON"),
        ('{"answers": 1}\n', ":1: answers: is not a text"),
    ):
        if text is not None:
            log.write_text(text)
        ran = medagent("harbor", "verify", tests, log, tmp_path)
        assert (ran.code, ran.out) == (1, "")
        assert f"{log}{said}" in ran.err
        assert not (tmp_path / "reward.json").exists()
    log.write_text('{"answers": "[]"')  # the container was stopped in the middle of a line
    assert "wrong: completed: expected an answer, got" in medagent("harbor", "verify", tests, log, tmp_path).out


def test_a_log_is_never_begun_anew(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("kept")
    with pytest.raises(UserError, match="cannot be made: File exists"), answering(folders(home)[0], log):
        pass
    assert log.read_text() == "kept"


def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    monkeypatch.setattr(harbor_server, "BASE", f"http://localhost:{free}/fhir")
    words = (tmp_path / "none.gz", tmp_path / "log", "--now", "2023-11-13T10:15:00+00:00")
    ran = medagent("harbor", "start", *words)
    assert ran.code == 1
    assert (
        ran.err == f"medagent: the server has ended: medagent: {words[0]}: cannot be read: No such file or directory\n"
    )
    assert "the server cannot be started" in medagent("harbor", "start", *words, "--user", "nobody-of-this-name").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--types", "task11"], "unknown task type task11"),
        (["--dataset", "nowhere"], "unknown data set 'nowhere'"),
        (["--version", "v3"], "unknown version 'v3'"),
        (["--ids", "task1_1,task1_999"], "unknown task id task1_999"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(tmp_path: Path, words: list[str], said: str) -> None:
    ran = medagent("export", "harbor", tmp_path / "out", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert said in ran.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    ran = medagent("export", "harbor", tmp_path, "--limit", "1")
    assert (ran.code, ran.err) == (1, f"medagent: {tmp_path}: the folder is not empty; name a new one\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    file = medagent("export", "harbor", tmp_path / "mine", "--limit", "1")
    assert (file.code, file.err.count("\n")) == (1, 1)


def test_the_published_tasks_have_no_patients_to_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    official = data_dir() / "official"
    official.mkdir(parents=True)
    tasks = [task.published for task in load_dataset("synthetic", "v2").tasks]
    (official / "test_data_v2.json").write_text(json.dumps(tasks), "utf-8")
    ran = medagent("export", "harbor", tmp_path / "out", "--dataset", "official")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "data set 'official' does not contain its patients" in ran.err


def test_a_task_that_the_reference_agent_gets_wrong_is_named_and_has_no_solution(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reworded"

    def reworded(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**task, "text": "Who is it?"} if task["id"] == "task1_1" else task for task in tasks]

    with_tasks(home, folder, reworded)
    ran = medagent("export", "harbor", tmp_path / "out", "--dataset", folder, "--ids", "task1_1,task2_1")
    assert ran.out.startswith("without solution/, because the reference agent fails: task1_1\n")
    assert [(tmp_path / "out" / name / "solution").exists() for name in ("task1_1", "task2_1")] == [False, True]


def with_tasks(home: Path, folder: Path, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """The data set `fresh` with other tasks, in another folder."""
    shutil.copytree(home / DATASET, folder)
    tasks, manifest = folder / "tasks.jsonl", folder / "dataset.json"
    edited = edit([json.loads(line) for line in tasks.read_text("utf-8").splitlines()])
    tasks.write_text("".join(f"{json.dumps(task)}\n" for task in edited), "utf-8")
    changed = json.loads(manifest.read_bytes())
    changed["files"][tasks.name] = hashlib.sha256(tasks.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(changed), "utf-8")


def test_what_cannot_be_finished_leaves_the_folder_empty(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr("medagent.integrations.harbor.tasks.write_wheel", full)
    words = ("--dataset", home / DATASET, "--limit", "1")
    ran = medagent("export", "harbor", tmp_path / "out", *words)
    assert (ran.code, ran.err) == (1, f"medagent: {tmp_path}: cannot be written: No space left on device\n")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    """Types that demand changes of the chart, and the data set `fresh` of them."""
    ward = Ward(tmp_path)
    words = ("--from", ward.code, "--ehr", ward.patients, "--per-type", 4)
    ran = medagent("data", "new", tmp_path / DATASET, *words)
    assert ran.code == 0, ran.err
    return ward


def test_tasks_that_demand_changes_need_a_record_that_can_be_changed(ward: Ward, tmp_path: Path) -> None:
    ran = medagent("export", "harbor", ward.code, tmp_path / "tasks", "--dataset", tmp_path / DATASET)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "medagent: 6 of 8 items are graded by how the chart has changed (4 hold, 2 hold_at_least), so agents must be "
        "able to change it: pass --writes execute\n"
    )
    assert not (tmp_path / "tasks").exists()


def test_changes_of_the_chart_are_carried_out_and_graded(ward: Ward, tmp_path: Path) -> None:
    words = ("--dataset", tmp_path / DATASET, "--writes", "execute")
    ran = medagent("export", "harbor", ward.code, tmp_path / "tasks", *words)
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    changing = 0
    for folder in folders(tmp_path):
        instruction = (folder / "instruction.md").read_text()
        assert "nothing else is carried out" not in instruction
        assert "delete (DELETE)" in instruction
        methods = {act.partition(" ")[0] for act in json.loads((folder / "solution" / "acts.json").read_text())}
        changing += {"PATCH", "DELETE"} <= methods
        assert solved(folder, folder / "solution", tmp_path / folder.name) == 1.0
    assert changing == 4


def test_a_change_too_many_is_wrong(ward: Ward, tmp_path: Path) -> None:
    words = ("--dataset", tmp_path / DATASET, "--writes", "execute", "--ids", "hold_1")
    ran = medagent("export", "harbor", ward.code, tmp_path / "the tasks", *words)
    assert shlex.split(ran.out.strip().partition("Run them: ")[2]) == [
        *("harbor", "run", "-p", str(tmp_path / "the tasks"), "-a", "oracle")
    ]
    [folder] = (tmp_path / "the tasks").glob("*/")
    log = tmp_path / "log.jsonl"
    with answering(folder, log) as host, httpx.Client(base_url=f"http://{host}/fhir") as client:
        assert client.delete("/Observation/o3").status_code == 200
        answers = next(act for act in json.loads((folder / "solution" / "acts.json").read_text()) if "FINISH" in act)
        client.post(f"http://{host}/finish", content=answers[len("FINISH(") : -1])
    assert verified(folder, log, tmp_path / "out") == 0.0
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert "Observation o3: deleted" in str(verdict["checks"])
