"""The reference agent as one that asks a FHIR base itself: what it would say becomes HTTP requests."""

from __future__ import annotations

import json

import httpx

from medagent import AgentContext, FhirTask
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent
from refsol.medagentbench.constants import PUBLISHED


def play(task: FhirTask, base: str, headers: dict[str, str]) -> str:
    """Acts on a record as the reference agent does; gives the text of its answers."""
    solver = ReferenceAgent(AgentContext(base=PUBLISHED.base)).solver(task)
    with httpx.Client(headers=headers, timeout=30) as client:
        said = next(solver)
        while True:
            verb, _, rest = said.partition(" ")
            url, _, body = rest.partition("\n")
            address = url.replace(PUBLISHED.base, base + "/")
            if verb == "GET":
                observation = client.get(address).raise_for_status().text
            else:
                sent = client.post(address, content=body, headers={"Content-Type": "application/fhir+json"})
                observation = sent.raise_for_status().text
            try:
                said = solver.send(observation)
            except StopIteration as done:
                return json.dumps(done.value, ensure_ascii=False)
