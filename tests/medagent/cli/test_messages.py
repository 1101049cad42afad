"""What a person reads after a mistake: one line, what is wrong and what to write, without a library's words."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from medagent.core.errors import ModelError, StopRunError
from medagent.models import open_model
from medagent.models.base import Message
from medagent.models.settings import ModelSettings
from tests.command import medagent
from tests.loopback import ModelServer, status
from tests.shared_data import ROOT
from tools.messages import messages

AGENT = """
import medagent

def solve_it(task, prompt): ...

class Loose:
    pass

class Mine(medagent.Agent):
    def play(self, task, prompt):
        yield "GET http://localhost:8080/fhir/Patient?_count=1"
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad_agent.py").write_text(AGENT)
    Path("empty.py").write_text("x = 1\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("runn", "No such command 'runn'. Did you mean 'run'?"),
        ("submit chek x", "No such command 'chek'. Did you mean 'check'?"),
        ("run --limt 3", "No such option: --limt. Did you mean '--limit'?"),
        ("run simpleq", "unknown benchmark 'simpleq'; known: medagentbench, "),
        ("run simpleq", " Did you mean 'simpleqa'?"),
        ("run --agent referense", "unknown agent 'referense'; known: text, reference, nop, constant, replay; "),
        ("run --agent referense", " Did you mean 'reference'?"),
        ("run --agent nop --limit 0", "--limit: is below 1 (given: 0)"),
        ("run --agent nop --limit ten", "--limit ten: is not a whole number"),
        ("run --agent nop --temperature hot", "--temperature hot: is not a number"),
        ("run --agent nop --max-cost -1", "--max-cost: is not above 0 (given: -1.0)"),
        ("data new x --like big", "--like: 'big' is unknown; known: bundled, full, shift"),
        ("run --agent nop --protocol x", "--protocol x: 'x' is not one of 'text', 'tools', 'code'"),
        ("serve --port ten", "--port ten: is not a whole number"),
        ("serve --port 70000", "--port 70000: is above 65535"),
        (
            "run --agent bad_agent.py",
            "bad_agent.py: the class is missing; write --agent bad_agent.py:Mine (classes: Loose, Mine)",
        ),
        (
            "run --agent empty.py",
            "empty.py: does not define a class; add one: class MyAgent(medagent.Agent): with a method ",
        ),
        ("run --agent gone.py", "gone.py: no such file; pass a file and a class: --agent FILE.py:Name"),
        (
            "run --agent bad_agent.py:Loose",
            "is not a subclass of medagent.Agent; write: class Loose(",
        ),
        (
            "run --agent bad_agent.py:solve_it",
            "bad_agent.py:solve_it: is a function, not a class; write a class: class SolveIt(medagent.Agent): "
            "with a method `def play(self, task, prompt):` that yields messages",
        ),
        ("run --agent empty.py:x", "empty.py:x: is a value of type int, not a class; write a class: class X("),
        (
            "run --agent nop --fhir http://127.0.0.1:9/fhir",
            "FHIR server http://127.0.0.1:9/fhir does not answer: no server listens at that address; start the server, "
            "or correct the URL",
        ),
    ],
)
def test_a_mistake_is_one_line_in_plain_words(words: str, message: str) -> None:
    ran = medagent(*words.split())
    assert ran.code == 1
    assert message in ran.err
    assert ran.err.count("\n") == 1
    for sentence in ("Input should", "Value error", "Cannot connect", "Traceback", "connection attempts"):
        assert sentence not in ran.err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9/v1", "nothing listens on 127.0.0.1:9; start the server, or correct the base URL"),
    ],
)
def test_an_endpoint_that_is_down(url: str, words: str) -> None:
    async def ask() -> None:
        model = open_model(ModelSettings(name="m", base_urls=[url], max_retries=2), concurrency=1, price=None)
        try:
            await model.complete([Message("user", "Hello")])
        finally:
            await model.aclose()

    with pytest.raises(StopRunError) as raised:
        asyncio.run(ask())
    assert str(raised.value) == f"{url}: {words}"


def unknown_host(*_: Any, **__: Any) -> NoReturn:
    """A resolver that knows no name."""
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9/v1", "nothing listens on 127.0.0.1:9; start the server, or correct the base URL"),
        ("http://modelhost:8000/v1", "the host modelhost is not known; correct the base URL"),
    ],
)
def test_a_run_whose_endpoint_cannot_be_reached_ends_at_the_first_call(
    url: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", unknown_host)
    ran = medagent("run", "--model", "m", "--base-url", url, "--limit", "3", "--quiet")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith(f"medagent: {url}: {words}")
    assert "attempts" not in ran.err
    assert "Score" not in ran.out


def test_an_endpoint_that_has_answered_is_asked_again() -> None:
    async def ask() -> None:
        with ModelServer() as server:
            settings = ModelSettings(name="m", base_urls=[server.url], max_retries=1)
            model = open_model(settings, concurrency=1, price=None)
            await model.complete([Message("user", "Hello")])
        try:
            await model.complete([Message("user", "Hello")])
        finally:
            await model.aclose()

    with pytest.raises(ModelError, match=r"nothing listens on 127.* \(2 attempts\)"):
        asyncio.run(ask())


def test_a_base_url_without_its_version_is_named() -> None:
    with ModelServer(faults=[status(404, message="Not Found")]) as server:
        ran = medagent("run", "--model", "m", "--base-url", server.url.removesuffix("/v1"), "--limit", "1", "--quiet")
    assert "answered 404: Not Found (does the base URL end in /v1?)" in ran.err


def test_play_that_ends_without_finish_is_named() -> None:
    words = ("run", "--types", "task5", "--limit", "1", "--quiet", "--agent", "bad_agent.py:Mine")
    assert medagent(*words).code == 0
    shown = medagent("show", "results/v2_r1_Mine", "--wrong")
    assert "play ended without FINISH" in shown.out


def test_an_official_export_is_graded_without_naming_its_tasks() -> None:
    """Each of its files, and the folder."""
    run = ("run", "--agent", "reference", "--version", "v1", "--types", "task5", "--limit", "2", "--quiet")
    assert medagent(*run).code == 0
    assert medagent("export", "official", "results/v1_r1_reference", "official").code == 0
    for place in ("official", "official/runs.jsonl", "official/overall.json"):
        ran = medagent("grade", place)
        assert ran.code == 0, ran.err
        assert "Score 100.0% (2 of 2)" in ran.out


def test_the_errors_for_review_are_those_of_the_code() -> None:
    listed = list(messages())
    texts = [message.text for message in listed]
    assert "--agent replay needs a file, e.g. --agent replay results.json" in texts
    assert "pass at least two runs: medagent compare A B" in texts
    assert "only letters, digits, '.', '_' and '-' are allowed" in texts  # of a settings model
    for message in listed[:: len(listed) // 20]:
        path, _, line = message.place.partition(":")
        lines = (ROOT / path).read_text("utf-8").splitlines()
        assert f"{message.kind}(" in lines[int(line) - 1], message


STIFF = (
    "holds no",
    "has no use",
    "is no text",
    "is no JSON",
    "stands there",
    "cannot be told",
    "whatever",
    "lest ",
    "anew",
)


def test_no_error_has_a_phrase_that_the_style_rules_out() -> None:
    assert [str(message) for message in messages() if any(phrase in message.text for phrase in STIFF)] == []


def test_an_option_that_another_command_calls_so_is_named() -> None:
    ran = medagent("run", "--tasks", "t.json")
    assert ran.code == 1
    assert "No such option: --tasks. Did you mean --dataset FILE?" in ran.err
