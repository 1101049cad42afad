"""What `processes.http` and `wire.http` use of uvicorn beyond its documented API.

A new version of uvicorn that changes any of it fails here, by name; pyproject.toml bounds the versions that are taken.
"""

from __future__ import annotations

import inspect

import pytest
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

USED = (
    "connection_made",
    "data_received",
    "connection_lost",
    "pause_writing",
    "resume_writing",
    "on_header",
    "on_headers_complete",
    "on_message_complete",
    "on_response_complete",
    "send_400_response",
)
ATTRIBUTES = ("loop", "transport", "cycle", "flow", "headers", "parser", "server_state")


@pytest.mark.parametrize("name", USED)
def test_a_method_of_the_protocol_is_there(name: str) -> None:
    assert callable(getattr(HttpToolsProtocol, name))


def test_the_attributes_are_set() -> None:
    source = inspect.getsource(HttpToolsProtocol)
    assert [name for name in ATTRIBUTES if f"self.{name}" not in source] == []
    assert "response_complete" in inspect.getsource(httptools_impl.RequestResponseCycle)


def test_status_lines_are_a_table() -> None:
    assert STATUS_LINE[200].startswith(b"HTTP/1.1 200 ")
    assert all(line.endswith(b"\r\n") for line in STATUS_LINE.values())
