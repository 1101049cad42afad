"""Inspect's own command line and data frames on `inspect eval medagent/…` and `medagent export inspect`."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
sys.path.insert(0, str(Path(__file__).parents[2] / "outsider"))  # somebody else's package, with two benchmarks
from inspect_ai.analysis import samples_df
from inspect_ai.log import read_eval_log
from other_solvers import check as check_other_solvers

import medagent
from tests.loopback import ModelServer

SCORER = "medagent_score"
DOCS = Path(__file__).parents[3] / "docs" / "integrations" / "inspect.md"
PATIENT = next(task.patient for task in medagent.tasks() if task.type == "task2")
"""A patient of the hospital: the record has one, and the reply to a search shows it."""
TOOL_CALLS = [("get_patient", {"identifier": PATIENT}), ("finish", {"answers": [40]})]
RIGHT = "task2_18"
"""The task whose answer is 40."""


def reply(body: dict[str, Any]) -> Any:
    """The same replies for both: a GET or a call first, an answer then; the judge finds every second one right."""
    said = body["messages"]
    if body["model"] == "judge":
        labels = ("right", "wrong") if said[-1]["content"].startswith("Capital of") else ("A", "B")
        return labels[len(said[-1]["content"]) % 2]
    if "What is the capital of" in said[-1]["content"]:
        return "It is Oslo."
    if "In which year was the patient" in said[0]["content"]:
        return "FINISH([1950])"
    turn = sum(message["role"] == "assistant" for message in said)
    if not body.get("tools"):
        first = f"GET http://localhost:8080/fhir/Patient?identifier={PATIENT}"
        return first if turn == 0 and first[4:20] in said[-1]["content"] else "FINISH([40])"
    name, arguments = TOOL_CALLS[turn]
    call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "x",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }


def command(*words: str) -> str:
    """Run a command; what it printed. Its output is shown where it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def values_of(log: Path, scorer: str) -> dict[tuple[str, int], float | None]:
    """Each sample's value by id and epoch; None where it is unscored."""
    found: dict[tuple[str, int], float | None] = {}
    for sample in read_eval_log(str(log)).samples or ():
        value = (sample.scores or {})[scorer].value
        number = {"C": 1.0, "I": 0.0}.get(value, value) if isinstance(value, str) else value
        assert isinstance(number, float | int)
        found[str(sample.id), sample.epoch] = None if math.isnan(number) else round(float(number), 9)
    return found


def values(report: medagent.Report) -> dict[tuple[str, int], float | None]:
    """The same of a report; a reply that cannot be read has a kind and no value, and counts 0 under Inspect."""
    unread = {(item.item, item.trial) for item in report.items if item.value is None and item.kind}
    return {
        key: 0.0 if key in unread else None if item.value is None else round(item.value, 9)
        for item in report.items
        for key in [(item.item, item.trial)]
    }


def ours(folder: Path) -> dict[tuple[str, int], float | None]:
    """The same of a run's report."""
    return values(medagent.load_run(folder).report)


def compare(url: str, benchmark: str, words: list[str], parameters: list[str]) -> int:
    """Evaluate, run, export and score again: one and the same value for every sample. Returns how many there were."""
    name = f"{benchmark}{len(parameters)}"
    logs, limits = Path("logs", name), ["--limit", "4"]
    judged = benchmark in ("simpleqa", "capitals")
    role = ["--model-role", "grader=openai-api/local/judge"] if judged else []
    command(
        *("inspect", "eval", f"medagent/{benchmark}", "--model", "openai-api/local/x", *limits, "--epochs", "2", *role),
        *(part for parameter in parameters for part in ("-T", parameter)),
        *("--log-dir", str(logs), "--display", "plain"),
    )
    judge = ["--judge", "judge", "--judge-base-url", url] if judged else []
    home = Path("runs", name)
    model = ["--model", "x", "--base-url", url, *limits, "--trials", "2", "--round", "r1", "--quiet"]
    allow = ["--allow-empty", "1"] if benchmark in ("promptcblue", "simpleqa", "imapscore") else []
    run = ["medagent", "run", benchmark, *model, *words, *judge, *allow, "--results-dir", str(home)]
    if subprocess.run(run, capture_output=True, check=False).returncode not in (0, 2):  # 2: what cannot be graded
        command(*run)
    folder = next(path.parent for path in home.glob("*/run.json"))
    expected = ours(folder)
    evaluated = values_of(next(logs.glob("*.eval")), SCORER)
    assert evaluated == expected, (benchmark, evaluated, expected)
    exported = Path("exported", f"{name}.eval")
    exported.parent.mkdir(exist_ok=True)
    command("medagent", "export", "inspect", str(folder), str(exported))
    again = Path(f"{name}-again.eval")
    command(
        *("inspect", "score", str(exported), "--scorer", f"medagent/{SCORER}", "--action", "append"),
        *("--model", "none/none", "--output-file", str(again), "--display", "plain"),
    )
    first, second = values_of(again, SCORER), values_of(again, f"{SCORER}1")
    assert first == second == expected, (benchmark, first, second, expected)
    assert values(medagent.grade(folder)) == expected, benchmark
    return len(expected)


def documented_solver() -> None:
    """The solver of the docs, by its command: a right answer, and the same answer to another question."""
    programs = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    Path("my_solver.py").write_text(next(program for program in programs if "my_solver" in program))
    command(
        *("inspect", "eval", "medagent/medagentbench", "-T", "protocol=tools", "-T", f"ids={RIGHT},task1_1"),
        *("--solver", "my_solver.py", "--model", "openai-api/local/x", "--log-dir", "own", "--display", "plain"),
    )
    assert values_of(next(Path("own").glob("*.eval")), SCORER) == {(RIGHT, 1): 1.0, ("task1_1", 1): 0.0}


def as_made(log: Path) -> None:
    """An exported run by tool calls: the calls as the model made them, its own calls with times, what was expected."""
    for sample in read_eval_log(str(log)).samples or ():
        called = [event for event in sample.events if event.event == "model"]
        acted = [event for event in sample.events if event.event == "tool"]
        assert [event.id for event in acted] == ["c0", "c1"], acted
        assert [event.function for event in acted] == [name for name, _ in TOOL_CALLS], acted
        assert acted[0].arguments == TOOL_CALLS[0][1], acted
        one_patient(str(acted[0].result))
        assert [len(event.input) for event in called] == [1, 3], called
        assert called[0].completed <= called[1].timestamp, called
        assert sample.target, sample.id


def one_patient(reply: str) -> None:
    """The record's reply to the search has one patient, with the number that was asked."""
    assert '"total": 1' in reply, reply
    assert f'"value": "{PATIENT}"' in reply, reply


def main() -> None:
    """All of it, on a model that answers on the loopback interface."""
    check_other_solvers()
    with ModelServer(reply=reply) as server:
        os.environ |= {
            "LOCAL_BASE_URL": server.url,
            "LOCAL_API_KEY": "k",
            "OPENAI_API_KEY": "k",
            "COLUMNS": "200",
            "PYTHONPATH": os.pathsep.join(sys.path[:2]),
        }
        types = "task1,task2,task5,task9"
        count = compare(server.url, "medagentbench", ["--types", types], [f"types={types}"])
        words = ["--types", types, "--protocol", "tools"]
        count += compare(server.url, "medagentbench", words, [f"types={types}", "protocol=tools", "writes=ack"])
        count += compare(server.url, "promptcblue", [], [])
        count += compare(server.url, "simpleqa", ["--lang", "en"], ["lang=en"])
        count += compare(server.url, "imapscore", [], [])
        count += compare(server.url, "capitals", [], [])
        count += compare(server.url, "births", [], [])
        documented_solver()
        listed = json.loads(command("inspect", "log", "list", "--log-dir", "exported", "--json"))
        assert len(listed) == 7, listed
        as_made(Path("exported/medagentbench3.eval"))
        for sample in read_eval_log("exported/medagentbench1.eval").samples or ():
            one_patient(next(message.text for message in sample.messages if '"total"' in message.text))
        frame = samples_df("exported/medagentbench3.eval")
        right = (frame[f"score_{SCORER}"] == "C").sum()
        assert right == sum(value == 1 for value in ours(next(Path("runs/medagentbench3").iterdir())).values())
        assert 0 < right < len(frame)
    print(
        f"{count} samples of four benchmarks and of two of somebody else's: eval, run, export and score agree; list "
        "and data frame show them; other solvers: a right and a wrong answer by FINISH and by submit, none"
    )


main()
