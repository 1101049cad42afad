"""What the loopback server says as a model and as a judge, and the runs that ask it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from medagent.benchmarks.simpleqa.benchmark import Simpleqa
from medagent.benchmarks.simpleqa.settings import BUNDLED, SimpleqaSettings
from medagent.engine.folder import Run
from medagent.engine.settings import RunSettings
from medagent.judging.benchmark import again_plan
from medagent.judging.panel import PanelSettings
from refsol.simpleqa.data import read_items
from tests import runs
from tests.loopback import Call, ModelServer

ITEMS = read_items(BUNDLED)
UNKNOWN = "nem tudom"


def seen_by_judge(body: dict[str, Any]) -> dict[str, str]:
    """The JSON object in a message to the judge."""
    text = body["messages"][-1]["content"]
    value: dict[str, str] = json.JSONDecoder().raw_decode(text, text.index('{\n  "question"'))[0]
    return value


class Oracle:
    """`m` knows all but every third answer (wrong) and every fourth (says so); the judges compare texts.

    `j` writes JSON, `strict-j` calls what was not attempted incorrect, `mute` writes nothing that can be read.
    """

    def __call__(self, body: dict[str, Any]) -> str:
        if body["model"] == "m":
            return self.answer(body["messages"][-1]["content"])
        if body["model"] == "mute":
            return "Hard to say."
        seen = seen_by_judge(body)
        said = json.loads(seen["reply"])["answer"]
        if said == UNKNOWN and body["model"] != "strict-j":
            return '{"evaluation": "NOT_ATTEMPTED"}'
        return json.dumps({"evaluation": "CORRECT" if said == seen["reference_answer"] else "INCORRECT"})

    def answer(self, message: str) -> str:
        place = next(n for n, item in enumerate(ITEMS) if item.question in message)
        said = "rossz" if place % 3 == 0 else UNKNOWN if place % 4 == 0 else ITEMS[place].answer
        confidence = 90 if "Hungarian" in message else 80
        reply = json.dumps({"answer": said, "confidence_score": confidence}, ensure_ascii=False)
        return f"<think>secret thoughts</think>{reply}"


# Of the forty: 14 wrong (0, 3, …, 39), 6 not attempted (4, 8, 16, 20, 28, 32), 20 right.
RIGHT, WRONG, SILENT = 20, 14, 6


def config(server: ModelServer, folder: Path, *judges: str, **changes: Any) -> SimpleqaSettings:
    options: dict[str, Any] = {
        "data": BUNDLED,
        "model": "m",
        "base_url": [server.url],
        "judge": list(judges or ("j",)),
        "results_dir": folder,
        "concurrency": 4,
    }
    return runs.impatient(SimpleqaSettings)(**{**options, **changes})


def run(
    server: ModelServer, folder: Path, *judges: str, quiet: bool = True, as_json: bool = False, **changes: Any
) -> int:
    return runs.run(Simpleqa(), config(server, folder, *judges, **changes), quiet=quiet, as_json=as_json)


def run_folder(folder: Path, round_: str = "r1") -> Path:
    return folder / f"simpleqa-husimpleqa_{round_}_m"


def calls_by_model(server: ModelServer) -> Counter[str]:
    return Counter(call.body["model"] for call in server.calls)


def messages(calls: list[Call]) -> Counter[tuple[str, str]]:
    return Counter((call.body["model"], call.body["messages"][-1]["content"]) for call in calls)


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return found


def judge(
    server: ModelServer, folder: Path, *names: str, only: tuple[str, ...] = (), prompt: Path | str = "bundled"
) -> int:
    panel = runs.impatient(PanelSettings)(judge=list(names), judge_base_url=[server.url], judge_prompt=str(prompt))
    plan = again_plan(Simpleqa(), Run(run_folder(folder)), panel, RunSettings(concurrency=4), only)
    return runs.end(Simpleqa(), plan)


def total(folder: Path, section: int = -1) -> dict[str, int]:
    found: dict[str, int] = results(run_folder(folder))["sections"][section]["total"]["rows"]
    return {name: count for name, count in found.items() if count}


def write_items(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def bundled_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
