"""PromptCBLUE's mini set for the checks of answers of other tools.

`endpoint` answers its questions with the targets, the second question of each task wrongly; the other tool asks it,
and what medagent then grades must be what `medagent run` gets from the same endpoint (`same_table`).
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import medagent.benchmarks.promptcblue as promptcblue
from medagent.testing._faults import Answer
from medagent.testing._loopback import serving

QUESTIONS = Path(promptcblue.__file__).parent / "mini" / "test.jsonl"
WRONG = "不知道"


def rows() -> list[dict[str, Any]]:
    """The lines of the mini set, as its file has them."""
    return [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


def answers() -> dict[str, str]:
    """What the endpoint says, by question."""
    return {row["input"]: row["target"] if row["sample_id"].endswith("-1") else WRONG for row in rows()}


@contextmanager
def chat_endpoint(reply: Callable[[dict[str, Any]], str | dict[str, Any]]) -> Iterator[str]:
    """An OpenAI-compatible endpoint on a loopback port while the block runs; its base URL, ending in `/v1`.

    `reply` gives the text of a reply, or further fields of its message.
    """

    def answer(method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
        asked = json.loads(body)
        said = reply(asked)
        message = {"role": "assistant", "content": None, **({"content": said} if isinstance(said, str) else said)}
        document = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": asked["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
        }
        return Answer(200, [("Content-Type", "application/json")], json.dumps(document).encode())

    with serving(answer) as url:
        yield url + "/v1"


@contextmanager
def endpoint() -> Iterator[str]:
    """The endpoint that answers the mini set."""
    said = answers()

    def reply(asked: dict[str, Any]) -> str:
        content = asked["messages"][-1]["content"]
        question = content if isinstance(content, str) else "".join(part["text"] for part in content)
        return next(answer for known, answer in said.items() if known.strip() in question)

    with chat_endpoint(reply) as url:
        yield url


def medagent(*arguments: str) -> Any:
    """What a command of medagent prints with `--json`."""
    command = [os.environ["MEDAGENT"], *arguments, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"OPENAI_API_KEY": "k"})
    if ran.returncode:
        raise AssertionError(f"{' '.join(command)}: exit code {ran.returncode}: {ran.stderr}")
    return json.loads(ran.stdout)


def same_table(url: str, written: Path) -> str:
    """Grade what the other tool wrote, and run the same questions; a line for the table where both agree."""
    ours = medagent("run", "promptcblue", "--model", "mini", "--base-url", url, "--overwrite")
    theirs = medagent("grade", "promptcblue", "--answers", str(written), "--overwrite")
    assert theirs["table"] == ours["table"], f"{written}: another table than that of `medagent run`"
    figures = [line for table in ours["table"] for line in table["lines"]]
    assert any(0 < line["value"] < 1 for line in figures), "the endpoint's mistakes do not show"
    return f"{len(rows())} answers graded as `medagent run` grades them, {len(figures)} figures equal"
