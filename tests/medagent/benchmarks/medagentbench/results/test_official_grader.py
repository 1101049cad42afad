"""`medagent grade --official FILE.py`: a copy of the official grader, stood in for by files with its interface."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

import medagent
from medagent.benchmarks.medagentbench.results.official_grader import (
    OfficialData,
    OfficialVerdict,
    official_verdicts,
    without_network,
)
from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from medagent.core.errors import UserError
from medagent.fhir_data.embedded import imported_file
from medagent.reports.end import print_findings
from refsol.medagentbench import PUBLISHED, ResultItem
from tests.command import medagent as command
from tests.medagent.benchmarks.medagentbench.results.test_commands import results_file
from tests.shared_data import DATA, read_xz

STAND_IN = """
from .utils import *
from refsol.medagentbench import SearchEhr, grade_item

def ask(url):
    answer = send_get_request(url)
    return answer["status_code"], answer["data"].encode()

record = SearchEhr("http://localhost:8080/fhir/", ask)  # asks for each reading once

def judge(task, results, base):
    history = [{"role": one.role, "content": one.content} for one in results.history]
    return grade_item(task, results.result, history, record, base=base).correct

task1 = task2 = task3 = task4 = task5 = task6 = task7 = task8 = task9 = task10 = judge
"""
ALL = " = ".join(f"task{number}" for number in range(1, 11))


def written(folder: Path, text: str) -> Path:
    path = folder / "refsol.py"
    path.write_text(text, encoding="utf-8")
    return path


def item(task_id: str, answer: object, history: object = ()) -> ResultItem:
    return ResultItem.model_validate(
        {
            "task_id": task_id,
            "answer": answer,
            "expected_sol": None,
            "eval_MRN": None,
            "timestamp": "",
            "post_history": list(history),
            "post_count": 0,
        }
    )


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> OfficialData:
    path = tmp_path_factory.mktemp("official") / "ehr.ndjson"
    path.write_text(read_xz(DATA / "medagentbench" / "ehr.ndjson.xz"), encoding="utf-8")
    return OfficialData(imported_file(path).path)


def said(folder: Path, text: str, patients: OfficialData, *answers: object) -> list[OfficialVerdict]:
    """What a file says of items of task2."""
    items = [({"id": "task2_1", "eval_MRN": "S1"}, item("task2_1", answer)) for answer in answers]
    return official_verdicts(written(folder, text), items, patients, PUBLISHED.base, patience_s=0.3)


def test_all_vectors_have_their_verdict_over_the_embedded_server(tmp_path: Path, patients: OfficialData) -> None:
    tasks = {task["id"]: task for task in json.loads(read_xz(DATA / "medagentbench" / "tasks.json.xz"))}
    cases = [json.loads(line) for line in read_xz(DATA / "medagentbench" / "cases.jsonl.xz").splitlines()]
    items = [(tasks[case["task_id"]], item(case["task_id"], case["answer"], case["post_history"])) for case in cases]
    verdicts = official_verdicts(written(tmp_path, STAND_IN), items, patients, PUBLISHED.base)
    assert len(verdicts) == 4000
    assert [
        case["case"] for case, verdict in zip(cases, verdicts, strict=True) if verdict.right is not case["verdict"]
    ] == []


BEHAVIOUR = """
import os, sys, time, utils
from src.server.tasks.medagentbench.utils import send_get_request
assert utils.send_get_request is send_get_request
print("{")

def judge(task, results, base):
    print("loud", flush=True)
    os.write(1, b"x")
    sys.stderr.write("y")
    if results.result == "hang":
        time.sleep(60)
    if results.result == "end":
        os._exit(3)
    if results.result.startswith("http"):
        return send_get_request(results.result)["status_code"] == 200
    return eval(results.result)
"""


def test_only_true_is_right_what_it_raises_is_wrong_and_what_it_prints_is_nothing(
    tmp_path: Path, patients: OfficialData
) -> None:
    urls = f"{PUBLISHED.base}Patient?_count=1&_format=json", f"{PUBLISHED.base}Nothing", "http://other/fhir/Patient"
    verdicts = said(tmp_path, f"{BEHAVIOUR}{ALL} = judge", patients, "True", "1", "None", "1 / 0", None, *urls)
    assert [verdict.right for verdict in verdicts] == [True, False, False, False, False, True, False, False]
    assert [verdict.reason for verdict in verdicts if verdict.reason] == [
        "raised ZeroDivisionError: division by zero",
        "no answer",
        "raised OSError: http://other/fhir/Patient: does not begin with the FHIR base http://localhost:8080/fhir/",
    ]


def test_what_never_returns_or_ends_the_process_has_no_verdict(tmp_path: Path, patients: OfficialData) -> None:
    verdicts = said(tmp_path, f"{BEHAVIOUR}{ALL} = judge", patients, "end", "hang", "True", "hang", "True")
    assert [(verdict.right, verdict.reason) for verdict in verdicts] == [
        (None, "ended its process"),
        (None, "did not return in 0.3 s"),
        (True, ""),
        (None, "did not return in 0.3 s"),
        (None, "not graded, because 2 earlier items did not return"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise SystemExit('no')", "cannot be loaded: SystemExit: no"),
        ("def task1(*_): pass", "does not contain the function task2; is it the official refsol.py?"),
    ],
)
def test_a_file_that_is_no_grader(tmp_path: Path, patients: OfficialData, text: str, problem: str) -> None:
    with pytest.raises(UserError, match=r"refsol\.py: ") as caught:
        said(tmp_path, text, patients, "[]")
    assert problem in str(caught.value)


def test_both_verdicts_stand_in_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = results_file(tmp_path, {"task1_1": {"answer": None}})
    grader = written(tmp_path, f"{ALL} = lambda task, results, base: task['id'] != 'task2_3'")
    report = medagent.grade(results, official=grader)
    right = report.overall.counts["right"] if report.overall else 0
    document = report.details["official_grader"]
    assert (document["right"], document["wrong"], len(document["items"])) == (98, 2, 100)
    assert 0 < right < 98
    print_findings(report, full=True)
    out = capsys.readouterr().out
    rows = [line.split() for line in out.partition("Compared with refsol.py")[2].splitlines()]
    assert ["all", str(right), "98", "0", str(len(document["differing"])), "100"] in rows
    assert f"Different verdicts by refsol.py: {document['differing'][0]}, " in out


def test_what_the_command_cannot_ask(tmp_path: Path) -> None:
    results = results_file(tmp_path)
    refused = command("grade", results, "--official", tmp_path / "none.py")
    assert (refused.code, refused.out) == (1, "")
    assert "none.py: no such file; --official must name your copy of the official refsol.py" in refused.err
    key = load_dataset("synthetic", "v1").reads
    unasked = command("grade", results, "--official", written(tmp_path, ""), "--key", key)
    assert "--official needs patients, not an answer key" in unasked.err


REACHING = """
import os, socket
def reach(task, results, base):
    with socket.create_connection(("127.0.0.1", {port}), timeout=5):
        return True
def variables(task, results, base):
    raise ValueError(",".join(sorted(os.environ)))
task1, task2 = variables, reach
"""


def test_the_file_sees_no_variable_that_could_hold_a_key(
    tmp_path: Path, patients: OfficialData, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "MEDAGENT_FHIR_TOKEN", "MY_OWN", "PYTHONPATH_X", "XPATH"):
        monkeypatch.setenv(name, "secret")
    file = written(tmp_path, REACHING.format(port=9))
    asked = [({"id": "task1_1", "eval_MRN": "S1"}, item("task1_1", "[1]"))]
    [verdict] = official_verdicts(file, asked, patients, PUBLISHED.base)
    names = set(verdict.reason.removeprefix("raised ValueError: ").split(","))
    assert names <= {"PATH", "HOME", "LANG", "LC_CTYPE", "PWD"} | {
        variable for variable in names if variable.startswith("PYTHON")
    }
    assert "PYTHONPATH_X" in names


def test_the_file_reaches_no_network_where_bubblewrap_works(tmp_path: Path, patients: OfficialData) -> None:
    if not without_network():
        pytest.skip("bubblewrap (bwrap) is not installed, or may not make namespaces here")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        file = written(tmp_path, REACHING.format(port=listening.getsockname()[1]))
        asked = [({"id": "task2_1", "eval_MRN": "S1"}, item("task2_1", "[1]"))]
        [inside] = official_verdicts(file, asked, patients, PUBLISHED.base)
        assert inside.reason.startswith("raised ConnectionRefusedError")
        elsewhere = OfficialData(url="http://127.0.0.1:9/fhir")  # it has to be asked
        assert official_verdicts(file, asked, elsewhere, PUBLISHED.base) == [OfficialVerdict(True)]


def test_a_bubblewrap_that_does_not_work_is_left_out(
    tmp_path: Path, patients: OfficialData, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert without_network() == ()
    assert said(tmp_path, "task2 = lambda task, results, base: True", patients, "[1]") == [OfficialVerdict(True)]
