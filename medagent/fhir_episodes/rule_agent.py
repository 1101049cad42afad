"""The reference agent: solves a task by the rule of its type, through the same session as any other agent.

The rule reads a chart whose searches are GETs of the session. A GET without a reply yet stops the rule; when the reply
is there, the rule runs again from the start. Then the agent places the orders of the ruling and gives its answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from medagent.agents.base import AgentContext
from medagent.fhir_episodes.code_session import fenced
from medagent.fhir_episodes.own_agents import Solver, SolverAgent, bundle_in
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.task_type import Pending, Solution
from refsol.python_text import python_value

Solve = Callable[[FhirTask, Callable[[str], Any]], Solution]
"""The right reply to a task. The second argument gets the JSON of a URL."""

_SLICE = 19_000
_READ = """
page = get({url!r})
before, changes = {{}}, []
for entry in page.get("entry", []):
    resource, changed, within = entry["resource"], {{}}, {{}}
    for name in resource:
        value, old = resource[name], before.get(name)
        if isinstance(value, dict) and isinstance(old, dict) and list(value) == list(old):
            parts = {{part: value[part] for part in value if repr(value[part]) != repr(old[part])}}
            if parts:
                within[name] = parts
        elif repr(value) != repr(old):
            changed[name] = value
    changes.append([changed, within, [name for name in before if name not in resource]])
    before = resource
text = str([changes, page.get("link", [])])
"""
"""Of each resource, the program prints only what differs from the one before, because its output is limited: elements,
parts of elements, and the names of missing ones.
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
            replies[reached] = _bundle(*python_value(text))
        lines = [f"post({url!r}, {body!r})" for url, body in reached.posts]
        for method, url, body in reached.requests:
            lines.append(f"delete({url!r})" if body is None else f"{method.lower()}({url!r}, {body!r})")
        yield fenced("\n".join([*lines, f"finish({reached.answer!r})", ""]))


Difference = tuple[dict[str, Any], dict[str, dict[str, Any]], list[str]]
"""How a resource differs from the one before: changed elements, changed parts of elements, missing elements."""


def _bundle(differences: list[Difference], links: list[Any]) -> dict[str, Any]:
    """The Bundle of which a program printed the differences from resource to resource, and the links."""
    entries, resource = list[Any](), dict[str, Any]()
    for changed, within, missing in differences:
        unchanged = {name: value for name, value in resource.items() if name not in missing}
        parts = {name: {**unchanged[name], **values} for name, values in within.items()}
        resource = {**unchanged, **changed, **parts}
        entries.append({"resource": resource})
    return {"resourceType": "Bundle", "entry": entries, "link": links}
