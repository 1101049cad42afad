"""`medagent doctor`: one line per check; exit code 1 if one fails; no key ever shown."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from tests.command import medagent
from tests.loopback import ModelServer, chat_json, status
from tests.medagent.fhir_data.live import Fault, LiveServer
from tests.medagent.fhir_data.people import ward

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def lines(out: str) -> dict[str, str]:
    """What is said of each thing, `ok …` or `FAIL …`."""
    return {line[5:].partition(": ")[0]: line for line in out.splitlines()}


def test_a_sound_installation_is_ok_without_network_or_writes(tmp_path: Path) -> None:
    ran = medagent("doctor")
    assert ran.code == 0, ran.out
    said = lines(ran.out)
    assert list(said) == [
        "Python",
        "packages",
        "data sets",
        "differences",
        "hospital",
        "sandbox bwrap",
        "sandbox monty",
        "sandbox docker",
        "results folder",
        "data folder",
        "cache folder",
        "settings folder",
    ]
    assert all(line.startswith("ok   ") for line in said.values())
    assert "synthetic v2: 300 tasks, digest " in said["data sets"]
    assert "medagent data import DIR" in said["data sets"]
    assert "not built yet" in said["hospital"]
    assert list(tmp_path.iterdir()) == []


def test_a_server_and_a_model_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with LiveServer(ward(2, 3)) as server, ModelServer(reply="ok") as model:
        ran = medagent("doctor", "--fhir", server.url, "--model", "any", "--base-url", model.url)
        assert [call.body["max_tokens"] for call in model.calls] == [1, 300]
        assert [len(call.body.get("tools", [])) for call in model.calls] == [0, 1]
    assert ran.code == 0, ran.out
    said = lines(ran.out)
    assert "2 Patient, 6 Observation, searches are answered" in said["--fhir"]
    assert said["model any"].startswith("ok   model any: replied in ")


@pytest.mark.parametrize(
    ("where", "answer", "message"),
    [
        ("metadata", 500, "answers 500 to /metadata"),
        ("metadata", (200, b"<html>"), "/metadata does not answer with FHIR as JSON"),
        (
            "Patient",
            (400, b'{"issue":[{"diagnostics":"not for you"}]}'),
            "status 400 for /Patient?_summary=count: not for",
        ),
        ("Patient", (403, b"{}"), "answers 403: it requires a token"),
        ("Patient", (200, b"{}"), "does not contain a total"),
        ("code=", (200, b'{"resourceType":"OperationOutcome"}'), "is not a Bundle"),
    ],
)
def test_a_server_that_fails_a_check_is_named(where: str, answer: Fault, message: str) -> None:
    with LiveServer(answers=lambda _, target: answer if where in target else None) as server:
        ran = medagent("doctor", "--fhir", server.url)
    assert ran.code == 1
    line = lines(ran.out)["--fhir"]
    assert line.startswith("FAIL ")
    assert message in line


def test_a_token_that_is_not_accepted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", "expired")
    with LiveServer(answers=lambda _, target: (403, b"{}") if "Patient" in target else None) as server:
        ran = medagent("doctor", "--fhir", server.url)
    assert ran.code == 1
    assert "answers 403: the token is not accepted" in lines(ran.out)["--fhir"]


def test_a_server_that_is_away_must_be_mended() -> None:
    with LiveServer() as server:
        pass
    ran = medagent("doctor", "--fhir", server.url)
    assert ran.code == 1
    assert "does not answer" in ran.out
    assert ran.out.count("FHIR server") == 1
    assert "Error(" not in ran.out


def test_a_refused_key_must_be_mended_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    refusal = status(401, message=f"Incorrect API key provided: {KEY}")
    with ModelServer(reply="ok", faults=[refusal]) as model:
        ran = medagent("doctor", "--model", "any", "--base-url", model.url)
    assert ran.code == 1
    assert "FAIL model any: " in ran.out
    assert "401" in ran.out
    assert KEY not in ran.out + ran.err


def test_the_price_that_is_used_is_printed_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = medagent("doctor", "--price", "gpt-4o-mini-2024-07-18", "--price", "unheard-of")
    said = lines(ran.out)
    line = said["price of gpt-4o-mini-2024-07-18"].removeprefix("ok   price of gpt-4o-mini-2024-07-18: ")
    assert line.startswith("$0.15/input MTok, $0.6/output MTok, $0.075/input cache read MTok")
    assert line.endswith(f"(gpt-4o-mini of openai in genai-prices {version('genai-prices')})")
    assert (ran.code, "FAIL price of unheard-of: none, so the cost of its calls is unknown" in ran.out) == (1, True)
    prices = tmp_path / "own.toml"
    prices.write_text("[models.unheard-of]\ninput = 1\noutput = 2.5\n")
    monkeypatch.setenv("MEDAGENT_PRICES", str(prices))
    line = lines(medagent("doctor", "--price", "unheard-of").out)["price of unheard-of"]
    said_of_it = f"$1/input MTok, $2.5/output MTok (unheard-of in {prices}, of no date)"
    assert line == f"ok   price of unheard-of: {said_of_it}"


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    ran = medagent("doctor", "--fhir", f"http://me:{KEY}@localhost:8080/fhir")
    assert ran.code == 1
    assert "contains a password" in ran.err
    assert KEY not in ran.out + ran.err


def test_a_model_without_key_or_address_must_be_mended() -> None:
    ran = medagent("doctor", "--model", "any")
    assert ran.code == 1
    assert "OPENAI_API_KEY" in lines(ran.out)["model any"]


def test_a_missing_package_must_be_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import version

    def without_openai(name: str) -> str:
        if name == "openai":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("medagent.cli._doctor.version", without_openai)
    ran = medagent("doctor")
    assert ran.code == 1
    assert "FAIL packages: openai not installed" in ran.out


def test_a_folder_that_cannot_be_written_and_a_damaged_data_set_must_be_mended(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    damaged = tmp_path / "home" / "data" / "official" / "test_data_v2.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text(json.dumps([{"id": "task1_1"}]))
    ran = medagent("doctor")
    assert ran.code == 1
    said = lines(ran.out)
    assert said["results folder"].startswith("FAIL results folder: results: cannot be written")
    assert f"FAIL data sets: {damaged}:1: [0].instruction: is missing" in said["data sets"]


def test_what_a_server_serves_is_said() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "clock", "arguments": "{}"}}

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        completion = {**chat_json("ok", request), "model": "/srv/tiny.gguf"}
        if request.get("tools"):
            completion["choices"][0]["message"]["tool_calls"] = [call]
        return completion

    with ModelServer(reply, stated={"/props": {"n_ctx": 4096}}) as server:
        out = lines(medagent("doctor", "--model", "any", "--base-url", server.url).out)
    assert out["model any"].endswith("; served as tiny.gguf (asked for any); window 4,096 tokens")
    assert out["tools of any"] == "ok   tools of any: called clock"
    with ModelServer("ok") as server:
        out = lines(medagent("doctor", "--model", "any", "--base-url", server.url).out)
    assert out["model any"].endswith("(asked for any); window not stated")
    assert "the reply contains no call" in out["tools of any"]
    refusal = status(500, message="tools param requires --jinja flag")
    with ModelServer("ok", faults=[None, refusal]) as server:
        out = lines(medagent("doctor", "--model", "any", "--base-url", server.url).out)
    assert "ok   tools of any: not available (" in out["tools of any"]
    assert "use --protocol text" in out["tools of any"]
