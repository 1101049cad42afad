"""Agents with tools against providers that want their own messages back: every episode is completed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran
from tests.loopback import ModelServer, chat_json
from tests.medagent.benchmarks.medagentbench.oracle import text_reply, tool_reply
from tests.medagent.benchmarks.medagentbench.runs import episodes, run
from tests.providers import PROVIDERS, Provider

STRICT = pytest.mark.parametrize("name", PROVIDERS)


def played(folder: Path, server: ModelServer, provider: Provider, *options: object) -> Ran:
    """A run of the oracle behind this provider."""
    return run(
        folder, "--version", "v1", "--model", "oracle", "--base-url", server.url, "--api", provider.api, *options
    )


@STRICT
@pytest.mark.parametrize("protocol", ["tools", "text"])
def test_all_episodes_are_completed(tmp_path: Path, name: str, protocol: str) -> None:
    provider = PROVIDERS[name]()
    reply = tool_reply if protocol == "tools" else text_reply
    with ModelServer(reply=reply, provider=provider) as server:
        ran = played(tmp_path, server, provider, "--protocol", protocol, "--limit", 5)
    assert ran.code == 0, ran.err
    rows = episodes(tmp_path / "v1_r1_oracle").values()
    assert [row["status"] for row in rows] == ["completed"] * 5
    grade = json.loads((tmp_path / "v1_r1_oracle" / "grade.json").read_text())["overall"]
    assert grade["right"] == 5
    assert max(row["spent"]["calls"] for row in rows) > 1


def test_a_withheld_reply_is_counted_though_the_episode_ends(tmp_path: Path) -> None:
    def withhold(request: dict[str, Any]) -> dict[str, Any]:
        reply = chat_json("", request)
        reply["choices"][0]["finish_reason"] = "content_filter"
        return reply

    with ModelServer(reply=withhold) as server:
        run(tmp_path, "--version", "v1", "--model", "m", "--base-url", server.url, "--types", "task4", "--limit", 2)
    rows = episodes(tmp_path / "v1_r1_m").values()
    assert [(row["status"], row["spent"]["calls"]) for row in rows] == [("refused", 1)] * 2
    assert all(row["spent"]["prompt"] > 0 for row in rows)


def two_at_once(request: dict[str, Any]) -> dict[str, Any]:
    """The oracle's reply; its first call is made twice in one message, and its result looked at once."""
    results = [message for message in request["messages"] if message["role"] == "tool"]
    seen = request | {"messages": [m for m in request["messages"] if m is not (results[1:2] or [None])[0]]}
    reply = tool_reply(seen)
    if not results:
        (call,) = reply["choices"][0]["message"]["tool_calls"]
        reply["choices"][0]["message"]["tool_calls"] = [call, {**call, "id": "call_again"}]
    return reply


@STRICT
def test_calls_in_parallel_are_answered_in_one_turn(tmp_path: Path, name: str) -> None:
    provider = PROVIDERS[name]()
    with ModelServer(reply=two_at_once, provider=provider) as server:
        ran = played(tmp_path, server, provider, "--protocol", "tools", "--types", "task4", "--limit", 3)
    assert ran.code == 0, ran.err
    rows = episodes(tmp_path / "v1_r1_oracle").values()
    assert [row["status"] for row in rows] == ["completed"] * 3
    assert all(row["rounds"] == row["spent"]["calls"] + 1 for row in rows)
