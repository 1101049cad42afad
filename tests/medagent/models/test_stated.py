"""What a server states of itself before the first request, and what is strange about its replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran, medagent
from tests.loopback import Call, Fault, ModelServer, chat_json, status

TOO_LONG = status(
    400, message="This model's maximum context length is 512 tokens. However, your prompt has 2000 tokens"
)
LLAMA = {
    "/props": {"total_slots": 2, "default_generation_settings": {"n_ctx": 2048}},
    "/v1/models": {"data": [{"id": "/models/tiny.gguf"}]},
}
VLLM = {"/v1/models": {"data": [{"id": "other", "max_model_len": 9}, {"id": "tiny", "max_model_len": 4096}]}}


def run(folder: Path, server: ModelServer, *words: object) -> Ran:
    options = ("--model", "tiny", "--base-url", server.url, "--results-dir", folder, "--round", "r")
    return medagent("run", *options, *words)


def document(folder: Path) -> dict[str, Any]:
    (run_folder,) = (path for path in folder.iterdir() if path.is_dir())
    known: dict[str, Any] = json.loads((run_folder / "run.json").read_text())
    return known


@pytest.mark.parametrize(
    ("stated", "endpoint"),
    [
        (LLAMA, {"window": 2048, "slots": 2, "model": "/models/tiny.gguf"}),
        (VLLM, {"window": 4096, "model": "tiny"}),
        ({"/props": {"total_slots": "many"}, "/v1/models": {"data": None}}, None),
    ],
)
def test_what_the_server_states_is_stored(
    stated: dict[str, Any], endpoint: dict[str, Any] | None, tmp_path: Path
) -> None:
    with ModelServer(stated=stated) as server:
        ran = run(tmp_path, server, "--limit", 2)
    assert ran.code == 0, ran.err
    assert sorted(server.asked) == ["/props", "/v1/models"]
    assert document(tmp_path).get("endpoint") == endpoint


def test_a_window_that_is_too_small_is_one_line_before_the_first_item(tmp_path: Path) -> None:
    with ModelServer(stated=LLAMA) as server:
        ran = run(tmp_path, server, "--limit", 1, "--max-tokens", 1000)
    (line,) = (line for line in ran.err.splitlines() if "window" in line)
    assert "the model's window has 2,048 tokens, and the first prompt about 2," in line
    assert "--max-tokens 1,000" in line
    assert "llama.cpp: -c N" in line
    with ModelServer(stated={"/props": {"n_ctx": 100_000}}) as server:
        assert "window" not in run(tmp_path / "large", server, "--limit", 1).err


@pytest.mark.parametrize("items", [1, 2, 9])
def test_a_server_that_fits_no_first_request_is_mis_set(items: int, tmp_path: Path) -> None:
    with ModelServer(faults=lambda _: TOO_LONG) as server:
        ran = run(tmp_path, server, "--limit", items, "--concurrency", 1)
    assert ran.code == 2
    assert min(items, 3) <= len(server.calls) <= min(items, 4), "one may be under way"
    (line,) = (line for line in ran.err.splitlines() if "no first request fits" in line)
    assert "window 512 tokens, prompt 2,000 tokens" in line
    assert "start the server with a larger window" in line
    assert f"{items} of {items} episode" in line
    assert "Score" not in ran.out
    with ModelServer() as server:
        assert run(tmp_path, server, "--limit", items).code == 0
    assert len(server.calls) == items, "all items were owed"


def test_once_an_item_has_had_an_answer_one_that_does_not_fit_is_wrong(tmp_path: Path) -> None:
    def faults(call: Call) -> Fault | None:
        return TOO_LONG if call.number in (0, 1, 3) else None

    with ModelServer(faults=faults) as server:
        ran = run(tmp_path, server, "--limit", 4, "--concurrency", 1)
    assert (ran.code, len(server.calls)) == (0, 4)
    assert "Wrong: 3 context limit" in ran.out


def test_a_run_with_tools_and_without_a_call_says_so_after_ten_items_and_at_the_end(tmp_path: Path) -> None:
    with ModelServer() as server:
        err = run(tmp_path, server, "--protocol", "tools", "--limit", 12).err
        assert err.count("No reply contains a tool call: the endpoint may not support tools") == 2
        assert "No reply contains" not in run(tmp_path / "text", server, "--limit", 12).err
        assert run(tmp_path / "few", server, "--protocol", "tools", "--limit", 2).err.count("No reply contains") == 1
    call = {"id": "c", "type": "function", "function": {"name": "finish", "arguments": '{"answers": []}'}}

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        completion = chat_json("", request)
        completion["choices"][0]["message"]["tool_calls"] = [call]
        return completion

    with ModelServer(reply) as server:
        assert "No reply contains" not in run(tmp_path / "calls", server, "--protocol", "tools", "--limit", 2).err


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ('<tool_call>{"name": "finish"}</tool_call>', "<tool_call>"),
        ("<|channel|>analysis<|message|>I think", "<|channel|>"),
        ("default_api.finish(answers=[])", "default_api."),
        ("FINISH([])", ""),
    ],
)
def test_markup_that_the_server_should_have_read_names_its_parser(reply: str, kind: str, tmp_path: Path) -> None:
    with ModelServer(reply) as server:
        lines = [line for line in run(tmp_path, server, "--limit", 2).err.splitlines() if "markup" in line]
    assert len(lines) == bool(kind)
    if kind:
        assert f"2 of 2 replies contain markup that the server should have read, such as {kind}: it lacks" in lines[0]


def test_retry_at_temperature_0_says_that_it_will_give_the_same(tmp_path: Path) -> None:
    with ModelServer() as server:
        assert "hint: --retry cut repeats" in run(tmp_path, server, "--limit", 1, "--retry", "cut").err
        assert "hint" not in run(tmp_path / "warm", server, "--limit", 1, "--retry", "cut", "--temperature", 1).err
        assert "hint" not in run(tmp_path / "other", server, "--limit", 1, "--retry", "agent_error").err


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/srv/models/tiny.gguf", "tiny.gguf"),
        ("C:\\\\models\\\\tiny.gguf", "tiny.gguf"),
        ("org/tiny.gguf", "tiny.gguf"),
        ("org/tiny", "org/tiny"),
    ],
)
def test_a_served_name_is_shown_without_the_servers_folders(name: str, shown: str, tmp_path: Path) -> None:
    with ModelServer(lambda request: {**chat_json("FINISH([])", request), "model": name}) as server:
        out = run(tmp_path, server, "--limit", 1, "--full").out
    assert f"served as {shown}," in out
