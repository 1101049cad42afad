"""What this project uses of other packages beside their documented API: each name exists, and an upper bound holds the
versions in which nobody has looked.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from typing import Any

import aiohttp
import aiohttp.http_exceptions
import httpx
import openai
import pytest
from aiohttp.client_proto import ResponseHandler

from tests.shared_data import ROOT


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (openai.AsyncOpenAI.post, ("path", "cast_to", "content", "options")),  # replica.py: bytes in, a response out
        (openai.AsyncOpenAI.__init__, ("base_url", "api_key", "http_client", "max_retries")),
        (httpx.AsyncClient._transport_for_url, ("url",)),  # transport.py: the proxy of an address
        (aiohttp.TCPConnector.connect, ("req", "traces", "timeout")),  # transport.py: no connection with bytes on it
    ],
)
def test_a_function_that_is_called_or_overridden_takes_what_it_is_called_with(
    function: Callable[..., Any], parameters: tuple[str, ...]
) -> None:
    assert set(parameters) <= set(inspect.signature(function).parameters)


def test_members_that_are_read_exist() -> None:
    assert isinstance(openai.AsyncOpenAI.default_headers, property)  # replica.py replaces it
    assert isinstance(ResponseHandler.should_close, property)  # transport.py: whether bytes wait on a connection
    assert isinstance(aiohttp.connector.Connection.protocol, property)
    assert issubclass(aiohttp.http_exceptions.HttpProcessingError, Exception)
    assert openai.Omit


@pytest.mark.parametrize("package", ["aiohttp", "httpx", "openai"])
def test_their_versions_have_an_upper_bound(package: str) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    (line,) = [one for one in wanted if one.startswith((f"{package}>", f"{package}<"))]
    assert "<" in line
