"""An A2A agent over HTTP: its card, JSON-RPC at `/` for clients of protocols 1.0 and 0.3."""

from __future__ import annotations

from typing import Any

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from medagent.core.version import __version__

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The second is that of A2A 0.2, which the `agentbeats` package asks for."""


def create_app(executor: Any, address: str, name: str, description: str, *media_types: str) -> Any:
    """The ASGI application of an agent with one skill, which has the agent's description. `media_types` are the types
    of its answers besides plain text.
    """
    interfaces = [
        AgentInterface(url=f"{address}/", protocol_binding="JSONRPC", protocol_version=version)
        for version in ("1.0", "0.3")
    ]
    card = AgentCard(
        name=name,
        description=description,
        version=__version__,
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain", *media_types],
        skills=[AgentSkill(id=name, name=name, description=description, tags=["medicine", "FHIR"])],
    )
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card)
    cards = [route for path in CARD_PATHS for route in create_agent_card_routes(card, card_url=path)]
    routes = [*cards, *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)]
    return Starlette(routes=routes)
