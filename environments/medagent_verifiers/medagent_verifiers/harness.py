"""Plays an episode as `medagent run` plays it, in the process of verifiers; only the model is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI

import medagent


class MedAgentBenchHarness(vf.Harness[vf.HarnessConfig]):
    """Asks the model, and carries its actions out on the task's private record."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def setup(self, runtime: vf.Runtime) -> None:
        """See `Harness.setup`. Raises HarnessError for a sandbox, which nothing would run in."""
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
        """See `Harness.launch`. An episode that a limit of verifiers ends is graded as it stands."""
        opened = medagent.episode(str(data.id), **trace.state.options)
        async with opened as episode, AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            asked: dict[str, Any] = {"model": ctx.model}
            if trace.state.options["protocol"] == "tools":
                asked["tools"] = [_schema(tool) for tool in episode.tools]
            try:
                await self._play(episode, partial(client.chat.completions.create, **asked), data)
            finally:
                verdict = episode.verdict()
                trace.state.correct = verdict.correct
                trace.info["status"] = episode.outcome.status
                trace.info["checks"] = {check.name: check.passed for check in verdict.checks}
        return vf.ProgramResult(0, "", "")

    async def _play(self, episode: medagent.Episode, ask: Callable[..., Any], data: vf.TaskData) -> None:
        system, prompt = self.resolve_prompt(data)
        episode.reset()
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        while not episode.done:
            said = (await ask(messages=messages)).choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:
                messages.append({"role": "user", "content": await episode.act(said.content or "")})
            for call in said.tool_calls or ():
                if not episode.done:
                    reply = await episode.call(call.function.name, call.function.arguments)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": reply})


def _schema(tool: medagent.Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
