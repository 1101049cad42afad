"""Checks agents that own their loop: a framework in a run, against an endpoint that plays the reference agent's calls.

The endpoint errs in one item. The run is interrupted after half of its items by `--limit`, and continued.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mini import chat_endpoint
from mini import medagent as command

import medagent
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.tools import Toolbox

ITEMS, TRIALS = 10, 2
EXAMPLES = Path(__file__).parents[2] / "examples" / "own-loop"
Call = tuple[str, dict[str, Any]]


def right_calls() -> dict[str, tuple[str, list[Call]]]:
    """The reference agent's calls by item, with its question."""
    report = medagent.run_sync("medagentbench", agent="reference", version="v1", limit=ITEMS, round="right")
    toolbox = Toolbox.of(load_protocol("tools"), "http://localhost:8080/fhir")
    questions = {task.id: task.text for task in medagent.tasks(version="v1")}
    return {
        row.task_id: (questions[row.task_id], [toolbox.call(t.content) for t in row.transcript if t.role == "agent"])
        for row in medagent.load_run(report.folder).rows()
    }


@contextmanager
def endpoint(scripts: dict[str, tuple[str, list[Call]]], wrong: str, asked: list[str]) -> Iterator[str]:
    """The endpoint; `asked` gets the item of every request."""

    def reply(request: dict[str, Any]) -> str | dict[str, Any]:
        said = request["messages"]
        text = json.dumps(said, ensure_ascii=False)
        item = next(
            candidate
            for candidate, (question, _) in scripts.items()
            if json.dumps(question, ensure_ascii=False)[1:-1] in text
        )
        asked.append(item)
        turn = sum(message["role"] == "assistant" for message in said)
        calls = scripts[item][1]
        if turn < len(calls):
            name, arguments = calls[turn]
            if name == "finish" and item == wrong:
                arguments = {"answers": ["nobody"]}
        elif any(tool["function"]["name"] == "final_answer" for tool in request.get("tools", ())):
            name, arguments = "final_answer", {"answer": "done"}
        else:
            return "done"
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request["tools"]}
        known = schemas[name]["properties"]  # smolagents refuses what a schema does not name
        arguments = {key: value for key, value in arguments.items() if key in known}
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"tool_calls": [{"id": f"call_{turn}", "type": "function", "function": function}]}

    with chat_endpoint(reply) as url:
        yield url


def check(agent: str) -> None:
    """Run an example in two commands and two trials, and look at what the run says of it."""
    scripts = right_calls()
    wrong = next(item for item in scripts if item.startswith("task1_"))
    asked: list[str] = []
    with endpoint(scripts, wrong, asked) as url:
        os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        run = ("run", "--version", "v1", "--agent", f"{EXAMPLES / agent}", "--model", "mini", "--quiet")
        half = command(*run, "--limit", str(ITEMS // 2))
        before = len(asked)
        whole = command(*run, "--limit", str(ITEMS), "--trials", str(TRIALS))
    assert half["overall"]["n"] == ITEMS // 2
    first = [item["item"] for item in half["items"]]
    later = asked[before:]
    calls = {item: len(scripts[item][1]) for item in scripts}
    assert all(later.count(item) <= calls[item] + 1 for item in first), "an item was done again"
    outcomes = {(item["item"], item["trial"]): item["correct"] for item in whole["items"]}
    assert outcomes == {(item, trial): item != wrong for item in scripts for trial in range(1, TRIALS + 1)}, outcomes
    assert whole["spent"]["calls"] == len(asked), (whole["spent"]["calls"], len(asked))
    assert whole["spent"]["prompt"] == 9 * len(asked)
    assert whole["settings"]["protocol"] == "tools"
    print(f"{len(outcomes)} episodes in {TRIALS} trials, continued; {wrong} wrong; all {len(asked)} calls counted")
