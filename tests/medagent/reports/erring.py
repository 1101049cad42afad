"""An agent that errs in every way that has a name: the number in a task's id decides how. Others are solved."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from medagent import Agent, ModelError
from medagent.agents.base import AgentContext
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent

INJECTION = '<img src=x onerror="document.title=\'owned\'"></script><script>document.title="owned"</script>'
_WRONG = (
    ('"value": 1, "unit": "g"', '"value": 3, "unit": "g"'),
    ('"value": 2, "unit": "g"', '"value": 3, "unit": "g"'),
    ('"value": 4, "unit": "g"', '"value": 3, "unit": "g"'),
    ('"oral"', '"IV"'),
    ('"stat"', '"routine"'),
    ('"final"', '"preliminary"'),
)


class ErringAgent(Agent):
    """See the module."""

    def play(self, task: Any, prompt: str) -> Generator[str, str, None]:
        """One episode."""
        number = int(task.id.partition("_")[2]) % 13
        base = self.context.base.rstrip("/")
        if number == 7:
            yield f"I think the answer is high. {INJECTION}"
        elif number == 8:
            yield ""
        elif number == 9:
            yield "FINISH([1"
        elif number == 11:
            raise KeyError(INJECTION)
        elif number == 0:
            raise ModelError("the endpoint is on fire")
        elif number == 12:
            yield "FINISH([-1])"
        while number == 10:
            yield f"GET {base}/Patient?_count=1&name={INJECTION}"
        yield from _altered(number, ReferenceAgent(AgentContext(base=base)).solver(task), base, task.mrn)


def _altered(number: int, solver: Generator[str, str, list[Any]], base: str, mrn: str) -> Generator[str, str, None]:
    reply = None
    while True:
        try:
            action = next(solver) if reply is None else solver.send(reply)
        except StopIteration as done:
            answers = done.value
            break
        if action.startswith("POST") and number == 4:
            yield "FINISH([])"
        if action.startswith("POST") and number == 2:
            for right, wrong in _WRONG:
                action = action.replace(right, wrong)
        reply = yield action
    if number == 3:
        order = {"resourceType": "ServiceRequest", "status": "active", "subject": {"reference": f"Patient/{mrn}"}}
        yield f"POST {base}/ServiceRequest\n{json.dumps({**order, 'note': {'text': INJECTION}})}"
    if number == 5:
        answers = [answer + 1 if isinstance(answer, int | float) else answer for answer in answers]
    if number == 6 and len(answers) == 1:
        yield f"FINISH({json.dumps(answers[0])})"
    yield f"FINISH({json.dumps(answers)})"
