"""The FHIR functions and `finish` as Inspect's tools, over the record of the sample that calls them.

react(tools=fhir_tools(), submit=AgentSubmit(name="finish", tool=finish()))
"""

from __future__ import annotations

from typing import Any

from inspect_ai.tool import Tool as InspectTool
from inspect_ai.tool import ToolDef, ToolParams

from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.tools import FINISH, Toolbox
from medagent.integrations.inspect._records import current_record
from medagent.models.base import Tool


def fhir_tools() -> list[InspectTool]:
    """One tool for each FHIR function, for your own solver."""
    toolbox = Toolbox.of(load_protocol("tools"), API_BASE)
    return [tool_def(tool).as_tool() for tool in toolbox.tools() if tool is not FINISH]


def finish() -> InspectTool:
    """The tool that ends an episode with the answers."""
    return tool_def(FINISH).as_tool()


def tool_def(tool: Tool, *, checked: bool = True) -> ToolDef:
    """One tool over the current sample's record. If not `checked`, arguments reach the session unchanged, and it
    answers invalid ones as in a run.
    """

    async def execute(**arguments: Any) -> str:
        return await current_record().call(tool.name, arguments)

    params = parameters(tool) if checked else ToolParams(additionalProperties=True)
    # FHIR replies are longer than Inspect's limit; a truncated one could lack the deciding reading.
    return ToolDef(execute, tool.name, tool.description, params, max_output=0)


def parameters(tool: Tool) -> ToolParams:
    """A tool's parameters.

    Inspect demands a description of each; its name is used if there is none in the function list.
    """
    described = {
        name: {**schema, "description": schema.get("description") or f"The resource's {name}."}
        for name, schema in tool.parameters.get("properties", {}).items()
    }
    return ToolParams.model_validate({**tool.parameters, "properties": described})
