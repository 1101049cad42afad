"""What this project uses of other packages and they may change: each name exists, and an upper bound excludes the
versions in which nobody has looked.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from typing import Any

import aiohttp
import aiohttp.http_exceptions
import openai
import pytest

from tests.shared_data import ROOT


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (openai.AsyncOpenAI.__init__, ("base_url", "default_query", "api_key", "http_client", "max_retries")),
        (openai.AsyncOpenAI.get, ("path", "cast_to", "options", "stream", "stream_cls")),
        (openai.DefaultAioHttpClient.send, ("request", "stream")),
    ],
)
def test_a_function_that_is_called_or_overridden_takes_what_it_is_called_with(
    function: Callable[..., Any], parameters: tuple[str, ...]
) -> None:
    assert set(parameters) <= set(inspect.signature(function).parameters)


def test_members_that_are_read_exist() -> None:
    assert isinstance(openai.AsyncOpenAI.default_headers, property)  # client.py: those of an OpenAI account
    assert openai.DEFAULT_CONNECTION_LIMITS.keepalive_expiry  # client.py makes others of its class
    assert issubclass(aiohttp.http_exceptions.HttpProcessingError, Exception)


@pytest.mark.parametrize("package", ["aiohttp", "httpx", "openai[aiohttp]"])
def test_their_versions_have_an_upper_bound(package: str) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    (line,) = [requirement for requirement in wanted if requirement.startswith((f"{package}>", f"{package}<"))]
    assert "<" in line
