"""The same episodes with other engines, for comparison: a loop over aiohttp, one over litellm, and inspect_ai; the last
two only if they are installed.

Session, embedded FHIR server and model server are the same. The engines differ in how they call the model, store
results and retry. The loops store nothing and retry nothing; the one over aiohttp is the floor. inspect_ai writes its
log to a temporary folder. To measure them, install them with this project in a separate environment, and run `python
-m benchmarks.engine` there. litellm requires openai 2 and inspect_ai requires 3; if 3 is installed last, both work.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tempfile
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

import aiohttp

from medagent.fhir_episodes.episode import EpisodeJob, EpisodeUnit
from medagent.fhir_episodes.session import Session

os.environ["INSPECT_DISPLAY"] = "none"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the network for prices
Messages = list[dict[str, str]]


async def aiohttp_loop(job: EpisodeJob, units: list[EpisodeUnit], url: str) -> None:
    """A request and its answer, and nothing more."""
    async with aiohttp.ClientSession() as http:

        async def ask(messages: Messages) -> str:
            async with http.post(f"{url}/chat/completions", json={"model": "m", "messages": messages}) as answer:
                return str((await answer.json())["choices"][0]["message"]["content"])

        await _loop(job, units, ask)


async def litellm_loop(job: EpisodeJob, units: list[EpisodeUnit], url: str) -> None:
    """The same by litellm's client."""
    import litellm

    async def ask(messages: Messages) -> str:
        answer = await litellm.acompletion("openai/m", messages=messages, base_url=url, api_key="none", max_retries=0)
        return str(answer.choices[0].message.content)

    await _loop(job, units, ask)


async def _loop(job: EpisodeJob, units: list[EpisodeUnit], ask: Callable[[Messages], Awaitable[str]]) -> None:
    """Each lane takes the next episode when its last one ends."""
    waiting = iter(units)
    async with job.ehr.open(job.rules.api_base) as ehr:

        async def lane() -> None:
            for unit in waiting:
                async with ehr.session(unit.key) as fhir:
                    session = Session(unit.task, fhir, job.protocol, job.rules)
                    messages = [{"role": "user", "content": session.reset()}]
                    while not session.done:
                        reply = await ask(messages)
                        messages.append({"role": "assistant", "content": reply})
                        messages.append({"role": "user", "content": await session.act(reply)})

        await asyncio.gather(*(lane() for _ in range(job.concurrency)))


async def inspect_run(job: EpisodeJob, units: list[EpisodeUnit], url: str) -> None:
    """The same as a task of inspect_ai with a solver of its own."""
    from inspect_ai import Task, eval_async
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ChatMessageUser, get_model
    from inspect_ai.solver import Generate, TaskState, solver

    by_key = {unit.key: unit for unit in units}
    async with job.ehr.open(job.rules.api_base) as ehr:

        @solver
        def play() -> Any:
            async def solve(state: TaskState, generate: Generate) -> TaskState:
                unit = by_key[str(state.sample_id)]
                async with ehr.session(unit.key) as fhir:
                    session = Session(unit.task, fhir, job.protocol, job.rules)
                    state.messages = [ChatMessageUser(content=session.reset())]
                    while not session.done:
                        state = await generate(state)
                        state.messages.append(ChatMessageUser(content=await session.act(state.output.completion)))
                return state

            return solve

        task = Task(dataset=[Sample(id=unit.key, input="-") for unit in units], solver=play(), name="episodes")
        model = get_model("openai/m", base_url=url, api_key="none", responses_api=False)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):  # its progress
            (log,) = await eval_async(
                task,
                model=model,
                log_dir=folder,
                max_connections=job.concurrency,
                max_samples=job.concurrency,
            )
        assert log.status == "success", log.error and log.error.message


PEERS = {"aiohttp alone": aiohttp_loop} | {
    name: peer for name, peer in (("litellm", litellm_loop), ("inspect_ai", inspect_run)) if find_spec(name) is not None
}
"""The engines that are installed, by name."""
