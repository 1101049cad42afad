"""The reference agent: solves a task by the rule of its type, through the same session as any other agent.

The rule reads a chart whose searches are GETs of the session. A GET without a reply yet stops the rule; when the reply
is there, the rule runs again from the start. Then the agent places the orders of the ruling and gives its answer.
"""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from medagent.agents.base import AgentContext
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


def step(task: FhirTask, solve: Solve, replies: Mapping[str, Any]) -> Solution | str:
    """The right reply; or the next URL that the rule of a task needs, if its JSON is not in `replies`."""

    def get(url: str) -> Any:
        if url not in replies:
            raise Pending(url)
        return replies[url]

    try:
        return solve(task, get)
    except Pending as pending:
        return str(pending)


class RuleAgent(SolverAgent):
    """Acts by requests."""

    def __init__(self, context: AgentContext, solve: Solve) -> None:
        super().__init__(context)
        self._solve = solve

    def solver(self, task: FhirTask) -> Solver:
        replies: dict[str, Any] = {}
        while isinstance(reached := step(task, self._solve, replies), str):
            replies[reached] = bundle_in((yield f"GET {reached}"))
        for url, body in reached.posts:
            yield f"POST {url}\n{json.dumps(body, ensure_ascii=False)}"
        for method, url, body in reached.requests:
            yield f"{method} {url}" + ("" if body is None else f"\n{json.dumps(body, ensure_ascii=False)}")
        answers: list[Any] = reached.answer
        return answers


class CodeRuleAgent(RuleAgent):
    """Acts by programs, which run in every sandbox: one or more for each search, then one that orders and finishes."""

    async def play(self, task: FhirTask, prompt: str) -> AsyncIterator[str]:
        replies: dict[str, Any] = {}
        while isinstance(reached := step(task, self._solve, replies), str):
            program, text, length = _READ.format(url=reached), "", 1
            while len(text) < length:
                shown = _PRINT.format(start=len(text), end=len(text) + _SLICE)
                reply: str = yield fenced(program + shown)  # type: ignore[assignment]  # `yield` returns the reply
                part, _, rest = reply.partition("⟦")[2].rpartition("⟧")
                text, length, program = text + part, int(rest.split()[0]), ""
            replies[reached] = ast.literal_eval(text)
        lines = [f"post({url!r}, {body!r})" for url, body in reached.posts]
        for method, url, body in reached.requests:
            lines.append(f"delete({url!r})" if body is None else f"{method.lower()}({url!r}, {body!r})")
        yield fenced("\n".join([*lines, f"finish({reached.answer!r})", ""]))
