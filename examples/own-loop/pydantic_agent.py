"""PydanticAI as an agent: medagent run --agent pydantic_agent.py:PydanticAgent --model gpt-4o-mini."""

from pydantic_ai import Agent, Tool

import medagent


class PydanticAgent(medagent.Agent):
    """A PydanticAI agent over chat completions."""

    reports_use = True

    async def solve(self, task, prompt, env):
        name = self.context.model.name
        tools = [Tool.from_schema(env.function(t.name), t.name, t.description, t.parameters) for t in env.tools]
        result = await Agent(f"openai-chat:{name}", tools=tools).run(prompt)
        for message in result.all_messages():
            if message.kind == "response":
                env.spend(prompt=message.usage.input_tokens, completion=message.usage.output_tokens, model=name)
        return result.output
