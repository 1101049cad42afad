"""A key goes to one place: by name, by host, or to the one origin that a provider's own variable is for."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from medagent.core.errors import StopRunError, UserError
from medagent.models import open_model
from medagent.models.client import open_replicas
from medagent.models.dialects import dialect
from medagent.models.keys import assign_keys, key_uses, origin
from medagent.models.settings import ModelSettings
from tests.loopback import ModelServer, status
from tests.medagent.models.asking import QUESTION, ask, settings

LOCAL, VENDOR, OPENAI = "http://127.0.0.1:8000", "https://vendor.example", "https://api.openai.com"
CLAUDE = "https://api.anthropic.com"
KEYS = {"OPENAI_API_KEY": "sk-openai-0123456789abcdef", "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef", "MINE": "mine"}


def at(*urls: str, api: str = "chat", **values: Any) -> ModelSettings:
    return settings(*(f"{url}/v1" for url in urls), api=api, **values)


@pytest.mark.parametrize(
    ("models", "environment", "expected"),
    [
        ([at(LOCAL)], {}, [{LOCAL: "OPENAI_API_KEY"}]),
        ([at()], {}, [{OPENAI: "OPENAI_API_KEY"}]),
        ([at(LOCAL), at(VENDOR)], {}, [{LOCAL: "OPENAI_API_KEY"}, {VENDOR: ""}]),
        ([at(LOCAL), at(OPENAI)], {}, [{LOCAL: ""}, {OPENAI: "OPENAI_API_KEY"}]),
        ([at(LOCAL), at()], {}, [{LOCAL: ""}, {OPENAI: "OPENAI_API_KEY"}]),
        ([at(LOCAL), at(VENDOR)], {"OPENAI_BASE_URL": f"{VENDOR}/v1"}, [{LOCAL: ""}, {VENDOR: "OPENAI_API_KEY"}]),
        ([at(LOCAL)], {"OPENAI_BASE_URL": f"{VENDOR}/v1"}, [{LOCAL: ""}]),
        ([at()], {"OPENAI_BASE_URL": f"{VENDOR}/v1"}, [{VENDOR: "OPENAI_API_KEY"}]),
        ([at(LOCAL), at(LOCAL)], {}, [{LOCAL: "OPENAI_API_KEY"}, {LOCAL: "OPENAI_API_KEY"}]),
        ([at(LOCAL, VENDOR)], {}, [{LOCAL: "OPENAI_API_KEY", VENDOR: ""}]),
        ([at(LOCAL, VENDOR, api_key_env=["vendor.example=MINE"])], {}, [{LOCAL: "OPENAI_API_KEY", VENDOR: "MINE"}]),
        ([at(LOCAL, VENDOR, api_key_env=["MINE"])], {}, [{LOCAL: "MINE", VENDOR: ""}]),
        ([at(LOCAL, api_key_env=["127.0.0.1:8000=MINE"])], {}, [{LOCAL: "MINE"}]),
        ([at(LOCAL), at(VENDOR, api_key_env=["MINE"])], {}, [{LOCAL: "OPENAI_API_KEY"}, {VENDOR: "MINE"}]),
        ([at(LOCAL)], {"OPENAI_API_KEY": " "}, [{LOCAL: ""}]),
        ([at(api="anthropic")], {}, [{CLAUDE: "ANTHROPIC_API_KEY"}]),
        ([at(VENDOR, api="anthropic")], {}, [{VENDOR: "ANTHROPIC_API_KEY"}]),
        ([at(LOCAL), at(CLAUDE, api="anthropic")], {}, [{LOCAL: "OPENAI_API_KEY"}, {CLAUDE: "ANTHROPIC_API_KEY"}]),
        ([at(LOCAL, api="anthropic"), at(VENDOR)], {}, [{LOCAL: "ANTHROPIC_API_KEY"}, {VENDOR: "OPENAI_API_KEY"}]),
    ],
)
def test_which_key_goes_where(
    models: list[ModelSettings], environment: dict[str, str], expected: list[dict[str, str]]
) -> None:
    known = KEYS | environment
    assigned = assign_keys(models, known)
    assert [model.api_key_env for model in assigned] == expected
    assert assign_keys(assigned, known) == assigned
    for model in assigned:  # each opened alone, as workers do, gets what it got among the others
        assert assign_keys([model], known) == [model]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["NOT_SET"], "NOT_SET is named as the key of http://127.0.0.1:8000, but is not set"),
        (["other.example=MINE"], "--api-key-env other.example=…: none of the base URLs is on this host"),
        (["sk-proj-0123456789"], "takes the NAME of an environment variable"),
        (["host="], "takes the NAME of an environment variable"),
    ],
)
def test_a_key_that_cannot_be_meant_is_one_clear_line(given: list[str], said: str) -> None:
    with pytest.raises(UserError) as refused:
        assign_keys([at(LOCAL, api_key_env=given)], KEYS)
    assert said in str(refused.value)
    assert "sk-proj" not in str(refused.value)


def test_keys_are_shown_masked() -> None:
    uses = key_uses([at(LOCAL), at(VENDOR), at(CLAUDE, api="anthropic")], KEYS)
    assert [(use.origin, use.variable, use.masked) for use in uses] == [
        (LOCAL, "OPENAI_API_KEY", "sk-…cdef"),
        (VENDOR, None, ""),
        (CLAUDE, "ANTHROPIC_API_KEY", "sk-…cdef"),
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://API.Example:443/v1?key=x", "https://api.example"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("http://user:pw@host:80", "http://host"),
    ],
)
def test_an_origin(url: str, expected: str) -> None:
    assert origin(url) == expected


@pytest.mark.parametrize("url", ["http://", "http://host:port", "http://[::1", "localhost:8000/v1", "ftp://host"])
def test_a_base_url_of_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(UserError, match="it must be http:// or https:// and a host"):
        open_model(settings())


def test_the_wire_carries_each_endpoints_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accounts of an OpenAI user and the package's own look at the environment reach no other endpoint either."""
    monkeypatch.setenv("OTHER_KEY", "other-0123456789")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-0123456789")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-user")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: of-the-user")
    with ModelServer() as answerer, ModelServer() as judge, ModelServer() as third:
        models = assign_keys(
            [settings(answerer.url), settings(judge.url, api_key_env=["OTHER_KEY"]), settings(third.url)],
            {"OPENAI_API_KEY": "sk-first-0123456789", "OTHER_KEY": "other-0123456789"},
        )
        monkeypatch.setenv("OPENAI_API_KEY", "sk-first-0123456789")
        for model in models:
            ask(model)
    sent = [server.calls[0].headers for server in (answerer, judge, third)]
    assert [headers.get("authorization") for headers in sent] == [
        "Bearer sk-first-0123456789",
        "Bearer other-0123456789",
        None,
    ]
    assert not any("of-the-user" in value or "admin" in value for headers in sent for value in headers.values())


def test_an_account_at_openai_goes_to_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-user")
    (replica,) = open_replicas(settings(), dialect("chat"), {"OPENAI_API_KEY": "sk-first-0123456789"})
    assert replica.url == "https://api.openai.com/v1/chat/completions"
    assert replica.http.own_headers["Authorization"] == "Bearer sk-first-0123456789"
    assert replica.http.own_headers["OpenAI-Organization"] == "org-of-the-user"


def test_anthropics_key_goes_by_its_own_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    with ModelServer("good") as server:
        assert ask(settings(server.url, api="anthropic")).text == "good"
    headers = server.calls[0].headers
    assert headers["x-api-key"] == "sk-ant-0123456789"
    assert headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers


@pytest.mark.parametrize("base", ["", "/v1", "/anthropic", "/anthropic/v1"])
def test_anthropics_base_url_with_and_without_the_version(base: str) -> None:
    with ModelServer("good") as server:
        assert ask(settings(server.url.removesuffix("/v1") + base, api="anthropic")).text == "good"
    assert server.calls[0].path == f"{base.removesuffix('/v1')}/v1/messages"


def test_a_401_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(faults=lambda _: status(401, message="no")) as server:
        with pytest.raises(StopRunError, match="the key of OPENAI_API_KEY was sent"):
            ask(settings(server.url))
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(StopRunError) as failed:
            ask(settings(server.url))
    host = server.url.removeprefix("http://").removesuffix("/v1")
    assert f"no key was sent; name its variable with --api-key-env {host}=NAME" in str(failed.value)


@pytest.mark.parametrize("key", ["sk-a\nb-0123456789", "sk-ключ-0123456789"])
def test_a_key_that_no_header_can_carry(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UserError, match="OPENAI_API_KEY contains characters"):
        open_model(settings("http://127.0.0.1:9/v1"))


def test_neither_anthropics_key_nor_a_base_url() -> None:
    with pytest.raises(UserError, match="set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL"):
        open_model(ModelSettings(name="claude", api="anthropic"))


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
def test_a_base_url_with_a_query_is_called_at_the_right_place(
    api: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.delenv("OPENAI_API_KEY")
    paths = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
    with ModelServer(faults=[None, status(500, message="at /v1?key=AIza-secret-value")]) as server:
        chosen = settings(f"{server.url}?key=AIza-secret-value&api-version=2", api=api, max_retries=0)

        async def twice() -> str:
            model = open_model(chosen)
            await model.complete(QUESTION)
            try:
                await model.complete(QUESTION)
            except Exception as error:
                return str(error)
            finally:
                await model.aclose()
            return ""

        said = asyncio.run(twice())
    assert [call.path for call in server.calls] == [f"{paths[api]}?key=AIza-secret-value&api-version=2"] * 2
    assert "answered 500" in said
    assert "AIza-secret-value" not in said + caplog.text
