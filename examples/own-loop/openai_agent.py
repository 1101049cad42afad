"""The OpenAI Agents SDK as an agent: medagent run --agent openai_agent.py:OpenAIAgent --model gpt-4o-mini."""

import json

from agents import Agent, FunctionTool, RunConfig, Runner
from agents.models.openai_provider import OpenAIProvider

import medagent

CHAT = RunConfig(model_provider=OpenAIProvider(use_responses=False), tracing_disabled=True)


class OpenAIAgent(medagent.Agent):
    """An agent of the SDK over chat completions. It ends when it calls `finish`."""

    reports_use = True

    async def solve(self, task, prompt, env):

        async def invoke(context, arguments):
            return await env.call(context.tool_name, **json.loads(arguments))

        tools = [FunctionTool(t.name, t.description, t.parameters, invoke, strict_json_schema=False) for t in env.tools]
        agent = Agent("Clinician", model=self.context.model.name, tools=tools,
                      tool_use_behavior={"stop_at_tool_names": ["finish"]})  # fmt: skip
        result = await Runner.run(agent, prompt, run_config=CHAT)
        for reply in result.raw_responses:
            env.spend(prompt=reply.usage.input_tokens, completion=reply.usage.output_tokens, model=agent.model)
        return result.final_output
