"""An agent that has memorised a set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import medagent


class ByHeart(medagent.Agent):
    """Repeats the messages of a finished run for the same instruction; answers [] to any other."""

    learnt: ClassVar[dict[str, list[str]]] = {}

    def play(self, task: medagent.FhirTask, prompt: str) -> Iterator[str]:
        if not self.learnt:
            instructions = {task.id: task.text for task in medagent.tasks()}
            learnt = dict[str, list[str]]()
            for unit, turns in medagent.load_run("results/v1_r1_reference").transcripts():
                messages = [turn.text for turn in turns if turn.role == "agent"]
                learnt[instructions[unit.partition("#")[0]]] = messages
            type(self).learnt = learnt  # at once: other episodes run in other threads
        for message in self.learnt.get(task.instruction, ["FINISH([])"]):  # noqa: UP028  # a list takes no replies
            yield message
