"""A model that extracts the bundled items as they were recorded: what the loopback server answers in tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from refsol.imapscore.imap import serialise
from refsol.imapscore.records import RatedAnswer, Recording, read_items, read_recordings
from refsol.imapscore.relations import ValuePair

DATA = Path(str(files("refsol.imapscore") / "data"))
ITEMS = read_items(DATA / "items.jsonl")
RECORDINGS = {recording.id: recording for recording in read_recordings(DATA / "imaps.jsonl")}

Distort = Callable[[str, str, int], str]
_VALUE = re.compile(r"(\d+)\. (.*)")


class Oracle:
    """Answers a request by the recording of the item whose question it holds. `distort` may change the answer of a
    stage (question, label, response, relations, g-eval), given the answer and the seed.
    """

    def __init__(self, distort: Distort = lambda stage, answer, seed: answer) -> None:
        self._distort = distort

    def __call__(self, request: dict[str, Any]) -> str:
        prompt = request["messages"][-1]["content"]
        item = next(item for item in ITEMS if item.question in prompt)
        stage, answer = _answer(prompt, item, RECORDINGS[item.id])
        return self._distort(stage, answer, request["seed"])


def stage_of(request: dict[str, Any]) -> str:
    """Which stage a request belongs to."""
    prompt = request["messages"][-1]["content"]
    item = next(item for item in ITEMS if item.question in prompt)
    return _answer(prompt, item, RECORDINGS[item.id])[0]


def _answer(prompt: str, item: RatedAnswer, recording: Recording) -> tuple[str, str]:
    terms = recording.question.query_terms
    if prompt.endswith(f"Text: {item.question}"):
        return "question", serialise(recording.question)
    if prompt.endswith(f"Answer: {item.label}"):
        return "label", serialise(recording.label, terms)
    if prompt.endswith(f"Answer: {item.response}"):
        return "response", serialise(recording.response, terms)
    if "Doctor's answer:" in prompt:
        return "g-eval", "4" if item.label in prompt else "2"
    return "relations", "\n".join(map(json.dumps, _relations(prompt, recording)))


def _relations(prompt: str, recording: Recording) -> list[dict[str, Any]]:
    """A line for every pair of numbered values of a term, u where nothing was recorded."""
    lines = []
    for block in prompt.split("Term: ")[1:]:
        term = block.splitlines()[0]
        sides = [_VALUE.findall(side) for side in block.split("B:\n")]
        for number, label in sides[0]:
            for response_number, response in sides[1]:
                relation = recording.relations.get(ValuePair(term, label, response), "u")
                lines.append({"a": int(number), "b": int(response_number), "relation": str(relation)})
    return lines
