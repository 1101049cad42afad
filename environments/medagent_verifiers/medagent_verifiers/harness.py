"""Plays an episode like `medagent run`, in the process of verifiers. Only the model runs elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI

import medagent
from medagent import fhir


class MedAgentBenchHarness(vf.Harness[vf.HarnessConfig]):
    """Calls the model, and executes its actions on the task's private record."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def setup(self, runtime: vf.Runtime) -> None:
        """See `Harness.setup`. Raises HarnessError for a sandbox, since nothing would run in it."""
        if runtime.info.type != "subprocess":
            raise vf.HarnessError("episodes run in this process: add --env.agent.runtime.type subprocess")

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """See `Harness.launch`. If a limit of verifiers ends an episode, the episode is graded as far as it got."""
        opened = medagent.episode(str(data.id), **trace.state.options)
        async with opened as episode, AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            options: dict[str, Any] = {"model": ctx.model}
            if trace.state.options["protocol"] == "tools":
                options["tools"] = [_schema(tool) for tool in episode.tools]
            try:
                await self._play(episode, partial(client.chat.completions.create, **options), data)
            finally:
                verdict = episode.verdict()
                trace.state.correct = verdict.correct
                trace.info["status"] = episode.outcome.status
                trace.info["harmed"] = verdict.harmed
                trace.info["checks"] = {check.name: check.passed for check in verdict.checks}
        return vf.ProgramResult(0, "", "")

    async def _play(self, episode: fhir.Episode, ask: Callable[..., Any], data: vf.TaskData) -> None:
        system, prompt = self.resolve_prompt(data)
        episode.reset()
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        while not episode.done:
            reply = (await ask(messages=messages)).choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                messages.append({"role": "user", "content": await episode.act(reply.content or "")})
            for call in reply.tool_calls or ():
                if not episode.done:
                    result = await episode.call(call.function.name, call.function.arguments)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def _schema(tool: medagent.Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
