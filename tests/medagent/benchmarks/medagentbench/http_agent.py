"""The reference agent as one that asks a FHIR base itself: what it would say becomes HTTP requests."""

from __future__ import annotations

import asyncio

import httpx

from medagent import AgentContext, Task
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent
from refsol.medagentbench.constants import PUBLISHED


def play(task: Task, base: str, headers: dict[str, str]) -> str:
    """Acts on a record as the reference agent does; gives the text of its answers."""
    policy = ReferenceAgent(AgentContext(base=PUBLISHED.base)).start(task, key="x", seed=None)
    observation = ""
    with httpx.Client(headers=headers, timeout=30) as client:
        while True:
            said = asyncio.run(policy.next(observation)).text
            verb, _, rest = said.partition(" ")
            if said.startswith("FINISH("):
                return said.removeprefix("FINISH(").removesuffix(")")
            url, _, body = rest.partition("\n")
            own = url.replace(PUBLISHED.base, base + "/")
            if verb == "GET":
                observation = client.get(own).raise_for_status().text
            else:
                sent = client.post(own, content=body, headers={"Content-Type": "application/fhir+json"})
                observation = sent.raise_for_status().text
