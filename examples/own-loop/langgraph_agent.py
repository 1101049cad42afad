"""LangGraph as an agent: medagent run --agent langgraph_agent.py:LangGraphAgent --model gpt-4o-mini."""

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool

import medagent


class LangGraphAgent(medagent.Agent):
    """A graph made by LangChain's `create_agent`. It ends when it calls `finish`."""

    reports_use = True

    async def solve(self, task, prompt, env):
        name = self.context.model.name
        tools = [
            StructuredTool(name=t.name, description=t.description, args_schema=t.parameters,
                           coroutine=env.function(t.name), return_direct=t.name == "finish")
            for t in env.tools
        ]  # fmt: skip
        graph = create_agent(f"openai:{name}", tools)
        async for state in graph.astream({"messages": [("user", prompt)]}, stream_mode="values"):
            if used := getattr(state["messages"][-1], "usage_metadata", None):
                env.spend(prompt=used["input_tokens"], completion=used["output_tokens"], model=name)
        return state["messages"][-1].text
