"""Solvers of one's own, through Inspect's Python API with its mock model: what is graded, and what is left unscored."""

import math

from inspect_ai import eval
from inspect_ai.agent import as_solver, react
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate

import medagent
from medagent.integrations.inspect.registry import benchmark_task

MRN = next(task.patient for task in medagent.tasks() if task.id == "task1_3")


def counted(output: ModelOutput) -> ModelOutput:
    """With its tokens, which the mock model would otherwise count by a download."""
    output.usage = ModelUsage(input_tokens=10, output_tokens=10, total_tokens=20)
    return output


def says(text: str) -> ModelOutput:
    """A reply."""
    return counted(ModelOutput.from_content("mockllm/model", text))


def calls(name: str, **arguments: object) -> ModelOutput:
    """A tool call."""
    return counted(ModelOutput.for_tool_call("mockllm/model", name, arguments))


def log_of(solver, *outputs: ModelOutput, name: str = "medagentbench", options=None, **more: object):
    """The log of one sample that a solver plays with a model that says these."""
    task = benchmark_task(name)(**({"ids": "task1_3"} if options is None else options))
    model = get_model("mockllm/model", custom_outputs=list(outputs))
    [log] = eval(task, model=model, solver=solver, display="none", log_dir="other-logs", **more)
    return log


def score(solver, *outputs: ModelOutput, **more: object):
    """The score of that sample."""
    log = log_of(solver, *outputs, **more)
    assert log.status == "success", log.error.message
    return log.samples[0].scores["medagent_score"]


def check() -> None:
    """Answers in the solver's own text, limits, and what a log says of its task."""
    right, wrong = f'["{MRN}"]', '["S0"]'
    assert score(generate(), says(f"I think so.\nFINISH({right})")).value == "C"
    assert score(generate(), says(f"FINISH({wrong})")).value == "I"
    assert score(as_solver(react()), calls("submit", answer=MRN)).value == "C"
    assert score(as_solver(react()), calls("submit", answer="S0")).value == "I"
    silent = score(generate(), says("It is what the chart says."))
    assert (math.isnan(silent.value), silent.reason) == (True, "unfinished"), silent
    assert "without finish" in silent.explanation, silent
    tools = {"ids": "task1_3", "protocol": "tools"}
    again = [calls("get_patient", identifier=MRN)] * 20
    endless = score(generate(), *again, options=tools)
    assert (endless.value, endless.metadata["status"]) == ("I", "round_limit"), endless
    ended = log_of(generate(), again[0], calls("finish", answers=[MRN]), *again, options=tools).samples[0]
    assert ended.scores["medagent_score"].value == "C", ended.scores
    assert sum(message.role == "assistant" for message in ended.messages) == 2, ended.messages
    limited = score(None, *[says("GET http://localhost:8080/fhir/Patient")] * 9, token_limit=1)
    assert math.isnan(limited.value), limited
    assert "token limit" in limited.explanation, limited
    log = log_of(None, says(f"FINISH({right})"))
    [sample] = log.samples
    row = sample.store["medagent"]["row"]
    assert log.eval.task_version == "v2", log.eval.task_version
    assert sample.input == next(task.text for task in medagent.tasks() if task.id == "task1_3"), sample.input
    assert MRN in sample.target, sample.target
    assert row["started"], row
    assert row["timestamp"] >= row["started"], row
    unread = log_of(None, *[says("no pairs at all")] * 60, name="imapscore", options={}, limit=2)
    assert unread.results.scores[0].metrics["overall"].value == 0.0, unread.results
