"""The reference agent: solves a task by the rule of its type, through the same session as any other agent.

The rule reads a chart whose searches are GETs of the session. A GET without a reply yet stops the rule; when the reply
is there, the rule runs again from the start. Then the agent places the orders of the ruling and gives its answer.
"""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from medagent.agents.base import Agent, AgentContext
from medagent.fhir_episodes.code_session import fenced
from medagent.fhir_episodes.own_agents import Solver, SolverAgent, bundle_in
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.task_type import Pending, Solution

Solve = Callable[[FhirTask, Callable[[str], Any]], Solution]
"""The right reply to a task. The second argument gets the JSON of a URL."""

_KEPT = (
    "resourceType",
    "id",
    "name",
    "birthDate",
    "status",
    "medicationCodeableConcept",
    "valueQuantity",
    "effectiveDateTime",
    "authoredOn",
    "occurrenceDateTime",
    "performedDateTime",
    "performedPeriod",
)
"""The elements that rules read. A program prints no others, because its output is limited."""
_SLICE = 19_000
_READ = f"""
page = get({{url!r}})
kept = {_KEPT!r}
entries = []
for entry in page.get("entry", []):
    resource = entry["resource"]
    entries.append({{{{"resource": {{{{name: resource[name] for name in kept if name in resource}}}}}}}})
text = str({{{{"resourceType": "Bundle", "entry": entries, "link": page.get("link", [])}}}})
"""
_PRINT = "print('⟦' + text[{start}:{end}] + '⟧' + str(len(text)))\n"


def steps(task: FhirTask, solve: Solve) -> Generator[str, Any, Solution]:
    """Yields each URL that the rule of a task needs, gets its JSON, and returns the right reply."""
    replies: dict[str, Any] = {}

    def get(url: str) -> Any:
        if url not in replies:
            raise Pending(url)
        return replies[url]

    while True:
        try:
            return solve(task, get)
        except Pending as pending:
            url = str(pending)
        replies[url] = yield url


class RuleAgent(SolverAgent):
    """Acts by requests."""

    def __init__(self, context: AgentContext, solve: Solve) -> None:
        super().__init__(context)
        self._solve = solve

    def solver(self, task: FhirTask) -> Solver:
        """See `SolverAgent.solver`."""
        reading = steps(task, self._solve)
        reply: Any = None
        while True:
            try:
                url = reading.send(reply)
            except StopIteration as done:
                solution: Solution = done.value
                break
            reply = bundle_in((yield f"GET {url}"))
        for url, body in solution.posts:
            yield f"POST {url}\n{json.dumps(body, ensure_ascii=False)}"
        answers: list[Any] = solution.answer
        return answers


class CodeRuleAgent(Agent):
    """Acts by programs, which run in every sandbox: one or more for each search, then one that orders and finishes."""

    def __init__(self, context: AgentContext, solve: Solve) -> None:
        super().__init__(context)
        self._solve = solve

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        """See `Agent.play`."""
        reading = steps(task, self._solve)
        page: Any = None
        while True:
            try:
                url = reading.send(page)
            except StopIteration as done:
                solution: Solution = done.value
                break
            program, text, length = _READ.format(url=url), "", 1
            while len(text) < length:
                shown = _PRINT.format(start=len(text), end=len(text) + _SLICE)
                reply: str = yield fenced(program + shown)  # type: ignore[assignment]  # `yield` returns the reply
                part, _, rest = reply.partition("⟦")[2].rpartition("⟧")
                text, length, program = text + part, int(rest.split()[0]), ""
            page = ast.literal_eval(text)
        posts = "".join(f"post({url!r}, {body!r})\n" for url, body in solution.posts)
        yield fenced(f"{posts}finish({solution.answer!r})\n")
