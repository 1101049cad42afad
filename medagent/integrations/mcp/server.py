"""An offer of tools as an MCP server, over stdio or streamable HTTP, by the low-level server: schemas stay data."""

from __future__ import annotations

from typing import Any

import jsonschema
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from medagent.core.version import __version__
from medagent.integrations.mcp.offer import Answer, Offer
from medagent.integrations.web import address_of, listen, serve, with_token


def create_server(offer: Offer) -> Any:
    """The MCP server over an open offer; answers clients of every protocol that the mcp package speaks."""
    schemas = {tool.name: tool.parameters for tool in offer.tools}
    listed = [
        types.Tool(name=tool.name, description=tool.description, input_schema=tool.parameters) for tool in offer.tools
    ]

    async def list_tools(context: Any, asked: Any) -> Any:
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Any, asked: Any) -> Any:
        arguments = asked.arguments or {}
        problem = _problem(schemas.get(asked.name), asked.name, arguments)
        answer = Answer(problem, failed=True) if problem else await offer.call(asked.name, arguments)
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


def _problem(schema: dict[str, Any] | None, name: str, arguments: dict[str, Any]) -> str:
    """What is wrong with a call, for the model to mend; nothing where it fits."""
    if schema is None:
        return f"there is no tool {name!r}"
    found = next(jsonschema.Draft202012Validator(schema).iter_errors(arguments), None)
    if found is None:
        return ""
    place = ".".join(map(str, found.absolute_path))
    return f"{place}: {found.message}" if place else found.message


async def serve_stdio(offer: Offer) -> None:
    """Answer the client that started this process, until it closes the pipe."""
    server = create_server(offer)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(offer: Offer, host: str, port: int, token: str | None) -> None:
    """Answer clients at `http://host:port/mcp` until a signal comes. Raises UserError."""
    app = with_token(create_server(offer).streamable_http_app(host=host), token)
    with listen(host, port, token) as listener:
        await serve(app, listener, f"{address_of(host, listener)}/mcp")
