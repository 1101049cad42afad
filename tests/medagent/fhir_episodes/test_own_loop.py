"""Agents that own their loop (`solve`): by tools, by text, over HTTP; what they spend; what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import medagent
from medagent.core.errors import UserError
from tests.command import medagent as command
from tests.loopback import ModelServer
from tests.shared_data import ROOT

BASE = "http://localhost:8080/fhir/"
REFERENCE: dict[str, list[str]] = {}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def actions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The reference agent's messages in ten items, one a type."""
    folder = tmp_path_factory.mktemp("reference")
    report = medagent.run_sync("medagentbench", agent="reference", version="v1", limit=10, results_dir=folder)
    rows = medagent.load_run(report.folder).rows()
    REFERENCE.update({row.task_id: [t.content for t in row.transcript if t.role == "agent"] for row in rows})
    return REFERENCE


def run(agent: type[medagent.Agent], **options: Any) -> medagent.Report:
    return medagent.run_sync("medagentbench", agent=agent, version="v1", **{"limit": 10, **options})


class ByText(medagent.Agent):
    """Acts by text, and returns the answer as a text."""

    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> str:
        assert task.instruction in prompt
        *acts, finish = REFERENCE[task.id]
        for action in acts:
            assert await env.act(action)
        return finish


class ByTools(medagent.Agent):
    """Calls tools side by side, ends by `finish`, counts its calls; what it returns then does not count."""

    reports_use = True

    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> str:
        from medagent.fhir_episodes.protocol import load_protocol
        from medagent.fhir_episodes.tools import Toolbox

        toolbox = Toolbox.of(load_protocol("tools"), BASE)
        names = {tool.name for tool in env.tools}
        for action in REFERENCE[task.id]:
            name, arguments = toolbox.call(action)
            assert name in names
            await asyncio.to_thread(env.call_blocking, name, **arguments)
            env.spend(prompt=100, completion=10, model="gpt-4o-mini")
        assert await env.call("get_patient", name="x") == "The episode has ended."
        return "no list"


class OverHttp(medagent.Agent):
    """Asks and orders over HTTP."""

    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
        async with httpx.AsyncClient(trust_env=False) as client:
            *acts, finish = REFERENCE[task.id]
            for action in acts:
                head, _, body = action.partition("\n")
                method, _, url = head.partition(" ")
                reply = await client.request(method, url.replace(BASE.rstrip("/"), env.http), content=body)
                assert reply.is_success, reply.text
                assert "localhost:8080" not in reply.text
                assert reply.json()["resourceType"]
            refused = await client.delete(f"{env.http}/Patient/1")
            assert (refused.status_code, refused.json()["resourceType"]) == (405, "OperationOutcome")
            foreign = await client.get(env.http.replace("/fhir", "x/fhir/Patient"))
            assert foreign.status_code == 404
        return list(json.loads(finish.removeprefix("FINISH(")[:-1]))


@pytest.mark.parametrize("agent", [ByText, ByTools, OverHttp])
def test_a_run_of_an_agent_that_owns_its_loop(
    agent: type[medagent.Agent], actions: dict[str, list[str]], tmp_path: Path
) -> None:
    report = run(agent, limit=5)
    assert report.overall is not None
    assert (report.overall.value, report.overall.n) == (1.0, 5)
    report = run(agent, trials=2)  # continues
    assert [item.correct for item in report.items] == [True] * 20
    assert report.settings["protocol"] == "tools"
    rows = list(medagent.load_run(report.folder).rows())
    assert {row.task_id: [t.role for t in row.transcript] for row in rows}.keys() == actions.keys()
    notes = " ".join(report.notes)
    if agent is ByTools:
        calls = 2 * sum(map(len, actions.values()))
        assert (report.spent.calls, report.spent.prompt, report.unpriced) == (calls, 100 * calls, 0)
        assert report.spent.cost is not None
        assert "Cost unknown" not in notes
    else:
        assert "Cost unknown: the agent owns its loop and reported no model call (env.spend)." in notes


class Heads(medagent.Agent):
    """Gives the right answers, and sends HEAD in place of each GET."""

    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> str:
        *acts, finish = REFERENCE[task.id]
        async with httpx.AsyncClient(trust_env=False) as client:
            for action in acts:
                if action.startswith("GET "):
                    reply = await client.head(action.removeprefix("GET ").replace(BASE.rstrip("/"), env.http))
                    assert (reply.status_code, reply.content) == (200, b"")
                else:
                    await env.act(action)
        return finish


def test_an_agent_that_gets_no_body_has_read_nothing(actions: dict[str, list[str]]) -> None:
    items = run(Heads).items
    assert [item.correct for item in items] == [True] * 10
    assert {item.grounded for item in items} == {None, False}


def test_sampling_that_no_call_got_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    report = run(Spends, limit=1, model="m", temperature=0.9, max_tokens=77)
    shown = command("show", report.folder).out
    assert "sampling: the agent's own" in shown
    assert "temperature 0.9" not in shown
    assert "no effect of --temperature, --max-tokens, as no call went through" in " ".join(report.notes)


def test_sampling_of_calls_through_the_context_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asks(medagent.Agent):
        async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
            await self.context.model.complete([medagent.Message("user", prompt)])
            return []

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ModelServer(reply="[]") as server:
        report = run(Asks, limit=1, model="m", base_url=[server.url], temperature=0.9, max_tokens=77)
    assert "temperature 0.9, max tokens 77" in command("show", report.folder).out
    assert "no effect" not in " ".join(report.notes)


class Raises(medagent.Agent):
    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
        raise ValueError("not today")


class Number(medagent.Agent):
    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> Any:
        return 60


class Talks(medagent.Agent):
    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
        while True:
            await env.act(f"GET {BASE}Patient?_count=1")


class Spends(medagent.Agent):
    reports_use = True

    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
        env.spend(prompt=1_000, completion=1)
        return []


@pytest.mark.parametrize(
    ("agent", "options", "status", "error"),
    [
        (Raises, {}, "agent_error", "ValueError: not today"),
        (Number, {}, "agent_error", "TypeError: solve returned int, expected the answers: a list"),
        (Talks, {}, "round_limit", None),
        (Spends, {"unit_tokens": 100}, "token_limit", "1001 tokens"),
    ],
)
def test_how_an_episode_may_end(
    agent: type[medagent.Agent], options: dict[str, Any], status: str, error: str | None
) -> None:
    report = run(agent, limit=1, **options)
    (row,) = medagent.load_run(report.folder).rows()
    assert row.status == status
    assert error is None or error in (row.error or "")


class Both(medagent.Agent):
    def play(self, task: Any, prompt: str) -> Any:
        yield "FINISH([])"

    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
        return []


class NotAsync(medagent.Agent):
    def solve(self, task: Any, prompt: str, env: medagent.Env) -> Any:
        return []


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        (Both, {}, "defines `play` and `solve`; define exactly one of them"),
        (NotAsync, {}, "`solve` is not async; write: async def solve(self, task, prompt, env):"),
        (Raises, {"max_cost": 1.0}, "--max-cost cannot be kept: Raises owns its loop, and its token use is unknown."),
        (Raises, {"unit_tokens": 9}, "--per-item tokens cannot be kept: Raises owns its loop"),
        (Raises, {"loop": "lenient"}, "--loop: Raises defines `solve`, which acts by tools; leave --loop out"),
        (
            Raises,
            {"protocol": "code"},
            "--protocol code: Raises defines `solve`, which acts by tools; leave",
        ),
    ],
)
def test_what_is_refused(agent: type[medagent.Agent], options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        run(agent, **options)
    assert message in str(raised.value)


def test_a_benchmark_without_sessions_refuses_solve() -> None:
    with pytest.raises(UserError, match="Raises defines `solve`, which needs a benchmark's FHIR session; write `play`"):
        medagent.run_sync("promptcblue", agent=Raises, limit=1)


@pytest.mark.parametrize("name", ["langgraph_agent", "openai_agent", "pydantic_agent", "smol_agent"])
def test_the_body_of_an_example_has_at_most_15_lines(name: str) -> None:
    """Of code: without imports, docstrings and blank lines."""
    source = (ROOT / "examples" / "own-loop" / f"{name}.py").read_text(encoding="utf-8")
    lines = [line.strip() for line in source.splitlines()]
    code = [line for line in lines if line and not line.startswith(('"""', "import ", "from ", "#"))]
    assert len(code) <= 15, len(code)
