"""smolagents as an agent: medagent run --agent smol_agent.py:SmolAgent --model gpt-4o-mini."""

import asyncio
from functools import partial

from smolagents import OpenAIModel, Tool, ToolCallingAgent

import medagent


def _tool(tool, env):
    """A tool of the episode as a smolagents tool. smolagents' loop runs in a thread."""
    inputs = {name: {"type": "any", "description": "", "nullable": True, **schema}
              for name, schema in tool.parameters["properties"].items()}  # fmt: skip
    return type("EpisodeTool", (Tool,), {"name": tool.name, "description": tool.description, "inputs": inputs,
                "output_type": "string", "skip_forward_signature_validation": True,
                "forward": staticmethod(partial(env.call_blocking, tool.name))})()  # fmt: skip


class SmolAgent(medagent.Agent):
    """A tool-calling smolagents agent."""

    reports_use = True

    async def solve(self, task, prompt, env):
        name = self.context.model.name
        agent = ToolCallingAgent(tools=[_tool(t, env) for t in env.tools], model=OpenAIModel(name), verbosity_level=-1)
        answer = await asyncio.to_thread(agent.run, prompt)
        for used in filter(None, (getattr(step, "token_usage", None) for step in agent.memory.steps)):
            env.spend(prompt=used.input_tokens, completion=used.output_tokens, model=name)
        return answer
