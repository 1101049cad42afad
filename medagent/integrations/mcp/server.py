"""An MCP server for an offer of tools, over stdio or streamable HTTP. It uses the low-level API: schemas stay data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from medagent.core.version import __version__
from medagent.integrations.mcp._offer import Caller, Offer, OfferedTool, ToolAnswer
from medagent.integrations.web import Port, serve

SESSION = "mcp-session-id"
"""The header with the session's id."""


def create_server(offer: Offer) -> Any:
    """The MCP server for an open offer. It serves every protocol version that the mcp package supports."""
    schemas = {tool.name: tool.parameters for tool in offer.tools}
    listed = [_listed(tool, remote=offer.remote) for tool in offer.tools]

    async def list_tools(context: Any, request: Any) -> Any:
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Any, request: Any) -> Any:
        name, arguments = request.name, request.arguments or {}
        problem = _problem(schemas.get(name), name, arguments)
        answer = ToolAnswer(problem, failed=True) if problem else await offer.call(name, arguments, _caller(context))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=answer.data,
            is_error=answer.failed,
        )

    return Server(
        "medagent",
        version=__version__,
        instructions=offer.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: OfferedTool, *, remote: bool) -> Any:
    hints = types.ToolAnnotations(
        read_only_hint=tool.reads_only,
        destructive_hint=False,
        idempotent_hint=tool.idempotent,
        open_world_hint=remote,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.parameters,
        output_schema=tool.output,
        annotations=hints,
    )


def _caller(context: Any) -> Caller:
    """Who sent a request. Only HTTP clients before protocol 2026-07-28 use a session that can end by itself."""

    async def progress(seconds: float, message: str) -> None:
        await context.session.report_progress(seconds, message=message)

    session = context.request.headers.get(SESSION, "") if context.request is not None else ""
    return Caller(session, progress)


def _problem(schema: dict[str, Any] | None, name: str, arguments: dict[str, Any]) -> str:
    """Why a call does not match the tool's schema, so that the model can correct it; empty if it matches."""
    if schema is None:
        return f"unknown tool {name!r}"
    error = next(jsonschema.Draft202012Validator(schema).iter_errors(arguments), None)
    if error is None:
        return ""
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message}" if place else error.message


async def serve_stdio(offer: Offer) -> None:
    """Serve the client that started this process, until it closes the pipe."""
    server = create_server(offer)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def ending_sessions(app: Any, leave: Callable[[str], Awaitable[None]]) -> Any:
    """The application. When a client ends its session (DELETE), it calls `leave` with the session's id."""

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "DELETE":
            named = next((value for name, value in scope["headers"] if name == SESSION.encode()), b"")
            await leave(named.decode("latin-1"))

    return watched


async def serve_http(offer: Offer, port: Port) -> None:
    """Serve clients at the path `/mcp` until a signal comes. Raises UserError."""
    app = ending_sessions(create_server(offer).streamable_http_app(host=port.host), offer.leave)
    with port.opened() as (listener, address):
        await serve(port.guarded(app), listener, f"{address}/mcp")
